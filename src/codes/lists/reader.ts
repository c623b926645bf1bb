import { isUserError } from '../../domain/user-error.js';
import { once } from 'node:events';
import { parentPort, workerData, type MessagePort } from 'node:worker_threads';
import { Secret } from '../../domain/secret.js';
import { parseList } from './parse-list.js';
import type { ReadingMessage, ReadingTask } from './read-list.js';
import type { Entry } from './types.js';

/** Entries sent at a time. */
const BATCH = 4_000;

/** The program of the thread that `readList` starts. */
async function read(port: MessagePort, { bytes, keys, ...options }: ReadingTask): Promise<void> {
  const send = async (message: ReadingMessage): Promise<void> => {
    const goOn = once(port, 'message');
    port.postMessage(message);
    await goOn;
  };
  try {
    const { layout, workbook, entries, end } = await parseList(
      Buffer.from(bytes.buffer, bytes.byteOffset, bytes.length),
      { ...options, keys: keys.map((key) => new Secret(key)) },
    );
    let some: Entry[] = [];
    for (const entry of entries) {
      if (some.push(entry) < BATCH) continue;
      await send(some);
      some = [];
    }
    await send(some);
    await send({ layout, workbook, ...end() });
  } catch (error) {
    if (!isUserError(error, 'FILE')) throw error;
    await send({ fault: error.message, remedy: error.remedy });
  }
}

if (parentPort !== null) await read(parentPort, workerData as ReadingTask);
