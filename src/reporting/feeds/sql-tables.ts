import type { ViewColumn } from '../views.js';
import type { Dialect, FoundTable, SqlConnection, SqlValue } from './dialect.js';
import { NO_TOKENS, ownership, UNKNOWN_BUCKET, type Owner } from './plan.js';
import {
  BUCKET,
  CHECK,
  HASH,
  OWNERS,
  ViewProblem,
  type Found,
  type Shape,
  type TokenStep,
} from './target.js';

/** The table in which earlier versions recorded how far each view was, and the prefix of their staging tables. */
const OLD_CURSORS = '_seller_mirror_feeds';
const OLD_STAGING = '_seller_mirror_load_';
/** The temporary table of the rows to write. */
export const STAGING = '_seller_mirror_new';
/** Hash of rows of an earlier version, and of rows that were edited by hand. */
export const NO_HASH = -1;

/** The columns of every delivered row, besides its values. */
const OWN_COLUMNS: readonly ViewColumn[] = [
  { name: HASH, type: 'bigint' },
  { name: BUCKET, type: 'integer' },
  { name: CHECK, type: 'bigint' },
];

/** The tables of a feed in an SQL database: who owns them, and what they lack. */
export class FeedTables {
  readonly #db: SqlConnection;
  readonly #dialect: Dialect;
  readonly #feed: string;
  /** Which of the tables that belong to no view there are. */
  readonly #known = new Map<string, boolean>();

  constructor(connection: SqlConnection, dialect: Dialect, feed: string) {
    this.#db = connection;
    this.#dialect = dialect;
    this.#feed = feed;
  }

  async find(shape: Shape): Promise<Found> {
    const { view, columns } = shape;
    const found = await this.#dialect.table(view);
    const owners = await this.#owners(view);
    if (found === null) {
      const plan = `would create the table, with ${columns.length} columns`;
      return { plan, isReady: false, isEmpty: true, owners };
    }
    const { missing, narrow } = this.#faults(shape, found);
    const own = OWN_COLUMNS.some(({ name }) => !found.columns.has(name));
    const isOld = await this.#isOfEarlierVersion(view);
    const plans = [
      ...(isOld ? ['would take over the table that an earlier version filled'] : []),
      ...(missing.length > 0 ? [`would add ${missing.map(({ name }) => name).join(', ')}`] : []),
      ...(narrow.length > 0 ? [`would widen ${narrow.map(({ name }) => name).join(', ')}`] : []),
      ...(own && !isOld ? [`would add ${OWN_COLUMNS.map(({ name }) => name).join(', ')}`] : []),
    ];
    const isEmpty = !(await this.hasRows(view));
    return { plan: plans.join('; ') || null, isReady: plans.length === 0, isEmpty, owners };
  }

  /** What a table lacks. @throws {ViewProblem} if it can't take the view's rows */
  #faults({ view, columns, key }: Shape, { columns: existing, unique, isTable }: FoundTable) {
    const { typeOf, fit } = this.#dialect;
    const again = `then \`seller-mirror feed run ${this.#feed}\``;
    if (!isTable) {
      throw new ViewProblem(
        `${view} is not a table in the target`,
        `rename it, so that the feed can create its table; ${again}`,
      );
    }
    const missing: ViewColumn[] = [];
    const narrow: ViewColumn[] = [];
    for (const column of columns) {
      const found = existing.get(column.name);
      const type = typeOf(column, key?.includes(column.name) === true);
      const how = found === undefined ? 'missing' : fit(found, type);
      if (how === 'missing') missing.push(column);
      else if (how === 'narrow' && this.#dialect.widen !== null) narrow.push(column);
      else if (how !== 'fits') {
        throw new ViewProblem(
          `column ${column.name} of table ${view} has type ${found}, but the view has ${type}`,
          `change the column’s type to ${type}, or rename the table; ${again}`,
        );
      }
    }
    const wanted = [...(key ?? [])].sort().join(', ');
    if (key !== null && !unique.some((names) => [...names].sort().join(', ') === wanted)) {
      throw new ViewProblem(
        `table ${view} has no primary key or unique index on ${key.join(', ')}`,
        `add a primary key on (${key.join(', ')}), or rename the table; ${again}`,
      );
    }
    return { missing, narrow };
  }

