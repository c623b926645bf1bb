import type { Pool } from 'pg';
import { checksum, type MigrationOnDisk } from './files.js';

/**
 * Schema of Prisma's table `_prisma_migrations`. Not `public`: there Prisma refuses to begin when
 * other tables exist, and another program's migrations would be taken for ours. Prisma's own
 * commands look here when the address ends in `?schema=mirror`.
 */
export const HISTORY_SCHEMA = 'mirror';

/** How a database stands to the migrations on disk. All are names of migrations. */
export interface MigrationState {
  /** On disk, and not applied. */
  readonly pending: string[];
  /** Begun and not finished; the next `migrate` tries them again. */
  readonly failed: string[];
  /** Applied in another wording than that on disk. */
  readonly edited: string[];
  /** Applied, and not on disk: the database is ahead of the program. */
  readonly unknown: string[];
}

interface HistoryRow {
  readonly name: string;
  readonly checksum: string;
  readonly finished: boolean;
}

/** Compares Prisma's history with the files; two small queries, no engine. */
export async function compareHistory(
  client: Pool,
  migrations: readonly MigrationOnDisk[],
): Promise<MigrationState> {
  const rows = await readHistory(client);
  const applied = new Map(rows.filter((row) => row.finished).map((row) => [row.name, row]));
  const known = new Set(migrations.map(({ name }) => name));
  const names = (list: readonly { name: string }[]) => [...new Set(list.map(({ name }) => name))];
  return {
    pending: names(migrations.filter(({ name }) => !applied.has(name))),
    failed: names(rows.filter(({ finished }) => !finished)),
    edited: names(
      migrations.filter((migration) => {
        const row = applied.get(migration.name);
        return row !== undefined && !isSameText(migration, row.checksum);
      }),
    ),
    unknown: names([...applied.values()].filter(({ name }) => !known.has(name))),
  };
}

/** Line ends may differ: Git changes them on some systems. */
function isSameText({ sql, checksum: own }: MigrationOnDisk, applied: string): boolean {
  const unix = sql.replaceAll('\r\n', '\n');
  return [own, checksum(unix), checksum(unix.replaceAll('\n', '\r\n'))].includes(applied);
}

async function readHistory(client: Pool): Promise<HistoryRow[]> {
  const table = `${HISTORY_SCHEMA}._prisma_migrations`;
  const found = await client.query<{ there: boolean }>(
    `SELECT to_regclass('${table}') IS NOT NULL AS there`,
  );
  if (found.rows[0]?.there !== true) return [];
  const { rows } = await client.query<HistoryRow>(
    `SELECT migration_name AS name, checksum, finished_at IS NOT NULL AS finished
     FROM ${table} WHERE rolled_back_at IS NULL ORDER BY started_at`,
  );
  return rows;
}
