import { createHash } from 'node:crypto';
import type { ExportColumn } from '../exports.js';
import { nullIfEmpty } from './lines.js';
import type { Dialect, FoundColumn, FoundTable, SqlConnection, SqlValue } from './dialect.js';
import {
  CURSORS,
  DELETED,
  INCOMPLETE,
  MovedError,
  TargetConflictError,
  type Delivered,
  type Description,
  type Lines,
  type Loading,
  type NewlyDelivered,
  type Position,
  type Target,
  type ViewShape,
} from './target.js';

/** Prefix of the staging tables. */
const STAGING = '_seller_mirror_load_';

/** An SQL database as the target of a feed. */
export function sqlTarget(connection: SqlConnection, dialect: Dialect, feed: string): Target {
  return new SqlTarget(connection, dialect, feed);
}

class SqlTarget implements Target {
  readonly partBytes = 16 * 1024 * 1024;
  readonly valueSql: Target['valueSql'];
  readonly #db: SqlConnection;
  readonly #dialect: Dialect;
  readonly #feed: string;
  readonly #cursors: string;
  #hasCursors = false;

  constructor(connection: SqlConnection, dialect: Dialect, feed: string) {
    this.#db = connection;
    this.#dialect = dialect;
    this.#feed = feed;
    this.#cursors = dialect.tableName(CURSORS);
    this.valueSql = dialect.valueSql;
  }

  async describe(shapes: readonly ViewShape[]): Promise<Description> {
    const requestedAt = Date.now();
    const clock = await this.#dialect.clock();
    const clockMs = clock === null ? null : clock - (requestedAt + Date.now()) / 2;
    const canCreate = await this.#dialect.canCreateTables();
    const views: { view: string; plan: string; fits: boolean }[] = [];
    for (const shape of shapes) {
      const { view, columns } = shape;
      try {
        const found = await this.#dialect.table(view);
        const added = found === null ? [] : this.#missing(shape, found).map(({ name }) => name);
        const plan =
          found === null
            ? `would create the table, with ${columns.length} columns`
            : added.length === 0
              ? 'the table fits'
              : `would add ${added.join(', ')}`;
        views.push({ view, plan: canCreate ? plan : NO_RIGHT, fits: canCreate });
      } catch (error) {
        if (!(error instanceof TargetConflictError)) throw error;
        views.push({ view, plan: `${error.message}: ${error.remedy}`, fits: false });
      }
    }
    return { server: await this.#dialect.server(), clockMs, views };
  }

  async ensureTable(shape: ViewShape): Promise<boolean> {
    const { table, tableName } = this.#dialect;
    const { view } = shape;
    await this.#createCursors();
    const found = await table(view);
    if (found === null) return false;
    try {
      const missing = this.#missing(shape, found);
      if (missing.length > 0) await this.#markIncomplete(view);
      for (const column of missing) {
        await this.#db.query(`ALTER TABLE ${tableName(view)} ADD COLUMN ${this.#define(column)}`);
      }
    } catch (error) {
      // Fixing the table may change its values, so they must be loaded again.
      if (error instanceof TargetConflictError) await this.#markIncomplete(view);
      throw error;
    }
    return true;
  }

  /** Records, for every feed, that rows of the table lack values and must be loaded again. */
  async #markIncomplete(view: string): Promise<void> {
    const sql = `UPDATE ${this.#cursors} SET shape = ? WHERE view_name = ? AND shape <> ?`;
    await this.#db.query(sql, [INCOMPLETE, view, INCOMPLETE]);
  }

