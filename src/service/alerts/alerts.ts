import { createHash } from 'node:crypto';
import type { AlertType } from '../../config/schemas.js';
import { feedDelay, listFeedStates, markFeedStale } from '../../reporting/feeds-store.js';
import type { Json } from '../../domain/item.js';
import { displayName } from '../../domain/text.js';
import { type HeldItems, readHeldRemovals } from '../../catalogue/held-store.js';
import { PAUSED, readParking } from '../../catalogue/sellers-store.js';
import { type SellerStatus, readSellerStatuses } from '../../catalogue/status-store.js';
import { PROCESS_DIED, type Run, getRun, findLaterGoodRun } from '../../catalogue/runs-store.js';
import type { AlertChannel, AlertMessage } from './message.js';
import {
  auditNeed,
  auditPage,
  feedNeed,
  FEEDS_PAGE,
  heldNeed,
  type Need,
  runNeed,
  runPage,
  sellerPage,
  staleNeed,
  stoppedNeed,
} from '../needs.js';
import type { Db } from '../../db/db.js';
import { getAudit } from '../../codes/audits-store.js';
import { countNoLongerValid, readBalanceChange } from './news-store.js';
import { readChanges } from '../../catalogue/item-changes-store.js';
import type { Alert, JobOutcome } from '../../catalogue/types.js';

/** Where alerts are sent. Each alert is one job for each channel, since each may fail by itself. */
export type AlertChannelName = 'webhook' | 'mail';

/** The jobs that deliver an alert: an id and a task for each configured channel. */
export function alertJobs(
  {
    alertWebhook,
    alertMail,
    alertsOff = [],
  }: {
    readonly alertWebhook: unknown;
    readonly alertMail: unknown;
    readonly alertsOff?: readonly AlertType[];
  },
  alert: Alert,
): readonly { readonly id: string; readonly task: Alert & { readonly by?: 'mail' } }[] {
  if (alertsOff.includes(typeOf(alert))) return [];
  const id = alertId(alert);
  return [
    ...(alertWebhook === null ? [] : [{ id, task: alert }]),
    ...(alertMail === null ? [] : [{ id: `mail.${id}`, task: { ...alert, by: 'mail' as const } }]),
  ];
}

/** Alerts are of kind `run-failed`, messages of type `run.failed`. */
function typeOf({ kind }: Alert): AlertType {
  return kind.replace('-', '.') as AlertType;
}

/** The same id for the same incident, so that the queue delivers it once. */
export function alertId(alert: Alert): string {
  switch (alert.kind) {
    case 'run-failed':
    case 'run-held':
    case 'items-removed':
    case 'balance-changed':
      return `${alert.kind}.${alert.runId}`;
    case 'audit-finished':
      return `${alert.kind}.${alert.auditId}`;
    case 'codes-no_longer_valid': {
      const since = alert.since === undefined ? '' : `.${Date.parse(alert.since)}`;
      return `${alert.kind}.${alert.auditId}${since}`;
    }
    case 'seller-parked':
      return `${alert.kind}.${alert.seller}.${alert.runId ?? 'unknown'}`;
    case 'copy-stale': {
      const since = alert.since === null ? 'never' : String(Date.parse(alert.since));
      return `${alert.kind}.${alert.seller}.${since}`;
    }
    case 'feed-stale':
    case 'feed-recovered':
      return `${alert.kind}.${alert.feed}.${Date.parse(alert.since)}`;
  }
}

/**
 * The alerts of a job's outcome: one for each incident. A temporary failure is reported only when the
 * last attempt fails too. A seller that was parked is reported as parked, not as a failed run as well.
 * @param job.attempt 1 for the first, of `attempts`
 */
export function alertsAfter(
  outcome: JobOutcome,
  { attempt, attempts }: { readonly attempt: number; readonly attempts: number },
): readonly Alert[] {
  const alert = 'alert' in outcome ? (outcome.alert ?? null) : null;
  const isRepeated = outcome.kind === 'retry' && attempt < attempts;
  return alert === null || isRepeated ? [] : [alert];
}

