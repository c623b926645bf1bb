import { hostname } from 'node:os';
import type { App } from '../app.js';
import type { Wanted } from '../catalogue/requests.js';
import { silentLog, type Log } from '../domain/log.js';
import { printNote, userName } from './console.js';
import { type CommandApp, openQueuesOf } from './execute.js';

/** Does what follows work of a command, as a worker does: it records alerts and asks for deliveries of feeds. */
export async function followUp(app: App, command: string, hasNewData: boolean): Promise<void> {
  const { alertWebhook, alertMail, feeds } = app.config;
  const hasChannel = alertWebhook !== null || alertMail !== null;
  const hasFeeds = hasNewData && feeds.some(({ cron }) => cron === null);
  if (!hasChannel && !hasFeeds) return;
  const service = await import('../service/follow-up.js'); // slow to load: it brings the feeds
  const queues = await openQueuesOf(app, command);
  const log: Log = { ...silentLog, warn: (text) => printNote(`${text}\n`), child: () => log };
  try {
    await service.followUp(app, queues, hasNewData, log);
  } finally {
    await queues.close();
  }
}

/** The user of this command, as logs and runs name them. */
export function thisUser(): string {
  return `${userName()} on ${hostname()}`;
}

/** Asks for runs of sellers, which a worker performs. */
export async function askForRuns(
  app: CommandApp,
  sellers: readonly string[],
  wanted: Wanted,
): Promise<
  readonly { readonly sellerId: string; readonly askedAt: Date; readonly runId: bigint }[]
> {
  const service = await import('../service/ask.js');
  const queues = await app.queues();
  const asked = [];
  for (const sellerId of sellers) {
    const found = await service.askForRuns(app, queues, sellerId, wanted, thisUser());
    const { queueProblem, ...one } = found;
    if (queueProblem !== null) {
      printNote(`note: ${sellerId}: ${queueProblem}; a worker looks by itself\n`);
    }
    asked.push({ sellerId, ...one });
  }
  return asked;
}
