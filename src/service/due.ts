import type { OpenRequest, RunFacts, SellerFacts } from '../catalogue/requests.js';
import { previousTime, type CronTimes } from '../domain/cron.js';
import type { AuditTask, MirrorTask } from './queue/tasks.js';

/*
 * What is due. Nothing is stored about schedules: the last time of a schedule is due until a run or a check answers it,
 * and what was done says so. All of this is pure.
 */

/**
 * `sync` mirrors account and items, `account` only the account, `recheck` checks known codes again, and `feed` delivers
 * a feed.
 */
export interface Schedule extends CronTimes {
  readonly kind: 'sync' | 'account' | 'recheck' | 'feed';
  /** Name of the seller, or of the feed. */
  readonly name: string;
}

/** A seller and its cron expressions; null for no schedule. */
interface ScheduledSeller {
  readonly name: string;
  readonly timeZone: string;
  readonly syncCron: string | null;
  readonly accountCron: string | null;
  readonly auditCron: string | null;
}

interface ScheduledFeed {
  readonly name: string;
  readonly timeZone: string;
  /** Null: after each sync. */
  readonly cron: string | null;
}

/** The schedules that the settings name. */
export function schedulesOf({
  sellers,
  feeds,
}: {
  readonly sellers: readonly ScheduledSeller[];
  readonly feeds: readonly ScheduledFeed[];
}): Schedule[] {
  const of = (kind: Schedule['kind'], cron: string | null, name: string, timeZone: string) =>
    cron === null ? [] : [{ kind, name, cron, timeZone }];
  return [
    ...sellers.flatMap(({ name, timeZone, syncCron, accountCron, auditCron }) => [
      ...of('sync', syncCron, name, timeZone),
      ...of('account', accountCron, name, timeZone),
      ...of('recheck', auditCron, name, timeZone),
    ]),
    ...feeds.flatMap(({ name, timeZone, cron }) => of('feed', cron, name, timeZone)),
  ];
}

/** When schedules count. */
export interface Since {
  readonly now: Date;
  /** Start of the oldest scheduler that is alive. */
  readonly startedAt: Date;
  /** Whether times before that start are caught up with. */
  readonly catchUp: boolean;
}

/** Times this much earlier than the start of the oldest scheduler (ms) are not missed: it may have been restarted. */
const RESTART_MS = 5 * 60_000;
/** A re-check that is this late (ms) is left out, since the next one checks the same codes. */
const RECHECK_LATE_MS = 24 * 3_600_000;
/** A retry further ahead than this (ms) was recorded while a clock was wrong. Backoff and servers ask for less. */
const MAX_RETRY_MS = 25 * 3_600_000;

/**
 * The jobs that schedules of sellers want now. If `sync` is due, `account` is not: a sync mirrors the account, too.
 * @param facts of the sellers that the store knows
 */
export function dueTasks(
  schedules: readonly Schedule[],
  facts: ReadonlyMap<string, SellerFacts>,
  since: Since,
): readonly (MirrorTask | AuditTask)[] {
  const synced = new Set<string>();
  return schedules.flatMap((schedule): readonly (MirrorTask | AuditTask)[] => {
    const { kind, name: seller } = schedule;
    const own = facts.get(seller);
    if (kind === 'feed' || own?.isParked === true) return [];
    if (kind === 'account' && synced.has(seller)) return [];
    const at =
      kind === 'recheck' ? dueRecheck(schedule, own, since) : dueRun(kind, schedule, own, since);
    if (at === null) return [];
    if (kind === 'sync') synced.add(seller);
    const dueAt = at.toISOString();
    return [kind === 'recheck' ? { kind, seller, dueAt } : { kind, seller, dueAt, byHand: false }];
  });
}

const NO_RUNS: RunFacts = { goodAt: null, last: null };

/** The time of the schedule that no run has answered; null if there is none, or it is not to be tried now. */
function dueRun(
  kind: 'sync' | 'account',
  schedule: Schedule,
  facts: SellerFacts | undefined,
  since: Since,
): Date | null {
  const tick = previousTime(schedule, since.now);
  if (tick === null) return null;
  const { account = NO_RUNS, items = NO_RUNS } = facts ?? {};
  const main = kind === 'sync' ? items : account;
  if (isAtOrAfter(main.goodAt, tick)) return null;
  // A sync whose account failed has no run of the items.
  const begun = (kind === 'sync' ? [items.last, sameTime(account.last, tick)] : [account.last])
    .filter((last) => last !== null)
    .filter(({ dueAt }) => dueAt >= tick);
  if (begun.some((last) => !isOpen(last, since.now))) return null;
  if (begun.length > 0) return tick;
  const isFirstCopy = main.goodAt === null && main.last === null;
  if (isFirstCopy) return since.catchUp ? tick : fresh(tick, since);
  if (isBefore(tick, facts, since)) return null;
  if (!since.catchUp || isNew(schedule, main.last?.dueAt ?? null)) return fresh(tick, since);
  return tick;
}

/** Whether the seller was added after a time. */
function isBefore(tick: Date, facts: SellerFacts | undefined, { now }: Since): boolean {
  return isAtOrAfter(believed(facts?.createdAt ?? null, now), tick);
}

function sameTime(last: RunFacts['last'], tick: Date): RunFacts['last'] {
  return last?.dueAt.getTime() === tick.getTime() ? last : null;
}