/** The text of an alert, written at delivery. */
interface AlertContent extends Pick<AlertMessage, 'at' | 'title' | 'text' | 'remedy' | 'tone'> {
  /** The page of the dashboard that shows it, and the text of a link to there. */
  readonly page: { readonly path: string; readonly label: string };
  readonly data: AlertMessage['data'];
}

/** What the text of an alert is written from. */
interface AlertState {
  readonly db: Db;
  readonly staleAfterHours: number;
}

/** `dropped`: why the alert is no longer worth sending. */
type ContentOrDropped = AlertContent | { readonly dropped: string };

/**
 * Writes an alert's text from the current state; drops it when the incident is over. The text holds
 * figures, codes and sentences. From the marketplace's data it takes only names of items that are held back.
 */
export async function describeAlert(
  state: AlertState,
  alert: Alert,
  now: Date,
): Promise<ContentOrDropped> {
  const { db } = state;
  switch (alert.kind) {
    case 'run-failed':
    case 'run-held':
      return runContent(db, BigInt(alert.runId));
    case 'audit-finished':
      return auditContent(db, BigInt(alert.auditId), now);
    case 'codes-no_longer_valid':
      return noLongerValidContent(db, alert, now);
    case 'items-removed':
      return itemsRemovedContent(db, BigInt(alert.runId));
    case 'balance-changed':
      return balanceContent(db, alert.seller);
    case 'seller-parked':
      return parkedContent(db, alert.seller);
    case 'copy-stale':
      return staleCopyContent(state, alert, now);
    case 'feed-stale':
    case 'feed-recovered':
      return feedContent(db, alert, now);
  }
}

/** What an alert says about a need. @param code of the problem, as in the payload */
function needContent(
  { title, text, remedy, tone, page }: Need,
  at: Date,
  code: string,
  data: AlertContent['data'],
): AlertContent {
  const problem = { code, message: text, remedy };
  return { at, title, text, remedy, tone, page, data: { ...data, problem } };
}

async function runContent(db: Db, runId: bigint): Promise<ContentOrDropped> {
  const entry = await getRun(db, runId);
  if (entry === null) return { dropped: `run ${runId} is no longer in the store` };
  const { run: found } = entry;
  if (found.state === 'held') return heldContent(db, found);
  // It died before it could record its failure, and no later run has marked it yet.
  const run = found.state === 'running' ? { ...found, ...PROCESS_DIED } : found;
  const later = await findLaterGoodRun(db, run);
  if (later !== null) return { dropped: `run ${later} has succeeded since` };
  const { sellerId: seller, state, startedAt, finishedAt } = run;
  const need = runNeed(run);
  // The message of an unreadable reply quotes it, and alerts go to third parties.
  const text = `the marketplace’s reply can’t be read; see \`seller-mirror runs ${runId}\``;
  const shown = run.problemCode === 'unreadable' ? { ...need, text } : need;
  return needContent(shown, finishedAt ?? startedAt, run.problemCode ?? state, {
    seller,
    runId: String(runId),
    kind: run.kind,
    state,
    startedAt: startedAt.toISOString(),
    finishedAt: finishedAt?.toISOString() ?? null,
    counts: countsOf(run),
  });
}

async function heldContent(db: Db, run: Run): Promise<ContentOrDropped> {
  const { sellerId: seller, runId, startedAt, finishedAt } = run;
  const held = (await readHeldRemovals(db, seller)).get(seller);
  if (held === undefined) return { dropped: `nothing is held any more of what run ${runId} held` };
  return needContent(heldNeed(seller, held), finishedAt ?? startedAt, 'held', {
    seller,
    runId: String(runId),
    kind: run.kind,
    state: run.state,
    startedAt: startedAt.toISOString(),
    finishedAt: finishedAt?.toISOString() ?? null,
    counts: countsOf(run),
    held: heldFacts(held),
  });
}

