import type { App } from '../app.js';
import { PAUSED } from '../catalogue/sellers-store.js';
import { readSellerStatuses, type SellerStatus } from '../catalogue/status-store.js';
import { listAuditBacklogs, listUnsettledAudits } from '../codes/audits-store.js';
import { listLookUpLoads } from '../codes/look-up-store.js';
import type { Config, FeedConfig } from '../config/index.js';
import { listMomentsAhead } from '../db/moments.js';
import { feedDelay, type FeedState, listFeedStates } from '../reporting/feeds-store.js';
import { nextTimes } from '../domain/cron.js';
import { type Schedule, schedulesOf } from './due.js';
import {
  auditNeed,
  clockNeed,
  feedNeed,
  heldNeed,
  type Need,
  NEED_KINDS,
  noItemsNeed,
  runNeed,
  staleNeed,
  stoppedNeed,
  unreadableNeed,
} from './needs.js';
import { listProcesses, type LiveProcess } from './processes-store.js';

/*
 * The state of everything, worked out once. `status`, the dashboard, metrics, alerts and `doctor` only format it. Each
 * card has one `state`, which gives its word and its colour (`stateWord` and `toneOf` in `listing`).
 */

/** A seller, its copy, and what needs a person about it. */
export interface SellerCard extends Omit<SellerStatus, 'marketplace' | 'knownSince'> {
  /** False: only the store knows the seller. */
  readonly configured: boolean;
  /** Null until the first run. */
  readonly marketplace: string | null;
  readonly knownSince: Date | null;
  /** How current the copy is. */
  readonly copy: CopyState;
  /** The same, or that a run is at work. */
  readonly state: CopyState | 'running';
  /** The most urgent first. */
  readonly needs: readonly Need[];
  readonly schedules: readonly ScheduleCard[];
}

export type CopyState = 'current' | 'stale' | 'never' | 'failing' | 'paused' | 'parked';

/** A schedule, and when it runs next. */
export interface ScheduleCard extends Schedule {
  /** Empty if an obstacle keeps it from running. */
  readonly next: readonly Date[];
  readonly obstacle: keyof typeof OBSTACLES | null;
}

/** Why a schedule does not run: in words, and what starts it (with commands, for the terminal). */
export const OBSTACLES = {
  'no-scheduler': ['no scheduler is running', 'start `seller-mirror run`'],
  'not-scheduled': [
    'the running scheduler was started with other settings',
    'restart it to read the new ones',
  ],
  'no-worker': ['no worker is running', 'start `seller-mirror worker`'],
  parked: ['not while the seller is stopped', null],
  paused: ['not while the seller is paused', null],
} as const;

/** A feed, and how far its target is behind. */
export type FeedCard = ReturnType<typeof feedCard>;

export type Board = Awaited<ReturnType<typeof readBoard>>;

const HOUR_MS = 3_600_000;
const DAY_MS = 24 * HOUR_MS;
/** Checks are shown for so long after their start (ms), and only so many of each seller and kind. */
const CHECKS_MS = 7 * DAY_MS;
const MAX_CHECKS = 3;

/**
 * Reads the state of sellers, feeds, checks and processes, and finds out what needs a person. If sellers are configured,
 * no other seller needs anything: it was taken out of the settings, and its copy is kept as it is.
 * @param only of this seller; null: of all
 */
export async function readBoard(
  db: App['db'],
  config: Config,
  now: Date,
  only: string | null = null,
) {
  const [statuses, ahead, feedStates, audits, processes, checks, lookUps] = await Promise.all([
    readSellerStatuses(db, only),
    listMomentsAhead(db),
    listFeedStates(db),
    listUnsettledAudits(db, new Date(now.getTime() - CHECKS_MS), MAX_CHECKS),
    listProcesses(db, DAY_MS),
    listAuditBacklogs(db),
    listLookUpLoads(db),
  ]);
  const live = processes.filter(({ isAlive }) => isAlive);
  const others = [...audits.flatMap((audit) => auditNeed(audit) ?? []), ...ahead.map(clockNeed)];
  const schedules = schedulesFor(config, live, now);
  const stored = new Map(statuses.map((status) => [status.sellerId, status]));
  const configured = new Set(config.sellers.map(({ name }) => name));
  const names = [...new Set([...configured, ...stored.keys()])];
  const sellers = names
    .filter((name) => only === null || name === only)
    .map((name): SellerCard => {
      const status = stored.get(name) ?? { ...UNKNOWN, sellerId: name };
      const copy = copyState(status, config.staleAfterHours, now);
      const isOurs = configured.size === 0 || configured.has(name);
      const found = [
        ...sellerNeeds(status, copy, config.staleAfterHours),
        ...others.filter(({ seller }) => seller === name),
      ];
      return {
        ...status,
        configured: configured.has(name),
        copy,
        state: status.running === null ? copy : 'running',
        needs: isOurs ? byUrgency(found) : [],
        schedules: schedules(name, status),
      };
    });
  const feeds = feedCards(config, feedStates, now);
  const general = byUrgency(others.filter(({ seller }) => seller === null));
  return {
    now,
    sellers,
    feeds,
    /** What needs a person, but is about no seller or feed: a worker's clock that was ahead. */
    general,
    /** Running checks of codes, and their codes without a verdict. */
    checks,
    /** What the look-up API was asked today. */
    lookUps,
    /** Processes of this program that were seen within the last day and did not end in order. */
    processes: processes.map((one) => {
      return { ...one, state: one.isAlive ? ('alive' as const) : ('gone' as const) };
    }),
    /** The most urgent first. */
    needs: byUrgency([...[...sellers, ...feeds].flatMap(({ needs }) => needs), ...general]),
  };
}

