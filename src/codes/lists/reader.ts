import { once } from 'node:events';
import { parentPort, workerData, type MessagePort } from 'node:worker_threads';
import { cellMasker } from '../../domain/redact.js';
import { Secret } from '../../domain/secret.js';
import { isUserError } from '../../domain/user-error.js';
import { entriesOf, readingOf } from './parse.js';
import type { ReadingMessage, ReadingTask } from './read-list.js';
import type { Entry } from './types.js';

/** Entries sent at a time. */
const BATCH = 4_000;

/** The program of the thread that `readList` starts. */
async function read(port: MessagePort, task: ReadingTask): Promise<void> {
  const send = async (message: ReadingMessage): Promise<void> => {
    const goOn = once(port, 'message');
    port.postMessage(message);
    await goOn;
  };
  try {
    const keys = task.keys.map((key) => new Secret(key));
    const mask = cellMasker(keys);
    const reading = await readingOf({ ...task, keys }, mask);
    const entries = entriesOf(reading, mask);
    let some: Entry[] = [];
    let next = entries.next();
    for (; next.done !== true; next = entries.next()) {
      if (some.push(next.value) < BATCH) continue;
      await send(some);
      some = [];
    }
    await send(some);
    await send({ layout: reading.layout, workbook: reading.workbook, ...next.value });
  } catch (error) {
    if (!isUserError(error, 'FILE')) throw error;
    await send({ fault: error.message, remedy: error.remedy });
  }
}

if (parentPort !== null) await read(parentPort, workerData as ReadingTask);
