import type { Command } from 'commander';
import type { App } from '../../app.js';
import { CommandError } from '../errors.js';
import { execute, withApp } from '../execute.js';
import { EXIT, type ExitCode } from '../exit-codes.js';
import { withCommonOptions, type CommonOptions } from '../options.js';
import { ownCommand } from '../own-command.js';
import { findAudit } from './find-audit.js';
import { auditNumber, RESULT_HELP, withOutOptions, type OutOptions } from './options.js';
import { checkOut, placeOf, type OutPlace } from './out-place.js';
import { pursue } from './pursue.js';

interface ResumeOptions extends CommonOptions, OutOptions {
  readonly detach?: true;
}

/** `codes resume ID`: goes on where an audit was left. */
export function addResume(codes: Command): void {
  const command = codes
    .command('resume')
    .summary('go on with an audit')
    .description(
      'Goes on with an audit that was interrupted, failed or was cancelled; watches it when other processes work on it. What was answered is not asked again.',
    )
    .argument('<audit>', 'the audit’s number', auditNumber)
    .option('--detach', 'leave the work to `run` or `worker`');
  withOutOptions(command).addHelpText(
    'after',
    `${RESULT_HELP}\n\nExample:\n  $ seller-mirror codes resume 12 --out result.csv\n\nExit codes: 0 all have a verdict, 1 failed, 2 usage, 4 some are unproven, 130 interrupted`,
  );
  withCommonOptions(command, { seller: true }).action((auditId: bigint, options: ResumeOptions) =>
    execute(async (signal) => {
      const place = placeOf(options);
      await checkOut(place);
      return withApp('codes resume', 'sellers', signal, (app) =>
        resume(app, auditId, place, options, signal),
      );
    }),
  );
}

async function resume(
  app: App,
  auditId: bigint,
  place: OutPlace | null,
  { seller, json, detach }: ResumeOptions,
  signal: AbortSignal,
): Promise<ExitCode> {
  const { sellerId, state } = await findAudit(app, auditId, seller);
  if (!app.config.sellers.some(({ name }) => name === sellerId)) {
    throw new CommandError(
      `audit ${auditId} is of seller "${sellerId}", who is not configured`,
      `configure the seller; \`${ownCommand(app.config.dataDir)} codes export ${auditId}\` works without`,
      EXIT.usage,
    );
  }
  if (state !== 'running') await app.store.audits.resume(auditId);
  const how = { json: json === true, detach: detach === true, afresh: true, place };
  return pursue(app, auditId, how, signal);
}