function byUrgency(needs: readonly Need[]): readonly Need[] {
  return NEED_KINDS.flatMap((kind) => needs.filter((one) => one.kind === kind));
}

/** A seller that was configured and never mirrored. */
const UNKNOWN = {
  marketplace: null,
  knownSince: null,
  account: null,
  items: { live: 0, missing: 0, removed: 0 },
  quarantined: 0,
  accountMirroredAt: null,
  itemsMirroredAt: null,
  parked: null,
  running: null,
  lastProblem: null,
  held: null,
  unreadable: 0,
  lastWide: null,
} satisfies Omit<Stored, 'sellerId'>;

/** What the store says about a seller. */
type Stored = Pick<SellerCard, keyof SellerStatus>;

/** How current a seller's copy is. Its age is that of its items. */
function copyState(
  { parked, lastProblem, itemsMirroredAt }: Stored,
  staleAfterHours: number,
  now: Date,
): CopyState {
  if (parked !== null) return parked.code === PAUSED ? PAUSED : 'parked';
  if (lastProblem?.state === 'failed') return 'failing';
  if (itemsMirroredAt === null) return 'never';
  const ageMs = now.getTime() - itemsMirroredAt.getTime();
  return ageMs > staleAfterHours * HOUR_MS ? 'stale' : 'current';
}

/** What needs a person about a seller. A person who paused it wants its copy to grow old. */
function sellerNeeds(seller: Stored, copy: CopyState, staleAfterHours: number): readonly Need[] {
  const { sellerId, parked, lastProblem, itemsMirroredAt, items, running, unreadable, held } =
    seller;
  const needs = held === null ? [] : [heldNeed(sellerId, held)];
  if (copy === 'paused') return needs;
  if (unreadable > 0) needs.push(unreadableNeed(sellerId, unreadable));
  if (parked !== null) return [...needs, stoppedNeed(sellerId, parked)];
  if (lastProblem !== null) return [...needs, runNeed(lastProblem)];
  if (needs.length > 0) return needs;
  if (running === null && copy !== 'current') {
    return [staleNeed(sellerId, itemsMirroredAt, staleAfterHours)];
  }
  const known = items.live + items.missing + items.removed;
  return known > 0 || itemsMirroredAt === null ? [] : [noItemsNeed(sellerId)];
}

/**
 * Returns what finds the schedules of a seller: those of the settings, or those that running schedulers go by for a
 * seller that this process has not configured. Many sellers share their times, so these are computed once.
 */
function schedulesFor({ sellers }: Config, live: readonly LiveProcess[], now: Date) {
  const has = (role: string): boolean => live.some(({ roles }) => roles.includes(role));
  const [hasScheduler, hasWorker] = [has('scheduler'), has('worker')];
  const keyOf = ({ kind, name, cron, timeZone }: Schedule): string =>
    JSON.stringify([kind, name, cron, timeZone]);
  const active = live
    .flatMap(({ schedules = [] }) => schedules)
    .filter(({ kind }) => kind !== 'feed');
  const activeKeys = new Set(active.map(keyOf));
  const own = bySeller(schedulesOf({ sellers, feeds: [] }));
  const elsewhere = bySeller(active);
  const times = new Map<string, readonly Date[]>();
  const nextThree = (schedule: Schedule): readonly Date[] => {
    const key = `${schedule.cron} ${schedule.timeZone}`;
    const next = times.get(key) ?? nextTimes(schedule, now, 3);
    times.set(key, next);
    return next;
  };
  const configured = new Set(sellers.map(({ name }) => name));
  return (name: string, { parked }: Pick<SellerStatus, 'parked'>): readonly ScheduleCard[] => {
    const schedules = (configured.has(name) ? own : elsewhere).get(name) ?? [];
    return schedules.map((schedule) => {
      const obstacle = !hasScheduler
        ? 'no-scheduler'
        : !activeKeys.has(keyOf(schedule))
          ? 'not-scheduled'
          : !hasWorker
            ? 'no-worker'
            : parked === null
              ? null
              : parked.code === PAUSED
                ? 'paused'
                : 'parked';
      return { ...schedule, obstacle, next: obstacle === null ? nextThree(schedule) : [] };
    });
  };
}