function heldFacts({ items, confirmed, present, examples }: HeldItems): Json {
  const named = examples.map(({ itemId, name }) => ({ itemId, name: displayName(name) }));
  return { items, confirmed, present, examples: named };
}

const COUNTS = [
  ...(['listed', 'added', 'changed', 'extraChanged', 'unchanged', 'restored'] as const),
  ...(['missing', 'removed', 'quarantined', 'duplicates', 'apiCalls'] as const),
];

function countsOf(run: Run): Json {
  const counts = Object.fromEntries(COUNTS.map((name) => [name, run[name]]));
  return { ...counts, bytes: Number(run.bytes) };
}

async function auditContent(db: Db, auditId: bigint, now: Date): Promise<ContentOrDropped> {
  const audit = await getAudit(db, auditId);
  if (audit === null) return { dropped: `audit ${auditId} is no longer in the store` };
  const { sellerId: seller, source, state, createdAt, finishedAt, problem } = audit;
  if (state === 'running') return { dropped: `audit ${auditId} is running again` };
  const { lines, rejected, codes, reused, valid, invalid, noLongerValid, unproven } = audit;
  const { pending, apiCalls } = audit;
  const gone = noLongerValid === 0 ? [] : [`${noLongerValid} no longer valid`];
  const verdicts = [`${valid} valid`, `${invalid} invalid`, ...gone, `${unproven} unproven`];
  const left = pending === 0 ? [] : [`${pending} not checked`];
  const summary = `${source}: of ${codes} codes, ${[...verdicts, ...left].join(', ')}`;
  const data = {
    seller,
    auditId: String(auditId),
    source,
    state,
    startedAt: createdAt.toISOString(),
    finishedAt: finishedAt?.toISOString() ?? null,
    counts: {
      ...{ lines, rejected, codes, reused, valid, invalid, noLongerValid },
      ...{ unproven, pending, apiCalls },
    },
  };
  const need = problem === null ? null : auditNeed(audit);
  if (need !== null) {
    const content = needContent(need, finishedAt ?? now, state, data);
    return { ...content, text: `${need.text}; ${summary}` };
  }
  return {
    at: finishedAt ?? now,
    remedy: null,
    tone: 'good',
    title: `${seller}: check ${auditId} is finished`,
    text: summary,
    page: auditPage(auditId),
    data: { ...data, problem: null },
  };
}

/** Names of items in an alert. */
const MAX_NAMES = 20;

async function noLongerValidContent(
  db: Db,
  { auditId: id, since }: Extract<Alert, { kind: 'codes-no_longer_valid' }>,
  now: Date,
): Promise<ContentOrDropped> {
  const auditId = BigInt(id);
  const audit = await getAudit(db, auditId);
  const codes = await countNoLongerValid(db, auditId, since);
  if (audit === null || codes === 0) return { dropped: `audit ${auditId} has no such codes now` };
  const { sellerId: seller, source, finishedAt } = audit;
  const which = codes === 1 ? '1 code is' : `${codes} codes are`;
  return {
    at: finishedAt ?? now,
    title: `${seller}: ${which} no longer valid`,
    text: `${source}: ${which} no longer valid: refunded, reversed, or the buyer’s account is closed`,
    remedy: `\`seller-mirror audits export ${auditId}\` lists them, as no_longer_valid`,
    tone: 'warn',
    page: auditPage(auditId),
    data: { seller, auditId: String(auditId), source, codes },
  };
}

