import { readFileSync } from 'node:fs';
import { dirname } from 'node:path';
import { z } from 'zod';
import type { Json } from '../domain/item.js';
import { isObject } from '../domain/values.js';
import { readMarketplaceUrl } from './address.js';
import { readKey } from './key.js';
import { nearest } from './nearest.js';
import type { Findings } from './problems.js';
import type { Reader } from './reader.js';
import { readOwnSchedule, type Schedule } from './schedule.js';
import { PLACEMENTS, type SellerConfig } from './types.js';
import { checkHeaderName, checkSellerName, readChoice, readInteger, type Given } from './values.js';

/** What a seller of the file has when the file does not say. */
export interface SellerDefaults {
  readonly requestsPerMinute: number;
  readonly carriage: SellerConfig['carriage'];
  readonly schedule: Schedule;
}

export const MOST_REQUESTS_PER_MINUTE = 1_000_000;

const SELLER = z.strictObject({
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
const FILE = z.strictObject({ sellers: z.array(SELLER) });

/** A seller as the file has it: its key is in another place. */
export type SellerEntry = z.infer<typeof SELLER>;

/** What the sellers file says, and the environment variables it takes keys from. */
export interface SellersFile {
  readonly sellers: readonly SellerConfig[];
  readonly entries: readonly SellerEntry[];
  readonly usedVariables: ReadonlySet<string>;
}

/** Reads the sellers file; everything wrong with it has been reported. */
export function readSellersFile(
  path: string,
  reader: Reader,
  defaults: SellerDefaults,
): SellersFile {
  const { findings } = reader;
  const entries = parse(path, findings);
  const sellers: SellerConfig[] = [];
  const usedVariables = new Set<string>();
  const places = new Map<string, string>();
  for (const [index, entry] of entries.entries()) {
    const where = `SELLERS_FILE sellers[${index}]`;
    const first = places.get(entry.name);
    if (first === undefined) places.set(entry.name, where);
    else {
      findings.problem({
        where: `${where}.name`,
        value: entry.name,
        what: `is the name of ${first} too`,
        remedy: 'give every seller a name of its own',
      });
    }
    if (entry.keyEnv !== undefined) usedVariables.add(entry.keyEnv);
    const seller = readSeller(entry, where, dirname(path), reader, defaults);
    if (seller !== null) sellers.push(seller);
  }
  return { sellers, entries, usedVariables };
}

function readSeller(
  entry: SellerEntry,
  where: string,
  base: string,
  reader: Reader,
  defaults: SellerDefaults,
): SellerConfig | null {
  const { environment, findings, options } = reader;
  const at = (field: string, text: string): Given => ({ where: `${where}.${field}`, text });
  checkSellerName(at('name', entry.name), findings);
  const keyHeader = entry.keyHeader ?? defaults.carriage.keyHeader;
  if (entry.keyHeader !== undefined) checkHeaderName(at('keyHeader', entry.keyHeader), findings);
  const variable = entry.keyEnv === undefined ? null : environment.variable(entry.keyEnv);
  const key = readKey(
    {
      direct: variable === null ? null : at('keyEnv', variable),
      file: entry.keyFile === undefined ? null : at('keyFile', entry.keyFile),
      base,
      missing: {
        where,
        ...(entry.keyEnv === undefined
          ? { text: 'has no key', remedy: 'add keyFile or keyEnv' }
          : unsetVariable(entry.keyEnv)),
      },
    },
    keyHeader,
    findings,
  );
  const url = readMarketplaceUrl(at('url', entry.url), reader.allowPlainHttp, findings);
  const requestsPerMinute =
    entry.requestsPerMinute === undefined
      ? defaults.requestsPerMinute
      : readInteger(
          at('requestsPerMinute', String(entry.requestsPerMinute)),
          0,
          MOST_REQUESTS_PER_MINUTE,
          findings,
        );
  const placement =
    entry.parameters === undefined
      ? defaults.carriage.placement
      : readChoice(at('parameters', entry.parameters), PLACEMENTS, findings);
  const schedule = readOwnSchedule(entry, at, defaults.schedule, options.cronFault, findings);
  if (key === null) return null;
  const carriage = { placement, keyHeader };
  return { name: entry.name, url, key, requestsPerMinute, carriage, ...schedule };
}

/** Names of variables; 20 letters and digits or more without a gap may be a key. */
const VARIABLE = /^[A-Z_][A-Z0-9_]*$/i;
const LIKELY_KEY = /(?=[a-z]*\d)[a-z\d]{20,}/i;

/** The variable is told by its name, unless `keyEnv` holds what may be the key itself. */
function unsetVariable(name: string): { text: string; remedy: string } {
  return VARIABLE.test(name) && !LIKELY_KEY.test(name)
    ? {
        text: `takes its key from the variable ${name}, which is not set`,
        remedy: `set ${name} in the environment or in .env`,
      }
    : {
        text: 'has a keyEnv that names no variable',
        remedy:
          'name the variable that holds the key; a key itself goes into a file that keyFile names',
      };
}

function parse(path: string, findings: Findings): readonly SellerEntry[] {
  const problem = (what: string, remedy: string): readonly SellerEntry[] => {
    findings.problem({ where: 'SELLERS_FILE', value: path, what, remedy });
    return [];
  };
  let json: Json;
  try {
    json = JSON.parse(readFileSync(path, 'utf8').replace(/^\uFEFF/, '')) as Json;
  } catch (error) {
    // The parser's own message quotes the text around the fault, which may be a key.
    return error instanceof SyntaxError
      ? problem('is not valid JSON', 'check it with a JSON editor; comments are not allowed')
      : problem(
          `can't be read (${(error as NodeJS.ErrnoException).code ?? 'unknown reason'})`,
          'name a JSON file that this user may read',
        );
  }
  if (!isObject(json)) {
    return problem('is no object', 'write {"sellers": […]}, with the sellers in the list');
  }
  const parsed = FILE.safeParse(json);
  if (!parsed.success) {
    for (const issue of parsed.error.issues) reportIssue(issue, findings);
    return [];
  }
  if (parsed.data.sellers.length === 0) {
    return problem('lists no seller', 'add one to "sellers", or take the setting away');
  }
  return parsed.data.sellers;
}

/** Names under which people write the key itself. */
const PLAIN_KEY = /^(?:marketplace)?(?:api)?(?:key|token|secret)$/;

function reportIssue(issue: z.core.$ZodIssue, findings: Findings): void {
  const where = `SELLERS_FILE ${place(issue.path)}`.trim();
  if (issue.code === 'unrecognized_keys') {
    for (const key of issue.keys) reportUnknown(where, key, issue.path.length > 0, findings);
    return;
  }
  const wanted = issue.code === 'invalid_type' ? issue.expected : 'other value';
  findings.problem({
    where,
    what: `is missing or no ${wanted}`,
    remedy: `give ${/^[aeio]/.test(wanted) ? 'an' : 'a'} ${wanted}`,
  });
}

function reportUnknown(where: string, key: string, inSeller: boolean, findings: Findings): void {
  if (inSeller && PLAIN_KEY.test(key.toLowerCase().replaceAll(/[^a-z]/g, ''))) {
    findings.problem({
      where,
      what: `has the key itself in "${key}"`,
      remedy:
        'put the key into a file of its own and name that in keyFile, or into an environment variable and name that in keyEnv',
    });
    return;
  }
  const known = inSeller ? Object.keys(SELLER.shape) : Object.keys(FILE.shape);
  const meant = nearest(key, known);
  findings.problem({
    where,
    value: key,
    what: 'is no field',
    remedy: meant === null ? `the fields are ${known.join(', ')}` : `did you mean ${meant}?`,
  });
}

function place(path: readonly PropertyKey[]): string {
  return path
    .map((part) => (typeof part === 'number' ? `[${part}]` : `.${String(part)}`))
    .join('')
    .slice(1);
}
