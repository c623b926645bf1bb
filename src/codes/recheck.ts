import { type RecheckFilter, findCodesToRecheck } from './codes-store.js';
import type { JobOutcome } from '../catalogue/types.js';
import type { Db } from '../db/db.js';
import { enterAudit } from './enter-store.js';
import { readParking, ensureSeller } from '../catalogue/sellers-store.js';
import { listAudits } from './audits-store.js';
import type { AuditDeps } from './audit-job.js';

export type RecheckPlan = RecheckFilter;

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
  db: Db,
  sellerId: string,
  plan: RecheckPlan,
  now: number,
): Promise<bigint | null> {
  const limit = Math.min(plan.limit, MAX_CODES);
  const codes = await findCodesToRecheck(db, sellerId, { ...plan, limit }, now);
  if (codes.length === 0) return null;
  const audit = {
    sellerId,
    source: RECHECK_SOURCE,
    layout: {},
    columns: ['code'],
    maxAgeSeconds: null,
    canary: null,
  };
  const rows = codes.map((code, i) => ({ line: i + 1, code, columns: [code] }));
  return (await enterAudit(db, audit, rows)).auditId;
}

/**
 * Performs a scheduled re-check: creates an audit unless the last re-check still runs. Does nothing for
 * a parked seller. Repeating it is harmless.
 */
export async function performRecheck(
  deps: Pick<AuditDeps, 'db' | 'sellerId' | 'marketplace'>,
  plan: RecheckPlan,
  enqueueAudit: (auditId: bigint) => Promise<void>,
): Promise<JobOutcome> {
  const { db, sellerId, marketplace } = deps;
  const parked = await readParking(db, sellerId);
  if (parked !== null) return { kind: 'done', result: { parked: { code: parked.code } } };
  await ensureSeller(db, sellerId, marketplace.host);
  const latest = await listAudits(db, { sellerIds: [sellerId], limit: LATEST_AUDITS });
  const running = latest.find(
    ({ source, state }) => source === RECHECK_SOURCE && state === 'running',
  );
  const auditId = running?.auditId ?? (await beginRecheck(db, sellerId, plan, Date.now()));
  if (auditId !== null) await enqueueAudit(auditId);
  return { kind: 'done', result: { audit: auditId && String(auditId) } };
}
