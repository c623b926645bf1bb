export type LogFields = Readonly<Record<string, unknown>>;

/** The log of long-running parts. Callers never pass keys or codes; they are masked all the same. */
export interface Log {
  debug(message: string, fields?: LogFields): void;
  info(message: string, fields?: LogFields): void;
  warn(message: string, fields?: LogFields): void;
  error(message: string, fields?: LogFields): void;
  /** A log that adds these fields to every line, such as the seller, the run and the job. */
  child(fields: LogFields): Log;
}

/** Writes nothing; for commands, which report to the terminal themselves. */
export const silentLog: Log = {
  debug: () => undefined,
  info: () => undefined,
  warn: () => undefined,
  error: () => undefined,
  child: () => silentLog,
};
