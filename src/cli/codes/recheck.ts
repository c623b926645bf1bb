import type { Command } from 'commander';
import type { App } from '../../app.js';
import { beginRecheck, type RecheckPlan } from '../../jobs/codes/recheck.js';
import { print, printJson } from '../console.js';
import { execute, withApp } from '../execute.js';
import { EXIT, type ExitCode } from '../exit-codes.js';
import { positiveInteger, withCommonOptions, type CommonOptions } from '../options.js';
import {
  lengthOfTime,
  oneSeller,
  RESULT_HELP,
  withOutOptions,
  type OutOptions,
} from './options.js';
import { checkOut, placeOf, type OutPlace } from './out-place.js';
import { proveKey } from './prove-key.js';
import { pursue } from './pursue.js';

interface RecheckOptions extends CommonOptions, OutOptions {
  /** Milliseconds. */
  readonly olderThan: number;
  readonly validOnly?: true;
  readonly limit?: number;
  readonly detach?: true;
}

/** `codes recheck`: asks again for known codes. */
export function addRecheck(codes: Command): void {
  const command = codes
    .command('recheck')
    .summary('ask again for codes that are known')
    .description(
      'Asks again for known codes, the most useful first: valid ones whose support ends soon or has ended since, then those not asked for the longest. What became of them is an audit like any other.',
    )
    .requiredOption(
      '--older-than <time>',
      'only codes not asked for this long: 12h, 30d (required)',
      lengthOfTime,
    )
    .option('--valid-only', 'leave out codes that were invalid')
    .option('--limit <n>', 'no more codes than this', positiveInteger)
    .option('--detach', 'leave the work to `run` or `worker`');
  withOutOptions(command).addHelpText(
    'after',
    `${RESULT_HELP}\n\nExample:\n  $ seller-mirror codes recheck --older-than 30d --valid-only --limit 1000 --out again.csv\n\nExit codes: 0 all have a verdict, 1 failed, 2 usage, 4 some are unproven, 130 interrupted`,
  );
  withCommonOptions(command, { seller: 'one' }).action((options: RecheckOptions) =>
    execute(async (signal) => {
      const place = placeOf(options);
      await checkOut(place);
      return withApp('codes recheck', 'sellers', signal, (app) =>
        recheck(app, place, options, signal),
      );
    }),
  );
}

async function recheck(
  app: App,
  place: OutPlace | null,
  options: RecheckOptions,
  signal: AbortSignal,
): Promise<ExitCode> {
  const { json, detach } = options;
  const seller = oneSeller(app.config, options.seller);
  await proveKey(app, seller, undefined, signal);
  const auditId = await beginRecheck(app.store, seller.name, planOf(options), Date.now());
  if (auditId === null) {
    if (json === true) await printJson({ audit: null });
    else await print('No code is due: all known ones were asked for more recently.\n');
    return EXIT.done;
  }
  const how = { json: json === true, detach: detach === true, place };
  return pursue(app, auditId, how, signal);
}

/** As many codes as a person wants, whatever that takes of the budget. */
function planOf({ olderThan, validOnly, limit = 0 }: RecheckOptions): RecheckPlan {
  const once = { requestsPerMinute: limit, share: 1, windowMs: 60_000 };
  return { olderThan, validOnly: validOnly === true, ...once };
}
