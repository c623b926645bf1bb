import { UserError } from '../../domain/user-error.js';
import type { Content, ViewColumn } from '../views.js';
import type { Dialect, FoundTable, SqlConnection } from './dialect.js';
import { BUCKET, UNKNOWN_BUCKET, type Owner } from './plan.js';
import { CHECK, HASH, OWNERS, takenProblem, type Found, type TokenStep } from './target.js';

/** The table in which earlier versions recorded how far each view was. */
const OLD_CURSORS = '_seller_mirror_feeds';
/** The temporary table of the rows to write. */
export const STAGING = '_seller_mirror_new';
/** Hash of rows of an earlier version, and of rows that were edited by hand. */
export const NO_HASH = -1;

/** The columns of every delivered row, besides its values. */
export function ownColumns({ hasCheck }: Dialect): ViewColumn[] {
  const columns = [
    { name: HASH, type: 'bigint' },
    { name: BUCKET, type: 'integer' },
  ];
  return hasCheck ? [...columns, { name: CHECK, type: 'bigint' }] : columns;
}

/** The tables of a feed in an SQL database: who owns them, and what they lack. */
export class FeedTables {
  readonly #db: SqlConnection;
  readonly #dialect: Dialect;
  readonly #feed: string;
  readonly #own: readonly ViewColumn[];
  /** Which of the tables that belong to no view there are. */
  readonly #known = new Map<string, boolean>();

  constructor(connection: SqlConnection, dialect: Dialect, feed: string) {
    this.#db = connection;
    this.#dialect = dialect;
    this.#feed = feed;
    this.#own = ownColumns(dialect);
  }

  async find(content: Content): Promise<Found> {
    const { view, columns } = content;
    const found = await this.#dialect.table(view);
    const owners = await this.#owners(view);
    if (found === null) {
      const plan = `would create the table, with ${columns.length} columns`;
      return { plan, isReady: false, isEmpty: true, owners };
    }
    const { missing, narrow } = this.#faults(content, found);
    const own = this.#own.some(({ name }) => !found.columns.has(name));
    const isOld = await this.#isOfEarlierVersion(view);
    const plans = [
      ...(isOld ? ['would take over the table that an earlier version filled'] : []),
      ...(missing.length > 0 ? [`would add ${missing.map(({ name }) => name).join(', ')}`] : []),
      ...(narrow.length > 0 ? [`would widen ${narrow.map(({ name }) => name).join(', ')}`] : []),
      ...(own && !isOld ? [`would add ${this.#own.map(({ name }) => name).join(', ')}`] : []),
    ];
    const isEmpty = !(await this.hasRows(view));
    return { plan: plans.join('; ') || null, isReady: plans.length === 0, isEmpty, owners };
  }

  /** What a table lacks. @throws {UserError} if it can't take the view's rows */
  #faults({ view, columns, key }: Content, { columns: existing, unique, isTable }: FoundTable) {
    const { typeOf, fit } = this.#dialect;
    const again = `then \`seller-mirror feed run ${this.#feed}\``;
    if (!isTable) {
      throw new UserError(
        `${view} is not a table in the target`,
        `rename it, so that the feed can create its table; ${again}`,
        'VIEW',
      );
    }
    const missing: ViewColumn[] = [];
    const narrow: ViewColumn[] = [];
    for (const column of columns) {
      const found = existing.get(column.name);
      const type = typeOf(column, key?.includes(column.name));
      const how = found === undefined ? 'missing' : fit(found, type);
      if (how === 'missing') missing.push(column);
      else if (how === 'narrow' && this.#dialect.widen !== null) narrow.push(column);
      else if (how !== 'fits') {
        throw new UserError(
          `column ${column.name} of table ${view} has type ${found}, but the view has ${type}`,
          `change the column’s type to ${type}, or rename the table; ${again}`,
          'VIEW',
        );
      }
    }
    const wanted = [...(key ?? [])].sort().join(', ');
    if (key !== null && !unique.some((names) => [...names].sort().join(', ') === wanted)) {
      throw new UserError(
        `table ${view} has no primary key or unique index on ${key.join(', ')}`,
        `add a primary key on (${key.join(', ')}), or rename the table; ${again}`,
        'VIEW',
      );
    }
    return { missing, narrow };
  }

