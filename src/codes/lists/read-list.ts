import { on } from 'node:events';
import { setImmediate } from 'node:timers/promises';
import { Worker } from 'node:worker_threads';
import { errorCode } from '../../domain/error-code.js';
import { refused, SPLIT, type Entry, type List, type ListOptions, type Reading } from './types.js';

/** What the thread is started with. */
export interface ReadingTask extends Omit<ListOptions, 'signal' | 'keys'> {
  readonly bytes: Uint8Array;
  readonly keys: readonly string[];
}

/** What the thread answers: entries, and then the rest. It sends the next message when it is told to go on. */
export type ReadingMessage =
  | readonly Entry[]
  | (Pick<Reading, 'layout' | 'workbook'> & Pick<List, 'rejected' | 'blankLines' | 'notes'>)
  | { readonly fault: string; readonly remedy: string };

/** Memory for reading a list of 128 MB, in MB. */
const MOST_MEMORY = 1024;
/** Time for reading a list, ms. 128 MB take about 10 s. */
const MOST_MS = 5 * 60_000;

/** A thread needs compiled JavaScript, even when tests run TypeScript. */
const PROGRAM = new URL(
  import.meta.url.endsWith('.ts') ? '../../../dist/codes/lists/reader.js' : './reader.js',
  import.meta.url,
);

let reading: Promise<unknown> = Promise.resolve();

/**
 * Finds out how a list is written, and reads it: in a thread with limited memory, so that the process goes on with other
 * work, and outlives any list. One list is read at a time.
 * @param load loads the whole file
 * @throws UserError when it is not a list of codes, it is too large, or the column of codes is unclear
 */
export function readList(load: () => Promise<Buffer>, options: ListOptions): Promise<List> {
  const read = reading.then(async () => {
    options.signal?.throwIfAborted();
    return readInThread(await load(), options);
  });
  reading = read.catch(() => undefined);
  return read;
}

async function readInThread(
  bytes: Buffer,
  { signal, keys = [], ...options }: ListOptions,
): Promise<List> {
  const task: ReadingTask = { ...options, bytes, keys: keys.map((key) => key.reveal()) };
  const thread = new Worker(PROGRAM, {
    workerData: task,
    execArgv: [],
    resourceLimits: { maxOldGenerationSizeMb: MOST_MEMORY },
  });
  const tooLong = AbortSignal.timeout(MOST_MS);
  const ended = signal === undefined ? tooLong : AbortSignal.any([signal, tooLong]);
  const entries: Entry[] = [];
  try {
    const messages = on(thread, 'message', { close: ['exit'], signal: ended });
    for await (const [message] of messages as AsyncIterable<[ReadingMessage]>) {
      if ('fault' in message) throw refused(message.fault, message.remedy);
      if ('layout' in message) {
        const workbook = message.workbook && { ...message.workbook, bytes };
        return { ...message, name: options.name, entries, workbook };
      }
      for (const entry of message) entries.push(entry);
      await setImmediate();
      // oxlint-disable-next-line unicorn/require-post-message-target-origin -- a thread, not a window
      thread.postMessage('go on');
    }
    throw new Error('the thread that reads a list ended early');
  } catch (error) {
    signal?.throwIfAborted();
    const isTooLarge = errorCode(error) === 'ERR_WORKER_OUT_OF_MEMORY';
    if (!isTooLarge && !tooLong.aborted) throw error;
    const most = isTooLarge ? `${MOST_MEMORY} MB of memory` : 'five minutes';
    throw refused(`reading the list takes more than ${most}`, SPLIT, error);
  } finally {
    await thread.terminate();
  }
}
