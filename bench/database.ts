import { createWriteStream } from 'node:fs';
import { chmod, mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { pipeline } from 'node:stream/promises';
import { Client } from 'pg';
import { to as copyTo } from 'pg-copy-streams';
import type * as ConnectionsModule from '../src/store/embedded/connections.js';
import type * as EmbeddedModule from '../src/store/embedded/index.js';
import type * as MigrateModule from '../src/store/migrate.js';
import { product } from './product.js';

const { openEmbedded, release } = (await product(
  'store/embedded/index.js',
)) as typeof EmbeddedModule;
const { addressOf, readCredentials } = (await product(
  'store/embedded/connections.js',
)) as typeof ConnectionsModule;
const { migrate } = (await product('store/migrate.js')) as typeof MigrateModule;

export const FORMATS = ['binary', 'text'] as const;
export type Format = (typeof FORMATS)[number];

/** The embedded PostgreSQL in a temporary folder, with the settings that every user's has. */
export class BenchDatabase {
  readonly url: string;
  readonly #folder: string;
  readonly #admin: Client;
  readonly #close: () => Promise<void>;

  private constructor(url: string, folder: string, admin: Client, close: () => Promise<void>) {
    this.url = url;
    this.#folder = folder;
    this.#admin = admin;
    this.#close = close;
  }

  static async open(): Promise<BenchDatabase> {
    const folder = await mkdtemp(join(tmpdir(), 'seller-mirror-bench-'));
    await chmod(folder, 0o755); // root lends it to another account
    const embedded = await openEmbedded({ dataDir: folder, applicationName: 'bench' });
    await migrate(embedded.url);
    const credentials = await readCredentials(embedded.location);
    const admin = new Client(addressOf(credentials, embedded.port, 'admin', 'seller_mirror'));
    await admin.connect();
    return new BenchDatabase(embedded.url, folder, admin, async () => {
      await admin.end();
      await embedded.close();
      await release(folder, { now: true });
      await rm(embedded.location, { recursive: true, force: true });
      await rm(folder, { recursive: true, force: true });
    });
  }

  /** Stops the server and removes its files. */
  close(): Promise<void> {
    return this.#close();
  }

  /** Writes the present rows to files, and makes a second table like the first, for the baseline. */
  async makeBaseline(): Promise<void> {
    await this.#admin.query(`
      DROP SCHEMA IF EXISTS bench CASCADE;
      CREATE SCHEMA bench;
      CREATE TABLE bench.items (LIKE mirror.items INCLUDING ALL);
      ALTER TABLE bench.items ADD FOREIGN KEY (seller_id) REFERENCES mirror.sellers (seller_id);
      GRANT USAGE ON SCHEMA bench TO PUBLIC;
      GRANT ALL ON bench.items TO PUBLIC`);
    for (const format of FORMATS) {
      const rows = this.#admin.query(copyTo(`COPY mirror.items TO STDOUT (FORMAT ${format})`));
      await pipeline(rows, createWriteStream(this.rowsFile(format)));
    }
  }

  rowsFile(format: Format): string {
    return join(this.#folder, `rows.${format}`);
  }

  copyStatement(format: Format): string {
    return `COPY bench.items FROM STDIN (FORMAT ${format})`;
  }

  /** Empties the table, and has nothing left to write, so that no run pays for the one before. */
  async empty(table: 'mirror.items' | 'bench.items'): Promise<void> {
    await this.#admin.query(`TRUNCATE ${table}`);
    if (table === 'mirror.items') {
      // The next load is a first one again.
      await this.#admin.query(`
        TRUNCATE mirror.item_versions, mirror.item_changes;
        UPDATE mirror.sellers SET loaded_run_id = NULL, loaded_seq = NULL`);
    }
    await this.#admin.query('CHECKPOINT');
  }

  /** What autovacuum does soon after a large change. */
  async settle(): Promise<void> {
    await this.#admin.query('VACUUM (ANALYZE) mirror.items');
    await this.#admin.query('CHECKPOINT');
  }

  /** Counts the versions of rows that `work` writes, whatever they say. */
  async rowsWritten(work: () => Promise<unknown>): Promise<number> {
    const before = await this.#single('SELECT pg_current_xact_id()::text AS value');
    await work();
    const written = await this.#single(
      `SELECT count(*) AS value FROM mirror.items WHERE xmin::text::bigint > ${before} OR xmax::text::bigint > ${before}`,
    );
    return Number(written);
  }

  /** How many rows of history there are: superseded states, and changes told. */
  async historyRows(): Promise<number> {
    const rows = await this.#single(
      `SELECT (SELECT count(*) FROM mirror.item_versions)
            + (SELECT count(*) FROM mirror.item_changes) AS value`,
    );
    return Number(rows);
  }

  async #single(sql: string): Promise<string> {
    const { rows } = await this.#admin.query<{ value: string }>(sql);
    return rows[0]?.value ?? '';
  }
}
