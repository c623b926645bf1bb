import type { Command } from 'commander';
import type { App } from '../../app.js';
import type { AuditProgress } from '../../store/audits/types.js';
import { print, printJson, stdoutLook } from '../console.js';
import { execute, withApp } from '../execute.js';
import { EXIT, type ExitCode } from '../exit-codes.js';
import { withCommonOptions, type CommonOptions } from '../options.js';
import { ownCommand } from '../own-command.js';
import { auditDetails } from './audit-view.js';
import { costOf, costText } from './cost-text.js';
import { findAudit } from './find-audit.js';
import { auditNumber } from './options.js';
import { readingOf } from './write-result.js';

/** `codes show ID`: one audit whole. */
export function addShow(codes: Command): void {
  const command = codes
    .command('show')
    .summary('show one audit')
    .description(
      'Shows one audit: how its list was read, what was found, why codes have no verdict, what is left and how to go on.',
    )
    .argument('<audit>', 'the audit’s number', auditNumber)
    .addHelpText('after', '\nExample:\n  $ seller-mirror codes show 12');
  withCommonOptions(command, { seller: true }).action((auditId: bigint, options: CommonOptions) =>
    execute((signal) =>
      withApp('codes show', 'store', signal, (app) => show(app, auditId, options)),
    ),
  );
}

async function show(app: App, auditId: bigint, { seller, json }: CommonOptions): Promise<ExitCode> {
  const audit = await findAudit(app, auditId, seller);
  const { audits } = app.store;
  const unproven = await audits.unprovenCounts(auditId);
  const list = await audits.listOf(auditId);
  if (json === true) {
    await printJson({ audit, unproven, list });
    return EXIT.done;
  }
  const notes = {
    unproven,
    reading: readingOf(list?.layout ?? null),
    costLeft: costLeft(app, audit),
    next: nextCommands(app, audit),
  };
  await print(auditDetails(audit, notes, stdoutLook(), new Date()));
  return EXIT.done;
}

/** What the rest costs; null when there is none, or the seller is not configured here. */
function costLeft({ config }: App, { sellerId, pending, chunkSize }: AuditProgress): string | null {
  const seller = config.sellers.find(({ name }) => name === sellerId);
  if (pending === 0 || seller === undefined) return null;
  const cost = costOf(config, seller, pending, chunkSize, Date.now());
  return costText(cost, seller.requestsPerMinute);
}

function nextCommands({ config }: App, { auditId, pending }: AuditProgress): readonly string[] {
  const program = ownCommand(config.dataDir);
  return [
    ...(pending > 0 ? [`${program} codes resume ${auditId}`] : []),
    `${program} codes export ${auditId} --out result.csv`,
  ];
}
