import { hostname } from 'node:os';
import type { App } from '../app.js';
import { askRuns, type Wanted } from '../catalogue/requests-store.js';
import type { SellerConfig } from '../config/index.js';
import { hostName } from '../domain/address.js';
import { silentLog, type Log } from '../domain/log.js';
import { printNote, userName } from './console.js';
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

/** The user of this command, as logs and runs name them. */
export function thisUser(): string {
  return `${userName()} on ${hostname()}`;
}

/**
 * Asks for runs of sellers, which a worker performs. If the queue can't be reached, a scheduler or a worker finds the
 * request in the store.
 */
export async function askForRuns(
  app: App,
  sellers: readonly { readonly name: string; readonly url: SellerConfig['url'] | undefined }[],
  wanted: Wanted,
): Promise<readonly { readonly sellerId: string; readonly askedAt: Date }[]> {
  const asked: { readonly sellerId: string; readonly askedAt: Date }[] = [];
  const queues = await openQueuesOf(app, 'sync --queue');
  try {
    for (const { name: seller, url } of sellers) {
      const place = { seller, marketplace: url === undefined ? '' : hostName(url) };
      const askedAt = await askRuns(app.db, place, wanted, thisUser());
      asked.push({ sellerId: seller, askedAt });
      const due = { seller, dueAt: askedAt.toISOString(), byHand: true } as const;
      await queues
        .add(
          'mirror',
          wanted.kind === 'item' ? { ...wanted, ...due } : { kind: wanted.kind, ...due },
        )
        .catch((error: unknown) => {
          const message = error instanceof Error ? error.message : String(error);
          printNote(`note: ${seller}: ${message}; a worker looks by itself\n`);
        });
    }
  } finally {
    await queues.close();
  }
  return asked;
}
