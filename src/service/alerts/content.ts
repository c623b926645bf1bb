import { createHash } from 'node:crypto';
import type { Json } from '../../domain/item.js';
import { displayName } from '../../domain/text.js';
import { feedDelay, listFeedStates } from '../../reporting/feeds-store.js';
import { readHeldRemovals } from '../../catalogue/held-store.js';
import { readChanges } from '../../catalogue/item-changes-store.js';
import { PROCESS_DIED, type Run, findLaterGoodRun, getRun } from '../../catalogue/runs-store.js';
import { PAUSED, readParking } from '../../catalogue/sellers-store.js';
import { readSellerStatuses } from '../../catalogue/status-store.js';
import type { Alert } from '../../catalogue/types.js';
import { getAudit } from '../../codes/audits-store.js';
import type { Db } from '../../db/db.js';
import { listMomentsAhead } from '../../db/moments.js';
import {
  auditNeed,
  auditPage,
  clockNeed,
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
import type { AlertMessage } from './message.js';
import { countNoLongerValid, readBalanceChange, readNewFields } from './news-store.js';

/** The text of an alert, written when it happens. */
export interface AlertContent extends Pick<
  AlertMessage,
  'at' | 'title' | 'text' | 'remedy' | 'tone'
> {
  /** The page of the dashboard that shows it, and the text of a link to there. */
  readonly page: { readonly path: string; readonly label: string };
  readonly data: AlertMessage['data'];
}

/** What the text of an alert is written from. */
export interface AlertState {
  readonly db: Db;
  readonly staleAfterHours: number;
}

type Of<K extends Alert['kind']> = Alert & { readonly kind: K };

interface AlertKind<A extends Alert> {
  /** The same for the same incident, so that it is sent once. */
  readonly id: (alert: A) => string;
  /**
   * Writes the text: figures, codes and sentences. From the marketplace's data it takes only names of items and fields.
   * @returns null if what happened is no longer in the store
   */
  readonly describe: (
    state: AlertState,
    alert: A,
    now: Date,
  ) => AlertContent | null | Promise<AlertContent | null>;
  /** Why an alert that was not sent in time is no longer worth sending; null if it is. */
  readonly over?: (db: Db, alert: A) => Promise<string | null>;
}

const ofRun = ({ runId }: { readonly runId: string }): string => runId;
const stamp = (time: string | null): string => (time === null ? 'never' : String(Date.parse(time)));
export const digest = (text: string): string =>
  createHash('sha256').update(text).digest('base64url').slice(0, 27);

const RUN: AlertKind<Of<'run-failed'> | Of<'run-held'>> = {
  id: ofRun,
  describe: ({ db }, { runId }) => runContent(db, BigInt(runId)),
  async over(db, { runId }) {
    const run = (await getRun(db, BigInt(runId)))?.run;
    if (run === undefined) return `run ${runId} is no longer in the store`;
    if (run.state === 'held') {
      const held = await readHeldRemovals(db, run.sellerId);
      return held.has(run.sellerId) ? null : `nothing is held any more of run ${runId}`;
    }
    const later = await findLaterGoodRun(db, run);
    return later === null ? null : `run ${later} has succeeded since`;
  },
};

/** All kinds of alerts. */
const KINDS: { readonly [K in Alert['kind']]: AlertKind<Of<K>> } = {
  'run-failed': RUN,
  'run-held': RUN,
  'items-removed': {
    id: ofRun,
    describe: ({ db }, { runId }) => removedContent(db, BigInt(runId)),
  },
  'balance-changed': { id: ofRun, describe: ({ db }, alert) => balanceContent(db, alert) },
  'audit-finished': {
    id: ({ auditId }) => auditId,
    describe: ({ db }, { auditId }, now) => auditContent(db, BigInt(auditId), now),
    async over(db, { auditId }) {
      const isAgain = (await getAudit(db, BigInt(auditId)))?.state === 'running';
      return isAgain ? `check ${auditId} is running again` : null;
    },
  },
  'codes-no_longer_valid': {
    id: (alert) => alert.auditId + (alert.since === undefined ? '' : `.${stamp(alert.since)}`),
    describe: ({ db }, alert, now) => noLongerValidContent(db, alert, now),
  },
  'fields-new': {
    id: ({ seller, field }) => `${seller}.${digest(field)}`,
    async describe({ db }, { seller, runId, field }) {
      const found = await readNewFields(db, seller, BigInt(runId));
      const own = found.find((one) => one.field === field);
      if (own === undefined) return null;
      const name = displayName(field);
      return {
        at: own.firstSeenAt,
        title: `${seller}: items have a new field`,
        text: `the marketplace now sends "${name}" with items, which no column holds`,
        remedy: 'it is kept in the column `extra`; a newer version may know the field',
        tone: 'good',
        page: runPage(BigInt(runId)),
        data: { seller, runId, field: name },
      };
    },
  },
  'clock-ahead': {
    id: ({ seller, what }) => digest(`${seller} ${what}`),
    async describe({ db }, { seller, what }, now) {
      const moments = await listMomentsAhead(db);
      const ahead = moments.find((one) => one.what === what && one.sellerId === seller);
      if (ahead === undefined) return null;
      const data = { seller, what, recordedFor: ahead.at.toISOString() };
      return needContent(clockNeed(ahead), now, 'clock', data);
    },
  },
  'seller-parked': {
    id: ({ seller, runId }) => `${seller}.${runId ?? 'unknown'}`,
    async describe({ db }, { seller }) {
      const parking = await readParking(db, seller);
      if (parking === null || parking.code === PAUSED) return null;
      const { since, code, runId } = parking;
      return needContent(stoppedNeed(seller, parking), since, code, {
        seller,
        runId: runId === null ? null : String(runId),
        since: since.toISOString(),
      });
    },
    async over(db, { seller }) {
      const parking = await readParking(db, seller);
      if (parking === null) return `seller ${seller} is no longer stopped`;
      return parking.code === PAUSED ? `seller ${seller} has been paused since` : null;
    },
  },
  'copy-stale': {
    id: (alert) => `${alert.seller}.${stamp(alert.since)}`,
    describe({ staleAfterHours }, { seller, since }, now) {
      const need = staleNeed(seller, since === null ? null : new Date(since), staleAfterHours);
      return needContent(need, now, 'stale', { seller, lastSuccess: since });
    },
    async over(db, alert) {
      const [status] = await readSellerStatuses(db, alert.seller);
      if (status?.parked?.code === PAUSED) return `seller ${alert.seller} has been paused since`;
      const last = status?.itemsMirroredAt?.toISOString() ?? null;
      return last === alert.since
        ? null
        : `the items of seller ${alert.seller} were mirrored since`;
    },
  },
  'feed-stale': {
    id: (alert) => `${alert.feed}.${stamp(alert.since)}`,
    describe: ({ db }, alert, now) => feedContent(db, alert, now),
    async over(db, alert) {
      const state = (await listFeedStates(db)).find((one) => one.feed === alert.feed);
      const isStale = state?.staleSince?.toISOString() === alert.since;
      return isStale ? null : `feed ${alert.feed} has delivered since`;
    },
  },
  'feed-recovered': {
    id: (alert) => `${alert.feed}.${stamp(alert.since)}`,
    describe: ({ db }, alert, now) => feedContent(db, alert, now),
  },
};

/** What to do with an alert, by its kind. */
export function alertKind<A extends Alert>({ kind }: A): AlertKind<A> {
  return KINDS[kind] as unknown as AlertKind<A>;
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

async function runContent(db: Db, runId: bigint): Promise<AlertContent | null> {
  const entry = await getRun(db, runId);
  if (entry === null) return null;
  const { run: found } = entry;
  // It died before it could record its failure, and no later run has marked it yet.
  const run = found.state === 'running' ? { ...found, ...PROCESS_DIED } : found;
  const { sellerId: seller, state, startedAt, finishedAt } = run;
  const at = finishedAt ?? startedAt;
  const data = {
    seller,
    runId: String(runId),
    kind: run.kind,
    state,
    startedAt: startedAt.toISOString(),
    finishedAt: finishedAt?.toISOString() ?? null,
    counts: countsOf(run),
  };
  if (state === 'held') {
    const held = (await readHeldRemovals(db, seller)).get(seller);
    if (held === undefined) return null;
    const { items, confirmed, present } = held;
    const examples = held.examples.map(({ itemId, name }) => ({ itemId, name: displayName(name) }));
    const facts = { ...data, held: { items, confirmed, present, examples } };
    return needContent(heldNeed(seller, held), at, 'held', facts);
  }
  const need = runNeed(run);
  // The message of an unreadable reply quotes it, and alerts go to third parties.
  const text = `the marketplace’s reply can’t be read; see \`seller-mirror runs show ${runId}\``;
  const shown = run.problemCode === 'unreadable' ? { ...need, text } : need;
  return needContent(shown, at, run.problemCode ?? state, data);
}

const COUNTS = [
  ...(['listed', 'added', 'changed', 'extraChanged', 'unchanged', 'restored'] as const),
  ...(['missing', 'removed', 'quarantined', 'duplicates', 'apiCalls'] as const),
];

function countsOf(run: Run): Json {
  const counts = Object.fromEntries(COUNTS.map((name) => [name, run[name]]));
  return { ...counts, bytes: Number(run.bytes) };
}

async function auditContent(db: Db, auditId: bigint, now: Date): Promise<AlertContent | null> {
  const audit = await getAudit(db, auditId);
  if (audit === null) return null;
  const { sellerId: seller, source, state, createdAt, finishedAt, problem } = audit;
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
  { auditId: id, since }: Of<'codes-no_longer_valid'>,
  now: Date,
): Promise<AlertContent | null> {
  const auditId = BigInt(id);
  const audit = await getAudit(db, auditId);
  const codes = await countNoLongerValid(db, auditId, since);
  if (audit === null || codes === 0) return null;
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

async function removedContent(db: Db, runId: bigint): Promise<AlertContent | null> {
  const entry = await getRun(db, runId);
  if (entry === null) return null;
  const { sellerId: seller, removed, startedAt, finishedAt } = entry.run;
  const changes = await readChanges(
    db,
    { run: String(runId), class: 'removed' },
    { limit: MAX_NAMES },
  );
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

async function balanceContent(
  db: Db,
  { seller, runId }: Of<'balance-changed'>,
): Promise<AlertContent | null> {
  const change = await readBalanceChange(db, seller, BigInt(runId));
  if (change === null) return null;
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

async function feedContent(
  db: Db,
  { kind, feed, since }: Of<'feed-stale'> | Of<'feed-recovered'>,
  now: Date,
): Promise<AlertContent | null> {
  const state = (await listFeedStates(db)).find((one) => one.feed === feed);
  if (state === undefined) return null;
  const { deliveredAt } = state;
  if (kind === 'feed-recovered') {
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
  const need = feedNeed(state, views, 0, now);
  if (need === null) return null;
  const waiting = feedDelay(state.views, views, now).views;
  return needContent(need, now, 'stale', { feed, since, views: waiting });
}
