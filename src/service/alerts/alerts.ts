import type { App } from '../../app.js';
import type { Config } from '../../config/index.js';
import type { AlertType } from '../../config/schemas.js';
import { readSellerStatuses, type SellerStatus } from '../../catalogue/status-store.js';
import type { Alert, JobOutcome } from '../../catalogue/types.js';
import type { Db } from '../../db/db.js';
import { listMomentsAhead } from '../../db/moments.js';
import { feedDelay, listFeedStates, markFeedStale } from '../../reporting/feeds-store.js';
import {
  type AlertChannelName,
  type AlertRow,
  insertAlert,
  readAlert,
  recordOutcome,
  unknownAlerts,
} from './alerts-store.js';
import { type AlertContent, alertKind, digest } from './content.js';
import type { AlertChannel, AlertMessage } from './message.js';
import { findNews } from './news-store.js';

const HOUR_MS = 3_600_000;

type WithPoint<Kind extends string> = Kind extends `${infer Subject}-${infer What}`
  ? `${Subject}.${What}`
  : Kind;

/** Alerts are of kind `run-failed`, messages of type `run.failed`. A kind that ALERT_TYPES lacks does not compile. */
function typeOf({ kind }: Alert): AlertType {
  return kind.replace('-', '.') as WithPoint<Alert['kind']>;
}

/** The same id for the same incident, so that it is sent once. */
export function alertId(alert: Alert): string {
  return `${alert.kind}.${alertKind(alert).id(alert)}`;
}

/** The channels that the settings name. */
export function channelsOf({
  alertWebhook,
  alertMail,
}: Pick<Config, 'alertWebhook' | 'alertMail'>): readonly AlertChannelName[] {
  return [
    ...(alertWebhook === null ? [] : (['webhook'] as const)),
    ...(alertMail === null ? [] : (['mail'] as const)),
  ];
}

/**
 * Records an alert for everything that happened lately and has none. What happened is read from the store, so whoever
 * did it, and whatever was killed before, it has one alert.
 * @returns the ids of the new ones
 */
export async function recordNews(app: Pick<App, 'config' | 'db'>): Promise<readonly string[]> {
  const { alertWebhook, alertMail, sellers } = app.config;
  if (alertWebhook === null && alertMail === null) return [];
  const names = (some: Config['sellers']): string[] => some.map(({ name }) => name);
  // A nightly run alone would tell a day's sales as if they had just happened.
  const watchedAccounts = names(sellers.filter(({ accountCron }) => accountCron !== null));
  return recordAlerts(app, await findNews(app.db, { sellers: names(sellers), watchedAccounts }));
}

/** Records those of these alerts that are wanted and not recorded. @returns their ids */
export async function recordAlerts(
  { config, db }: Pick<App, 'config' | 'db'>,
  alerts: readonly Alert[],
): Promise<readonly string[]> {
  const channels = channelsOf(config);
  const wanted = alerts.filter((alert) => !config.alertsOff.includes(typeOf(alert)));
  if (channels.length === 0 || wanted.length === 0) return [];
  const isNew = await unknownAlerts(db, wanted.map(alertId));
  const added: string[] = [];
  for (const alert of wanted) {
    const id = alertId(alert);
    if (!isNew.has(id)) continue;
    const { staleAfterHours } = config;
    const content = await alertKind(alert).describe(
      { db, staleAfterHours },
      alert,
      new Date(db.clock.now()),
    );
    if (content === null) continue;
    const row = { alertId: id, type: typeOf(alert), message: { alert, content } };
    await insertAlert(db, row, channels);
    added.push(id);
  }
  return added;
}

/**
 * Finds copies and feeds that are stale, feeds that have recovered, and runs that a clock that was ahead recorded, and
 * records an alert for each.
 */
export async function recordStale({ config, db }: Pick<App, 'config' | 'db'>): Promise<void> {
  if (channelsOf(config).length === 0) return;
  const now = new Date(db.clock.now());
  const names = config.sellers.map(({ name }) => name);
  const latest = new Date(now.getTime() - config.staleAfterHours * HOUR_MS);
  const copies = staleCopies(await readSellerStatuses(db), names, latest);
  const feeds = await feedAlerts({ config, db }, now);
  const clocks = (await listMomentsAhead(db)).flatMap(({ sellerId: seller, what }): Alert[] =>
    seller === null || names.includes(seller) ? [{ kind: 'clock-ahead', seller, what }] : [],
  );
  await recordAlerts({ config, db }, [...copies, ...feeds, ...clocks]);
  for (const alert of feeds) {
    // After the alert is recorded: if the process is killed before, the next check does both.
    if (alert.kind === 'feed-recovered') await markFeedStale(db, alert.feed, null);
  }
}

