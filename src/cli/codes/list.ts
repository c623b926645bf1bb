import type { Command } from 'commander';
import type { App } from '../../app.js';
import { print, printJson, stdoutLook } from '../console.js';
import { execute, withApp } from '../execute.js';
import { EXIT, type ExitCode } from '../exit-codes.js';
import { positiveInteger, withCommonOptions, type CommonOptions } from '../options.js';
import { auditsTable } from './audit-view.js';
import { checkSeller } from './find-audit.js';

interface ListOptions extends CommonOptions {
  readonly limit: number;
}

const DEFAULT_LIMIT = 20;

/** `codes list`: the newest audits. */
export function addList(codes: Command): void {
  const command = codes
    .command('list')
    .summary('list the newest audits')
    .description('Lists the newest audits with what they found.')
    .option('--limit <n>', 'how many to list', positiveInteger, DEFAULT_LIMIT)
    .addHelpText('after', '\nExample:\n  $ seller-mirror codes list --limit 5');
  withCommonOptions(command, { seller: true }).action((options: ListOptions) =>
    execute((signal) => withApp('codes list', 'store', signal, (app) => list(app, options))),
  );
}

async function list(app: App, { limit, seller, json }: ListOptions): Promise<ExitCode> {
  await checkSeller(app, seller);
  const audits = await app.store.audits.list({
    limit,
    ...(seller === undefined ? {} : { sellerIds: [seller] }),
  });
  if (json === true) await printJson({ audits });
  else if (audits.length > 0) await print(auditsTable(audits, stdoutLook()));
  else await print(`There is no audit yet${seller === undefined ? '' : ' of this seller'}.\n`);
  return EXIT.done;
}
