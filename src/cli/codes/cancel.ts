import type { Command } from 'commander';
import type { App } from '../../app.js';
import { print, printJson, stdoutLook } from '../console.js';
import { CommandError } from '../errors.js';
import { execute, withApp } from '../execute.js';
import { EXIT, type ExitCode } from '../exit-codes.js';
import { withCommonOptions, type CommonOptions } from '../options.js';
import { ownCommand } from '../own-command.js';
import { findAudit } from './find-audit.js';
import { auditNumber } from './options.js';
import { summaryOf } from './summary.js';

/** `codes cancel ID`: no more codes are asked for. */
export function addCancel(codes: Command): void {
  const command = codes
    .command('cancel')
    .summary('stop an audit for good, or until it is resumed')
    .description(
      'Stops an audit wherever it is worked on; calls under way are finished. What was found is kept, and `codes resume` goes on with the rest.',
    )
    .argument('<audit>', 'the audit’s number', auditNumber)
    .addHelpText('after', '\nExample:\n  $ seller-mirror codes cancel 12');
  withCommonOptions(command, { seller: true }).action((auditId: bigint, options: CommonOptions) =>
    execute((signal) =>
      withApp('codes cancel', 'store', signal, (app) => cancel(app, auditId, options)),
    ),
  );
}

async function cancel(
  app: App,
  auditId: bigint,
  { seller, json }: CommonOptions,
): Promise<ExitCode> {
  await findAudit(app, auditId, seller);
  await app.store.audits.cancel(auditId);
  const audit = await findAudit(app, auditId, seller);
  if (audit.state === 'finished') {
    throw new CommandError(
      `audit ${auditId} is finished: there is nothing to cancel`,
      `\`${ownCommand(app.config.dataDir)} codes export ${auditId}\` writes its result`,
    );
  }
  if (json === true) await printJson({ audit });
  else await print(await summaryOf(app, audit, null, stdoutLook()));
  return EXIT.done;
}
