import { kindOf, type ValueKind } from '../export/values.js';
import type { ExportColumn } from '../store/exports.js';
import type { TextRow } from '../store/text-cursor.js';
import {
  CURSORS,
  DELETED,
  TargetConflictError,
  TargetError,
  TargetMovedError,
  type Delivered,
  type Delivery,
  type Target,
  type ViewShape,
} from './target.js';

/** A value as a driver takes it. */
export type SqlValue = string | number | bigint | null;

/** A connection to a database that speaks SQL. */
export interface SqlConnection {
  /** Runs a statement; `?` stands for a value. @throws {TargetError} */
  query(sql: string, values?: readonly SqlValue[]): Promise<Readonly<Record<string, unknown>>[]>;
  /** Puts rows into a table that this connection made, as fast as it can. @throws {TargetError} */
  insert(
    table: string,
    columns: readonly ExportColumn[],
    batches: AsyncIterable<readonly TextRow[]>,
  ): Promise<number>;
  close(): Promise<void>;
}

/** In what databases differ. */
export interface Dialect {
  /** Server and version for people. */
  readonly version: string;
  readonly begin: string;
  readonly quote: (name: string) => string;
  /** The type of a column. Columns of a key need a type that can be indexed. */
  readonly typeOf: (column: ExportColumn, isKey: boolean) => string;
  /** The columns of a table with their types as `typeOf` writes them; none: no such table. */
  readonly columnsOf: (table: string) => Promise<ReadonlyMap<string, string>>;
  /** A name that SQL can use for a table. */
  readonly tableName: (name: string) => string;
  readonly temporary: (table: string, columns: string) => string;
  /** The end of an INSERT that overwrites rows with the same key. */
  readonly overwrite: (key: readonly string[], others: readonly string[]) => string;
  /** The end of a SELECT that keeps others from writing the row. */
  readonly forUpdate: string;
  /** An INSERT that does nothing when the row is there. */
  readonly insertIgnore: (into: string, values: string) => string;
  readonly trueValue: string;
  readonly falseValue: string;
  /** Whether a column of the target can take the view's values as they are. */
  readonly fits: (found: string, wanted: string) => boolean;
}

