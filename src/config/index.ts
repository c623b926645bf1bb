import { statSync } from 'node:fs';
import { hostName } from '../domain/address.js';
import { Secret } from '../domain/secret.js';
import { checkDatabaseUrl, readMarketplaceUrl } from './address.js';
import {
  processEnvironment,
  readEnvironment,
  warnOfTypos,
  type Environment,
} from './environment.js';
import { readKey } from './key.js';
import { Findings } from './problems.js';
import { readSecretFile } from './secret-file.js';
import { MOST_REQUESTS_PER_MINUTE, readSellersFile, type SellerDefaults } from './sellers-file.js';
import { defaultOf, type SettingName } from './settings.js';
import { LOG_LEVELS, PLACEMENTS, type Config, type SellerConfig } from './types.js';
import {
  absolutePath,
  checkHeaderName,
  checkSellerName,
  readBoolean,
  readChoice,
  readInteger,
  type Given,
} from './values.js';

export { processEnvironment } from './environment.js';
export { ConfigError } from './problems.js';
export { SETTINGS, type Setting } from './settings.js';
export type { Config, LogLevel, SellerConfig } from './types.js';

export interface ConfigOptions {
  /** Folder of `.env`, and the one that relative paths are relative to. */
  readonly cwd: string;
  /** `sellers`: at least one must be configured. `store`: there may be none. */
  readonly needs: 'store' | 'sellers';
}

/**
 * The configuration of this process.
 * @throws ConfigError with everything that is wrong with it
 */
export function loadConfig(needs: ConfigOptions['needs']): Config {
  return readConfig(processEnvironment(), { cwd: process.cwd(), needs });
}

/**
 * Reads settings from the environment, `.env` and the files they name, and checks every one that
 * is given, needed or not.
 * @throws ConfigError with everything that is wrong with them
 */
export function readConfig(env: NodeJS.ProcessEnv, options: ConfigOptions): Config {
  const findings = new Findings();
  const reader = new Reader(readEnvironment(env, options.cwd, findings), options.cwd, findings);
  const config = {
    sellers: reader.sellers(options.needs),
    databaseUrl: reader.databaseUrl(),
    dataDir: reader.dataDir(),
    allowPlainHttp: reader.allowPlainHttp,
    removalGuard: {
      items: reader.integer('REMOVAL_GUARD_ITEMS', 1_000_000_000),
      percent: reader.integer('REMOVAL_GUARD_PERCENT', 100),
    },
    lookupsPerRun: reader.integer('LOOKUPS_PER_RUN', 1_000_000_000),
    logLevel: readChoice(reader.given('LOG_LEVEL'), LOG_LEVELS, findings),
  };
  findings.throwIfAny();
  return { ...config, warnings: findings.warnings() };
}

/** Reads one setting after another; what is wrong goes to the findings. */
class Reader {
  readonly allowPlainHttp: boolean;
  readonly #environment: Environment;
  readonly #cwd: string;
  readonly #findings: Findings;

  constructor(environment: Environment, cwd: string, findings: Findings) {
    this.#environment = environment;
    this.#cwd = cwd;
    this.#findings = findings;
    this.allowPlainHttp = readBoolean(this.given('ALLOW_PLAIN_HTTP'), findings);
  }

  given(name: SettingName): Given {
    return { where: name, text: this.#environment.get(name) ?? defaultOf(name) };
  }

  integer(name: SettingName, most: number): number {
    return readInteger(this.given(name), 0, most, this.#findings);
  }

  dataDir(): string {
    const given = this.given('DATA_DIR');
    const path = absolutePath(this.#cwd, given.text);
    if (isNoFolder(path)) {
      this.#findings.problem({
        where: given.where,
        value: given.text,
        what: 'is no folder',
        remedy: 'name a folder; it is made when it is not there',
      });
    }
    return path;
  }

  databaseUrl(): Secret | null {
    const direct = this.#optional('DATABASE_URL');
    const file = this.#optional('DATABASE_URL_FILE');
    if (direct !== null && file !== null) {
      this.#findings.hide(direct.text);
      this.#findings.problem({
        where: file.where,
        what: 'and DATABASE_URL are both given',
        remedy: 'keep one of them',
      });
      return null;
    }
    const text = direct?.text ?? this.#databaseUrlFile(file);
    if (text === null) return null;
    checkDatabaseUrl({ where: (direct ?? file)?.where ?? '', text }, this.#findings);
    return new Secret(text);
  }

