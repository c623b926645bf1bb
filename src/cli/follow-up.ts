import type { App } from '../app.js';
import { silentLog, type Log } from '../domain/log.js';
import { printNote } from './console.js';
import { openQueuesOf } from './execute.js';

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