/** A database that takes feeds, whatever its dialect. */
export function sqlTarget(connection: SqlConnection, dialect: Dialect, feed: string): Target {
  const { quote, tableName } = dialect;
  const cursors = tableName(CURSORS);

  const delivered = async (view: string, lock = ''): Promise<Delivered | null> => {
    const [row] = await connection.query(
      `SELECT epoch, cursor_text, shape, digest, row_count, delivered_at FROM ${cursors}
        WHERE feed = ? AND view_name = ?${lock}`,
      [feed, view],
    );
    if (row === undefined || row['epoch'] === null) return null;
    const text = (name: string): string | null => (row[name] as string | null) ?? null;
    return {
      epoch: text('epoch') ?? '',
      cursor: text('cursor_text'),
      shape: text('shape') ?? '',
      digest: text('digest'),
      rows: Number(row['row_count']),
      deliveredAt: new Date(Number(row['delivered_at'])),
    };
  };

  const ensureCursors = async (): Promise<void> => {
    if ((await dialect.columnsOf(CURSORS)).size > 0) return;
    await connection.query(
      `CREATE TABLE IF NOT EXISTS ${cursors} (
         feed varchar(63) NOT NULL, view_name varchar(63) NOT NULL, epoch varchar(40),
         cursor_text varchar(80), shape varchar(64), digest varchar(64),
         row_count bigint NOT NULL DEFAULT 0, delivered_at bigint NOT NULL DEFAULT 0,
         PRIMARY KEY (feed, view_name))`,
    );
  };

  /** Makes the view's table, or adds columns that it lacks. */
  const ensure = async ({ view, columns, key }: ViewShape, isMarked: boolean): Promise<void> => {
    const wanted = [...columns, ...(isMarked ? [{ name: DELETED, type: 'boolean' }] : [])];
    const define = (column: ExportColumn): string =>
      `${quote(column.name)} ${dialect.typeOf(column, key?.includes(column.name) === true)}`;
    const there = await dialect.columnsOf(view);
    if (there.size === 0) {
      const notNull = (column: ExportColumn): string =>
        key?.includes(column.name) === true ? `${define(column)} NOT NULL` : define(column);
      const primary = key === null ? '' : `, PRIMARY KEY (${key.map(quote).join(', ')})`;
      await connection.query(
        `CREATE TABLE ${tableName(view)} (${wanted.map(notNull).join(', ')}${primary})`,
      );
      return;
    }
    for (const column of wanted) {
      const found = there.get(column.name);
      const type = dialect.typeOf(column, key?.includes(column.name) === true);
      if (found === undefined) {
        await connection.query(`ALTER TABLE ${tableName(view)} ADD COLUMN ${define(column)}`);
      } else if (!dialect.fits(found, type)) {
        throw new TargetConflictError(
          `column ${column.name} of table ${view} is ${found}, and the view has ${type}`,
          `change the column’s type to ${type}, or rename the table; then \`seller-mirror feed run ${feed}\``,
        );
      }
    }
  };

  const deliver = async (delivery: Delivery): Promise<number> => {
    const { shape, kind, sellers, deletes, from, next } = delivery;
    const { view, columns, key } = shape;
    const isMarked = deletes === 'mark' && key !== null;
    await ensureCursors();
    await ensure(shape, isMarked);
    const names = columns.map(({ name }) => quote(name));
    const [table, staged] = [tableName(view), quote(`_seller_mirror_new_${view}`)];
    const deleted = { name: DELETED, type: 'boolean' };
    const incoming = kind === 'changes' ? [...columns, deleted] : columns;
    const staging = new Staging(connection, dialect, staged, incoming, key);
    const rows = await staging.fill(delivery.batches);
    await connection.query(dialect.insertIgnore(`${cursors} (feed, view_name)`, '?, ?'), [
      feed,
      view,
    ]);
    await connection.query(dialect.begin);
    try {
      const now = await delivered(view, dialect.forUpdate);
      if (
        now?.cursor !== from?.cursor ||
        now?.epoch !== from?.epoch ||
        now?.digest !== from?.digest
      ) {
        throw new TargetMovedError(`somebody else delivers ${view}`);
      }
      if (rows > 0 || kind === 'all') await apply();
      const { epoch, cursor, shape: mark, digest } = next();
      await connection.query(
        `UPDATE ${cursors} SET epoch = ?, cursor_text = ?, shape = ?, digest = ?, row_count = ?,
                delivered_at = ? WHERE feed = ? AND view_name = ?`,
        [epoch, cursor, mark, digest, rows, Date.now(), feed, view],
      );
      await connection.query('COMMIT');
    } catch (error) {
      await connection.query('ROLLBACK').catch(() => undefined);
      throw error;
    }
    await staging.drop();
    return rows;

    async function apply(): Promise<void> {
      const list = names.join(', ');
      const sameKey = key?.map((name) => `s.${quote(name)} = t.${quote(name)}`).join(' AND ');
      const gone = kind === 'changes' ? ` WHERE s.${quote(DELETED)} = ${dialect.trueValue}` : '';
      const live = gone === '' ? '' : gone.replace(' = ', ' <> ');
      if (key === null || sameKey === undefined) {
        await connection.query(`DELETE FROM ${table}`);
      } else if (kind === 'all') {
        const inTable = `NOT EXISTS (SELECT 1 FROM ${staged} s WHERE ${sameKey.replaceAll('t.', `${table}.`)})`;
        await remove(inTable);
      } else {
        const inTable = `EXISTS (SELECT 1 FROM ${staged} s${gone} AND ${sameKey.replaceAll('t.', `${table}.`)})`;
        await remove(inTable);
      }
      if (rows === 0) return;
      const others = columns.map(({ name }) => name).filter((name) => key?.includes(name) !== true);
      const into = isMarked ? `${list}, ${quote(DELETED)}` : list;
      const values = isMarked ? `${list}, ${dialect.falseValue}` : list;
      const set = isMarked ? [...others, DELETED] : others;
      await connection.query(
        `INSERT INTO ${table} (${into}) SELECT ${values} FROM ${staged} s${live === '' ? ' WHERE 1 = 1' : live} ${
          key === null ? '' : dialect.overwrite(key, set)
        }`,
      );
    }

    async function remove(condition: string): Promise<void> {
      const own =
        sellers === null || !columns.some(({ name }) => name === 'seller_id')
          ? ''
          : ` AND ${table}.${quote('seller_id')} IN (${sellers.map(() => '?').join(', ')})`;
      const values = own === '' ? [] : (sellers ?? []);
      await connection.query(
        isMarked
          ? `UPDATE ${table} SET ${quote(DELETED)} = ${dialect.trueValue} WHERE ${condition}${own}`
          : `DELETE FROM ${table} WHERE ${condition}${own}`,
        values,
      );
    }
  };

  return {
    check: () => Promise.resolve(dialect.version),
    async delivered(view) {
      if ((await dialect.columnsOf(CURSORS)).size === 0) return null;
      return delivered(view);
    },
    deliver,
    async forget(view) {
      if ((await dialect.columnsOf(CURSORS)).size === 0) return;
      await connection.query(`DELETE FROM ${cursors} WHERE feed = ? AND view_name = ?`, [
        feed,
        view,
      ]);
    },
    close: () => connection.close(),
  };
}

