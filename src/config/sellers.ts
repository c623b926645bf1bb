import { readFileSync } from 'node:fs';
import { dirname } from 'node:path';
import { z } from 'zod';
import { hostName, travelsInHeader } from '../domain/address.js';
import type { Json } from '../domain/item.js';
import type { Secret } from '../domain/secret.js';
import { isObject } from '../domain/values.js';
import type { Findings, Given } from './findings.js';
import { nearest } from './nearest.js';
import { absolutePath, codeOf, type Reader, type SecretPlaces } from './reader.js';
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
const FILE = z.strictObject({ sellers: z.array(ENTRY) });

export type SellerEntry = z.infer<typeof ENTRY>;

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
  readonly entries: readonly SellerEntry[] | null;
}

export function readSellers(reader: Reader): SellersRead {
  const { findings, options } = reader;
  const common = choicesOf((field) => reader.value(SETTING_OF_FIELD[field]));
  const file = reader.given('SELLERS_FILE');
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
  const path = absolutePath(options.cwd, file.text);
  const entries = readEntries(path, findings);
  const sellers = entries.flatMap((entry, index) =>
    readSeller(entry, placeOf(index), dirname(path), reader),
  );
  const used = new Set(entries.flatMap(({ keyEnv }) => keyEnv ?? []));
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
  entry: SellerEntry,
  where: string,
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
  if (given !== null && key !== null && keyHeader !== null && !travelsInHeader(given.text)) {
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

export function placeOf(index: number): string {
  return `SELLERS_FILE sellers[${index}]`;
}

/** What the sellers file lists; empty when it can't be read, which has been reported. */
function readEntries(path: string, findings: Findings): readonly SellerEntry[] {
  const problem = (message: string): readonly SellerEntry[] => {
    findings.problem({ where: 'SELLERS_FILE', text: path }, message);
    return [];
  };
  let json: Json;
  try {
    json = JSON.parse(readFileSync(path, 'utf8').replace(/^\uFEFF/, '')) as Json;
  } catch (error) {
    // The parser's own message quotes the text around the fault, which may be a key.
    return error instanceof SyntaxError
      ? problem('is not valid JSON: check it with a JSON editor; comments are not allowed')
      : problem(
          `can't be read (${codeOf(error) ?? 'unknown reason'}): name a JSON file that this user may read`,
        );
  }
  if (!isObject(json)) {
    return problem('is no object: write {"sellers": […]}, with the sellers in the list');
  }
  const parsed = FILE.safeParse(json);
  if (!parsed.success) {
    for (const issue of parsed.error.issues) reportIssue(issue, findings);
    return [];
  }
  const { sellers } = parsed.data;
  if (sellers.length === 0) {
    return problem('lists no seller: add one to "sellers", or take the setting away');
  }
  for (const [index, { name }] of sellers.entries()) {
    const first = sellers.findIndex((one) => one.name === name);
    if (first === index) continue;
    findings.problem(
      { where: `${placeOf(index)}.name`, text: name },
      `is the name of ${placeOf(first)} too: give every seller a name of its own`,
    );
  }
  return sellers;
}

/** Names under which people write the key itself. */
const PLAIN_KEY = /^(?:marketplace)?(?:api)?(?:key|token|secret)$/;

function reportIssue(issue: z.core.$ZodIssue, findings: Findings): void {
  const path = issue.path.map((part) =>
    typeof part === 'number' ? `[${part}]` : `.${String(part)}`,
  );
  const where = `SELLERS_FILE ${path.join('').slice(1)}`.trim();
  if (issue.code === 'unrecognized_keys') {
    for (const key of issue.keys) reportUnknown(where, key, path.length > 0, findings);
    return;
  }
  const wanted = issue.code === 'invalid_type' ? issue.expected : 'other value';
  const article = /^[aeio]/.test(wanted) ? 'an' : 'a';
  findings.problem(where, `is missing or no ${wanted}: give ${article} ${wanted}`);
}

function reportUnknown(where: string, key: string, inSeller: boolean, findings: Findings): void {
  if (inSeller && PLAIN_KEY.test(key.toLowerCase().replaceAll(/[^a-z]/g, ''))) {
    findings.problem(
      where,
      `has the key itself in "${key}": put the key into a file of its own and name that in keyFile, or into an environment variable and name that in keyEnv`,
    );
    return;
  }
  const known = Object.keys(inSeller ? ENTRY.shape : FILE.shape);
  const meant = nearest(key, known);
  const remedy = meant === null ? `the fields are ${known.join(', ')}` : `did you mean ${meant}?`;
  findings.problem({ where, text: key }, `is no field: ${remedy}`);
}
