import { UserError } from '../../domain/user-error.js';
import type { Content } from '../views.js';
import type { Dialect, SqlConnection } from './dialect.js';
import { BUCKET, UNKNOWN_BUCKET, type Owner, type Sums } from './plan.js';
import { FeedTables, NO_HASH, ownColumns, STAGING } from './sql-tables.js';
import { HASH, type Changes, type Found, type Target, type TokenStep } from './target.js';

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
  /** SQL of the hash of a row `t`, by view, as it was last compared. */
  readonly #hashes = new Map<string, string>();

  constructor(connection: SqlConnection, dialect: Dialect, feed: string) {
    this.#db = connection;
    this.#dialect = dialect;
    this.#feed = feed;
    this.#tables = new FeedTables(connection, dialect, feed);
    this.valueSql = dialect.valueSql;
  }

  async describe(): Promise<string> {
    const { begin, createSchema, server, temporary, tableName } = this.#dialect;
    // Only an attempt shows whether this user can create tables. It is rolled back.
    await this.#db.query(begin);
    try {
      await createSchema();
      await this.#db.query(
        `CREATE ${temporary} TABLE ${tableName('_seller_mirror_check')} (x int)`,
      );
    } finally {
      await this.#db.query('ROLLBACK').catch(() => undefined);
    }
    return server;
  }

  find(content: Content): Promise<Found> {
    return this.#tables.find(content);
  }

  prepare(content: Content, found: Found): Promise<void> {
    return this.#tables.prepare(content, found);
  }

  own(view: string, token: string, replaced: readonly Owner[]): Promise<void> {
    return this.#tables.own(view, token, replaced);
  }

  async sums(content: Content, isFull: boolean, within: readonly number[] | null): Promise<Sums> {
    const { textOf, quote, tableName } = this.#dialect;
    if (within === null) this.#hashes.set(content.view, await this.#hashSql(content, isFull));
    const by =
      within === null ? `coalesce(${BUCKET}, ${UNKNOWN_BUCKET})` : quote(content.number ?? '');
    const some = within === null ? '' : `${BUCKET} IN (${within.join(', ')}) AND`;
    const where = this.#comparedSql(content, 't');
    const hash = this.#hashes.get(content.view);
    const rows = await this.#db.query(
      `SELECT ${by} AS n, count(*) AS count, ${textOf(`sum(${hash} + ${BUCKET})`)} AS total
         FROM ${tableName(content.view)} AS t WHERE ${some} ${where} GROUP BY ${by}`,
      sellersOf(content),
    );
    return new Map(
      rows.map(({ n, count, total }) => [Number(n), { rows: Number(count), sum: String(total) }]),
    );
  }

  /** The condition of rows of the feed that are compared. Its parameters are `sellersOf`. */
  #comparedSql({ endedAt, limits }: Content, t: string): string {
    const { comparable, momentSql, quote } = this.#dialect;
    if (endedAt === null || limits.length === 0) return `${t}.${HASH} IS NOT NULL`;
    const end = `${t}.${quote(endedAt)}`;
    const old = limits.map(
      ({ since }) => `(${t}.seller_id = ? AND ${comparable(end)} <= ${momentSql(since)})`,
    );
    return `${t}.${HASH} IS NOT NULL AND (${end} IS NULL OR NOT (${old.join(' OR ')}))`;
  }

  /** SQL of the hash of a row `t`. In a full comparison, rows that were edited by hand have none. */
  async #hashSql({ view, columns }: Content, isFull: boolean): Promise<string> {
    if (!isFull) return `t.${HASH}`;
    const edited = await this.#dialect.editedSql(this.#dialect.tableName(view), columns);
    return `CASE WHEN ${edited} THEN ${NO_HASH} ELSE t.${HASH} END`;
  }

  async write(content: Content, changes: Changes | null, token: TokenStep): Promise<number> {
    const { view, columns } = content;
    const isStaged = changes !== null && (await this.#tables.hasRows(view));
    if (isStaged) await this.#tables.createStaging(content);
    const into = isStaged ? this.#dialect.quote(STAGING) : this.#dialect.tableName(view);
    return this.#tables.inTransaction(async () => {
      const loaded = await changes?.lines((lines) => this.#db.bulk(into, columns, lines));
      const rows = isStaged ? await this.#merge(content, changes.replaced) : loaded;
      await this.#tables.takeToken(view, token);
      return rows ?? 0;
    });
  }

  /** Makes rows of the table equal to the staged ones. @returns the number of rows written and removed */
  async #merge(content: Content, replaced: Changes['replaced']): Promise<number> {
    const { tableName, quote, updateSql } = this.#dialect;
    const { view, columns, key } = content;
    const into = tableName(view);
    const from = quote(STAGING);
    const names = [...columns, ...ownColumns(this.#dialect)].map(({ name }) => quote(name));
    const insert = `INSERT INTO ${into} (${names.join(', ')}) SELECT ${names.join(', ')} FROM ${from} AS s`;
    const on = (t: string): string =>
      (key ?? [])
        .map(quote)
        .map((name) => `s.${name} = ${t}.${name}`)
        .join(' AND ');
    // Not every MySQL lets DELETE name its table in another way.
    const where = [this.#comparedSql(content, into)];
    if (replaced !== 'all') {
      where.push(`${into}.${quote(replaced.column)} IN (${replaced.values.join(', ')})`);
    }
    if (key !== null) where.push(`NOT EXISTS (SELECT 1 FROM ${from} AS s WHERE ${on(into)})`);
    const removed = await this.#db.update(
      `DELETE FROM ${into} WHERE ${where.join(' AND ')}`,
      sellersOf(content),
    );
    if (key === null) return this.#db.update(insert);
    await this.#refuseForeignRows(view, key, on('t'));
    const hash = this.#hashes.get(view) ?? `t.${HASH}`;
    const updated = await this.#db.update(
      updateSql({
        ...{ into, from, on: on('t') },
        where: `(${hash} <> s.${HASH} OR coalesce(t.${BUCKET}, ${UNKNOWN_BUCKET}) <> s.${BUCKET})`,
        set: names.map((name) => [name, `s.${name}`]),
      }),
    );
    const added = await this.#db.update(
      `${insert} WHERE NOT EXISTS (SELECT 1 FROM ${into} AS t WHERE ${on('t')})`,
    );
    return removed + updated + added;
  }

  /** @throws {UserError} if a row of the user has the key of a row to write */
  async #refuseForeignRows(view: string, key: readonly string[], on: string): Promise<void> {
    const { quote, tableName, textOf } = this.#dialect;
    const names = key.map((name, n) => `${textOf(`t.${quote(name)}`)} AS k${n}`);
    const [row] = await this.#db.query(
      `SELECT ${names.join(', ')} FROM ${quote(STAGING)} AS s
         JOIN ${tableName(view)} AS t ON ${on} WHERE t.${HASH} IS NULL LIMIT 1`,
    );
    if (row === undefined) return;
    const values = key.map((name, n) => `${name} ${String(row[`k${n}`])}`);
    throw new UserError(
      `table ${view} has a row of yours with the key of a row of the view: ${values.join(', ')}`,
      `delete or move your row, then \`seller-mirror feed run ${this.#feed}\``,
      'VIEW',
    );
  }

  close(): Promise<void> {
    return this.#db.close();
  }
}

/** The parameters of the condition of rows that are compared. */
function sellersOf({ endedAt, limits }: Content): string[] {
  return endedAt === null ? [] : limits.map(({ seller }) => seller);
}
