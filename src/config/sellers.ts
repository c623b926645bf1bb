import { z } from 'zod';
import { hostName, fitsInHeader } from '../domain/address.js';
import type { Secret } from '../domain/secret.js';
import type { Findings, RawValue, Reader, SecretSources } from './reader.js';
import { readListFile, type ListEntry } from './list-file.js';
import { marketplaceFault, zoneOfMachine } from './schemas.js';
import type { SettingName, ValueOf } from './settings.js';

/** An entry of the sellers file. The key itself is elsewhere. */
const ENTRY = z.strictObject({
  name: z.string(),
  url: z.string(),
  keyFile: z.string().optional(),
  keyEnv: z.string().optional(),
  requestsPerMinute: z.number().optional(),
  parameters: z.string().optional(),
  keyHeader: z.string().optional(),
  listMarks: z.string().optional(),
  syncCron: z.string().optional(),
  accountCron: z.string().optional(),
  auditCron: z.string().optional(),
  timeZone: z.string().optional(),
});

export type SellerEntry = z.infer<typeof ENTRY>;

const FILE = {
  setting: 'SELLERS_FILE',
  list: 'sellers',
  noun: 'seller',
  entry: ENTRY,
} as const;

/** The settings used for fields that an entry leaves out. */
export const FALLBACK_SETTINGS = {
  requestsPerMinute: 'REQUESTS_PER_MINUTE',
  parameters: 'MARKETPLACE_PARAMETERS',
  keyHeader: 'MARKETPLACE_KEY_HEADER',
  listMarks: 'LIST_MARKS',
  syncCron: 'SYNC_CRON',
  accountCron: 'ACCOUNT_CRON',
  auditCron: 'AUDIT_CRON',
  timeZone: 'TZ',
} as const satisfies Partial<Record<keyof SellerEntry, SettingName>>;

type Fields = typeof FALLBACK_SETTINGS;
type ReadField = <F extends keyof Fields>(field: F) => ValueOf<Fields[F]>;

type SellerOptions = ReturnType<typeof sellerOptions>;

export interface SellerConfig extends SellerOptions {
  readonly name: string;
  readonly url: URL;
  readonly key: Secret;
}

/** The settings that configure a single seller. */
const SINGLE_SELLER = [
  'MARKETPLACE_URL',
  'MARKETPLACE_API_KEY',
  'MARKETPLACE_API_KEY_FILE',
] as const;

/** Reads the sellers, and the entries of the sellers file (none without a file). */
export function readSellers(reader: Reader): {
  readonly sellers: readonly SellerConfig[];
  readonly entries: readonly ListEntry<SellerEntry>[];
} {
  const { findings, options } = reader;
  const common = sellerOptions((field) => reader.value(FALLBACK_SETTINGS[field]));
  const file = readListFile(reader, FILE);
  const single = SINGLE_SELLER.filter((name) => reader.raw(name) !== null);
  const { entries = [], folder = '' } = file ?? {};
  const keyVariables = new Set(entries.flatMap(({ entry }) => entry.keyEnv ?? []));
  reader.checkVariables(keyVariables);
  if (file !== null) {
    const sellers = entries.flatMap((entry) => readSeller(entry, folder, reader));
    const unused = single.filter((name) => !keyVariables.has(name));
    for (const name of unused) {
      findings.problem(name, 'is set, and so is SELLERS_FILE: keep one of them');
    }
    return { sellers: shareBudgets(sellers, findings), entries };
  }
  if (single.length > 0) return { sellers: readSingleSeller(reader, common), entries };
  if (options.needs === 'sellers') {
    findings.problem(
      'MARKETPLACE_URL',
      'is not set, so there is no seller to mirror: set MARKETPLACE_URL and MARKETPLACE_API_KEY or MARKETPLACE_API_KEY_FILE, or set SELLERS_FILE',
    );
  }
  return { sellers: [], entries };
}

function sellerOptions(read: ReadField) {
  const cronOf = (field: 'syncCron' | 'accountCron' | 'auditCron'): string | null => {
    const cron = read(field);
    return cron === 'off' ? null : cron;
  };
  return {
    /** 0: no limit. The same for all sellers of one host, because they share its budget. */
    requestsPerMinute: read('requestsPerMinute'),
    carriage: { placement: read('parameters'), keyHeader: read('keyHeader') },
    listMarks: read('listMarks'),
    /** When account and items are mirrored; null: no schedule. */
    syncCron: cronOf('syncCron'),
    /** When only the account is mirrored, in addition; null: no schedule. */
    accountCron: cronOf('accountCron'),
    /** When known purchase codes are checked again; null: no schedule. */
    auditCron: cronOf('auditCron'),
    timeZone: read('timeZone') ?? zoneOfMachine(),
  } as const;
}