/** Whether a run that began for a time left it unanswered, and is to be tried again now. */
function isOpen({ state, retryAt, isLocked }: NonNullable<RunFacts['last']>, now: Date): boolean {
  switch (state) {
    case 'running':
      return !isLocked;
    case 'interrupted':
      return true;
    case 'failed':
      return retryAt !== null && isRetryDue(retryAt, now);
    // It is older than the one that would answer, such as the account's run of a sync.
    case 'succeeded':
    case 'held':
      return true;
  }
}

function isRetryDue(retryAt: Date, now: Date): boolean {
  const aheadMs = retryAt.getTime() - now.getTime();
  return aheadMs <= 0 || aheadMs > MAX_RETRY_MS;
}

function dueRecheck(schedule: Schedule, facts: SellerFacts | undefined, since: Since): Date | null {
  const tick = previousTime(schedule, since.now);
  if (tick === null || facts === undefined || facts.isRechecking) return null;
  const { recheckDueAt } = facts;
  if (isAtOrAfter(recheckDueAt, tick) || isBefore(tick, facts, since)) return null;
  if (since.now.getTime() - tick.getTime() > RECHECK_LATE_MS) return null;
  return !since.catchUp || isNew(schedule, recheckDueAt) ? fresh(tick, since) : tick;
}

/** The time of a feed's schedule for which no delivery was asked. @param askedAt null: never */
export function dueFeed(schedule: Schedule, askedAt: Date | null, since: Since): Date | null {
  const tick = previousTime(schedule, since.now);
  if (tick === null) return null;
  if (isAtOrAfter(believed(askedAt, since.now), tick)) return null;
  return !since.catchUp || askedAt === null ? fresh(tick, since) : tick;
}

/** What feeds ask about one of them; a time is null if there was none. */
export interface FeedFacts {
  /** When it was last asked for. */
  readonly askedAt: Date | null;
  readonly failedAt: Date | null;
  /** Failed deliveries since the last one that succeeded. */
  readonly failures: number;
  /** Since when the first of its views waits; null: none does. */
  readonly waitingSince: Date | null;
}

/** Backoff after consecutive failures: doubles from the first delay to the longest (ms). */
const FIRST_DELAY_MS = 30_000;
const MAX_DELAY_MS = 3_600_000;
/** A delivery after syncs waits until no sync has ended for this long (ms), but no longer than the second time. */
const QUIET_MS = 30_000;
const MAX_QUIET_WAIT_MS = 600_000;

/**
 * How long a feed is left alone before it delivers (ms); null: nothing waits.
 * @param followsSyncs it has no times of its own
 */
export function feedWait(
  { askedAt, failedAt, failures, waitingSince }: FeedFacts,
  followsSyncs: boolean,
  now: Date,
): number | null {
  if (askedAt === null || waitingSince === null) return null;
  const failed = believed(failedAt, now);
  if (failures > 0 && failed !== null) {
    const pauseMs = Math.min(MAX_DELAY_MS, FIRST_DELAY_MS * 2 ** (failures - 1));
    return Math.max(0, failed.getTime() + pauseMs - now.getTime());
  }
  if (!followsSyncs) return 0;
  const quietAt = Math.min(+askedAt + QUIET_MS, +waitingSince + MAX_QUIET_WAIT_MS);
  // It is longer only if a clock was ahead.
  return Math.max(0, Math.min(quietAt - now.getTime(), QUIET_MS));
}

/** A schedule that was added or changed has no run for one of its times. It begins with its next time. */
function isNew(schedule: Schedule, last: Date | null): boolean {
  return last === null || previousTime(schedule, last)?.getTime() !== last.getTime();
}

/** The time, unless it came before a scheduler was there. */
function fresh(tick: Date, { startedAt, now }: Since): Date | null {
  const from = believed(startedAt, now) ?? now;
  return tick.getTime() >= from.getTime() - RESTART_MS ? tick : null;
}

/** A moment that was recorded, or null if a clock was ahead when it was. */
export function believed(at: Date | null, now: Date): Date | null {
  return at !== null && at.getTime() <= now.getTime() + 60_000 ? at : null;
}

function isAtOrAfter(at: Date | null, tick: Date): boolean {
  return at !== null && at >= tick;
}

/** The jobs for what people asked for and runs have not answered. */
export function askedTasks(open: readonly OpenRequest[], now: Date): readonly MirrorTask[] {
  const requests = new Map<string, OpenRequest[]>();
  for (const request of open) {
    const key = `${request.seller} ${request.dueAt.getTime()}`;
    requests.set(key, [...(requests.get(key) ?? []), request]);
  }
  return [...requests.values()].flatMap((parts): readonly MirrorTask[] => {
    const [first] = parts;
    if (first === undefined) return [];
    // A part waits for its retry, and the others for that part.
    if (parts.some(({ retryAt }) => retryAt !== null && !isRetryDue(retryAt, now))) return [];
    const { seller, itemId } = first;
    const due = { seller, dueAt: first.dueAt.toISOString(), byHand: true } as const;
    if (itemId !== null) return [{ kind: 'item', itemId, ...due }];
    const kinds = parts.map(({ kind }) => kind);
    if (kinds.length > 1) return [{ kind: 'sync', ...due }];
    return [{ kind: kinds[0] === 'account' ? 'account' : 'items', ...due }];
  });
}
