export type LogFields = Readonly<Record<string, unknown>>;

/** Callers never pass keys or codes. If one slips through, it is masked. */
export interface Log {
  debug(message: string, fields?: LogFields): void;
  info(message: string, fields?: LogFields): void;
  warn(message: string, fields?: LogFields): void;
  error(message: string, fields?: LogFields): void;
  /** A log that adds these fields to every line, such as the seller, the run and the job. */
  child(fields: LogFields): Log;
}

/** Writes nothing. For commands, which print to the terminal themselves. */
export const silentLog: Log = {
  debug: () => undefined,
  info: () => undefined,
  warn: () => undefined,
  error: () => undefined,
  child: () => silentLog,
};
