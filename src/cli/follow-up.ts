import type { App } from '../app.js';
import { silentLog, type Log } from '../domain/log.js';
import { mayHaveEffects, queueEffects, type Ending } from '../service/effects.js';
import { printNote } from './console.js';
import { openQueuesOf } from './execute.js';

/** Queues what follows work that a command did, as a worker does: alerts, news and feeds. */
export async function followUp(app: App, command: string, ending: Ending): Promise<void> {
  if (!mayHaveEffects(app, ending)) return;
  const queues = await openQueuesOf(app, command);
  const log: Log = { ...silentLog, warn: (text) => printNote(`${text}\n`), child: () => log };
  try {
    await queueEffects(app, queues, ending, log);
  } finally {
    await queues.close();
  }
}
