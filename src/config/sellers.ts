import { z } from 'zod';
import { hostName, fitsInHeader } from '../domain/address.js';
import type { Secret } from '../domain/secret.js';
import type { Findings, Given } from './findings.js';
import { readListFile, type ListEntry } from './list-file.js';
import type { Reader, SecretPlaces } from './reader.js';
import { marketplaceFault, zoneOfMachine } from './schemas.js';
import type { SettingName, ValueOf } from './settings.js';

/** A seller as the sellers file has it: its key is in another place. */
const ENTRY = z.strictObject({
  name: z.string(),
  url: z.string(),
  keyFile: z.string().optional(),
  keyEnv: z.string().optional(),
  requestsPerMinute: z.number().optional(),
  parameters: z.string().optional(),
  keyHeader: z.string().optional(),
  syncCron: z.string().optional(),
  accountCron: z.string().optional(),
  auditCron: z.string().optional(),
  timeZone: z.string().optional(),
});

export type SellerEntry = z.infer<typeof ENTRY>;

/** Names under which people write the key itself. */
const PLAIN_KEY = /^(?:marketplace)?(?:api)?(?:key|token|secret)$/;

const FILE = {
  setting: 'SELLERS_FILE',
  list: 'sellers',
  one: 'seller',
  entry: ENTRY,
  unknownField: (field: string) =>
    PLAIN_KEY.test(field.toLowerCase().replaceAll(/[^a-z]/g, ''))
      ? `has the key itself in "${field}": put the key into a file of its own and name that in keyFile, or into an environment variable and name that in keyEnv`
      : null,
} as const;

/** The settings that hold for a seller whose entry does not say. */
export const SETTING_OF_FIELD = {
  requestsPerMinute: 'REQUESTS_PER_MINUTE',
  parameters: 'MARKETPLACE_PARAMETERS',
  keyHeader: 'MARKETPLACE_KEY_HEADER',
  syncCron: 'SYNC_CRON',
  accountCron: 'ACCOUNT_CRON',
  auditCron: 'AUDIT_CRON',
  timeZone: 'TZ',
} as const satisfies Partial<Record<keyof SellerEntry, SettingName>>;

type Fields = typeof SETTING_OF_FIELD;
type Choose = <F extends keyof Fields>(field: F) => ValueOf<Fields[F]>;

type Choices = ReturnType<typeof choicesOf>;

export interface SellerConfig extends Choices {
  readonly name: string;
  readonly url: URL;
  readonly key: Secret;
}

const SINGLE_SELLER = [
  'MARKETPLACE_URL',
  'MARKETPLACE_API_KEY',
  'MARKETPLACE_API_KEY_FILE',
] as const;

/** Sellers, and what the sellers file says of each; null: there is no such file. */
export interface SellersRead {
  readonly sellers: readonly SellerConfig[];
  readonly entries: readonly ListEntry<SellerEntry>[] | null;
}

export function readSellers(reader: Reader): SellersRead {
  const { findings, options } = reader;
  const common = choicesOf((field) => reader.value(SETTING_OF_FIELD[field]));
  const file = readListFile(reader, FILE);
  const single = SINGLE_SELLER.filter((name) => reader.given(name) !== null);
  if (file === null) {
    reader.checkVariables(new Set());
    if (single.length > 0) return { sellers: readSingleSeller(reader, common), entries: null };
    if (options.needs === 'sellers') {
      findings.problem(
        'MARKETPLACE_URL',
        'is not set, so there is no seller to mirror: set MARKETPLACE_URL and MARKETPLACE_API_KEY or MARKETPLACE_API_KEY_FILE, or set SELLERS_FILE',
      );
    }
    return { sellers: [], entries: null };
  }
  const { entries, folder } = file;
  const sellers = entries.flatMap((one) => readSeller(one, folder, reader));
  const used = new Set(entries.flatMap(({ entry }) => entry.keyEnv ?? []));
  reader.checkVariables(used);
  reportUnused(
    reader,
    single.filter((name) => !used.has(name)),
  );
  return { sellers: shareBudgets(sellers, findings), entries };
}

function choicesOf(choose: Choose) {
  const cronOf = (field: 'syncCron' | 'accountCron' | 'auditCron'): string | null => {
    const cron = choose(field);
    return cron === 'off' ? null : cron;
  };
  return {
    /** The same for all sellers of one host, since they share its budget; 0 means no limit. */
    requestsPerMinute: choose('requestsPerMinute'),
    carriage: { placement: choose('parameters'), keyHeader: choose('keyHeader') },
    /** Cron expression of account and items; null: not on a schedule. */
    syncCron: cronOf('syncCron'),
    /** Cron expression of the account alone, in addition; null: only with the items. */
    accountCron: cronOf('accountCron'),
    /** Cron expression of asking for known purchase codes again; null: not on a schedule. */
    auditCron: cronOf('auditCron'),
    timeZone: choose('timeZone') ?? zoneOfMachine(),
  } as const;
}

function readSingleSeller(reader: Reader, choices: Choices): readonly SellerConfig[] {
  const { findings, options } = reader;
  const direct = reader.given('MARKETPLACE_API_KEY');
  const file = reader.given('MARKETPLACE_API_KEY_FILE');
  const address = reader.given('MARKETPLACE_URL');
  if (direct === null && file === null) {
    findings.problem(
      'MARKETPLACE_API_KEY',
      'is not set: set it, or MARKETPLACE_API_KEY_FILE, to the key from the workspace’s settings',
    );
  }
  if (address === null) {
    findings.problem(
      'MARKETPLACE_URL',
      'is not set, but the API key is: set it to the marketplace’s address, such as https://market.example',
    );
  }
  const key = readKey(reader, { direct, file, base: options.cwd }, choices);
  return sellerOf(reader.value('SELLER_NAME'), address && readUrl(reader, address), key, choices);
}

