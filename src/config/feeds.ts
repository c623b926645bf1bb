import { z } from 'zod';
import { cronFault } from '../domain/cron.js';
import { viewFacts } from '../domain/reporting-views.js';
import { Secret } from '../domain/secret.js';
import { readListFile } from './list-file.js';
import { absolutePath, type Reader } from './reader.js';
import { parseUrl, passwordsIn, percentDecoded, zoneOfMachine } from './schemas.js';

type FeedTarget =
  | { readonly kind: 'postgres'; readonly url: Secret; readonly schema: string }
  | { readonly kind: 'mysql'; readonly url: Secret }
  | { readonly kind: 'sqlite'; readonly path: string }
  | {
      readonly kind: 'folder';
      readonly path: string;
      readonly format: 'parquet' | 'ndjson' | 'csv';
    };

export interface FeedConfig {
  readonly name: string;
  readonly target: FeedTarget;
  /** The target for display, without a password. */
  readonly place: string;
  readonly views: readonly string[];
  /** Null: all sellers. */
  readonly sellers: readonly string[] | null;
  /** Null: after each sync and audit. */
  readonly cron: string | null;
  /** IANA name, for the cron expression. */
  readonly timeZone: string;
  /** The columns to deliver, by view; all of a view that is not named. Its key is always delivered. */
  readonly columns: Readonly<Record<string, readonly string[]>>;
  /** Columns that are delivered as a salted hash, by view. */
  readonly hash: Readonly<Record<string, readonly string[]>>;
  /** Null if no column is hashed. */
  readonly salt: Secret | null;
}

const NAME = /^[A-Za-z0-9][\w.-]{0,62}$/;

const FILLED = z.string().min(1, 'is empty: fill it in, or remove it');

const ENTRY = z.strictObject({
  name: z.string().regex(NAME, 'is not a name: use 1 to 63 letters, digits and . _ -'),
  target: z.string().optional(),
  folder: FILLED.optional(),
  format: z.enum(['parquet', 'ndjson', 'csv']).optional(),
  schema: z
    .string()
    .regex(/^[A-Za-z_]\w{0,62}$/, 'is not a schema name: use letters, digits and _')
    .optional(),
  passwordFile: FILLED.optional(),
  views: z
    .array(z.string().regex(/^\w{1,63}$/, 'is not a view name: use a name such as "items"'))
    .min(1, 'names no view: list at least one, such as "items"')
    .transform((views) => [...new Set(views)]),
  sellers: z.array(FILLED).min(1, 'names no seller: list at least one, or remove it').optional(),
  when: FILLED.default('after-sync'),
  columns: z.record(z.string(), z.array(FILLED).min(1, 'names no column')).optional(),
  hash: z
    .array(z.string().regex(/^\w+\.\w+$/, 'is not a column: use a name such as "purchases.code"'))
    .min(1, 'names no column: list at least one, or remove it')
    .optional(),
  hashSaltFile: FILLED.optional(),
});

const FILE = {
  setting: 'FEEDS_FILE',
  list: 'feeds',
  noun: 'feed',
  entry: ENTRY,
  nameKey: (name: string) => name.toLowerCase(),
} as const;

type Entry = z.infer<typeof ENTRY>;

/** One entry while it is read. */
interface Reading {
  readonly entry: Entry;
  readonly reader: Reader;
  /** Resolves a path of the entry. */
  readonly path: (text: string) => string;
  readonly where: (field: string) => string;
  readonly problem: (field: keyof Entry, message: string) => void;
}

/** Reads the feeds in FEEDS_FILE, and reports all problems. */
export function readFeeds(reader: Reader): readonly FeedConfig[] {
  const file = readListFile(reader, FILE);
  if (file === null) return [];
  const timeZone = reader.value('TZ') ?? zoneOfMachine();
  const feeds = file.entries.flatMap(({ entry, where: place }) => {
    const where = (field: string): string => `${place}.${field}`;
    const reading: Reading = {
      entry,
      reader,
      where,
      path: (text) => absolutePath(file.folder, text),
      problem: (field, message) => reader.findings.problem(where(field), message),
    };
    const cron = entry.when === 'after-sync' ? null : entry.when;
    const fault = cron === null ? null : cronFault(cron);
    if (fault !== null) {
      reading.problem('when', `${fault}: write after-sync, or a cron expression such as 0 5 * * *`);
    }
    const target = targetOf(reading);
    if (target === null) return [];
    const { name, views, sellers = null, columns = {} } = entry;
    for (const view of Object.keys(columns).filter((one) => !views.includes(one))) {
      reading.problem(
        'columns',
        `names the view ${view}, which the feed does not deliver: remove it`,
      );
    }
    const feed = { name, target, place: placeOf(target), views, sellers, cron, timeZone, columns };
    return [{ feed: { ...feed, ...hashedColumns(reading) }, reading }];
  });
  for (const [n, { feed, reading }] of feeds.entries()) {
    const other = feeds.slice(0, n).find((one) => meet(one.feed, feed));
    if (other === undefined) continue;
    const fault = `fills a table or folder that feed ${other.feed.name} fills, too`;
    reading.problem('views', `${fault}: give each feed its own`);
  }
  return feeds.map(({ feed }) => feed);
}

/** Whether two feeds would fill the same table or folder. */
function meet(one: FeedConfig, other: FeedConfig): boolean {
  if (placeKey(one.target) !== placeKey(other.target)) return false;
  return one.target.kind === 'folder' || one.views.some((view) => other.views.includes(view));
}

