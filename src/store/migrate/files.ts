import { createHash } from 'node:crypto';
import { readFile, readdir } from 'node:fs/promises';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';

/** A migration as it is on disk. */
export interface MigrationOnDisk {
  /** Its folder's name, by which Prisma knows it. */
  readonly name: string;
  readonly sql: string;
  /** SHA-256 of the file in hex, as Prisma records it. */
  readonly checksum: string;
}

/** `prisma/migrations` of the package; src/ and dist/ are equally deep in it. */
export const MIGRATIONS_FOLDER = fileURLToPath(
  new URL('../../../prisma/migrations', import.meta.url),
);

/** Migrations of `folder` in the order in which they are applied. */
export async function readMigrations(folder: string): Promise<MigrationOnDisk[]> {
  const entries = await readdir(folder, { withFileTypes: true });
  const names = entries.filter((entry) => entry.isDirectory()).map((entry) => entry.name);
  return await Promise.all(
    names.sort().map(async (name) => {
      const sql = await readFile(join(folder, name, 'migration.sql'), 'utf8');
      return { name, sql, checksum: checksum(sql) };
    }),
  );
}

export function checksum(sql: string): string {
  return createHash('sha256').update(sql).digest('hex');
}