/** A temporary table, made when the first row comes: most nights none does. */
class Staging {
  #isMade = false;

  constructor(
    readonly connection: SqlConnection,
    readonly dialect: Dialect,
    readonly table: string,
    readonly columns: readonly ExportColumn[],
    readonly key: readonly string[] | null,
  ) {}

  /** @returns the number of rows */
  async fill(batches: AsyncIterable<readonly TextRow[]>): Promise<number> {
    const rows = batches[Symbol.asyncIterator]();
    const first = await rows.next();
    await this.#make();
    if (first.done === true || first.value.length === 0) return 0;
    const all = async function* (): AsyncGenerator<readonly TextRow[]> {
      yield first.value;
      for (let step = await rows.next(); step.done !== true; step = await rows.next()) {
        yield step.value;
      }
    };
    return this.connection.insert(this.table, this.columns, all());
  }

  async #make(): Promise<void> {
    const { dialect, key } = this;
    const columns = this.columns.map((column) => {
      const isKey = key?.includes(column.name) === true;
      return `${dialect.quote(column.name)} ${dialect.typeOf(column, isKey)}`;
    });
    const primary = key === null ? '' : `, PRIMARY KEY (${key.map(dialect.quote).join(', ')})`;
    this.#isMade = true;
    await this.connection.query(`DROP TABLE IF EXISTS ${this.table}`);
    await this.connection.query(dialect.temporary(this.table, columns.join(', ') + primary));
  }

  async drop(): Promise<void> {
    if (this.#isMade) await this.connection.query(`DROP TABLE IF EXISTS ${this.table}`);
  }
}

/** How a value is given to a driver that has no arrays, and moments without a zone. */
export type ValueReader = (text: string) => SqlValue;

/** The kind of a column's values, for `typeOf` and readers. */
export function kindIn(column: ExportColumn): ValueKind {
  return kindOf(column);
}

/** An error of a driver in words for a person, without passwords. @param what such as `MySQL at host` */
export function connectionError(error: unknown, what: string): TargetError {
  if (error instanceof TargetError) return error;
  const inner: unknown = error instanceof AggregateError ? error.errors[0] : error;
  const code = codeOf(inner);
  const words = inner instanceof Error && inner.message !== '' ? inner.message : code;
  const remedy = REMEDIES.find(([codes]) => codes.test(code))?.[1];
  return new TargetError(
    `${what}: ${words.replaceAll(/\s+/g, ' ').slice(0, 300)}`,
    remedy ?? 'mend it there; the feed goes on by itself',
  );
}

function codeOf(error: unknown): string {
  const code: unknown = error instanceof Error && 'code' in error ? error.code : null;
  return typeof code === 'string' ? code : 'failed';
}

const REMEDIES: readonly (readonly [RegExp, string])[] = [
  [/^(?:28P01|28000|ER_ACCESS_DENIED_ERROR)$/, 'check the user and the password file of the feed'],
  [/^(?:3D000|ER_BAD_DB_ERROR)$/, 'create the database, or name another one in the feed’s target'],
  [
    /^(?:42501|ER_(?:TABLE|DB)ACCESS_DENIED_ERROR)$/,
    'give the user the right to create and write tables',
  ],
  [
    /^(?:ECONNREFUSED|ENOTFOUND|EAI_AGAIN|ETIMEDOUT)$/,
    'check the host and port of the feed’s target',
  ],
];