async function itemsRemovedContent(db: Db, runId: bigint): Promise<ContentOrDropped> {
  const entry = await getRun(db, runId);
  if (entry === null) return { dropped: `run ${runId} is no longer in the store` };
  const { sellerId: seller, removed, startedAt, finishedAt } = entry.run;
  const changes = await readChanges(db, { runId, classes: ['removed'], limit: MAX_NAMES });
  const items = changes.map(({ itemId, itemName }) => ({
    itemId: String(itemId),
    name: displayName(itemName ?? ''),
  }));
  const what = removed === 1 ? '1 item was removed' : `${removed} items were removed`;
  const names = items.map(({ itemId, name }) => `${itemId} ${name}`.trim()).join(', ');
  const more = removed > items.length ? ` and ${removed - items.length} more` : '';
  return {
    at: finishedAt ?? startedAt,
    title: `${seller}: ${what}`,
    text: `the marketplace no longer has ${names}${more}`,
    remedy: null,
    tone: 'warn',
    page: runPage(runId),
    data: { seller, runId: String(runId), removed, items },
  };
}

async function balanceContent(db: Db, seller: string): Promise<ContentOrDropped> {
  const change = await readBalanceChange(db, seller);
  if (change === null) return { dropped: `the balance of seller ${seller} is the same` };
  const { balance, currency, oldBalance, oldCurrency, changedAt } = change;
  const shown = (amount: string, unit: string | null): string =>
    [amount, unit ?? ''].join(' ').trim();
  const text = `the balance is ${shown(balance, currency)}; it was ${shown(oldBalance, oldCurrency)}`;
  return {
    at: changedAt,
    title: `${seller}: the balance changed`,
    text,
    remedy: null,
    tone: 'good',
    page: sellerPage(seller),
    data: {
      seller,
      balance,
      currency,
      oldBalance,
      oldCurrency,
      changedAt: changedAt.toISOString(),
    },
  };
}

async function parkedContent(db: Db, seller: string): Promise<ContentOrDropped> {
  const parking = await readParking(db, seller);
  if (parking === null) return { dropped: `seller ${seller} is no longer stopped` };
  const { since, code, runId } = parking;
  if (code === PAUSED) return { dropped: `seller ${seller} has been paused since` };
  return needContent(stoppedNeed(seller, parking), since, code, {
    seller,
    runId: runId === null ? null : String(runId),
    since: since.toISOString(),
  });
}

type StaleAlert = Extract<Alert, { readonly kind: 'copy-stale' }>;

async function staleCopyContent(
  { db, staleAfterHours }: AlertState,
  { seller, since }: StaleAlert,
  now: Date,
): Promise<ContentOrDropped> {
  const [status] = await readSellerStatuses(db, seller);
  if (status === undefined) return { dropped: `seller ${seller} is no longer in the store` };
  if (status.parked?.code === PAUSED) return { dropped: `seller ${seller} has been paused since` };
  const last = status.itemsMirroredAt?.toISOString() ?? null;
  if (last !== since) return { dropped: `the items of seller ${seller} were mirrored since` };
  const need = staleNeed(seller, status.itemsMirroredAt, staleAfterHours);
  return needContent(need, now, 'stale', { seller, lastSuccess: last });
}

type FeedAlert = Extract<Alert, { readonly feed: string }>;

async function feedContent(
  db: Db,
  { kind, feed, since }: FeedAlert,
  now: Date,
): Promise<ContentOrDropped> {
  const state = (await listFeedStates(db)).find((one) => one.feed === feed);
  if (state === undefined) return { dropped: `feed ${feed} is no longer in the store` };
  const { staleSince, deliveredAt } = state;
  const isOver = staleSince?.toISOString() !== since;
  if (kind === 'feed-recovered') {
    if (staleSince !== null && isOver) return { dropped: `feed ${feed} is stale again` };
    return {
      at: deliveredAt ?? now,
      remedy: null,
      tone: 'good',
      page: FEEDS_PAGE,
      title: `Feed ${feed} delivers again`,
      text: `the target of feed "${feed}" is up to date again`,
      data: { feed, since, deliveredAt: deliveredAt?.toISOString() ?? null },
    };
  }
  const views = state.views.map(({ view }) => view);
  const need = isOver ? null : feedNeed(state, views, 0, now);
  if (need === null) return { dropped: `feed ${feed} has delivered since` };
  const waiting = feedDelay(state.views, views, now).views;
  return needContent(need, now, 'stale', { feed, since, views: waiting });
}

