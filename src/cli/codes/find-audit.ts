import type { App } from '../../app.js';
import type { AuditProgress } from '../../store/audits/types.js';
import { CommandError } from '../errors.js';

/** The audit with this number. @throws {CommandError} when there is none, or it is another seller's */
export async function findAudit(
  { store }: App,
  auditId: bigint,
  seller: string | undefined,
): Promise<AuditProgress> {
  const audit = await store.audits.get(auditId);
  if (audit !== null && (seller === undefined || audit.sellerId === seller)) return audit;
  throw new CommandError(
    `there is no audit ${auditId}${seller === undefined ? '' : ' of this seller'}`,
    '`seller-mirror codes list` lists them',
  );
}
