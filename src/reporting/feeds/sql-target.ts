import type { Dialect, SqlConnection } from './dialect.js';
import { UNKNOWN_BUCKET, type KeyRow, type Sums } from './plan.js';
import { FeedTables, NO_HASH, sellersSql, STAGING, type Condition } from './sql-tables.js';
import {
  BUCKET,
  CHECK,
  HASH,
  ViewProblem,
  type Changes,
  type Found,
  type Scope,
  type Shape,
  type Target,
  type TokenStep,
} from './target.js';

/** Rows deleted by one statement. */
const DELETE_ROWS = 200;

/** An SQL database as the target of a feed. */
export function sqlTarget(connection: SqlConnection, dialect: Dialect, feed: string): Target {
  return new SqlTarget(connection, dialect, feed);
}

class SqlTarget implements Target {
  readonly isWhole = false;
  readonly valueSql: Target['valueSql'];
  readonly #db: SqlConnection;
  readonly #dialect: Dialect;
  readonly #feed: string;
  readonly #tables: FeedTables;
  /** The condition of edited rows of each view that is compared in full. */
  readonly #edited = new Map<string, string>();

  constructor(connection: SqlConnection, dialect: Dialect, feed: string) {
    this.#db = connection;
    this.#dialect = dialect;
    this.#feed = feed;
    this.#tables = new FeedTables(connection, dialect, feed);
    this.valueSql = dialect.valueSql;
  }

  async describe() {
    const askedAt = Date.now();
    const clock = await this.#dialect.clock();
    const clockMs = clock === null ? null : clock - (askedAt + Date.now()) / 2;
    const { server, canCreateTables } = this.#dialect;
    return { server: await server(), clockMs, canCreate: await canCreateTables() };
  }

  find(shape: Shape): Promise<Found> {
    return this.#tables.find(shape);
  }

  prepare(shape: Shape, found: Found): Promise<void> {
    return this.#tables.prepare(shape, found);
  }

  own(shape: Shape, token: string, replaced: readonly string[]): Promise<void> {
    return this.#tables.own(shape, token, replaced);
  }

  tidy(): Promise<void> {
    return this.#tables.tidy();
  }