  async prepare(content: Content, { isReady }: Found): Promise<void> {
    if (isReady && (await this.#has(OWNERS))) return;
    await this.#dialect.withLock(async () => {
      await this.#createOwners();
      await this.#createOrExtend(content);
      if (await this.#isOfEarlierVersion(content.view)) await this.#adopt(content);
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
         view_name varchar(63) NOT NULL, token varchar(36) NOT NULL PRIMARY KEY, delivered_at bigint NOT NULL)
       ${this.#dialect.tableOptions}`,
    );
    this.#known.delete(OWNERS);
  }

  async #createOrExtend(content: Content): Promise<void> {
    const { view, columns, key } = content;
    const { tableName, quote, typeOf, widen, tableOptions } = this.#dialect;
    const name = tableName(view);
    const found = await this.#dialect.table(view);
    if (found === null) {
      const list = [...columns, ...this.#own].map((column) =>
        this.#define(column, key?.includes(column.name)),
      );
      const primary = key === null ? [] : [`PRIMARY KEY (${key.map(quote).join(', ')})`];
      await this.#db.query(
        `CREATE TABLE IF NOT EXISTS ${name} (${[...list, ...primary].join(', ')}) ${tableOptions}`,
      );
      return;
    }
    const { missing, narrow } = this.#faults(content, found);
    const own = this.#own.filter((column) => !found.columns.has(column.name));
    // Until a delivery is complete, rows lack the values of a new column, which their hash does not show.
    await this.#db.update(`UPDATE ${tableName(OWNERS)} SET delivered_at = 0 WHERE view_name = ?`, [
      view,
    ]);
    for (const column of [...missing, ...own]) {
      await this.#db.query(`ALTER TABLE ${name} ADD COLUMN ${this.#define(column)}`);
    }
    for (const column of narrow) {
      const type = typeOf(column, key?.includes(column.name));
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
  async #adopt({ view, sellers }: Content): Promise<void> {
    const { tableName } = this.#dialect;
    const own = sellers === null ? '' : `AND seller_id IN (${sellers.map(() => '?').join(', ')})`;
    await this.inTransaction(async () => {
      await this.#db.update(
        `UPDATE ${tableName(view)} SET ${HASH} = ${NO_HASH}, ${BUCKET} = ${UNKNOWN_BUCKET}
          WHERE ${HASH} IS NULL ${own}`,
        sellers ?? [],
      );
      await this.#db.update(
        `DELETE FROM ${tableName(OLD_CURSORS)} WHERE feed = ? AND view_name = ?`,
        [this.#feed, view],
      );
    });
    const left = await this.#db.query(
      `SELECT 1 FROM ${tableName(OLD_CURSORS)} WHERE epoch IS NOT NULL LIMIT 1`,
    );
    if (left.length > 0) return;
    await this.#db.query(`DROP TABLE ${tableName(OLD_CURSORS)}`);
    this.#known.delete(OLD_CURSORS);
  }

  async #owners(view: string): Promise<Owner[]> {
    if (!(await this.#has(OWNERS))) return [];
    const rows = await this.#db.query(
      `SELECT token, delivered_at FROM ${this.#dialect.tableName(OWNERS)} WHERE view_name = ?`,
      [view],
    );
    return rows.map((row) => ({
      token: String(row['token']),
      deliveredAt: new Date(Number(row['delivered_at'])),
    }));
  }

  async own(view: string, token: string, replaced: readonly Owner[]): Promise<void> {
    const owners = this.#dialect.tableName(OWNERS);
    const tokens = replaced.map((one) => one.token);
    await this.#dialect.withLock(() =>
      this.inTransaction(async () => {
        if ((await this.#owners(view)).some((one) => !tokens.includes(one.token))) {
          throw takenProblem(view, this.#feed);
        }
        await this.#db.update(`DELETE FROM ${owners} WHERE view_name = ?`, [view]);
        await this.#db.update(
          `INSERT INTO ${owners} (view_name, token, delivered_at) VALUES (?, ?, 0)`,
          [view, token],
        );
      }),
    );
  }

  async hasRows(view: string): Promise<boolean> {
    const rows = await this.#db.query(`SELECT 1 FROM ${this.#dialect.tableName(view)} LIMIT 1`);
    return rows.length > 0;
  }

  /** Creates a temporary table for rows, with the types and key of the view's table. */
  async createStaging({ view, columns, key }: Content): Promise<void> {
    const { quote, typeOf, table, tableOptions } = this.#dialect;
    const found = await table(view);
    const list = [...columns, ...this.#own].map((column) => {
      const type = found?.columns.get(column.name) ?? typeOf(column, key?.includes(column.name));
      return `${quote(column.name)} ${type}`;
    });
    if (key !== null) list.push(`PRIMARY KEY (${key.map(quote).join(', ')})`);
    await this.#db.query(`DROP TABLE IF EXISTS ${quote(STAGING)}`);
    await this.#db.query(
      `CREATE TEMPORARY TABLE ${quote(STAGING)} (${list.join(', ')}) ${tableOptions}`,
    );
  }

  /** @throws {UserError} if the target no longer holds the token */
  async takeToken(view: string, { from, to }: TokenStep): Promise<void> {
    const found = await this.#db.update(
      `UPDATE ${this.#dialect.tableName(OWNERS)} SET token = ?, delivered_at = ?
        WHERE view_name = ? AND token = ?`,
      [to, Date.now(), view, from],
    );
    if (found !== 1) throw takenProblem(view, this.#feed);
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
