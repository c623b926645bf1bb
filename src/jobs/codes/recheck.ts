import type { RecheckFilter } from '../../store/audits/codes.js';
import type { Store } from '../../store/store.js';
import type { JobOutcome } from '../types.js';
import { chunkSizeFor } from './pace.js';
import { enqueueNext } from './perform-chunk.js';
import type { AuditDeps } from './validate-chunk.js';

export interface RecheckPlan extends RecheckFilter {
  /** Of the seller; 0: unlimited. */
  readonly requestsPerMinute: number;
}

/** `source` of audits that check known codes again. */
const RECHECK_SOURCE = 'recheck';
/** Most codes of a re-check: they are held in memory. */
const MAX_CODES = 200_000;
/** Search this many of the latest audits for a re-check that is still running. */
const LATEST_AUDITS = 100;

/**
 * Creates an audit of the known codes that are most worth checking again.
 * @param now milliseconds since 1970
 * @returns its id; null when no code is due
 */
export async function beginRecheck(
  { audits }: Pick<Store, 'audits'>,
  sellerId: string,
  plan: RecheckPlan,
  now: number,
): Promise<bigint | null> {
  const limit = Math.min(plan.limit, MAX_CODES);
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
 * Performs a scheduled re-check: creates an audit unless the last re-check still runs. Does nothing for
 * a parked seller. Repeating it is harmless.
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
