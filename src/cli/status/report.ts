import type { Run, SellerStatus } from '../../store/status.js';
import { remedyFor } from '../remedies.js';

/** A copy that was mirrored longer ago has missed its night. */
export const STALE_AFTER_HOURS = 26;

export type Verdict = 'current' | 'stale' | 'never' | 'failing' | 'running';

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
  readonly lastProblem: {
    readonly runId: bigint;
    readonly kind: Run['kind'];
    readonly state: Run['state'];
    readonly at: Date;
    readonly code: string | null;
    readonly message: string;
    readonly remedy: string;
  } | null;
}

/** What there is to say about one seller; `stored` is null when it was never run. */
export function sellerReport(
  name: string,
  configured: boolean,
  stored: SellerStatus | null,
  now: Date,
): SellerReport {
  const settled = settledVerdict(stored, now);
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
    lastProblem: problemOf(stored?.lastProblem ?? null),
  };
}

/** As if nothing ran now: a nightly run must not make a good copy look bad, nor a bad one good. */
function settledVerdict(stored: SellerStatus | null, now: Date): Exclude<Verdict, 'running'> {
  if (stored?.lastProblem?.state === 'failed') return 'failing';
  const success = stored?.lastCatalogueSuccess ?? null;
  if (success === null) return 'never';
  const age = now.getTime() - success.getTime();
  return age > STALE_AFTER_HOURS * 3_600_000 ? 'stale' : 'current';
}

function problemOf(run: Run | null): SellerReport['lastProblem'] {
  if (run === null) return null;
  const { runId, kind, state, problemCode, problem } = run;
  const held = state === 'held';
  return {
    runId,
    kind,
    state,
    at: run.finishedAt ?? run.startedAt,
    code: problemCode ?? (held ? 'held' : null),
    message: problem ?? (held ? 'more items would go than the removal guard allows' : state),
    remedy: held
      ? `see \`seller-mirror runs ${runId}\`; if the items are really gone, raise REMOVAL_GUARD_ITEMS or REMOVAL_GUARD_PERCENT for one run`
      : remedyFor(problemCode, run.sellerId),
  };
}
