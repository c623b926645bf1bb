import type { Command } from 'commander';
import type { App } from '../../app.js';
import { schedulesOf } from '../../app/schedules.js';
import { describeWide } from '../../domain/changes.js';
import { parkedRemedy, runProblem, runRemedy } from '../../jobs/problem.js';
import { describeSchedule, type SellerSchedule } from '../../queue/ticks.js';
import type { HeldBack } from '../../store/decisions.js';
import { ALIVE_MS, isAlive, type LiveProcess } from '../../store/processes.js';
import type { Run, SellerStatus } from '../../store/status.js';
import { print, printJson, stdoutLook } from '../console.js';
import { execute, withApp } from '../execute.js';
import { EXIT, type ExitCode } from '../exit-codes.js';
import { unknownSeller, withCommonOptions, type CommonOptions } from '../options.js';
import { asTyped } from '../own-command.js';
import { pairs, type TableCell } from '../output/table.js';
import { age, count, type Look, paint, safeLine } from '../output/text.js';

interface StatusOptions extends CommonOptions {
  readonly check?: true;
}

/** `status`: whether each seller's copy is current. */
export function addStatus(program: Command): void {
  const command = program
    .command('status')
    .description(
      'Shows for each seller whether its copy is current, and when `run` or `scheduler` mirrors it next. A copy is stale when its items were last mirrored more than STALE_AFTER_HOURS (26) hours ago.',
    )
    .option('--check', 'end with exit code 1 when the copy of a configured seller is not current')
    .addHelpText(
      'after',
      '\nExamples:\n  $ seller-mirror status\n  $ seller-mirror status --check || mail -s "mirror is not current" me@shop.example',
    );
  withCommonOptions(command, { seller: true }).action((options: StatusOptions) =>
    execute((signal) => status(options, signal)),
  );
}

function status(options: StatusOptions, signal: AbortSignal): Promise<ExitCode> {
  // With --check, having no seller is an error: it must not pass for a current copy.
  const needs = options.check === true ? 'sellers' : 'store';
  return withApp('status', needs, signal, async (app) => {
    const now = new Date();
    const reports = chosen(await reportsOf(app, now), options.seller);
    if (options.json === true) await printJson(reports.map(reportJson));
    else if (reports.length === 0) await print(NO_SELLER);
    else await print(reports.map((report) => reportLines(report, now, stdoutLook())).join('\n'));
    const lacking = reports.some(({ configured, current }) => configured && !current);
    return options.check === true && lacking ? EXIT.failed : EXIT.done;
  });
}

const NO_SELLER =
  'No seller is configured and none was ever mirrored: set MARKETPLACE_URL and MARKETPLACE_API_KEY, then run `seller-mirror sync`.\n';

/** Configured sellers in their order, then those that only the store knows. */
async function reportsOf(app: App, now: Date): Promise<SellerReport[]> {
  const { sellers, staleAfterHours } = app.config;
  const stored = new Map((await app.store.sellers.statuses()).map((one) => [one.sellerId, one]));
  const processes = (await app.store.processes.live(ALIVE_MS)).filter(isAlive);
  const schedules = schedulesOf(sellers);
  const configured = sellers.map(({ name }) => name);
  const others = [...stored.keys()].filter((name) => !configured.includes(name));
  return [...configured, ...others].map((name) => {
    const expectation = {
      configured: configured.includes(name),
      staleAfterHours,
      schedules: schedules.filter(({ seller }) => seller === name),
      processes,
    };
    return sellerReport(name, expectation, stored.get(name) ?? null, now);
  });
}

function chosen(reports: SellerReport[], name: string | undefined): SellerReport[] {
  const found = reports.filter((report) => name === undefined || report.name === name);
  if (found.length > 0 || name === undefined) return found;
  throw unknownSeller(
    name,
    reports.map((report) => report.name),
  );
}

type Verdict = 'current' | 'stale' | 'never' | 'failing' | 'parked' | 'running';

/** The parts of a stored status that a report shows as they are. */
const NOT_STORED: Pick<
  SellerStatus,
  'account' | 'items' | 'quarantined' | 'itemsMirroredAt' | 'accountMirroredAt' | 'lastWide'
> & { readonly marketplace: string | null } = {
  marketplace: null,
  account: null,
  items: { live: 0, missing: 0, removed: 0 },
  quarantined: 0,
  itemsMirroredAt: null,
  accountMirroredAt: null,
  lastWide: null,
};