/** The same text for the same place, whoever logs in. */
function placeKey(target: FeedTarget): string {
  if (target.kind === 'folder' || target.kind === 'sqlite') return target.path;
  const { hostname, port, pathname, searchParams } = new URL(target.url.reveal());
  const usual = target.kind === 'mysql' ? '3306' : '5432';
  const schema = target.kind === 'postgres' ? target.schema : '';
  const socket = searchParams.get('socketPath') ?? searchParams.get('host') ?? '';
  return [target.kind, hostname, port || usual, pathname, socket, schema].join(' ');
}

/** The columns that an entry wants hashed, and the salt. Reports what does not fit. */
function hashedColumns({ entry, reader, path, where, problem }: Reading) {
  const { hash = [], hashSaltFile, views, columns = {} } = entry;
  const byView: Record<string, string[]> = {};
  for (const name of hash) {
    const [view = '', column = ''] = name.split('.');
    (byView[view] ??= []).push(column);
    const isKey = viewFacts(view).key?.includes(column) === true;
    if (!views.includes(view)) {
      problem('hash', `names ${name}, but the feed does not deliver ${view}: remove it`);
    } else if (isKey) problem('hash', `names ${name}, which is part of a key: remove it`);
  }
  for (const [view, hashed] of Object.entries(byView)) {
    const { codes } = viewFacts(view);
    const whole = codes.filter(
      (code) => !hashed.includes(code) && columns[view]?.includes(code) !== false,
    );
    if (whole.length === 0 || whole.length === codes.length) continue;
    const names = whole.map((code) => `${view}.${code}`).join(', ');
    problem('hash', `leaves whole codes in ${view}: name ${names} as well`);
  }
  if ((entry.hash === undefined) !== (hashSaltFile === undefined)) {
    problem('hashSaltFile', 'and hash: set both or neither');
    return { hash: byView, salt: null };
  }
  if (hashSaltFile === undefined) return { hash: {}, salt: null };
  const what = 'the salt of hashed columns';
  const salt = reader.secretFile(where('hashSaltFile'), path(hashSaltFile), what);
  if (salt === null) return { hash: byView, salt };
  if (salt.length < SALT_CHARACTERS) {
    const fault = `has fewer than ${SALT_CHARACTERS} characters`;
    problem('hashSaltFile', `${fault}: write a long random text into the file`);
  }
  reader.findings.hide([salt]);
  return { hash: byView, salt: new Secret(salt) };
}

/** A shorter salt can be guessed, and with it the codes. */
const SALT_CHARACTERS = 16;

/** The target of an entry. Reports a target that can't be used, and returns null. */
function targetOf({ entry, reader, path, where, problem }: Reading): FeedTarget | null {
  const { target, folder, format = 'parquet', schema = 'public', passwordFile } = entry;
  if ((target === undefined) === (folder === undefined)) {
    problem('target', 'and folder: set exactly one of them');
    return null;
  }
  if (folder !== undefined) return { kind: 'folder', path: path(folder), format };
  const address = target ?? '';
  const sqlite = /^sqlite:(?:\/\/(?=\/))?(.+)$/.exec(address)?.[1];
  if (sqlite !== undefined) return { kind: 'sqlite', path: path(sqlite) };
  const url = parseUrl(address);
  const kind = KINDS[url?.protocol ?? ''];
  if (url === null || kind === undefined || url.pathname.length < 2) {
    problem(
      'target',
      'is not an address: write postgresql://user@host/database, mysql://user@host/database or sqlite:reports.db',
    );
    return null;
  }
  const { known, advice } = PARAMETERS[kind];
  for (const [name, value] of url.searchParams) {
    if (known[name]?.test(value) === true) continue;
    const shown = /^[\w-]{1,40}$/.test(name) ? name : '?';
    problem(
      'target',
      `has the parameter ${shown} with a meaning that is not known here: ${advice}`,
    );
  }
  const passwords = passwordsIn(address);
  if (passwords.length > 0) reader.findings.hide([...passwords, url.href]);
  if (percentDecoded(address) === null) {
    problem('target', 'contains a % outside a percent-encoded character: write % as %25');
    return null;
  }
  if (passwordFile !== undefined) {
    const what = 'the password of the target';
    const password = reader.secretFile(where('passwordFile'), path(passwordFile), what);
    if (password === null) return null;
    url.password = encodeURIComponent(password);
  }
  const secret = new Secret(url.href);
  return kind === 'mysql' ? { kind, url: secret } : { kind, url: secret, schema };
}

const KINDS: Readonly<Record<string, 'postgres' | 'mysql'>> = {
  'postgresql:': 'postgres',
  'postgres:': 'postgres',
  'mysql:': 'mysql',
  'mariadb:': 'mysql',
};

/** The parameters of addresses that are understood. Others might ask for encryption, and would be ignored. */
const PARAMETERS: Readonly<
  Record<
    'postgres' | 'mysql',
    { readonly known: Readonly<Record<string, RegExp>>; readonly advice: string }
  >
> = {
  postgres: {
    known: {
      sslmode: /^(?:disable|require|verify-ca|verify-full|no-verify)$/,
      ...{ sslrootcert: /./, sslcert: /./, sslkey: /./, host: /^\// },
    },
    advice: 'use sslmode=verify-full for TLS, and sslrootcert for the file of an authority',
  },
  mysql: {
    known: { ssl: /^(?:true|false)$/, socketPath: /^\// },
    advice: 'use ssl=true for TLS',
  },
};

function placeOf(target: FeedTarget): string {
  if (target.kind === 'folder') return `${target.path} (${target.format})`;
  if (target.kind === 'sqlite') return target.path;
  const { protocol, host, pathname } = new URL(target.url.reveal());
  return `${protocol}//${host}${pathname}`;
}