/**
 * Sends an alert, or drops it when the incident is over.
 * @param deps.dashboardUrl base URL for links; null: no links
 * @param jobId of the job that delivers it; the receiver sees the same message id at each retry
 */
export async function deliverAlert(
  deps: AlertState & {
    readonly channel: AlertChannel;
    readonly dashboardUrl: string | null;
  },
  alert: Alert,
  jobId: string,
  signal: AbortSignal,
): Promise<JobOutcome> {
  const content = await describeAlert(deps, alert, new Date());
  if ('dropped' in content) return { kind: 'done', result: content };
  const message = toMessage(content, typeOf(alert), jobId, deps.dashboardUrl);
  const reply = await deps.channel.send(message, signal);
  return reply.kind === 'delivered' ? { kind: 'done', result: { delivered: reply.status } } : reply;
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
  jobId: string,
  dashboardUrl: string | null,
): AlertMessage {
  // Not the job id: it has dots, which separate the fields of the text that Standard Webhooks signs.
  const id = `msg_${createHash('sha256').update(jobId).digest('base64url').slice(0, 27)}`;
  if (dashboardUrl === null) return { ...text, id, type, data, link: null };
  const url = `${dashboardUrl}${page.path}`;
  return { ...text, id, type, data: { ...data, link: url }, link: { url, label: page.label } };
}

/** How old a seller's copy is. */
type CopyAge = Pick<SellerStatus, 'sellerId' | 'knownSince' | 'itemsMirroredAt' | 'parked'>;

/**
 * Finds sellers whose items were last mirrored too long ago. The alert names the last success, so it is
 * the same at each call until the copy is fresh again.
 * @param staleAfterHours largest age of a copy
 */
export function findStaleSellers(
  statuses: readonly CopyAge[],
  sellers: readonly string[],
  staleAfterHours: number,
  now: Date,
): readonly StaleAlert[] {
  const latest = new Date(now.getTime() - staleAfterHours * 3_600_000);
  // A parked seller has had its own alert; a paused one is stale on purpose.
  const stale = statuses.filter(
    ({ sellerId, parked, itemsMirroredAt, knownSince }) =>
      sellers.includes(sellerId) && parked === null && (itemsMirroredAt ?? knownSince) < latest,
  );
  return stale.map(({ sellerId: seller, itemsMirroredAt }) => ({
    kind: 'copy-stale',
    seller,
    since: itemsMirroredAt?.toISOString() ?? null,
  }));
}

/**
 * Finds feeds whose targets have lacked rows for too long, and feeds that have recovered. Stores since when
 * a feed is stale, so that the alert is the same at each call.
 * @param feeds the configured feeds
 */
export async function findFeedAlerts(
  db: Db,
  feeds: readonly { readonly name: string; readonly views: readonly string[] }[],
  staleAfterHours: number,
  now: Date,
): Promise<readonly FeedAlert[]> {
  const alerts: FeedAlert[] = [];
  for (const state of await listFeedStates(db)) {
    const feed = feeds.find(({ name }) => name === state.feed);
    if (feed === undefined) continue;
    const { ms, since } = feedDelay(state.views, feed.views, now);
    const isStale = since !== null && ms > staleAfterHours * 3_600_000;
    if (isStale && state.staleSince === null) await markFeedStale(db, state.feed, since);
    const staleSince = state.staleSince ?? (isStale ? since : null);
    if (staleSince === null) continue;
    // Recovered: rows may wait again, but not for long.
    const kind = isStale ? 'feed-stale' : 'feed-recovered';
    alerts.push({ kind, feed: state.feed, since: staleSince.toISOString() });
  }
  return alerts;
}