  async sums(shape: Shape, scope: Scope): Promise<Sums> {
    const where = this.#compared(shape, scope);
    const hash = await this.#hashSql(shape, scope);
    const rows = await this.#db.query(
      `SELECT ${BUCKET} AS bucket, count(*) AS n, ${this.#dialect.textOf(`sum(${hash})`)} AS total
         FROM ${this.#dialect.tableName(shape.view)} AS t WHERE ${where.sql} GROUP BY ${BUCKET}`,
      where.values,
    );
    return new Map(
      rows.map(({ bucket, n, total }) => [
        Number(bucket ?? UNKNOWN_BUCKET),
        { rows: Number(n), sum: String(total) },
      ]),
    );
  }

  async keys(shape: Shape, scope: Scope, buckets: readonly number[]): Promise<readonly KeyRow[]> {
    const { tableName, textOf } = this.#dialect;
    const where = this.#compared(shape, scope);
    const hash = await this.#hashSql(shape, scope);
    const key = this.#key(shape).map((name, n) => `${textOf(`t.${name}`)} AS k${n}`);
    const rows = await this.#db.query(
      `SELECT ${key.join(', ')}, ${BUCKET} AS bucket, ${textOf(hash)} AS hash
         FROM ${tableName(shape.view)} AS t WHERE ${BUCKET} IN (${buckets.join(', ')}) AND ${where.sql}`,
      where.values,
    );
    return rows.map((row) => ({
      key: key.map((_, n) => String(row[`k${n}`])),
      bucket: Number(row['bucket']),
      hash: String(row['hash']),
    }));
  }

  #key({ key }: Shape): string[] {
    return (key ?? []).map(this.#dialect.quote);
  }

  /** The condition of rows of the feed that are compared. */
  #compared({ endedAt }: Shape, { sellers, limits }: Scope, t = 't'): Condition {
    const own = sellersSql(t, sellers);
    const sql = `${t}.${HASH} IS NOT NULL AND ${own.sql}`;
    if (endedAt === null || limits.length === 0) return { sql, values: own.values };
    const { comparable, momentSql, quote } = this.#dialect;
    const end = `${t}.${quote(endedAt)}`;
    const old = limits.map(
      ({ since }) => `(${t}.seller_id = ? AND ${comparable(end)} <= ${momentSql(since)})`,
    );
    return {
      sql: `${sql} AND (${end} IS NULL OR NOT (${old.join(' OR ')}))`,
      values: [...own.values, ...limits.map(({ seller }) => seller)],
    };
  }

  /** SQL of the hash of a row `t`. In a full comparison, rows that were edited by hand have none. */
  async #hashSql({ view, columns }: Shape, { isFull }: Scope): Promise<string> {
    if (!isFull) return `t.${HASH}`;
    const { checkSql, findEdited, tableName, quote } = this.#dialect;
    let edited = this.#edited.get(view);
    if (edited === undefined) {
      const names = columns.map(({ name }) => `t.${quote(name)}`);
      edited =
        findEdited === null
          ? `coalesce(t.${CHECK}, ${NO_HASH}) <> ${checkSql?.(names)}`
          : await findEdited(tableName(view), columns);
      this.#edited.set(view, edited);
    }
    return `CASE WHEN ${edited} THEN ${NO_HASH} ELSE t.${HASH} END`;
  }

  async write(
    shape: Shape,
    scope: Scope,
    changes: Changes | null,
    token: TokenStep,
  ): Promise<number> {
    if (changes === null) {
      await this.#tables.takeToken(shape, token);
      return 0;
    }
    const isEmpty = !(await this.#tables.hasRows(shape.view));
    const staging = this.#dialect.quote(STAGING);
    await this.#tables.createStaging(shape, !isEmpty);
    try {
      const staged = await changes.lines((lines) => this.#db.bulk(staging, shape.columns, lines));
      await this.#tables.inTransaction(async () => {
        await this.#tables.takeToken(shape, token);
        if (!isEmpty) await this.#merge(shape, scope, changes);
        await this.#insert(shape, isEmpty || shape.key === null);
      });
      if (isEmpty) await this.#tables.createIndexes(shape);
      return staged + (changes.remove === 'unlisted' ? 0 : changes.remove.length);
    } finally {
      await this.#db.query(`DROP TABLE IF EXISTS ${staging}`).catch(() => undefined);
    }
  }

  /** Removes rows, and updates those that are staged. */
  async #merge(shape: Shape, scope: Scope, { remove }: Changes): Promise<void> {
    const { tableName, quote, updateSql } = this.#dialect;
    const into = tableName(shape.view);
    const from = quote(STAGING);
    const key = this.#key(shape);
    const on = key.map((name) => `s.${name} = t.${name}`).join(' AND ');
    if (remove !== 'unlisted') await this.#remove(shape, remove);
    else {
      // Not every MySQL lets DELETE name its table in another way.
      const { sql, values } = this.#compared(shape, scope, into);
      const same = key.map((name) => `s.${name} = ${into}.${name}`).join(' AND ');
      const unlisted =
        same === '' ? '' : `AND NOT EXISTS (SELECT 1 FROM ${from} AS s WHERE ${same})`;
      await this.#db.update(`DELETE FROM ${into} WHERE ${sql} ${unlisted}`, values);
    }
    if (key.length === 0) return;
    await this.#refuseForeignRows(shape, into, from, on);
    const hash = await this.#hashSql(shape, scope);
    const set = [...shape.columns.map(({ name }) => quote(name)), HASH, BUCKET];
    await this.#db.update(
      updateSql({
        ...{ into, from, on },
        where: `(${hash} <> s.${HASH} OR coalesce(t.${BUCKET}, ${UNKNOWN_BUCKET}) <> s.${BUCKET})`,
        set: [
          ...set.map((name) => [name, `s.${name}`] as const),
          [CHECK, this.#stagedCheck(shape)],
        ],
      }),
    );
  }

  /** SQL of the checksum of a staged row `s`. */
  #stagedCheck({ columns }: Shape): string {
    const { checkSql, quote } = this.#dialect;
    return checkSql?.(columns.map(({ name }) => `s.${quote(name)}`)) ?? `s.${CHECK}`;
  }

  async #remove(shape: Shape, rows: readonly KeyRow[]): Promise<void> {
    const key = this.#key(shape);
    const one = `(${key.map((name) => `${name} = ?`).join(' AND ')})`;
    for (let at = 0; at < rows.length; at += DELETE_ROWS) {
      const some = rows.slice(at, at + DELETE_ROWS);
      await this.#db.update(
        `DELETE FROM ${this.#dialect.tableName(shape.view)}
          WHERE ${HASH} IS NOT NULL AND (${some.map(() => one).join(' OR ')})`,
        some.flatMap((row) => row.key),
      );
    }
  }

  /** @throws {ViewProblem} if a row of the user has the key of a row to write */
  async #refuseForeignRows({ view, key }: Shape, into: string, from: string, on: string) {
    const names = (key ?? []).map(
      (name, n) => `${this.#dialect.textOf(`t.${this.#dialect.quote(name)}`)} AS k${n}`,
    );
    const [row] = await this.#db.query(
      `SELECT ${names.join(', ')} FROM ${from} AS s JOIN ${into} AS t ON ${on} WHERE t.${HASH} IS NULL LIMIT 1`,
    );
    if (row === undefined) return;
    const values = (key ?? []).map((name, n) => `${name} ${String(row[`k${n}`])}`);
    throw new ViewProblem(
      `table ${view} has a row of yours with the key of a row of the view: ${values.join(', ')}`,
      `delete or move your row, then \`seller-mirror feed run ${this.#feed}\``,
    );
  }

  /** Inserts staged rows. @param isFresh whether none of them is in the table */
  async #insert(shape: Shape, isFresh: boolean): Promise<void> {
    const { tableName, quote } = this.#dialect;
    const key = this.#key(shape);
    const into = tableName(shape.view);
    const names = [...shape.columns.map(({ name }) => quote(name)), HASH, BUCKET];
    const on = key.map((name) => `s.${name} = t.${name}`).join(' AND ');
    const check = this.#dialect.isHashChecksum ? `s.${HASH}` : this.#stagedCheck(shape);
    const missing = isFresh ? '' : `LEFT JOIN ${into} AS t ON ${on} WHERE t.${key[0]} IS NULL`;
    await this.#db.update(
      `INSERT INTO ${into} (${[...names, CHECK].join(', ')})
       SELECT ${names.map((name) => `s.${name}`).join(', ')}, ${check}
         FROM ${quote(STAGING)} AS s ${missing}`,
    );
  }

  close(): Promise<void> {
    return this.#db.close();
  }
}
