import type { Command } from 'commander';
import { ConfigError, type Config } from '../../config/index.js';
import { MarketplaceOptionsError } from '../../marketplace/address.js';
import { Store } from '../../store/store.js';
import { print, printJson, stdoutLook } from '../console.js';
import { Checks, type Check } from '../doctor/check.js';
import { checkSeller } from '../doctor/marketplace.js';
import { checkQueue } from '../doctor/queue.js';
import { checkStore } from '../doctor/store.js';
import { execute, readSettings, unlessAborted } from '../execute.js';
import { EXIT, type ExitCode } from '../exit-codes.js';
import { paint, plural, safeLine } from '../output/index.js';
import { chosenSellers, withCommonOptions, type CommonOptions } from '../options.js';

/** `doctor`: looks at everything a run needs. */
export function addDoctor(program: Command): void {
  const command = program
    .command('doctor')
    .summary('check configuration, store, key and marketplace')
    .description(
      'Checks one after the other what a run needs, and says what to do about what is not in order. It changes nothing, and asks each seller’s marketplace three questions at most: account, beginning of the list, one item.',
    )
    .addHelpText(
      'after',
      '\nExample:\n  $ seller-mirror doctor --seller main\n\nExit codes: 0 nothing failed, 1 a check failed, 2 the configuration can’t be used',
    );
  withCommonOptions(command, { seller: true }).action((options: CommonOptions) =>
    execute((signal) => doctor(options, signal)),
  );
}

/** Takes each check as it comes. */
type Tell = (check: Check) => Promise<void>;

async function doctor(options: CommonOptions, signal: AbortSignal): Promise<ExitCode> {
  const told: Check[] = [];
  const tell: Tell = async (check) => {
    told.push(check);
    if (options.json !== true) await print(linesOf(check));
  };
  const config = await checkConfiguration(tell);
  const requests = config === null ? 0 : await checkRest(config, options, tell, signal);
  if (options.json === true) await printJson({ checks: told, requests });
  else await print(`\n${summary(told)}; ${plural(requests, 'request')} to marketplaces\n`);
  if (config === null) return EXIT.usage;
  return told.some(({ result }) => result === 'failed') ? EXIT.failed : EXIT.done;
}

const MACHINE = new Checks(null);

/** Null when it can't be used. */
async function checkConfiguration(tell: Tell): Promise<Config | null> {
  try {
    const config = readSettings('store');
    for (const warning of config.warnings) await tell(sentence('warning', warning));
    const { sellers } = config;
    if (sellers.length > 0) {
      await tell(MACHINE.ok(`configuration: ${plural(sellers.length, 'seller')}`));
    } else {
      const remedy = 'set MARKETPLACE_URL and MARKETPLACE_API_KEY, or SELLERS_FILE';
      await tell(MACHINE.warning('configuration: no seller', remedy));
    }
    return config;
  } catch (error) {
    if (!(error instanceof ConfigError)) throw error;
    for (const problem of error.problems) await tell(sentence('failed', problem));
    return null;
  }
}

/** A sentence of the configuration's: its remedy stands behind the last colon. */
function sentence(result: 'warning' | 'failed', text: string): Check {
  const colon = text.lastIndexOf(': ');
  const [what, remedy] = colon < 0 ? [text, ''] : [text.slice(0, colon), text.slice(colon + 2)];
  return { seller: null, result, text: `configuration: ${what}`, remedy: remedy || null };
}

/** Everything but the configuration. Returns the number of requests made. */
async function checkRest(
  config: Config,
  options: CommonOptions,
  tell: Tell,
  signal: AbortSignal,
): Promise<number> {
  const sellers = chosenSellers(config, options.seller);
  const found = await unlessAborted(checkStore(config, signal), signal);
  const store = found.url === null ? null : new Store(found.url, 'seller-mirror doctor');
  try {
    for (const check of found.checks) await tell(check);
    for (const check of await unlessAborted(checkQueue(config), signal)) await tell(check);
    let requests = 0;
    for (const seller of sellers) {
      signal.throwIfAborted();
      try {
        const { checks, requests: made } = await checkSeller(config, seller, store, signal);
        requests += made;
        for (const check of checks) await tell(check);
      } catch (error) {
        if (!(error instanceof MarketplaceOptionsError)) throw error;
        await tell(new Checks(seller.name).failed(`host: ${error.message}`, 'correct the setting'));
      }
    }
    return requests;
  } finally {
    await store?.close();
    await found.close();
  }
}

const MARKS = { ok: ['✓', 'green'], warning: ['!', 'yellow'], failed: ['✗', 'red'] } as const;

function linesOf({ seller, result, text, remedy }: Check): string {
  const look = stdoutLook();
  const [mark, colour] = MARKS[result];
  const who = seller === null ? '' : `${safeLine(seller)} · `;
  const head = `${paint(colour, mark, look)} ${who}${safeLine(text)}\n`;
  return remedy === null ? head : `${head}  → ${safeLine(remedy)}\n`;
}

function summary(checks: readonly Check[]): string {
  const number = (result: Check['result']): number =>
    checks.filter((check) => check.result === result).length;
  return `${plural(checks.length, 'check')}: ${number('ok')} in order, ${plural(number('warning'), 'warning')}, ${number('failed')} failed`;
}
