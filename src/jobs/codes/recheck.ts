import type { RecheckFilter } from '../../store/audits/codes.js';
import type { Store } from '../../store/store.js';
import type { JobOutcome } from '../types.js';
import { chunkSizeFor } from './pace.js';
import { enqueueNext } from './perform-chunk.js';
import type { AuditDeps } from './work-on-chunk.js';

export interface RecheckPlan extends RecheckFilter {
  /** Of the seller; 0: unlimited. */
  readonly requestsPerMinute: number;
}

/** What audits that re-ask known codes are called. */
const RECHECK_SOURCE = 'recheck';
/** Most codes of a re-audit, whatever the budget allows: they are held in memory. */
const MOST_CODES = 200_000;
/** Audits among which one that still runs is looked for. */
const LATEST_AUDITS = 100;

/**
 * Makes an audit of the known codes that it is most useful to ask for again.
 * @param now milliseconds since 1970
 * @returns its number; null when no code is due
 */
export async function beginRecheck(
  { audits }: Pick<Store, 'audits'>,
  sellerId: string,
  plan: RecheckPlan,
  now: number,
): Promise<bigint | null> {
  const limit = Math.min(plan.limit, MOST_CODES);
  const codes = await audits.codesToRecheck(sellerId, { ...plan, limit }, now);
  if (codes.length === 0) return null;
  const loader = await audits.begin({
    sellerId,
    source: RECHECK_SOURCE,
    layout: {},
    columns: ['code'],
    maxAgeSeconds: null,
    canary: null,
    chunkSize: chunkSizeFor(plan.requestsPerMinute),
  });
  try {
    await loader.add(codes.map((code, i) => ({ line: i + 1, code, columns: [code] })));
    return (await loader.finish()).auditId;
  } catch (error) {
    await loader.abort();
    throw error;
  }
}

/**
 * Does a re-audit's job: begins one, or leaves it to the one before as long as that runs. Schedules
 * ask for it, so nothing is done for a seller that they leave alone. Repeating it is harmless.
 */
export async function performRecheck(
  deps: Pick<AuditDeps, 'store' | 'sellerId' | 'marketplace' | 'enqueueChunk'>,
  plan: RecheckPlan,
): Promise<JobOutcome> {
  const { store, sellerId, marketplace } = deps;
  const parked = await store.sellers.parkingOf(sellerId);
  if (parked !== null) return { kind: 'done', result: { parked: { code: parked.code } } };
  await store.sellers.ensure(sellerId, marketplace.host);
  const latest = await store.audits.list({ sellerIds: [sellerId], limit: LATEST_AUDITS });
  const running = latest.find(
    ({ source, state }) => source === RECHECK_SOURCE && state === 'running',
  );
  const auditId = running?.auditId ?? (await beginRecheck(store, sellerId, plan, Date.now()));
  if (auditId !== null) await enqueueNext(store, auditId, deps.enqueueChunk);
  return { kind: 'done', result: { audit: auditId && String(auditId) } };
}
