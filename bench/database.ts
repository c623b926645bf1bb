import { createReadStream, createWriteStream } from 'node:fs';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { pipeline } from 'node:stream/promises';
import { Client } from 'pg';
import { from as copyFrom, to as copyTo } from 'pg-copy-streams';
import { migrate } from '#product/store/migrate.js';
import { startPostgres, type Postgres } from './soak/servers.js';

/** The embedded PostgreSQL in a temporary folder, with the settings that every user's has. */
export class BenchDatabase {
  private constructor(
    readonly url: string,
    readonly server: Postgres,
    readonly folder: string,
    readonly admin: Client,
  ) {}

  static async open(): Promise<BenchDatabase> {
    const server = await startPostgres();
    await migrate(server.url);
    const admin = new Client(await server.adminUrl());
    await admin.connect();
    const folder = await mkdtemp(join(tmpdir(), 'seller-mirror-bench-'));
    return new BenchDatabase(server.url, server, folder, admin);
  }

  /** Stops the server and removes its files. */
  async close(): Promise<void> {
    await this.admin.end();
    await this.server.close();
    await rm(this.folder, { recursive: true, force: true });
  }

  /** Writes the present rows to a file, and makes more tables like the mirror's, for the baselines. */
  async makeBaseline(): Promise<void> {
    await this.admin.query(`
      DROP SCHEMA IF EXISTS bench CASCADE;
      CREATE SCHEMA bench;
      CREATE TABLE bench.items (LIKE mirror.items INCLUDING ALL) WITH (toast_tuple_target = 4080);
      CREATE TABLE bench.item_versions (LIKE mirror.item_versions INCLUDING ALL);
      CREATE TABLE bench.item_changes (LIKE mirror.item_changes INCLUDING ALL);
      ALTER TABLE bench.items ADD FOREIGN KEY (seller_id) REFERENCES mirror.sellers (seller_id);
      GRANT USAGE ON SCHEMA bench TO PUBLIC;
      GRANT ALL ON ALL TABLES IN SCHEMA bench TO PUBLIC`);
    const rows = this.admin.query(copyTo('COPY mirror.items TO STDOUT (FORMAT binary)'));
    await pipeline(rows, createWriteStream(this.rowsFile));
  }

  /** Rows in binary form. */
  get rowsFile(): string {
    return join(this.folder, 'rows');
  }

  /** Empties the table, and has nothing left to write, so that no run pays for the one before. */
  async empty(table: 'mirror.items' | 'bench.items'): Promise<void> {
    await this.admin.query(`TRUNCATE ${table}`);
    if (table === 'mirror.items') {
      // The next load is a first one again.
      await this.admin.query(`
        TRUNCATE mirror.item_versions, mirror.item_changes;
        UPDATE mirror.sellers SET loaded_run_id = NULL, loaded_seq = NULL`);
    }
    await this.admin.query('CHECKPOINT');
  }

  /** Fills the baseline's table with the rows of the file, as if long ago. */
  async refill(): Promise<void> {
    await this.admin.query('TRUNCATE bench.items, bench.item_versions, bench.item_changes');
    const rows = createReadStream(this.rowsFile);
    const into = this.admin.query(copyFrom('COPY bench.items FROM STDIN (FORMAT binary)'));
    await pipeline(rows, into);
    await this.admin.query('VACUUM (ANALYZE) bench.items');
    await this.admin.query('CHECKPOINT');
  }

  /** Keeps autovacuum from working beside what is measured; `settle` does its work between the runs. */
  async stopAutovacuum(): Promise<void> {
    await this.admin.query('ALTER SYSTEM SET autovacuum = off');
    await this.admin.query('SELECT pg_reload_conf()');
  }

  /** What autovacuum does soon after a large change. */
  async settle(): Promise<void> {
    await this.admin.query(
      'VACUUM (ANALYZE) mirror.items, mirror.item_versions, mirror.item_changes',
    );
    await this.admin.query('CHECKPOINT');
  }

  /** Counts the versions of rows that `work` writes, whatever they say. */
  async rowsWritten(work: () => Promise<unknown>): Promise<number> {
    const before = await this.#number('SELECT pg_current_xact_id()::text AS value');
    await work();
    return await this.#number(
      `SELECT count(*) AS value FROM mirror.items
        WHERE xmin::text::bigint > ${before} OR xmax::text::bigint > ${before}`,
    );
  }

  /** Number of rows of history: superseded states, and changes. */
  historyRows(): Promise<number> {
    return this.#number(
      `SELECT (SELECT count(*) FROM mirror.item_versions)
            + (SELECT count(*) FROM mirror.item_changes) AS value`,
    );
  }

  async #number(sql: string): Promise<number> {
    const { rows } = await this.admin.query<{ value: string }>(sql);
    return Number(rows[0]?.value);
  }
}
