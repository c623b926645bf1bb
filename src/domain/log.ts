/** Facts that go with a line, so that lines can be searched by them. */
export type LogFields = Readonly<Record<string, unknown>>;

/**
 * Where long-running parts tell what they do. The one implementation is in `log/`; whoever calls it
 * never passes keys or purchase codes, and the implementation hides them all the same.
 */
export interface Log {
  debug(message: string, fields?: LogFields): void;
  info(message: string, fields?: LogFields): void;
  warn(message: string, fields?: LogFields): void;
  error(message: string, fields?: LogFields): void;
  /** A log whose every line carries these facts too, such as the seller, the run and the job. */
  child(fields: LogFields): Log;
}

/** Says nothing; for work done in front of a person, whom the command itself tells. */
export const silentLog: Log = {
  debug: () => undefined,
  info: () => undefined,
  warn: () => undefined,
  error: () => undefined,
  child: () => silentLog,
};
