import { z } from 'zod';
import { Secret } from '../domain/secret.js';
import { readListFile } from './list-file.js';
import { absolutePath, readSecretFile, type Reader } from './reader.js';
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
  /** Deletes the target's copies of deleted rows, or keeps and marks them. */
  readonly deletes: 'delete' | 'mark';
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
  deletes: z.enum(['delete', 'mark']).default('delete'),
});

const FILE = {
  setting: 'FEEDS_FILE',
  list: 'feeds',
  noun: 'feed',
  entry: ENTRY,
  nameKey: (name: string) => name.toLowerCase(),
} as const;

type Entry = z.infer<typeof ENTRY>;

/** Reads the feeds in FEEDS_FILE, and reports all problems. */
export function readFeeds(reader: Reader): readonly FeedConfig[] {
  const file = readListFile(reader, FILE);
  if (file === null) return [];
  const { findings } = reader;
  return file.entries.flatMap(({ entry, where: place }) => {
    const where = (field: string): string => `${place}.${field}`;
    const problem = (field: string, message: string): void =>
      findings.problem(where(field), message);
    const cron = entry.when === 'after-sync' ? null : entry.when;
    const fault = cron === null ? null : reader.options.cronFault(cron);
    if (fault !== null) {
      problem('when', `${fault}: write after-sync, or a cron expression such as 0 5 * * *`);
    }
    const target = targetOf(entry, file.folder, reader, where);
    if (target === null) return [];
    const { name, views, sellers = null, deletes } = entry;
    const timeZone = reader.value('TZ') ?? zoneOfMachine();
    return [{ name, target, place: placeOf(target), views, sellers, cron, timeZone, deletes }];
  });
}

/** The target of an entry. Reports a target that can't be used, and returns null. */
function targetOf(
  entry: Entry,
  base: string,
  reader: Reader,
  where: (field: string) => string,
): FeedTarget | null {
  const { target, folder, format = 'parquet', schema = 'public', passwordFile } = entry;
  const { findings } = reader;
  if ((target === undefined) === (folder === undefined)) {
    findings.problem(where('target'), 'and folder: set exactly one of them');
    return null;
  }
  if (folder !== undefined) return { kind: 'folder', path: absolutePath(base, folder), format };
  const sqlite = /^sqlite:(?:\/\/(?=\/))?(.+)$/.exec(target ?? '')?.[1];
  if (sqlite !== undefined) return { kind: 'sqlite', path: absolutePath(base, sqlite) };
  const url = parseUrl(target ?? '');
  const kind = KINDS[url?.protocol ?? ''];
  if (url === null || kind === undefined || url.pathname.length < 2) {
    findings.problem(
      where('target'),
      'is not an address: write postgresql://user@host/database, mysql://user@host/database or sqlite:reports.db',
    );
    return null;
  }
  const passwords = passwordsIn(target ?? '');
  if (passwords.length > 0) findings.hide([...passwords, url.href]);
  if (percentDecoded(target ?? '') === null) {
    findings.problem(
      where('target'),
      'contains a % outside a percent-encoded character: write % as %25',
    );
    return null;
  }
  if (passwordFile !== undefined) {
    const path = absolutePath(base, passwordFile);
    const what = 'the password of the target';
    const password = readSecretFile(where('passwordFile'), path, what, findings);
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

function placeOf(target: FeedTarget): string {
  if (target.kind === 'folder') return `${target.path} (${target.format})`;
  if (target.kind === 'sqlite') return target.path;
  const { protocol, host, pathname } = new URL(target.url.reveal());
  return `${protocol}//${host}${pathname}`;
}