function sellerOf(name: string, url: URL | null, key: Secret | null, choices: Choices) {
  return url === null || key === null ? [] : [{ name, url, key, ...choices }];
}

/** One seller of the file; none when it can't be used. @param base folder of the sellers file */
function readSeller(
  { entry, where }: ListEntry<SellerEntry>,
  base: string,
  reader: Reader,
): readonly SellerConfig[] {
  const { keyEnv } = entry;
  const at = (field: keyof SellerEntry): Given | null =>
    entry[field] === undefined ? null : { where: `${where}.${field}`, text: String(entry[field]) };
  const own = <N extends SettingName>(field: keyof SellerEntry, setting: N) => {
    const given = at(field);
    return given && reader.parse(given, setting);
  };
  const choices = choicesOf((field) => {
    const setting = SETTING_OF_FIELD[field];
    return own(field, setting) ?? reader.value(setting);
  });
  const variable = keyEnv === undefined ? null : reader.variable(keyEnv);
  const direct = variable === null ? null : { where: `${where}.keyEnv`, text: variable };
  const file = at('keyFile');
  if (direct === null && file === null) {
    const isMissing = keyEnv === undefined;
    const fault = isMissing ? 'has no key: add keyFile or keyEnv' : unsetVariable(keyEnv);
    reader.findings.problem(where, fault);
  }
  const key = readKey(reader, { direct, file, base }, choices);
  const url = readUrl(reader, { where: `${where}.url`, text: entry.url });
  return sellerOf(own('name', 'SELLER_NAME') ?? entry.name, url, key, choices);
}

/** 20 letters and digits or more without a gap may be a key. */
const LIKELY_KEY = /(?=[a-z]*\d)[a-z\d]{20,}/i;

function unsetVariable(name: string): string {
  return /^[A-Z_][A-Z0-9_]*$/i.test(name) && !LIKELY_KEY.test(name)
    ? `takes its key from the variable ${name}, which is not set: set ${name} in the environment or in .env`
    : 'has a keyEnv that names no variable: name the variable that holds the key; a key itself goes into a file that keyFile names';
}

function readKey(reader: Reader, places: SecretPlaces, { carriage }: Choices): Secret | null {
  const { keyHeader } = carriage;
  const given = reader.secretFrom(places, 'MARKETPLACE_API_KEY');
  const key = given && reader.parse(given, 'MARKETPLACE_API_KEY');
  if (given !== null && key !== null && keyHeader !== null && !fitsInHeader(given.text)) {
    reader.findings.problem(
      given,
      'holds characters that no request header can carry: copy the key again, or take MARKETPLACE_KEY_HEADER or keyHeader away',
    );
  }
  return key;
}

function readUrl(reader: Reader, given: Given): URL | null {
  const { findings } = reader;
  const url = reader.parse(given, 'MARKETPLACE_URL');
  if (url === null) return null;
  const fault = marketplaceFault(url, reader.value('ALLOW_PLAIN_HTTP'));
  if (fault !== null) findings.problem(given, fault);
  else if (/\/api\/*$/.test(url.pathname)) {
    findings.warning(
      given,
      'ends in /api, which is added to every request anyway: leave /api out unless the marketplace really answers under /api/api',
    );
  }
  return url;
}

function reportUnused(reader: Reader, names: readonly (typeof SINGLE_SELLER)[number][]): void {
  const { findings } = reader;
  for (const name of names) {
    // Its value may show up in another message, pasted into the wrong place.
    if (name === 'MARKETPLACE_API_KEY') findings.hide([reader.variable(name) ?? '']);
    if (name === 'MARKETPLACE_URL') {
      findings.problem(
        'SELLERS_FILE',
        'and MARKETPLACE_URL are both set: keep one: SELLERS_FILE for several sellers, MARKETPLACE_URL for one',
      );
    } else {
      findings.warning(name, 'is not used beside SELLERS_FILE: take it away');
    }
  }
}

/** Sellers of one host share its budget, so the strictest of their limits holds for all of them. */
function shareBudgets(
  sellers: readonly SellerConfig[],
  findings: Findings,
): readonly SellerConfig[] {
  const strictness = (limit: number): number => (limit === 0 ? Infinity : limit);
  const limits = new Map<string, number>();
  for (const { url, requestsPerMinute } of sellers) {
    const known = limits.get(hostName(url)) ?? 0;
    if (strictness(requestsPerMinute) <= strictness(known)) {
      limits.set(hostName(url), requestsPerMinute);
    }
  }
  return sellers.map((seller) => {
    const limit = limits.get(hostName(seller.url)) ?? seller.requestsPerMinute;
    if (limit === seller.requestsPerMinute) return seller;
    findings.warning(
      { where: 'SELLERS_FILE requestsPerMinute', text: String(seller.requestsPerMinute) },
      `of ${seller.name} is lowered to ${limit}: all sellers of ${seller.url.host} share one budget; give them the same number`,
    );
    return { ...seller, requestsPerMinute: limit };
  });
}
