import { readMarketplaceUrl } from './address.js';
import { warnOfOpenEnvFile, warnOfTypos } from './environment.js';
import { readKey } from './key.js';
import type { Reader } from './reader.js';
import { readSchedule } from './schedule.js';
import {
  MOST_REQUESTS_PER_MINUTE,
  readSellersFile,
  type SellerDefaults,
  type SellerEntry,
} from './sellers-file.js';
import type { SettingName } from './settings.js';
import { shareBudgets } from './share-budgets.js';
import { PLACEMENTS, type SellerConfig } from './types.js';
import { absolutePath, checkHeaderName, checkSellerName, readChoice } from './values.js';

/** What only the configuration of a single seller reads. */
const SINGLE_SELLER = [
  'MARKETPLACE_URL',
  'MARKETPLACE_API_KEY',
  'MARKETPLACE_API_KEY_FILE',
] as const satisfies readonly SettingName[];

/** Sellers, and what the sellers file says of each; null: there is no such file. */
export interface SellersRead {
  readonly sellers: readonly SellerConfig[];
  readonly entries: readonly SellerEntry[] | null;
}

/** The sellers to mirror: one from the settings themselves, or those of the sellers file. */
export function readSellers(reader: Reader): SellersRead {
  const { environment, findings, options } = reader;
  const defaults = readDefaults(reader);
  const file = reader.optional('SELLERS_FILE');
  const single = SINGLE_SELLER.filter((name) => environment.get(name) !== null);
  if (file === null) {
    warnOfTypos(environment, new Set(), findings);
    warnOfOpenEnvFile(environment, options.cwd, new Set(), findings);
    if (single.length > 0) return { sellers: readSingleSeller(reader, defaults), entries: null };
    if (options.needs === 'sellers') reportNoSeller(reader);
    return { sellers: [], entries: null };
  }
  const path = absolutePath(options.cwd, file.text);
  const read = readSellersFile(path, reader, defaults);
  warnOfTypos(environment, read.usedVariables, findings);
  warnOfOpenEnvFile(environment, options.cwd, read.usedVariables, findings);
  reportUnused(
    reader,
    single.filter((name) => !read.usedVariables.has(name)),
  );
  return { sellers: shareBudgets(read.sellers, findings), entries: read.entries };
}

function readDefaults(reader: Reader): SellerDefaults {
  const header = reader.optional('MARKETPLACE_KEY_HEADER');
  if (header !== null) checkHeaderName(header, reader.findings);
  const placement = reader.given('MARKETPLACE_PARAMETERS');
  return {
    requestsPerMinute: reader.integer('REQUESTS_PER_MINUTE', 0, MOST_REQUESTS_PER_MINUTE),
    carriage: {
      placement: readChoice(placement, PLACEMENTS, reader.findings),
      keyHeader: header?.text ?? null,
    },
    schedule: readSchedule(reader),
  };
}

function readSingleSeller(reader: Reader, defaults: SellerDefaults): readonly SellerConfig[] {
  const { findings } = reader;
  const name = reader.given('SELLER_NAME');
  checkSellerName(name, findings);
  const { requestsPerMinute, carriage, schedule } = defaults;
  const key = readKey(
    {
      direct: reader.optional('MARKETPLACE_API_KEY'),
      file: reader.optional('MARKETPLACE_API_KEY_FILE'),
      base: reader.options.cwd,
      missing: {
        where: 'MARKETPLACE_API_KEY',
        text: 'is not set',
        remedy: 'set it, or MARKETPLACE_API_KEY_FILE, to the key from the workspace’s settings',
      },
    },
    carriage.keyHeader,
    findings,
  );
  const address = reader.optional('MARKETPLACE_URL');
  if (address === null) {
    findings.problem({
      where: 'MARKETPLACE_URL',
      what: 'is not set, but the API key is',
      remedy: 'set it to the marketplace’s address, such as https://market.example',
    });
    return [];
  }
  const url = readMarketplaceUrl(address, reader.allowPlainHttp, findings);
  if (key === null) return [];
  return [{ name: name.text, url, key, requestsPerMinute, carriage, ...schedule }];
}

function reportNoSeller(reader: Reader): void {
  reader.findings.problem({
    where: 'MARKETPLACE_URL',
    what: 'is not set, so there is no seller to mirror',
    remedy:
      'set MARKETPLACE_URL and MARKETPLACE_API_KEY or MARKETPLACE_API_KEY_FILE, or set SELLERS_FILE',
  });
}

/** Settings for one seller that stand beside a file with several. */
function reportUnused(reader: Reader, names: readonly SettingName[]): void {
  const { environment, findings } = reader;
  for (const name of names) {
    // Its value may show up in another message, pasted into the wrong place.
    if (name === 'MARKETPLACE_API_KEY') findings.hide(environment.get(name) ?? '');
    if (name === 'MARKETPLACE_URL') {
      findings.problem({
        where: 'SELLERS_FILE',
        what: 'and MARKETPLACE_URL are both set',
        remedy: 'keep one: SELLERS_FILE for several sellers, MARKETPLACE_URL for one',
      });
    } else {
      findings.warn({
        where: name,
        what: 'is not used beside SELLERS_FILE',
        remedy: 'take it away',
      });
    }
  }
}
