import { parkedRemedy, runProblem, runRemedy } from '../../jobs/remedies.js';
import type { HeldBack } from '../../store/decisions.js';
import type { ScheduleView } from '../../queue/ticks.js';
import type { Run, SellerStatus } from '../../store/status.js';

export type Verdict = 'current' | 'stale' | 'never' | 'failing' | 'parked' | 'running';

/** One seller as `status --json` tells it. */
export interface SellerReport {
  readonly name: string;
  /** False: known from the store only. */
  readonly configured: boolean;
  readonly verdict: Verdict;
  /** Whether the copy can be relied on, be a run under way or not. */
  readonly current: boolean;
  readonly marketplace: string | null;
  readonly account: SellerStatus['account'];
  readonly items: SellerStatus['items'];
  /** Records of the newest list that could not be read. */
  readonly quarantined: number;
  readonly lastCatalogueSuccess: Date | null;
  readonly lastAccountSuccess: Date | null;
  readonly running: {
    readonly runId: bigint;
    readonly kind: Run['kind'];
    readonly startedAt: Date;
    readonly holder: string;
  } | null;
  /** Why schedules leave the seller alone; null when they don't. */
  readonly parked: {
    readonly since: Date;
    readonly code: string;
    readonly reason: string;
    readonly runId: bigint;
    readonly remedy: string;
  } | null;
  readonly lastProblem: {
    readonly runId: bigint;
    readonly kind: Run['kind'];
    readonly state: Run['state'];
    readonly at: Date;
    readonly code: string | null;
    readonly message: string;
    readonly remedy: string;
    /** What it held back until a person decides; null when it was not held. */
    readonly held: HeldBack | null;
  } | null;
  /** What changed in all or nearly all items at once within the last days. */
  readonly lastWide: SellerStatus['lastWide'];
  /** When `run` or `scheduler` mirrors it next. */
  readonly schedules: readonly Pick<ScheduleView, 'kind' | 'cron' | 'timeZone' | 'next'>[];
}

/** What the settings say of a seller's copy. */
export interface Expectation {
  /** False: the seller is known from the store only. */
  readonly configured: boolean;
  /** A copy that was mirrored longer ago has missed its night. */
  readonly staleAfterHours: number;
  readonly schedules: SellerReport['schedules'];
}

/** What there is to say about one seller; `stored` is null when it was never run. */
export function sellerReport(
  name: string,
  { configured, staleAfterHours, schedules }: Expectation,
  stored: SellerStatus | null,
  now: Date,
): SellerReport {
  const settled = settledVerdict(stored, staleAfterHours, now);
  const running = stored?.running ?? null;
  return {
    name,
    configured,
    verdict: running === null ? settled : 'running',
    current: settled === 'current',
    marketplace: stored?.marketplace ?? null,
    account: stored?.account ?? null,
    items: stored?.items ?? { live: 0, missing: 0, removed: 0 },
    quarantined: stored?.quarantined ?? 0,
    lastCatalogueSuccess: stored?.lastCatalogueSuccess ?? null,
    lastAccountSuccess: stored?.lastAccountSuccess ?? null,
    running:
      running === null
        ? null
        : {
            runId: running.runId,
            kind: running.kind,
            startedAt: running.startedAt,
            holder: running.holder,
          },
    parked: parkedOf(name, stored?.parked ?? null),
    lastProblem: problemOf(stored?.lastProblem ?? null, stored?.held ?? null),
    lastWide: stored?.lastWide ?? null,
    schedules,
  };
}

/** As if nothing ran now: a nightly run must not make a good copy look bad, nor a bad one good. */
function settledVerdict(
  stored: SellerStatus | null,
  staleAfterHours: number,
  now: Date,
): Exclude<Verdict, 'running'> {
  if (stored !== null && stored.parked !== null) return 'parked';
  if (stored?.lastProblem?.state === 'failed') return 'failing';
  const success = stored?.lastCatalogueSuccess ?? null;
  if (success === null) return 'never';
  const age = now.getTime() - success.getTime();
  return age > staleAfterHours * 3_600_000 ? 'stale' : 'current';
}

function parkedOf(name: string, parked: SellerStatus['parked']): SellerReport['parked'] {
  return parked && { ...parked, remedy: parkedRemedy(parked.code, name) };
}

function problemOf(run: Run | null, held: HeldBack | null): SellerReport['lastProblem'] {
  if (run === null) return null;
  const { runId, kind, state, problemCode } = run;
  return {
    runId,
    kind,
    state,
    at: run.finishedAt ?? run.startedAt,
    code: problemCode ?? (state === 'held' ? 'held' : null),
    message: runProblem(run, held),
    remedy: runRemedy(run),
    held,
  };
}
