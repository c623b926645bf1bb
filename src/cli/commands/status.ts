import { stateWord } from '../../listing/listing.js';
import { Option, type Command } from 'commander';
import type { App } from '../../app.js';
import { describeWide } from '../../catalogue/changes.js';
import { feedDelay } from '../../reporting/feeds-store.js';
import { type Need, readNeeds } from '../../service/needs.js';
import { type Schedule, schedulesOf } from '../../service/due.js';
import { activeSchedules, nextThree, OBSTACLES, obstacleTo } from '../../service/scheduler.js';
import { type LiveProcess, listLiveProcesses } from '../../service/processes-store.js';
import { PAUSED } from '../../catalogue/sellers-store.js';
import { copyState, type SellerStatus } from '../../catalogue/status-store.js';
import { printResult, stdoutLook } from '../console.js';
import { action, withApp } from '../execute.js';
import { EXIT, type ExitCode } from '../exit-codes.js';
import { assertSeller, describeCommand, type CommonOptions } from '../options.js';
import { withRunnableCommands } from '../own-command.js';
import { pairs } from '../output/table.js';
import { type Look, paint, safeLine } from '../output/text.js';
import { count, age } from '../../domain/text.js';

interface StatusOptions extends CommonOptions {
  readonly check?: boolean;
}

/** `status`: shows whether each seller's copy is current. */
export function add(program: Command): void {
  const check = new Option('--check', 'exit with 1 when a configured seller’s copy is not current');
  describeCommand(program.command('status'), {
    about:
      'Shows whether each seller’s copy is current, when `run` or `scheduler` mirrors it next, and how current each feed is. A copy is stale if its items were last mirrored more than STALE_AFTER_HOURS (26) hours ago.',
    examples: [
      'seller-mirror status',
      'seller-mirror status --check || mail -s "mirror is not current" me@shop.example',
    ],
    options: [check, 'json', 'seller'],
  }).action(action(status));
}

function status(signal: AbortSignal, options: StatusOptions): Promise<ExitCode> {
  // With --check, a configuration without sellers is an error: it must not pass for a current copy.
  const needs = options.check === true ? 'sellers' : 'store';
  return withApp('status', needs, signal, async (app) => {
    const now = new Date();
    await assertSeller(app, options.seller);
    const state = await readNeeds(app, now);
    const reports = (await sellerReports(app, state, now)).filter(
      ({ sellerId }) => options.seller === undefined || sellerId === options.seller,
    );
    const feeds = feedReports(app, state, now);
    const feedsOf = (seller: string): FeedReport[] =>
      feeds.filter(({ sellers }) => sellers?.includes(seller) !== false);
    const json = reports.map((report) => {
      return { ...report, feeds: feedsOf(report.sellerId).map((feed) => feed.json) };
    });
    await printResult(options, json, () => {
      const look = stdoutLook();
      const shown = options.seller === undefined ? feeds : feedsOf(options.seller);
      const blocks = reports.map((report) => statusLines(report, now, look));
      if (blocks.length === 0) blocks.push(NO_SELLER);
      return [...blocks, ...shown.map((feed) => feedLines(feed, now, look))].join('\n');
    });
    // The copy of a paused seller grows old because a person wants it to.
    const isStale = reports.some(
      ({ configured, current, paused }) => configured && !current && paused === null,
    );
    return options.check === true && isStale ? EXIT.failed : EXIT.done;
  });
}

const NO_SELLER =
  'No seller is configured, and none was ever mirrored: set MARKETPLACE_URL and MARKETPLACE_API_KEY, then run `seller-mirror sync`.\n';

type State = Awaited<ReturnType<typeof readNeeds>>;

/** Reports on configured sellers in their order, then on those that only the store knows. */
async function sellerReports(
  { config, db }: App,
  { sellers: statuses, needs }: State,
  now: Date,
): Promise<SellerReport[]> {
  const { sellers, staleAfterHours } = config;
  const stored = new Map(statuses.map((one) => [one.sellerId, one]));
  const processes = await listLiveProcesses(db);
  const scheduled = activeSchedules(processes);
  const schedules = schedulesOf({ sellers, feeds: [] });
  const configured = new Set(sellers.map(({ name }) => name));
  return [...new Set([...configured, ...stored.keys()])].map((name) => {
    const expectation = {
      configured: configured.has(name),
      staleAfterHours,
      needs: needs.filter(({ seller }) => seller === name),
      schedules: schedules.filter((one) => one.name === name),
      scheduled,
      processes,
    };
    return sellerReport(name, expectation, stored.get(name) ?? null, now);
  });
}