  #databaseUrlFile(file: Given | null): string | null {
    if (file === null) return null;
    const path = absolutePath(this.#cwd, file.text);
    return readSecretFile(file, path, 'the database’s address', this.#findings);
  }

  sellers(needs: ConfigOptions['needs']): readonly SellerConfig[] {
    const defaults = this.#sellerDefaults();
    const file = this.#optional('SELLERS_FILE');
    const single = SINGLE_SELLER.filter((name) => this.#environment.get(name) !== null);
    if (file === null) {
      warnOfTypos(this.#environment, new Set(), this.#findings);
      if (single.length > 0) return this.#singleSeller(defaults);
      if (needs === 'sellers') this.#reportNoSeller();
      return [];
    }
    const path = absolutePath(this.#cwd, file.text);
    const read = readSellersFile(path, this.#environment, defaults, this.#findings);
    warnOfTypos(this.#environment, read.usedVariables, this.#findings);
    this.#reportUnused(single.filter((name) => !read.usedVariables.has(name)));
    return shareBudgets(read.sellers, this.#findings);
  }

  #sellerDefaults(): SellerDefaults {
    const header = this.#optional('MARKETPLACE_KEY_HEADER');
    if (header !== null) checkHeaderName(header, this.#findings);
    const placement = this.given('MARKETPLACE_PARAMETERS');
    return {
      requestsPerMinute: this.integer('REQUESTS_PER_MINUTE', MOST_REQUESTS_PER_MINUTE),
      carriage: {
        placement: readChoice(placement, PLACEMENTS, this.#findings),
        keyHeader: header?.text ?? null,
      },
      allowPlainHttp: this.allowPlainHttp,
    };
  }

  #singleSeller(defaults: SellerDefaults): readonly SellerConfig[] {
    const name = this.given('SELLER_NAME');
    checkSellerName(name, this.#findings);
    const { requestsPerMinute, carriage } = defaults;
    const key = readKey(
      {
        direct: this.#optional('MARKETPLACE_API_KEY'),
        file: this.#optional('MARKETPLACE_API_KEY_FILE'),
        base: this.#cwd,
        missing: {
          where: 'MARKETPLACE_API_KEY',
          text: 'is not set',
          remedy: 'set it, or MARKETPLACE_API_KEY_FILE, to the key from the workspace’s settings',
        },
      },
      carriage.keyHeader,
      this.#findings,
    );
    const address = this.#optional('MARKETPLACE_URL');
    if (address === null) {
      this.#findings.problem({
        where: 'MARKETPLACE_URL',
        what: 'is not set, but the API key is',
        remedy: 'set it to the marketplace’s address, such as https://market.example',
      });
      return [];
    }
    const url = readMarketplaceUrl(address, this.allowPlainHttp, this.#findings);
    return key === null ? [] : [{ name: name.text, url, key, requestsPerMinute, carriage }];
  }

  #reportNoSeller(): void {
    this.#findings.problem({
      where: 'MARKETPLACE_URL',
      what: 'is not set, so there is no seller to mirror',
      remedy:
        'set MARKETPLACE_URL and MARKETPLACE_API_KEY or MARKETPLACE_API_KEY_FILE, or set SELLERS_FILE',
    });
  }

  /** Settings for one seller that stand beside a file with several. */
  #reportUnused(names: readonly SettingName[]): void {
    for (const name of names) {
      // Its value may show up in another message, pasted into the wrong place.
      if (name === 'MARKETPLACE_API_KEY') this.#findings.hide(this.#environment.get(name) ?? '');
      if (name === 'MARKETPLACE_URL') {
        this.#findings.problem({
          where: 'SELLERS_FILE',
          what: 'and MARKETPLACE_URL are both set',
          remedy: 'keep one: SELLERS_FILE for several sellers, MARKETPLACE_URL for one',
        });
      } else {
        this.#findings.warn({
          where: name,
          what: 'is not used beside SELLERS_FILE',
          remedy: 'take it away',
        });
      }
    }
  }

  #optional(name: SettingName): Given | null {
    const text = this.#environment.get(name);
    return text === null ? null : { where: name, text };
  }
}

/** Whether something else is there. What can't even be looked at, the store explains. */
function isNoFolder(path: string): boolean {
  try {
    return !statSync(path).isDirectory();
  } catch {
    return false;
  }
}

/** What only the configuration of a single seller reads. */
const SINGLE_SELLER = [
  'MARKETPLACE_URL',
  'MARKETPLACE_API_KEY',
  'MARKETPLACE_API_KEY_FILE',
] as const satisfies readonly SettingName[];

/**
 * Sellers of one host share its budget, so the strictest of their limits holds for all of them.
 */
function shareBudgets(
  sellers: readonly SellerConfig[],
  findings: Findings,
): readonly SellerConfig[] {
  const limits = new Map<string, number>();
  const strictness = (limit: number): number => (limit === 0 ? Infinity : limit);
  for (const { url, requestsPerMinute } of sellers) {
    const known = limits.get(hostName(url));
    if (known === undefined || strictness(requestsPerMinute) < strictness(known)) {
      limits.set(hostName(url), requestsPerMinute);
    }
  }
  return sellers.map((seller) => {
    const limit = limits.get(hostName(seller.url)) ?? seller.requestsPerMinute;
    if (limit === seller.requestsPerMinute) return seller;
    findings.warn({
      where: 'SELLERS_FILE requestsPerMinute',
      value: String(seller.requestsPerMinute),
      what: `of ${seller.name} is lowered to ${limit}`,
      remedy: `all sellers of ${seller.url.host} share one budget; give them the same number`,
    });
    return { ...seller, requestsPerMinute: limit };
  });
}