  async prepare(shape: Shape, { isReady }: Found): Promise<void> {
    if (isReady && (await this.#has(OWNERS))) return;
    await this.#dialect.withLock(async () => {
      await this.#createOwners();
      await this.#createOrExtend(shape);
      if (await this.#isOfEarlierVersion(shape.view)) await this.#adopt(shape);
    });
  }

  /** Whether there is a table that belongs to no view. Asked once, since the answer takes milliseconds. */
  async #has(table: string): Promise<boolean> {
    const known = this.#known.get(table);
    if (known !== undefined) return known;
    const found = (await this.#dialect.table(table)) !== null;
    this.#known.set(table, found);
    return found;
  }

  async #createOwners(): Promise<void> {
    if (await this.#has(OWNERS)) return;
    await this.#dialect.createSchema();
    await this.#db.query(
      `CREATE TABLE IF NOT EXISTS ${this.#dialect.tableName(OWNERS)} (
         view_name varchar(63) NOT NULL, token varchar(36) NOT NULL PRIMARY KEY,
         ${this.#define({ name: 'sellers', type: 'text' })}, delivered_at bigint NOT NULL)
       ${this.#dialect.tableOptions}`,
    );
    this.#known.delete(OWNERS);
  }

  async #createOrExtend(shape: Shape): Promise<void> {
    const { view, columns, key } = shape;
    const { tableName, quote, typeOf, widen, tableOptions } = this.#dialect;
    const name = tableName(view);
    const found = await this.#dialect.table(view);
    if (found === null) {
      const list = [...columns, ...OWN_COLUMNS].map((column) =>
        this.#define(column, key?.includes(column.name)),
      );
      const primary = key === null ? [] : [`PRIMARY KEY (${key.map(quote).join(', ')})`];
      await this.#db.query(
        `CREATE TABLE IF NOT EXISTS ${name} (${[...list, ...primary].join(', ')}) ${tableOptions}`,
      );
      return;
    }
    const { missing, narrow } = this.#faults(shape, found);
    const own = OWN_COLUMNS.filter((column) => !found.columns.has(column.name));
    // Until a delivery is complete, rows lack the values of a new column, which their hash does not show.
    await this.#db.update(`UPDATE ${tableName(OWNERS)} SET delivered_at = 0 WHERE view_name = ?`, [
      view,
    ]);
    for (const column of [...missing, ...own]) {
      await this.#db.query(`ALTER TABLE ${name} ADD COLUMN ${this.#define(column)}`);
    }
    for (const column of narrow) {
      const type = typeOf(column, key?.includes(column.name) === true);
      if (widen !== null) await this.#db.query(widen(name, quote(column.name), type));
    }
  }

  #define(column: ViewColumn, isKey = false): string {
    const type = this.#dialect.typeOf(column, isKey);
    return `${this.#dialect.quote(column.name)} ${type}${isKey ? ' NOT NULL' : ''}`;
  }

  /** Whether an earlier version filled the view's table for this feed. */
  async #isOfEarlierVersion(view: string): Promise<boolean> {
    if (!(await this.#has(OLD_CURSORS))) return false;
    const rows = await this.#db.query(
      `SELECT 1 FROM ${this.#dialect.tableName(OLD_CURSORS)} WHERE feed = ? AND view_name = ? AND epoch IS NOT NULL`,
      [this.#feed, view],
    );
    return rows.length > 0;
  }

  /** Makes the rows of an earlier version rows of the feed, which are then compared with the view. */
  async #adopt({ view, sellers }: Shape): Promise<void> {
    const { tableName } = this.#dialect;
    const own = sellersSql('t', sellers);
    await this.inTransaction(async () => {
      await this.#db.update(
        `UPDATE ${tableName(view)} AS t SET ${HASH} = ${NO_HASH}, ${BUCKET} = ${UNKNOWN_BUCKET}
          WHERE ${HASH} IS NULL AND ${own.sql}`,
        own.values,
      );
      await this.#db.update(
        `DELETE FROM ${tableName(OLD_CURSORS)} WHERE feed = ? AND view_name = ?`,
        [this.#feed, view],
      );
    });
  }

  async tidy(): Promise<void> {
    const { tableName, tablesWithPrefix, withLock } = this.#dialect;
    if (!(await this.#has(OLD_CURSORS))) return;
    const [left] = await this.#db.query(
      `SELECT 1 FROM ${tableName(OLD_CURSORS)} WHERE epoch IS NOT NULL LIMIT 1`,
    );
    if (left !== undefined) return;
    await withLock(async () => {
      for (const name of [OLD_CURSORS, ...(await tablesWithPrefix(OLD_STAGING))]) {
        await this.#db.query(`DROP TABLE IF EXISTS ${tableName(name)}`);
      }
    });
  }

  async #owners(view: string): Promise<Owner[]> {
    if (!(await this.#has(OWNERS))) return [];
    const rows = await this.#db.query(
      `SELECT token, sellers, delivered_at FROM ${this.#dialect.tableName(OWNERS)} WHERE view_name = ?`,
      [view],
    );
    return rows.map((row) => {
      const sellers = row['sellers'] as string | null;
      return {
        token: String(row['token']),
        sellers: sellers === null ? null : (JSON.parse(sellers) as string[]),
        deliveredAt: new Date(Number(row['delivered_at'])),
      };
    });
  }

  async own({ view, sellers }: Shape, token: string, replaced: readonly string[]): Promise<void> {
    const owners = this.#dialect.tableName(OWNERS);
    await this.#dialect.withLock(() =>
      this.inTransaction(async () => {
        const others = (await this.#owners(view)).filter((one) => !replaced.includes(one.token));
        if (ownership(others, NO_TOKENS, sellers).kind === 'taken') {
          throw new ViewProblem(`another store has just begun to fill ${view}`, 'try again');
        }
        for (const one of replaced) {
          await this.#db.update(`DELETE FROM ${owners} WHERE token = ?`, [one]);
        }
        await this.#db.update(
          `INSERT INTO ${owners} (view_name, token, sellers, delivered_at) VALUES (?, ?, ?, 0)`,
          [view, token, sellersText(sellers)],
        );
      }),
    );
  }

  async hasRows(view: string): Promise<boolean> {
    const rows = await this.#db.query(`SELECT 1 FROM ${this.#dialect.tableName(view)} LIMIT 1`);
    return rows.length > 0;
  }

  /** Creates a temporary table for rows, with the types of the view's table. @param isJoined with that table */
  async createStaging(shape: Shape, isJoined: boolean): Promise<void> {
    const { quote, typeOf, table, tableOptions } = this.#dialect;
    const found = await table(shape.view);
    const list = [...shape.columns, ...OWN_COLUMNS].map((column) => {
      const isKey = shape.key?.includes(column.name) === true;
      const type = found?.columns.get(column.name) ?? typeOf(column, isKey);
      return `${quote(column.name)} ${type}`;
    });
    const key = (shape.key ?? []).map(quote);
    const isKeyed = isJoined && key.length > 0 && this.#dialect.needsStagingKey;
    const primary = isKeyed ? [`PRIMARY KEY (${key.join(', ')})`] : [];
    await this.#db.query(`DROP TABLE IF EXISTS ${quote(STAGING)}`);
    await this.#db.query(
      `CREATE TEMPORARY TABLE ${quote(STAGING)} (${[...list, ...primary].join(', ')}) ${tableOptions}`,
    );
  }

  async createIndexes({ view, indexed }: Shape): Promise<void> {
    const { createIndex, tableName, withLock } = this.#dialect;
    if (indexed.length === 0) return;
    await withLock(async () => {
      for (const column of indexed) await createIndex(`${view}_${column}`, tableName(view), column);
    });
  }

  /** @throws {ViewProblem} if the target no longer holds the token */
  async takeToken({ view, sellers }: Shape, { from, to }: TokenStep): Promise<void> {
    const found = await this.#db.update(
      `UPDATE ${this.#dialect.tableName(OWNERS)} SET token = ?, sellers = ?, delivered_at = ?
        WHERE view_name = ? AND token = ?`,
      [to, sellersText(sellers), Date.now(), view, from],
    );
    if (found === 1) return;
    throw new ViewProblem(
      `another store has filled ${view} during this delivery`,
      `\`seller-mirror feed check ${this.#feed}\` shows who owns it`,
    );
  }

  /** Rolls back if `work` fails. */
  async inTransaction<T>(work: () => Promise<T>): Promise<T> {
    await this.#db.query(this.#dialect.begin);
    try {
      const result = await work();
      await this.#db.query('COMMIT');
      return result;
    } catch (error) {
      await this.#db.query('ROLLBACK').catch(() => undefined);
      throw error;
    }
  }
}

/** A condition with its parameters. */
export interface Condition {
  readonly sql: string;
  readonly values: readonly SqlValue[];
}

/** The condition of rows of these sellers; null: all. @param table its name or alias */
export function sellersSql(table: string, sellers: readonly string[] | null): Condition {
  if (sellers === null) return { sql: '1 = 1', values: [] };
  return {
    sql: `${table}.seller_id IN (${sellers.map(() => '?').join(', ')})`,
    values: sellers,
  };
}

function sellersText(sellers: readonly string[] | null): string | null {
  return sellers === null ? null : JSON.stringify([...sellers].sort());
}