/** How current the configured feeds are according to the store; connects to no target. */
function feedReports({ config }: App, { feeds: states, needs }: State, now: Date) {
  return config.feeds.map(({ name, place, views, sellers }) => {
    const state = states.find(({ feed }) => feed === name);
    const known = state?.views ?? [];
    const lag = feedDelay(known, views, now);
    const json = {
      feed: name,
      target: place,
      lagSeconds: Math.round(lag.ms / 1000),
      deliveredAt: state?.deliveredAt ?? null,
      failures: state?.failures ?? 0,
      problem: state?.problem ?? null,
      views: views.map((view) => {
        const { deliveredAt = null, problem = null } = known.find((one) => one.view === view) ?? {};
        const lagSeconds = Math.round(feedDelay(known, [view], now).ms / 1000);
        return { view, deliveredAt, problem, lagSeconds };
      }),
    };
    return { json, lag, sellers, needs: needs.filter((one) => one.feed === name) };
  });
}

type FeedReport = ReturnType<typeof feedReports>[number];

/** Formats a feed's state for a person. */
function feedLines({ json, lag, needs }: FeedReport, now: Date, look: Look): string {
  const { feed, target, deliveredAt } = json;
  const last = deliveredAt === null ? 'never delivered' : `all delivered ${age(deliveredAt, now)}`;
  const behind = lag.since === null ? 'current' : `behind since ${age(lag.since, now)}`;
  const state = deliveredAt === null && lag.since === null ? last : `${behind}, ${last}`;
  const mark = markOf(needs, lag.ms > 0 ? 'waiting' : 'good', look);
  const texts = { target, behind: lag.views.join(', ') };
  return `${mark} feed ${safeLine(feed)} · ${state}\n${details(texts, needs, now, look)}`;
}

const MARKS = {
  good: ['✓', 'green'],
  running: ['…', 'green'],
  paused: ['–', 'yellow'],
  waiting: ['!', 'yellow'],
  warn: ['!', 'yellow'],
  bad: ['✗', 'red'],
} as const;

function markOf(needs: readonly Need[], otherwise: keyof typeof MARKS, look: Look): string {
  const [mark, colour] = MARKS[needs[0]?.tone ?? otherwise];
  return paint(colour, mark, look);
}

/** Formats the texts that are not empty, and what needs a person. */
function details(
  texts: Readonly<Record<string, string | null>>,
  needs: readonly Need[],
  now: Date,
  look: Look,
): string {
  const lines = [
    ...Object.entries(texts),
    ...needs.flatMap(({ since, runId, source, text, remedy }) => {
      const when = since === null ? '' : age(since, now);
      const where = [when, runId === null ? '' : `run ${runId}`, source].filter(Boolean).join(', ');
      return [
        ['needs you', where === '' ? text : `${where}: ${text}`],
        ['remedy', remedy],
      ] as const;
    }),
  ];
  // Commands are made typeable here, before lines are wrapped.
  const present = lines.flatMap(([label, text]) =>
    text === null || text === '' ? [] : [[label, withRunnableCommands(text)] as const],
  );
  return pairs(present, look, '  ');
}

/** What the settings and the running processes say about a seller. */
interface Expectation {
  /** False: only the store knows the seller. */
  readonly configured: boolean;
  readonly staleAfterHours: number;
  /** The most urgent first. */
  readonly needs: readonly Need[];
  readonly schedules: readonly Schedule[];
  /** What the running schedulers go by. */
  readonly scheduled: readonly Schedule[];
  /** Only processes that are alive. */
  readonly processes: readonly LiveProcess[];
}

type SellerReport = ReturnType<typeof sellerReport>;
type ScheduleReport = SellerReport['schedules'][number];