/** The state of one seller's copy; names are those of `reporting.sync_runs` where it has them. */
type SellerReport = Readonly<typeof NOT_STORED> & {
  readonly name: string;
  /** False: known from the store only. */
  readonly configured: boolean;
  readonly verdict: Verdict;
  /** Whether the copy is current, also while a run is under way. */
  readonly current: boolean;
  readonly running: Pick<Run, 'runId' | 'kind' | 'startedAt' | 'holder'> | null;
  /** Why schedules leave the seller alone; null when they don't. */
  readonly parked: (Problem & { readonly since: Date }) | null;
  readonly lastProblem:
    | (Problem & {
        readonly kind: Run['kind'];
        readonly state: Run['state'];
        readonly at: Date;
        /** The removals that wait for a person's decision; null when it was not held. */
        readonly held: HeldBack | null;
      })
    | null;
  readonly schedules: readonly ScheduleReport[];
};

/** A problem of a run. */
interface Problem {
  readonly runId: bigint;
  readonly problemCode: string | null;
  readonly problem: string;
  readonly remedy: string;
}

/** A schedule of the settings, and whether a scheduler runs it. */
interface ScheduleReport extends Pick<SellerSchedule, 'kind' | 'cron' | 'timeZone'> {
  /** The next times; none when there is an obstacle. */
  readonly next: readonly Date[];
  /** Why the schedule does not run; null when it does. */
  readonly obstacle: 'no-scheduler' | 'not-scheduled' | 'no-worker' | 'parked' | null;
}

/** What a seller's copy should be, by the settings and the running processes. */
interface Expectation {
  /** False: the seller is known from the store only. */
  readonly configured: boolean;
  /** A copy mirrored longer ago is stale. */
  readonly staleAfterHours: number;
  readonly schedules: readonly SellerSchedule[];
  /** Processes that are alive. */
  readonly processes: readonly LiveProcess[];
}

/** Makes the report about one seller. @param stored null when it was never mirrored */
export function sellerReport(
  name: string,
  { configured, staleAfterHours, schedules, processes }: Expectation,
  stored: SellerStatus | null,
  now: Date,
): SellerReport {
  const settled = settledVerdict(stored, staleAfterHours, now);
  const running = stored?.running ?? null;
  const { marketplace, account, items, quarantined } = stored ?? NOT_STORED;
  const { itemsMirroredAt, accountMirroredAt, lastWide } = stored ?? NOT_STORED;
  return {
    name,
    configured,
    verdict: running === null ? settled : 'running',
    current: settled === 'current',
    marketplace,
    account,
    items,
    quarantined,
    itemsMirroredAt,
    accountMirroredAt,
    lastWide,
    running: running && runningOf(running),
    parked: parkedOf(name, stored?.parked ?? null),
    lastProblem: problemOf(stored?.lastProblem ?? null, stored?.held ?? null),
    schedules: schedules.map((schedule) => {
      const obstacle = obstacleTo(schedule, processes, stored?.parked ?? null);
      const { kind, cron, timeZone, next } = describeSchedule(schedule, now);
      return { kind, cron, timeZone, next: obstacle === null ? next : [], obstacle };
    }),
  };
}

/** Finds the obstacle to a schedule. */
function obstacleTo(
  { seller, kind, cron, timeZone }: SellerSchedule,
  processes: readonly LiveProcess[],
  parked: SellerStatus['parked'],
): ScheduleReport['obstacle'] {
  const schedulers = processes.filter(({ roles }) => roles.includes('scheduler'));
  if (schedulers.length === 0) return 'no-scheduler';
  // A scheduler runs the schedules of the settings it was started with.
  const isFired = schedulers.some(({ schedules }) =>
    schedules.some(
      (one) =>
        one.seller === seller &&
        one.kind === kind &&
        one.cron === cron &&
        one.timeZone === timeZone,
    ),
  );
  if (!isFired) return 'not-scheduled';
  if (!processes.some(({ roles }) => roles.includes('worker'))) return 'no-worker';
  return parked === null ? null : 'parked';
}

/** The verdict without the run under way: a nightly run changes nothing about the copy's state yet. */
function settledVerdict(
  stored: SellerStatus | null,
  staleAfterHours: number,
  now: Date,
): Exclude<Verdict, 'running'> {
  if (stored !== null && stored.parked !== null) return 'parked';
  if (stored?.lastProblem?.state === 'failed') return 'failing';
  const success = stored?.itemsMirroredAt ?? null;
  if (success === null) return 'never';
  const age = now.getTime() - success.getTime();
  return age > staleAfterHours * 3_600_000 ? 'stale' : 'current';
}

function runningOf({ runId, kind, startedAt, holder }: Run): SellerReport['running'] {
  return { runId, kind, startedAt, holder };
}

function parkedOf(name: string, parked: SellerStatus['parked']): SellerReport['parked'] {
  if (parked === null) return null;
  const { since, runId, code, reason } = parked;
  return { since, runId, problemCode: code, problem: reason, remedy: parkedRemedy(code, name) };
}

function problemOf(run: Run | null, held: HeldBack | null): SellerReport['lastProblem'] {
  if (run === null) return null;
  const { runId, kind, state, problemCode } = run;
  return {
    runId,
    kind,
    state,
    at: run.finishedAt ?? run.startedAt,
    problemCode: problemCode ?? (state === 'held' ? 'held' : null),
    problem: runProblem(run, held),
    remedy: runRemedy(run),
    held,
  };
}

