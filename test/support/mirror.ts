import { afterAll, afterEach, beforeAll } from 'vitest';
import pg from 'pg';
import { silentLog } from '../../src/domain/log.js';
import { Secret } from '../../src/domain/secret.js';
import type { RunDeps } from '../../src/catalogue/types.js';
import { unlimitedBudget } from '../../src/marketplace/budget.js';
import { createMarketplace } from '../../src/marketplace/client.js';
import type { Marketplace, MarketplaceOptions } from '../../src/marketplace/types.js';
import { openQueues, type Queues } from '../../src/service/queue/queues.js';
import { openMirror, type Mirror as Reader } from '../../src/db/mirror.js';
import {
  startSimulator,
  type Simulator,
  type SimulatorOptions,
} from '../../src/simulator/index.js';
import { type Db, openDb } from '../../src/db/db.js';
import { DbClient } from '../../src/db/connection.js';
import { createTestDatabase, emptyTables } from './postgres.js';

export const KEY = 'k3y-0123456789abcdef0123456789abcdef';

/** A row of `mirror.items` as the driver returns it. */
export type ItemRow = Record<string, unknown> & { item_id: string; state: string };

/** A row without its place on disk, and without the hash of its bytes in the list. */
export function contentOf({ place: _place, written_by: _by, wire_hash: _hash, ...row }: ItemRow) {
  return row;
}

/** A simulated marketplace, a test database, and the real jobs between them. */
export class Mirror {
  readonly #opened: Marketplace[] = [];
  readonly #simulators: Simulator[] = [];
  #calls = 0;
  #queues: Promise<Queues> | null = null;
  #reader: Promise<Reader> | null = null;

  private constructor(
    readonly db: Db,
    readonly pool: pg.Pool,
    readonly databaseUrl: string,
    readonly drop: () => Promise<void>,
  ) {}

  static async open(): Promise<Mirror> {
    const database = await createTestDatabase();
    const pool = new pg.Pool({ Client: DbClient, connectionString: database.url, max: 3 });
    // Dropping the database may cut a connection that is about to end.
    pool.on('error', () => undefined);
    return new Mirror(openDb(database.url, 'test'), pool, database.url, () => database.drop());
  }

  async simulate(options: SimulatorOptions): Promise<Simulator> {
    const simulator = await startSimulator(options);
    this.#simulators.push(simulator);
    return simulator;
  }

  /** What jobs need, with quick retries. @param url of the marketplace */
  deps(
    url: string,
    options: Partial<RunDeps> & { client?: Partial<MarketplaceOptions> } = {},
  ): RunDeps {
    const { client, ...rest } = options;
    const marketplace = createMarketplace({
      baseUrl: new URL(url),
      key: new Secret(KEY),
      retry: { attempts: 2, baseMs: 1, maxMs: 20 },
      budget: unlimitedBudget,
      onCall: ({ redirects }) => (this.#calls += 1 + redirects),
      ...client,
    });
    this.#opened.push(marketplace);
    return {
      db: this.db,
      marketplace,
      sellerId: 'main',
      removalGuard: { items: 10, percent: 20 },
      lookupsPerRun: 100,
      requestsPerMinute: 0,
      holder: 'a test',
      callCount: () => this.#calls,
      ...rest,
    };
  }

  /** Queues in this database, closed with it. */
  queues(): Promise<Queues> {
    const { databaseUrl } = this;
    return (this.#queues ??= openQueues({
      target: null,
      databaseUrl,
      prefix: 'test',
      keepJobsDays: 1,
      applicationName: 'test',
      log: silentLog,
    }));
  }

  /** The client that pages read through, closed with this database. */
  reader(): Promise<Reader> {
    return (this.#reader ??= openMirror({ databaseUrl: this.databaseUrl }));
  }

  async rows<T extends Record<string, unknown>>(sql: string, values: unknown[] = []): Promise<T[]> {
    return (await this.pool.query<T>(sql, values)).rows;
  }

  /** All items, with the system columns that change with every write of a row. */
  items(sellerId = 'main'): Promise<ItemRow[]> {
    return this.rows<ItemRow>(
      'SELECT *, xmin::text AS written_by, ctid::text AS place FROM mirror.items WHERE seller_id = $1 ORDER BY item_id',
      [sellerId],
    );
  }

  /** The id of the newest audit; empty without one. */
  async newestAudit(): Promise<string> {
    const [row] = await this.rows<{ id: string | null }>(
      'SELECT max(audit_id) AS id FROM mirror.audits',
    );
    return row?.id ?? '';
  }

  /** Empties the tables and closes what a test opened. */
  async reset(): Promise<void> {
    await Promise.all(this.#opened.splice(0).map((marketplace) => marketplace.close()));
    await Promise.all(this.#simulators.splice(0).map((simulator) => simulator.close()));
    await emptyTables(this.pool, 'mirror');
    // A killed worker may have left jobs.
    await emptyTables(this.pool, 'bullmq');
  }

  async close(): Promise<void> {
    await this.reset();
    await (await this.#queues)?.close();
    await (await this.#reader)?.close();
    await this.db.close();
    await this.pool.end();
    await this.drop();
  }
}

/** Opens one `Mirror` for the tests of a file, and empties it after each test. */
export function useMirror(): () => Mirror {
  let mirror: Mirror | null = null;
  beforeAll(async () => {
    mirror = await Mirror.open();
  });
  afterEach(async () => {
    await mirror?.reset();
  });
  afterAll(async () => {
    await mirror?.close();
  });
  return () => {
    if (mirror === null) throw new Error('used before beforeAll');
    return mirror;
  };
}

/** Stores missing items whose removal a run holds, proven to be gone or not. */
export async function holdItems(
  mirror: Mirror,
  sellerId: string,
  runId: bigint | string,
  count: number,
  isProven: boolean,
): Promise<void> {
  await mirror.rows(
    `WITH items AS (
       INSERT INTO mirror.items (seller_id, item_id, name, options, tags, screenshots, state, first_seen_at,
                                 changed_at, synced_run_id, valid_from, wire_hash, extra, raw)
       SELECT $1, n, 'Theme ' || n, '{}', '{}', '{}', 'missing', now(), now(), $2, now(), '\\x00', '{}', '{}'
         FROM generate_series(1, $3) n RETURNING item_id
     ), held AS (
       INSERT INTO mirror.held_items (run_id, seller_id, item_id, confirmed) SELECT $2, $1, item_id, $4 FROM items
     ), lookups AS (
       INSERT INTO mirror.item_lookups (seller_id, item_id, looked_up_at, outcome, run_id)
       SELECT $1, item_id, now(), 'gone', $2 FROM items WHERE $4
     )
     UPDATE mirror.sellers SET missing_items = $3 WHERE seller_id = $1`,
    [sellerId, runId, count, isProven],
  );
}

/** Cuts the connections that hold sellers' locks, as if their process had died. */
export async function cutLock(mirror: Mirror): Promise<void> {
  await mirror.rows(
    `SELECT pg_terminate_backend(pid) FROM pg_locks
      WHERE locktype = 'advisory' AND granted AND pid <> pg_backend_pid()
        AND database = (SELECT oid FROM pg_database WHERE datname = current_database())`,
  );
}

export const never = new AbortController().signal;
