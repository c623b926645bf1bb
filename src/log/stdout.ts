import { pino } from 'pino';

/** Bytes that wait while the disk behind standard output is full; lines beyond are lost. */
const MOST_WAITING = 1024 * 1024;

/** Standard output, written before the call returns, so that no line is lost when the process ends. */
export interface LineOutput {
  write(line: string): void;
  flush(): void;
}

/** Never fails: a log that nobody reads any more must not end what it tells of. */
export function openStdout(): LineOutput {
  const destination = pino.destination({ fd: 1, sync: true, maxLength: MOST_WAITING });
  destination.on('error', () => undefined);
  return {
    write: (line) => void destination.write(line),
    flush: () => destination.flushSync(),
  };
}