function bySeller(schedules: readonly Schedule[]): ReadonlyMap<string, readonly Schedule[]> {
  const found = new Map<string, Schedule[]>();
  for (const schedule of schedules) {
    const same = found.get(schedule.name);
    if (same === undefined) found.set(schedule.name, [schedule]);
    else same.push(schedule);
  }
  return found;
}

/** The configured feeds, and feeds that only other processes have configured. Connects to no target. */
function feedCards(config: Config, states: readonly FeedState[], now: Date): readonly FeedCard[] {
  const configured = new Map(config.feeds.map((feed) => [feed.name, feed]));
  const names = new Set([...configured.keys(), ...states.map(({ feed }) => feed)]);
  return [...names].map((name) => {
    const state = states.find(({ feed }) => feed === name);
    return feedCard(name, configured.get(name), state, config.feedStaleAfterHours, now);
  });
}

function feedCard(
  name: string,
  feed: FeedConfig | undefined,
  state: FeedState | undefined,
  staleAfterHours: number,
  now: Date,
) {
  const known = state?.views ?? [];
  const views = feed?.views ?? known.map(({ view }) => view);
  const delay = feedDelay(known, views, now);
  const { deliveredAt = null, fullAt = null, problem = null, failures = 0 } = state ?? {};
  const need = feed === undefined ? null : feedNeed(state, views, staleAfterHours, now);
  const isBehind = delay.since !== null || deliveredAt === null;
  return {
    name,
    place: feed?.place ?? null,
    sellers: feed?.sellers ?? null,
    state:
      problem !== null ? 'failing' : need !== null ? 'stale' : isBehind ? 'waiting' : 'current',
    deliveredAt,
    /** When it was last compared in full; null: never. */
    comparedAt: fullAt,
    delay,
    failures,
    problem,
    views: views.map((view) => {
      const { deliveredAt = null, problem = null } = known.find((one) => one.view === view) ?? {};
      const lagSeconds = Math.round(feedDelay(known, [view], now).ms / 1000);
      return { view, deliveredAt, problem, lagSeconds };
    }),
    needs: need === null ? [] : [need],
  };
}

/** The state of sellers as programs read it, with the names of `reporting.sync_runs`. */
export function statusJson({
  sellers,
  feeds,
  general,
}: Pick<Board, 'sellers' | 'feeds' | 'general'>) {
  return sellers.map((seller) => {
    const { sellerId, parked: parking, running, lastProblem, items, held } = seller;
    const [paused, parked] = parking?.code === PAUSED ? [parking, null] : [null, parking];
    return {
      sellerId,
      configured: seller.configured,
      verdict: seller.state,
      /** Whether the copy is current, also during a run. */
      current: seller.copy === 'current',
      marketplace: seller.marketplace,
      account: seller.account,
      liveItems: items.live,
      missingItems: items.missing,
      removedItems: items.removed,
      quarantined: seller.quarantined,
      itemsMirroredAt: seller.itemsMirroredAt,
      accountMirroredAt: seller.accountMirroredAt,
      lastWide: seller.lastWide,
      running: running && {
        runId: running.runId,
        kind: running.kind,
        startedAt: running.startedAt,
        holder: running.holder,
      },
      /** A person stopped the seller's schedules; null: nobody did. */
      pausedAt: paused && paused.since,
      paused: paused && { reason: paused.reason, remedy: howToResume(sellerId) },
      /** A problem stopped the seller's schedules until a person solves it; null: none did. */
      parkedAt: parked && parked.since,
      parked: parked && {
        runId: parked.runId,
        problemCode: parked.code,
        problem: parked.reason,
      },
      lastProblem: lastProblem && {
        runId: lastProblem.runId,
        kind: lastProblem.kind,
        state: lastProblem.state,
        at: lastProblem.finishedAt ?? lastProblem.startedAt,
        problemCode: lastProblem.problemCode,
        problem: lastProblem.problem,
      },
      held,
      needs: byUrgency([...seller.needs, ...general]).map(({ onPage: _onPage, ...need }) => need),
      schedules: seller.schedules.map(({ name: _name, ...schedule }) => schedule),
      feeds: feeds.flatMap((feed) =>
        feed.place === null || feed.sellers?.includes(sellerId) === false ? [] : [feedJson(feed)],
      ),
    };
  });
}

function feedJson({ name, place, delay, deliveredAt, failures, problem, views }: FeedCard) {
  const lagSeconds = Math.round(delay.ms / 1000);
  return { feed: name, target: place, lagSeconds, deliveredAt, failures, problem, views };
}

/** How the schedules of a paused seller start again. */
export function howToResume(seller: string): string {
  return `\`seller-mirror sellers resume ${seller}\`, or Resume on its page in the dashboard`;
}