/** Formats a report for `--json`, named as in `reporting.freshness` and `reporting.sync_runs`. */
function reportJson({ name, items, parked, lastProblem, ...rest }: SellerReport): object {
  const { since = null, ...parkedBy } = parked ?? {};
  return {
    sellerId: name,
    ...rest,
    liveItems: items.live,
    missingItems: items.missing,
    removedItems: items.removed,
    parkedAt: since,
    parked: parked && { ...parkedBy, remedy: asTyped(parked.remedy) },
    lastProblem: lastProblem && { ...lastProblem, remedy: asTyped(lastProblem.remedy) },
  };
}

const MARKS: Readonly<Record<Verdict, readonly [string, 'green' | 'yellow' | 'red']>> = {
  current: ['✓', 'green'],
  running: ['…', 'green'],
  stale: ['!', 'yellow'],
  never: ['!', 'yellow'],
  failing: ['✗', 'red'],
  parked: ['✗', 'red'],
};

/** The copy is current, and a run waits for a person all the same. */
const HELD = ['!', 'yellow'] as const;

/** One seller's state as lines for a person. */
export function reportLines(report: SellerReport, now: Date, look: Look): string {
  const awaitsDecision = report.verdict === 'current' && report.lastProblem?.state === 'held';
  const [mark, colour] = awaitsDecision ? HELD : MARKS[report.verdict];
  const known = report.configured ? '' : ' (in the store, not configured)';
  const head = `${paint(colour, mark, look)} ${safeLine(report.name)} · ${verdictText(report, now)}${known}\n`;
  const details = pairs(
    detailsOf(report, now).filter(([, value]) => value !== null),
    look,
    '  ',
  );
  return head + details;
}

function verdictText(report: SellerReport, now: Date): string {
  const { running, itemsMirroredAt: success } = report;
  const last = success === null ? 'never mirrored' : `items mirrored ${age(success, now)}`;
  switch (report.verdict) {
    case 'never':
      return 'never mirrored';
    case 'running':
      return running === null
        ? 'running'
        : `running (${running.kind}, begun ${age(running.startedAt, now)} by ${safeLine(running.holder)}), ${last}`;
    default:
      return `${report.verdict}, ${last}`;
  }
}

function detailsOf(report: SellerReport, now: Date): (readonly [string, TableCell])[] {
  const {
    account,
    items,
    lastProblem: problem,
    marketplace,
    accountMirroredAt,
    parked,
    lastWide,
  } = report;
  const money = [account?.balance, account?.currency]
    .filter((text) => typeof text === 'string')
    .join(' ');
  const seen = accountMirroredAt === null ? '' : `, mirrored ${age(accountMirroredAt, now)}`;
  const quarantined = report.quarantined === 0 ? '' : ` · ${count(report.quarantined)} quarantined`;
  const remedy = report.verdict === 'never' && problem === null && report.configured;
  return [
    ['marketplace', marketplace],
    ['account', account === null ? null : `${account.username}, balance ${money || '–'}${seen}`],
    [
      'items',
      marketplace === null
        ? null
        : `${count(items.live)} live · ${count(items.missing)} missing · ${count(items.removed)} removed${quarantined}`,
    ],
    [
      'changed',
      lastWide === null
        ? null
        : `${age(lastWide.at, now)}, run ${lastWide.runId}: ${lastWide.changes.map(describeWide).join(', ')}`,
    ],
    [
      problem?.state === 'held' ? 'held' : 'problem',
      problem === null || problem.runId === parked?.runId
        ? null
        : `${age(problem.at, now)}, run ${problem.runId} (${problem.kind}, ${problem.state}): ${problem.problem}`,
    ],
    [
      'parked',
      parked === null
        ? null
        : `${age(parked.since, now)}, by run ${parked.runId}: ${parked.problem}; schedules leave the seller alone`,
    ],
    ...report.schedules.map((schedule): [string, TableCell] => [
      LABELS[schedule.kind],
      scheduleText(schedule),
    ]),
    ['remedy', parked?.remedy ?? problem?.remedy ?? (remedy ? 'run `seller-mirror sync`' : null)],
  ];
}

const LABELS = { sync: 'schedule', account: 'account only', recheck: 'codes again' } as const;

const OBSTACLES: Readonly<Record<NonNullable<ScheduleReport['obstacle']>, string>> = {
  'no-scheduler': 'no scheduler is running; start `seller-mirror run`',
  'not-scheduled':
    'the running scheduler was started with other settings; restart it to have it read them',
  'no-worker': 'a scheduler is running but no worker; start `seller-mirror worker`',
  parked: 'not while the seller is parked',
};

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