/** The state of one seller's copy, with the names of `reporting.sync_runs`. @param stored null: never mirrored */
export function sellerReport(
  sellerId: string,
  { configured, staleAfterHours, needs, schedules, scheduled, processes }: Expectation,
  stored: SellerStatus | null,
  now: Date,
) {
  const state = stored === null ? 'never' : copyState(stored, staleAfterHours, now);
  const { running = null, lastProblem = null, held = null, parked: parking = null } = stored ?? {};
  const isPaused = parking?.code === PAUSED;
  const parked = isPaused ? null : parking;
  const { live = 0, missing = 0, removed = 0 } = stored?.items ?? {};
  return {
    sellerId,
    configured,
    verdict: running === null ? state : ('running' as const),
    /** Whether the copy is current, also during a run. */
    current: state === 'current',
    marketplace: stored?.marketplace ?? null,
    account: stored?.account ?? null,
    liveItems: live,
    missingItems: missing,
    removedItems: removed,
    quarantined: stored?.quarantined ?? 0,
    itemsMirroredAt: stored?.itemsMirroredAt ?? null,
    accountMirroredAt: stored?.accountMirroredAt ?? null,
    lastWide: stored?.lastWide ?? null,
    running: running && {
      runId: running.runId,
      kind: running.kind,
      startedAt: running.startedAt,
      holder: running.holder,
    },
    /** A person stopped the seller's schedules; null: nobody did. */
    pausedAt: isPaused ? parking.since : null,
    paused: isPaused
      ? {
          reason: parking.reason,
          remedy: `press Resume on the page of ${sellerId} in the dashboard`,
        }
      : null,
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
    /** The removals that wait for a person; null: none. */
    held,
    needs,
    schedules: schedules.map((schedule) => {
      const { kind, cron, timeZone } = schedule;
      const active = scheduled.find((one) => isSame(one, schedule));
      const obstacle = obstacleTo(active, processes, parking);
      if (active === undefined || obstacle !== null) {
        return { kind, cron, timeZone, next: [], obstacle };
      }
      return { kind, cron, timeZone, next: nextThree(active, now), obstacle };
    }),
  };
}

function isSame(one: Schedule, other: Schedule): boolean {
  return (
    one.kind === other.kind &&
    one.name === other.name &&
    one.cron === other.cron &&
    one.timeZone === other.timeZone
  );
}

/** Formats a seller's state for a person. */
export function statusLines(report: SellerReport, now: Date, look: Look): string {
  const { configured, verdict, sellerId, needs, paused } = report;
  const known = configured ? '' : ' (in the store, not configured)';
  const otherwise = paused === null ? 'good' : 'paused';
  const mark = verdict === 'running' ? markOf([], 'running', look) : markOf(needs, otherwise, look);
  const head = `${mark} ${safeLine(sellerId)} · ${verdictText(report, now)}${known}\n`;
  return head + details(detailsOf(report, now), needs, now, look);
}

function verdictText({ running, itemsMirroredAt, verdict }: SellerReport, now: Date): string {
  if (verdict === 'never') return 'never mirrored';
  const run =
    running === null
      ? ''
      : ` (${running.kind}, begun ${age(running.startedAt, now)} by ${safeLine(running.holder)})`;
  const last =
    itemsMirroredAt === null ? 'never mirrored' : `items mirrored ${age(itemsMirroredAt, now)}`;
  return `${stateWord(verdict)}${run}, ${last}`;
}

function detailsOf(report: SellerReport, now: Date): Readonly<Record<string, string | null>> {
  const { account, marketplace, pausedAt, paused, lastWide } = report;
  const { accountMirroredAt, quarantined, liveItems, missingItems, removedItems } = report;
  const money = [account?.balance, account?.currency].filter(Boolean).join(' ');
  const seen = accountMirroredAt === null ? '' : `, mirrored ${age(accountMirroredAt, now)}`;
  const unreadable = quarantined === 0 ? '' : ` · ${count(quarantined)} quarantined`;
  return {
    marketplace,
    account: account && `${account.username}, balance ${money || '–'}${seen}`,
    items:
      marketplace &&
      `${count(liveItems)} live · ${count(missingItems)} missing · ${count(removedItems)} removed${unreadable}`,
    changed:
      lastWide &&
      `${age(lastWide.at, now)}, run ${lastWide.runId}: ${lastWide.changes.map(describeWide).join(', ')}`,
    paused:
      pausedAt && paused && `${age(pausedAt, now)}: ${paused.reason}; schedules skip this seller`,
    ...Object.fromEntries(report.schedules.map((one) => [LABELS[one.kind], scheduleText(one)])),
    remedy: paused && paused.remedy,
  };
}

const LABELS = {
  sync: 'schedule',
  account: 'account only',
  recheck: 'codes again',
  feed: 'feed',
} as const;

/** `0 2 * * * (Europe/Berlin): Sun 22 Nov 02:00, Mon 23 Nov 02:00, Tue 24 Nov 02:00`. */
function scheduleText({ cron, timeZone, next, obstacle }: ScheduleReport): string {
  const format = new Intl.DateTimeFormat('en-GB', {
    timeZone,
    ...({ weekday: 'short', day: 'numeric', month: 'short' } as const),
    ...({ hour: '2-digit', minute: '2-digit' } as const),
  });
  const times = next.map((at) => format.format(at).replaceAll(',', ''));
  const when = obstacle === null ? times.join(', ') || 'never' : OBSTACLES[obstacle];
  return `${cron} (${timeZone}): ${when}`;
}