function readSingleSeller(reader: Reader, sellerOptions: SellerOptions): readonly SellerConfig[] {
  const { findings, options } = reader;
  const direct = reader.raw('MARKETPLACE_API_KEY');
  const file = reader.raw('MARKETPLACE_API_KEY_FILE');
  const address = reader.raw('MARKETPLACE_URL');
  if (direct === null && file === null) {
    findings.problem(
      'MARKETPLACE_API_KEY',
      'is not set: set it to the key from the workspace settings, or MARKETPLACE_API_KEY_FILE to a file with it',
    );
  }
  if (address === null) {
    findings.problem(
      'MARKETPLACE_URL',
      'is not set, but the API key is: set it to the marketplace’s address, such as https://market.example',
    );
  }
  const key = readKey(reader, { direct, file, base: options.cwd }, sellerOptions);
  const url = address && readUrl(reader, address);
  return sellerOf(reader.value('SELLER_NAME'), url, key, sellerOptions);
}

/** Empty if url or key can't be used, which has been reported. */
function sellerOf(name: string, url: URL | null, key: Secret | null, options: SellerOptions) {
  return url === null || key === null ? [] : [{ name, url, key, ...options }];
}

/** Reads one seller of the file. @param base folder of the sellers file */
function readSeller(
  { entry, where }: ListEntry<SellerEntry>,
  base: string,
  reader: Reader,
): readonly SellerConfig[] {
  const { keyEnv } = entry;
  const raw = (field: keyof SellerEntry): RawValue | null =>
    entry[field] === undefined ? null : { where: `${where}.${field}`, text: String(entry[field]) };
  const parse = <N extends SettingName>(field: keyof SellerEntry, setting: N) => {
    const value = raw(field);
    return value && reader.parse(value, setting);
  };
  const options = sellerOptions((field) => {
    const setting = FALLBACK_SETTINGS[field];
    return parse(field, setting) ?? reader.value(setting);
  });
  const variable = keyEnv === undefined ? null : reader.variable(keyEnv);
  const direct = variable === null ? null : { where: `${where}.keyEnv`, text: variable };
  const file = raw('keyFile');
  if (direct === null && file === null) {
    reader.findings.problem(
      where,
      keyEnv === undefined
        ? 'has no key: add keyFile or keyEnv'
        : 'has a keyEnv that names no variable in the environment or in .env: set that variable to the key, or put the key into a file and name that in keyFile',
    );
  }
  const key = readKey(reader, { direct, file, base }, options);
  const url = readUrl(reader, { where: `${where}.url`, text: entry.url });
  return sellerOf(parse('name', 'SELLER_NAME') ?? entry.name, url, key, options);
}

function readKey(reader: Reader, sources: SecretSources, options: SellerOptions): Secret | null {
  const { keyHeader } = options.carriage;
  const raw = reader.secretFrom(sources, 'MARKETPLACE_API_KEY');
  const key = raw && reader.parse(raw, 'MARKETPLACE_API_KEY');
  if (raw !== null && key !== null && keyHeader !== null && !fitsInHeader(raw.text)) {
    reader.findings.problem(
      raw.where,
      'has characters that no request header can carry: copy the key again, or remove MARKETPLACE_KEY_HEADER or keyHeader',
    );
  }
  return key;
}

function readUrl(reader: Reader, raw: RawValue): URL | null {
  const { findings } = reader;
  const url = reader.parse(raw, 'MARKETPLACE_URL');
  if (url === null) return null;
  const fault = marketplaceFault(url, reader.value('ALLOW_PLAIN_HTTP'));
  if (fault !== null) findings.problem(raw.where, fault);
  else if (/\/api\/*$/.test(url.pathname)) {
    findings.warning(
      raw.where,
      'ends in /api, which every request adds anyway: remove /api, unless the marketplace really answers under /api/api',
    );
  }
  return url;
}

/** Sellers of one host share its budget, so the lowest of their limits applies to all of them. */
function shareBudgets(
  sellers: readonly SellerConfig[],
  findings: Findings,
): readonly SellerConfig[] {
  const limits = new Map<string, number>();
  for (const { url, requestsPerMinute } of sellers) {
    const lowest = limits.get(hostName(url)) ?? Infinity;
    limits.set(hostName(url), Math.min(lowest, requestsPerMinute || Infinity));
  }
  return sellers.map((seller) => {
    const limit = limits.get(hostName(seller.url)) ?? Infinity;
    if (limit === (seller.requestsPerMinute || Infinity)) return seller;
    findings.warning(
      'SELLERS_FILE requestsPerMinute',
      `of ${seller.name} is lowered to ${limit}: all sellers of ${seller.url.host} share one budget; give them the same number`,
    );
    return { ...seller, requestsPerMinute: limit };
  });
}