  /** Returns the columns that a table lacks. @throws {TargetConflictError} */
  #missing(
    { view, columns, key, isMarked }: ViewShape,
    { columns: existing, unique, isTable }: FoundTable,
  ): ExportColumn[] {
    const { typeOf, fits } = this.#dialect;
    const again = `then \`seller-mirror feed run ${this.#feed}\``;
    if (!isTable) {
      throw new TargetConflictError(
        `${view} is not a table in the target`,
        `rename it, so that the feed can create its table; ${again}`,
      );
    }
    const missing: ExportColumn[] = [];
    for (const column of isMarked ? [...columns, DELETED_COLUMN] : columns) {
      const found = existing.get(column.name);
      const type = typeOf(column, key?.includes(column.name) === true);
      if (found === undefined) missing.push(column);
      else if (!fits(found.type, type)) {
        throw new TargetConflictError(
          `column ${column.name} of table ${view} has type ${found.type}, but the view has ${type}`,
          `change the column’s type to ${type}, or rename the table; ${again}`,
        );
      }
    }
    const wanted = [...(key ?? [])].sort().join(', ');
    if (key !== null && !unique.some((names) => [...names].sort().join(', ') === wanted)) {
      throw new TargetConflictError(
        `table ${view} has no primary key or unique index on ${key.join(', ')}`,
        `add a primary key on (${key.join(', ')}), or rename the table; ${again}`,
      );
    }
    return missing;
  }

  #define(column: ExportColumn, isKey = false, found?: FoundColumn): string {
    const type = this.#dialect.typeOf(column, isKey, found);
    const rest = isKey ? ' NOT NULL' : column === DELETED_COLUMN ? ' NOT NULL DEFAULT false' : '';
    return `${this.#dialect.quote(column.name)} ${type}${rest}`;
  }

  async #createCursors(): Promise<void> {
    if (this.#hasCursors) return;
    if ((await this.#dialect.table(CURSORS)) === null) {
      await this.#dialect.createSchema();
      await this.#db.query(
        `CREATE TABLE IF NOT EXISTS ${this.#cursors} (
           feed varchar(63) NOT NULL, view_name varchar(63) NOT NULL, epoch varchar(40),
           cursor_text varchar(80), shape varchar(64), digest varchar(64),
           row_count bigint NOT NULL DEFAULT 0, delivered_at bigint NOT NULL DEFAULT 0,
           ${this.#define(LOAD_STATE)}, PRIMARY KEY (feed, view_name))`,
      );
    }
    this.#hasCursors = true;
  }

  async position(view: string): Promise<Position> {
    if (!this.#hasCursors && (await this.#dialect.table(CURSORS)) === null) return NOWHERE;
    const position = await this.#readPosition(view);
    if (position.loading === null) return position;
    const staged = await this.#dialect.tablesWithPrefix(this.#staging(view, position.loading.id));
    return staged.length > 0 ? position : { ...position, loading: null };
  }

  async #readPosition(view: string, lock = ''): Promise<Position> {
    const [row] = await this.#db.query(
      `SELECT * FROM ${this.#cursors} WHERE feed = ? AND view_name = ?${lock}`,
      [this.#feed, view],
    );
    if (row === undefined) return NOWHERE;
    const text = (name: string): string | null => (row[name] as string | null | undefined) ?? null;
    const [epoch, cursor, digest] = [text('epoch'), text('cursor_text'), text('digest')];
    const state = text('load_state');
    const rows = row['row_count'];
    const at = Number(row['delivered_at']);
    return {
      loading: state === null ? null : (JSON.parse(state) as Loading),
      delivered:
        epoch === null
          ? null
          : {
              epoch,
              cursor,
              shape: text('shape') ?? '',
              digest,
              rows: Number(rows),
              deliveredAt: new Date(at),
            },
      token: JSON.stringify([epoch, cursor, text('shape'), digest, at, state]),
    };
  }

  /** Runs `work` in a transaction that locks the view's position. @throws {MovedError} if it has changed */
  async #withPosition<T>(view: string, { token }: Position, work: () => Promise<T>): Promise<T> {
    const into = `${this.#cursors} (feed, view_name)`;
    if (token === NOWHERE.token) {
      const sql = `INSERT INTO ${into} VALUES (?, ?) ${this.#dialect.orIgnore}`;
      await this.#db.query(sql, [this.#feed, view]);
    }
    await this.#db.query(this.#dialect.begin);
    try {
      const now = await this.#readPosition(view, this.#dialect.forUpdate);
      const isNew = token === NOWHERE.token && now.token === EMPTY_TOKEN;
      if (now.token !== token && !isNew)
        throw new MovedError(`another process has delivered ${view}`);
      const result = await work();
      await this.#db.query('COMMIT');
      return result;
    } catch (error) {
      await this.#db.query('ROLLBACK').catch(() => undefined);
      throw error;
    }
  }

  /** Records the progress of a load. @returns the new position, read before another process can change it */
  async #recordLoad(view: string, state: Loading): Promise<Position> {
    await this.#db.query(
      `UPDATE ${this.#cursors} SET load_state = ? WHERE feed = ? AND view_name = ?`,
      [JSON.stringify(state), this.#feed, view],
    );
    return this.#readPosition(view);
  }

  /** Name of the staging table of a load. */
  #staging(view: string, id = ''): string {
    const hash = createHash('sha256')
      .update(JSON.stringify([this.#feed, view]))
      .digest('hex');
    return `${STAGING}${view.slice(0, 24)}_${hash.slice(0, 8)}_${id}`;
  }

  beginLoad(shape: ViewShape, position: Position, loading: Loading): Promise<Position> {
    const { view } = shape;
    return this.#withLock(view, async () => {
      const begun = await this.#withPosition(view, position, () => this.#recordLoad(view, loading));
      // Staging tables of abandoned loads.
      await this.#dropStaging(view, loading.id);
      await this.#createStaging(shape, loading);
      return begun;
    });
  }

  /** Runs `work`, which may take several transactions, while no other process writes the view. */
  async #withLock<T>(view: string, work: () => Promise<T>): Promise<T> {
    const { withLock } = this.#dialect;
    return withLock === null ? work() : withLock(this.#staging(view), work);
  }

  async #dropStaging(view: string, exceptId?: string): Promise<void> {
    const { tablesWithPrefix, tableName } = this.#dialect;
    const kept = exceptId === undefined ? '' : this.#staging(view, exceptId);
    for (const name of await tablesWithPrefix(this.#staging(view))) {
      if (name !== kept) await this.#db.query(`DROP TABLE IF EXISTS ${tableName(name)}`);
    }
  }

  /** Creates the staging table of a load. It becomes the view's table if there is none yet. */
  async #createStaging(shape: ViewShape, { id }: Loading): Promise<void> {
    const table = this.#dialect.tableName(this.#staging(shape.view, id));
    const found = await this.#dialect.table(shape.view);
    const columns = shape.isMarked ? [...shape.columns, DELETED_COLUMN] : shape.columns;
    const key = this.#dialect.addPrimaryKey === null ? shape.key : null;
    const list = this.#columns(shape, columns, key, found);
    await this.#db.query(`CREATE TABLE ${table} (${list})`);
  }

  #columns(
    shape: ViewShape,
    columns: readonly ExportColumn[],
    primary: readonly string[] | null,
    found: FoundTable | null,
  ): string {
    const lines = columns.map((column) =>
      this.#define(column, shape.key?.includes(column.name), found?.columns.get(column.name)),
    );
    const key = primary?.map(this.#dialect.quote).join(', ');
    return [...lines, ...(key === undefined ? [] : [`PRIMARY KEY (${key})`])].join(', ');
  }

  async loadPart(
    shape: ViewShape,
    position: Position,
    lines: Lines,
    after: () => readonly string[] | null,
  ): Promise<Position> {
    const { view, columns } = shape;
    const { loading } = position;
    if (loading === null) throw new MovedError(`no load of ${view} is running`);
    const staged = this.#dialect.tableName(this.#staging(view, loading.id));
    const names = columns.map(({ name }) => this.#dialect.quote(name));
    return this.#withLock(view, () =>
      this.#withPosition(view, position, async () => {
        const rows = await this.#db.bulk(staged, names, lines);
        const key = after() ?? loading.after;
        return this.#recordLoad(view, { ...loading, after: key, rows: loading.rows + rows });
      }),
    );
  }

  async apply(
    shape: ViewShape,
    position: Position,
    lines: Lines,
    next: () => NewlyDelivered,
  ): Promise<number> {
    const { view } = shape;
    const { delivered, loading } = position;
    return this.#withChanges(shape, lines, async (changes) => {
      if (changes === null && delivered !== null && loading === null) {
        await this.#confirmUnchanged(view, delivered, next());
        return 0;
      }
      const rows = changes?.rows ?? 0;
      await this.#withLock(view, async () => {
        await this.#withPosition(view, position, async () => {
          await this.#applyChanges(shape, changes, this.#dialect.tableName(view));
          await this.#deliver(view, next(), rows);
        });
        if (position.loading !== null) await this.#dropStaging(view);
      });
      return rows;
    });
  }

  async publish(
    shape: ViewShape,
    position: Position,
    lines: Lines,
    next: () => NewlyDelivered,
  ): Promise<void> {
    const { loading } = position;
    if (loading === null) throw new MovedError(`no load of ${shape.view} is running`);
    await this.#withChanges(shape, lines, (changes) =>
      this.#withLock(shape.view, () => this.#publish(shape, position, loading, changes, next())),
    );
  }

  async #withChanges<T>(
    shape: ViewShape,
    lines: Lines,
    work: (changes: Changes | null) => Promise<T>,
  ): Promise<T> {
    const changes = await this.#stageChanges(shape, lines);
    try {
      return await work(changes);
    } finally {
      if (changes !== null) {
        const dropped = this.#db.query(`DROP TABLE IF EXISTS ${changes.table}`);
        await dropped.catch(() => undefined);
      }
    }
  }

  /** Loads changes into a temporary table. @returns null if there are none: most nights write nothing */
  async #stageChanges(shape: ViewShape, lines: Lines): Promise<Changes | null> {
    const nonEmpty = await nullIfEmpty(lines);
    if (nonEmpty === null) return null;
    const { quote, table: find } = this.#dialect;
    const table = quote(`_seller_mirror_new_${shape.view}`.slice(0, 63));
    const columns = [...shape.columns, DELETED_COLUMN];
    const found = await find(shape.view);
    await this.#db.query(`DROP TABLE IF EXISTS ${table}`);
    const list = this.#columns(shape, columns, shape.key, found);
    await this.#db.query(`CREATE TEMPORARY TABLE ${table} (${list})`);
    const names = columns.map(({ name }) => quote(name));
    return { table, rows: await this.#db.bulk(table, names, nonEmpty) };
  }

  /** @param into quoted */
  async #applyChanges(
    { columns, key, isMarked }: ViewShape,
    changes: Changes | null,
    into: string,
  ): Promise<void> {
    if (changes === null || key === null) return;
    const names = columns.map(({ name }) => name);
    const merge = {
      into,
      from: changes.table,
      columns: names,
      key,
      isComplete: false,
      ownRows: '',
    };
    for (const sql of this.#dialect.merge({ ...merge, isMarked })) await this.#db.query(sql);
  }

  /**
   * Makes the staged rows visible as the view's rows. In databases without transactional DDL, the load can
   * continue or restart after each statement, because the cursor moves last or together with the rows.
   */
  async #publish(
    shape: ViewShape,
    position: Position,
    loading: Loading,
    changes: Changes | null,
    next: NewlyDelivered,
  ): Promise<void> {
    const { tableName, addPrimaryKey, rename, table } = this.#dialect;
    const { view, key } = shape;
    const staged = tableName(this.#staging(view, loading.id));
    const isNew = (await table(view)) === null;
    await this.#withPosition(view, position, async () => {
      if (addPrimaryKey !== null && key !== null) await addPrimaryKey(staged, view, key);
      await this.#applyChanges({ ...shape, isMarked: false }, changes, staged);
      if (isNew) {
        await this.#createIndexes(shape, staged);
        await this.#db.query(rename(staged, view));
      } else await this.#replaceRows(shape, staged);
      await this.#deliver(view, next, loading.rows);
      if (!isNew) await this.#db.query(`DROP TABLE ${staged}`);
    });
  }

  async #createIndexes({ view, indexed }: ViewShape, staged: string): Promise<void> {
    for (const column of indexed) {
      await this.#dialect.createIndex(`${view}_${column}`, staged, column);
    }
  }

  /** Replaces the rows of an existing table. Its columns, indexes and rights stay. */
  async #replaceRows(shape: ViewShape, staged: string): Promise<void> {
    const { view, columns, key, sellers, isMarked } = shape;
    const { tableName, quote, merge } = this.#dialect;
    const into = tableName(view);
    const names = columns.map(({ name }) => name);
    const ownRows =
      sellers === null ? '' : ` AND ${into}.seller_id IN (${sellers.map(() => '?').join(', ')})`;
    if (key === null) {
      const list = names.map(quote).join(', ');
      await this.#db.query(`DELETE FROM ${into} WHERE true${ownRows}`, sellers ?? []);
      await this.#db.query(`INSERT INTO ${into} (${list}) SELECT ${list} FROM ${staged}`);
      return;
    }
    const all = { into, from: staged, columns: names, key, isComplete: true, isMarked, ownRows };
    for (const sql of merge(all)) {
      await this.#db.query(sql, sql.includes('?') ? (sellers ?? []) : []);
    }
  }

  #deliver(view: string, next: NewlyDelivered, rows: number): Promise<number> {
    return this.#moveCursor(next, rows, 'feed = ? AND view_name = ?', [this.#feed, view]);
  }

  /** Records that nothing has changed. Most nights are this one statement. @throws {MovedError} */
  async #confirmUnchanged(view: string, at: Delivered, next: NewlyDelivered): Promise<void> {
    const { epoch, cursor, shape, digest, deliveredAt } = at;
    const known = {
      feed: this.#feed,
      view_name: view,
      epoch,
      cursor_text: cursor,
      shape,
      digest,
      delivered_at: deliveredAt.getTime(),
      load_state: null,
    };
    const parts = Object.entries(known);
    const condition = parts.map(([name, value]) => `${name} ${value === null ? 'IS NULL' : '= ?'}`);
    const values = parts.flatMap(([, value]) => (value === null ? [] : [value]));
    const found = await this.#moveCursor(next, 0, condition.join(' AND '), values);
    if (found === 0) throw new MovedError(`another process has delivered ${view}`);
  }

  #moveCursor(
    { epoch, cursor, shape, digest }: NewlyDelivered,
    rows: number,
    condition: string,
    values: readonly SqlValue[],
  ): Promise<number> {
    return this.#db.update(
      `UPDATE ${this.#cursors} SET epoch = ?, cursor_text = ?, shape = ?, digest = ?, row_count = ?,
              delivered_at = ?, load_state = NULL WHERE ${condition}`,
      [epoch, cursor, shape, digest, rows, Date.now(), ...values],
    );
  }

  async reset(view: string): Promise<void> {
    if ((await this.#dialect.table(CURSORS)) === null) return;
    await this.#db.query(`DELETE FROM ${this.#cursors} WHERE feed = ? AND view_name = ?`, [
      this.#feed,
      view,
    ]);
    await this.#dropStaging(view);
  }

  close(): Promise<void> {
    return this.#db.close();
  }
}

interface Changes {
  /** Quoted. */
  readonly table: string;
  readonly rows: number;
}

const NO_RIGHT = 'this user has no right to create tables, which a delivery needs: grant it';

const DELETED_COLUMN: ExportColumn = { name: DELETED, type: 'boolean' };
const LOAD_STATE: ExportColumn = { name: 'load_state', type: 'text' };

const NOWHERE: Position = { delivered: null, loading: null, token: '' };
/** The token of a new row, which was inserted only to be locked. */
const EMPTY_TOKEN = JSON.stringify([null, null, null, null, 0, null]);
