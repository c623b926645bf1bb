import type { App } from '../../app.js';
import type { AuditProgress } from '../../store/audits/types.js';
import { CommandError } from '../errors.js';
import { unknownSeller } from '../options.js';
import { ownCommand } from '../own-command.js';

/** @throws {CommandError} when neither the settings nor the store know the seller that was named */
export async function checkSeller({ store, config }: App, name: string | undefined): Promise<void> {
  const configured = config.sellers.map((seller) => seller.name);
  if (name === undefined || configured.includes(name)) return;
  const stored = (await store.sellers.statuses()).map(({ sellerId }) => sellerId);
  if (stored.includes(name)) return;
  throw unknownSeller(name, [...new Set([...configured, ...stored])]);
}

/**
 * The audit with this number.
 * @throws {CommandError} when there is none, it is another seller's, or the seller is not known
 */
export async function findAudit(
  app: App,
  auditId: bigint,
  seller: string | undefined,
): Promise<AuditProgress> {
  const { store } = app;
  await checkSeller(app, seller);
  const audit = await store.audits.get(auditId);
  if (audit !== null && (seller === undefined || audit.sellerId === seller)) return audit;
  throw new CommandError(
    `there is no audit ${auditId}${seller === undefined ? '' : ' of this seller'}`,
    `\`${ownCommand()} audits list\` lists them`,
  );
}
