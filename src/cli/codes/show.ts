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
import { auditNumber, purchaseCode } from './options.js';
import { showCode } from './show-code.js';
import { readingOf } from './write-result.js';

/** `codes show ID|CODE`: one audit whole, or all that is known of a code. */
export function addShow(codes: Command): void {
  const command = codes
    .command('show')
    .summary('show one audit, or what is known of a code')
    .description(
      'Shows one audit: how its list was read, what was found, why codes have no verdict, what is left and how to go on. Of a code it shows what is known and every check of it, and asks nothing.',
    )
    .argument('<audit>', 'the audit’s number, or a code', auditOrCode)
    .addHelpText(
      'after',
      '\nExamples:\n  $ seller-mirror codes show 12\n  $ seller-mirror codes show 86781236-23d0-4b3c-7dfa-c1c147e0dece',
    );
  withCommonOptions(command, { seller: true }).action(
    (what: bigint | string, options: CommonOptions) =>
      execute((signal) =>
        withApp('codes show', 'store', signal, (app) =>
          typeof what === 'bigint' ? show(app, what, options) : showCode(app, what, options),
        ),
      ),
  );
}

/** Codes are longer than numbers of audits, and hardly ever nothing but digits. */
function auditOrCode(text: string): bigint | string {
  return /^\d{1,19}$/.test(text) ? auditNumber(text) : purchaseCode(text);
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
  const cost = costOf(seller, pending, chunkSize, Date.now());
  return costText(cost, seller.requestsPerMinute, pending);
}

function nextCommands({ config }: App, { auditId, pending }: AuditProgress): readonly string[] {
  const program = ownCommand(config.dataDir);
  return [
    ...(pending > 0 ? [`${program} codes resume ${auditId}`] : []),
    `${program} codes export ${auditId} --out result.csv`,
  ];
}