interface DeliverOptions {
  readonly db: Db;
  readonly channel: AlertChannel;
  /** Base URL for links; null: no links. */
  readonly dashboardUrl: string | null;
  /** When an alert that could not be sent is tried again; null: never. */
  readonly retryAt: (attempt: number, notBefore: number | null) => Date | null;
}

/** Sends an alert that is recorded and not sent, or drops it when the incident is over. */
export async function deliverAlert(
  { db, channel, dashboardUrl, retryAt }: DeliverOptions,
  task: Pick<AlertRow, 'alertId' | 'channel'>,
  signal: AbortSignal,
): Promise<JobOutcome> {
  const row = await readAlert(db, task.alertId, task.channel);
  if (row === null || row.endedAt !== null) return { kind: 'done', result: { state: 'ended' } };
  const { alert, content } = row.message;
  const over = (await alertKind(alert).over?.(db, alert)) ?? null;
  if (over !== null) {
    await recordOutcome(db, row, 'dropped', over);
    return { kind: 'done', result: { dropped: over } };
  }
  const written = { ...content, at: new Date(content.at) };
  const reply = await channel.send(
    toMessage(written, row.type, messageKey(row), dashboardUrl),
    signal,
  );
  if (reply.kind === 'delivered') {
    await recordOutcome(db, row, 'sent', `accepted (${reply.status})`);
    return { kind: 'done', result: { delivered: reply.status } };
  }
  const again = reply.kind === 'retry' ? retryAt(row.attempts + 1, reply.notBefore) : null;
  if (again === null) {
    await recordOutcome(db, row, 'failed', reply.problem);
    return { kind: 'give-up', problem: reply.problem };
  }
  await recordOutcome(db, row, again, reply.problem);
  return {
    kind: 'later',
    reason: reply.problem,
    delayMs: Math.max(0, again.getTime() - db.clock.now()),
  };
}

/** The receiver sees the same message id at each retry. */
function messageKey({ alertId: id, channel }: Pick<AlertRow, 'alertId' | 'channel'>): string {
  return channel === 'mail' ? `mail.${id}` : id;
}

/** A test alert. @param from the machine that sends it */
export function testAlert(from: string, dashboardUrl: string | null): AlertMessage {
  const at = new Date();
  const content: AlertContent = {
    at,
    title: 'Test alert',
    text: `Alerts of seller-mirror on ${from} arrive here.`,
    remedy: null,
    tone: 'good',
    data: { from },
    page: { path: '/', label: 'The dashboard' },
  };
  return toMessage(content, 'test', `test.${from}.${at.toISOString()}`, dashboardUrl);
}

function toMessage(
  { page, data, ...text }: AlertContent,
  type: string,
  key: string,
  dashboardUrl: string | null,
): AlertMessage {
  // Not the key: it has dots, which separate the fields of the text that Standard Webhooks signs.
  const id = `msg_${digest(key)}`;
  if (dashboardUrl === null) return { ...text, id, type, data, link: null };
  const url = `${dashboardUrl}${page.path}`;
  return { ...text, id, type, data: { ...data, link: url }, link: { url, label: page.label } };
}

/** Sellers whose items were last mirrored too long ago. @param latest oldest success that is fresh */
function staleCopies(statuses: readonly SellerStatus[], sellers: readonly string[], latest: Date) {
  return statuses.flatMap(({ sellerId: seller, parked, itemsMirroredAt, knownSince }): Alert[] => {
    // A parked seller has had its own alert; a paused one is stale on purpose.
    if (parked !== null || !sellers.includes(seller)) return [];
    if ((itemsMirroredAt ?? knownSince) >= latest) return [];
    // The last success is the same at each call until the copy is fresh again.
    return [{ kind: 'copy-stale', seller, since: itemsMirroredAt?.toISOString() ?? null }];
  });
}

/** Feeds whose targets have lacked rows for too long, and feeds that have recovered. */
async function feedAlerts({ config, db }: Pick<App, 'config' | 'db'>, now: Date) {
  const alerts: Extract<Alert, { readonly feed: string }>[] = [];
  for (const state of await listFeedStates(db)) {
    const feed = config.feeds.find(({ name }) => name === state.feed);
    if (feed === undefined) continue;
    const { ms, since } = feedDelay(state.views, feed.views, now);
    const isStale = since !== null && ms > config.feedStaleAfterHours * HOUR_MS;
    // Stored, so that the alert is the same at each call.
    if (isStale && state.staleSince === null) await markFeedStale(db, state.feed, since);
    const staleSince = state.staleSince ?? (isStale ? since : null);
    if (staleSince === null) continue;
    // Recovered: rows may wait again, but not for long.
    const kind = isStale ? 'feed-stale' : 'feed-recovered';
    alerts.push({ kind, feed: state.feed, since: staleSince.toISOString() });
  }
  return alerts;
}
