import { z } from 'zod';
import { BackupError } from './error.js';

/** Raised when an older program could no longer read what is written. */
export const FORMAT = 1;

/** The first file of a backup, so that anybody can tell what it is. */
export const HEAD_FILE = 'seller-mirror-backup.json';
/** The last one: what is in it, and what proves that all of it is there. */
export const MANIFEST_FILE = 'manifest.json';

const COLUMN = z.object({ name: z.string(), type: z.string() });

const TABLE = z.object({
  /** In schema `mirror`. */
  name: z.string().regex(/^\w+$/),
  columns: z.array(COLUMN),
  rows: z.number().int().nonnegative(),
  /** Of the rows as PostgreSQL's COPY writes them as text. */
  bytes: z.number().int().nonnegative(),
  sha256: z.string(),
});

const MANIFEST = z.object({
  format: z.literal(FORMAT),
  /** The moment whose state it is. */
  createdAt: z.iso.datetime(),
  /** Names of the migrations that the store had, in their order. */
  migrations: z.array(z.string()),
  /** Those that others refer to come first. */
  tables: z.array(TABLE),
  /** The last number that each sequence gave out; null: none yet. */
  sequences: z.array(z.object({ name: z.string(), last: z.string().regex(/^\d+$/).nullable() })),
});

export type BackupManifest = z.infer<typeof MANIFEST>;
export type BackupTable = z.infer<typeof TABLE>;
export type BackupColumn = z.infer<typeof COLUMN>;

const HEAD = z.object({ format: z.number() });

/** Reads the first file. @throws {BackupError} when this program can't read what follows */
export function checkHead(data: Buffer): void {
  const head = HEAD.safeParse(jsonIn(data));
  if (!head.success) throw BackupError.damaged('its head can’t be read');
  if (head.data.format > FORMAT) throw tooNew(`format ${head.data.format}`);
}

/** Reads the last file. @throws {BackupError} when it can't be read */
export function readManifest(data: Buffer): BackupManifest {
  const manifest = MANIFEST.safeParse(jsonIn(data));
  if (!manifest.success) throw BackupError.damaged('its list of contents can’t be read');
  return manifest.data;
}

export function tooNew(what: string): BackupError {
  return new BackupError(
    `the backup was made by a newer version of this program (${what})`,
    'Nothing was changed. Upgrade this program, then repeat.',
  );
}

function jsonIn(data: Buffer): unknown {
  try {
    return JSON.parse(data.toString('utf8'));
  } catch {
    return null;
  }
}
