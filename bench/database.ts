import { createReadStream, createWriteStream } from 'node:fs';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { pipeline } from 'node:stream/promises';
import { Client } from 'pg';
import { from as copyFrom, to as copyTo } from 'pg-copy-streams';
import { migrate } from '#product/db/migrate.js';
import { startPostgres, type Postgres } from './servers.js';

/** The embedded PostgreSQL with its usual settings, in a temporary folder. */
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

  /** Writes the mirror's rows to a file, and makes the tables of the baselines. */
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

  /** The mirror's rows in COPY's binary format. */
  get rowsFile(): string {
    return join(this.folder, 'rows');
  }

  /** Empties the table and makes a checkpoint, so that no run pays for the writes of an earlier one. */
  async empty(table: 'mirror.items' | 'bench.items'): Promise<void> {
    await this.admin.query(`TRUNCATE ${table}`);
    if (table === 'mirror.items') {
      // Makes the next load a first load again.
      await this.admin.query(`
        TRUNCATE mirror.item_versions, mirror.item_changes;
        UPDATE mirror.sellers SET loaded_run_id = NULL, loaded_seq = NULL`);
    }
    await this.checkpoint();
  }

  /** Fills the baseline's table with the rows of the file, vacuumed and checkpointed. */
  async refill(): Promise<void> {
    await this.admin.query('TRUNCATE bench.items, bench.item_versions, bench.item_changes');
    const rows = createReadStream(this.rowsFile);
    const into = this.admin.query(copyFrom('COPY bench.items FROM STDIN (FORMAT binary)'));
    await pipeline(rows, into);
    await this.admin.query('VACUUM (ANALYZE) bench.items');
    await this.checkpoint();
  }

  /** Keeps autovacuum from disturbing the runs; `vacuum` does its work between them. */
  async stopAutovacuum(): Promise<void> {
    await this.admin.query('ALTER SYSTEM SET autovacuum = off');
    await this.admin.query('SELECT pg_reload_conf()');
  }

  /** Does what autovacuum does soon after a large change. */
  async vacuum(): Promise<void> {
    await this.admin.query(
      'VACUUM (ANALYZE) mirror.items, mirror.item_versions, mirror.item_changes',
    );
    await this.checkpoint();
  }

  /** Counts the item rows that `work` writes, changed or not. */
  async rowsWritten(work: () => Promise<unknown>): Promise<number> {
    const before = await this.#number('SELECT pg_current_xact_id()::text AS value');
    await work();
    return await this.#number(
      `SELECT count(*) AS value FROM mirror.items
        WHERE xmin::text::bigint > ${before} OR xmax::text::bigint > ${before}`,
    );
  }

  /** Bytes of WAL that `work` writes. */
  async walBytes(work: () => Promise<void>): Promise<number> {
    const { rows } = await this.admin.query<{ lsn: string }>('SELECT pg_current_wal_lsn() AS lsn');
    await work();
    return this.#number(`SELECT pg_wal_lsn_diff(pg_current_wal_lsn(), '${rows[0]?.lsn}') AS value`);
  }

  checkpoint(): Promise<unknown> {
    return this.admin.query('CHECKPOINT');
  }

  /** The number of old versions and changes of items. */
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
