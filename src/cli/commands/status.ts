import type { Command } from 'commander';
import type { App } from '../../app.js';
import { schedulesOf } from '../../app/schedules.js';
import { print, printJson, stdoutLook } from '../console.js';
import { execute, withApp } from '../execute.js';
import { EXIT, type ExitCode } from '../exit-codes.js';
import { unknownSeller, withCommonOptions, type CommonOptions } from '../options.js';
import { describeSchedule } from '../../queue/ticks.js';
import { sellerReport, type SellerReport } from '../status/report.js';
import { reportLines } from '../status/lines.js';

interface StatusOptions extends CommonOptions {
  readonly check?: true;
}

/** `status`: is my copy current? */
export function addStatus(program: Command): void {
  const command = program
    .command('status')
    .summary('tell whether the copy is current')
    .description(
      'Tells for each seller whether its copy is current: a copy is stale when its items were last mirrored more than STALE_AFTER_HOURS (26) hours ago; and when `run` or `scheduler` mirrors it next.',
    )
    .option('--check', 'end with exit code 1 when the copy of a configured seller is not current')
    .addHelpText(
      'after',
      '\nExamples:\n  $ seller-mirror status\n  $ seller-mirror status --check || mail -s "mirror is not current" me@shop.example',
    );
  withCommonOptions(command, { seller: true }).action((options: StatusOptions) =>
    execute((signal) => status(options, signal)),
  );
}

function status(options: StatusOptions, signal: AbortSignal): Promise<ExitCode> {
  // Without a seller there is nothing to check, which must not pass for a good copy.
  const needs = options.check === true ? 'sellers' : 'store';
  return withApp('status', needs, signal, async (app) => {
    const now = new Date();
    const reports = chosen(await reportsOf(app, now), options.seller);
    if (options.json === true) await printJson({ sellers: reports });
    else if (reports.length === 0) await print(NO_SELLER);
    else await print(reports.map((report) => reportLines(report, now, stdoutLook())).join('\n'));
    const lacking = reports.some(({ configured, current }) => configured && !current);
    return options.check === true && lacking ? EXIT.failed : EXIT.done;
  });
}

const NO_SELLER =
  'No seller is configured and none was ever mirrored: set MARKETPLACE_URL and MARKETPLACE_API_KEY, then run `seller-mirror sync`.\n';

/** Configured sellers in their order, then those that only the store knows. */
async function reportsOf(app: App, now: Date): Promise<SellerReport[]> {
  const stored = new Map((await app.store.statuses()).map((one) => [one.sellerId, one]));
  const { sellers, staleAfterHours } = app.config;
  const schedules = schedulesOf(sellers).map((schedule) => describeSchedule(schedule, now));
  const configured = sellers.map(({ name }) => name);
  const others = [...stored.keys()].filter((name) => !configured.includes(name));
  return [...configured, ...others].map((name) => {
    const expectation = {
      configured: configured.includes(name),
      staleAfterHours,
      schedules: schedules
        .filter(({ seller }) => seller === name)
        .map(({ kind, cron, timeZone, next }) => ({ kind, cron, timeZone, next })),
    };
    return sellerReport(name, expectation, stored.get(name) ?? null, now);
  });
}

function chosen(reports: SellerReport[], name: string | undefined): SellerReport[] {
  const found = reports.filter((report) => name === undefined || report.name === name);
  if (found.length > 0 || name === undefined) return found;
  throw unknownSeller(
    name,
    reports.map((report) => report.name),
  );
}
