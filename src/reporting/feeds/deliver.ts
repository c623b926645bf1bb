import { createHash, randomBytes } from 'node:crypto';
import { cursorText, parseCursor, type ChangeCursor } from '../change-cursor.js';
import {
  CursorAheadError,
  type ExportableView,
  type ExportedLines,
  type Exports,
} from '../exports.js';
import { countLines, noLines, partsOf, tap } from './lines.js';
import {
  DELETED,
  INCOMPLETE,
  MovedError,
  TargetConflictError,
  type Loading,
  type Position,
  type Target,
  type ViewShape,
} from './target.js';

/** What a feed delivers, by its configuration. */
export interface FeedContent {
  readonly views: readonly string[];
  /** Null for all sellers. */
  readonly sellers: readonly string[] | null;
  readonly deletes: 'delete' | 'mark';
}

/** The result of delivering one view. */
export interface ViewReport {
  readonly view: string;
  /** `all`: a full load. `same`: nothing has changed. */
  readonly kind: 'all' | 'changes' | 'same';
  /** Why a view that was delivered before was loaded in full again; null otherwise. */
  readonly why: string | null;
  readonly rows: number;
  readonly ms: number;
  /** Why it was not delivered; null if it was. */
  readonly problem: { readonly message: string; readonly remedy: string } | null;
}

export interface DeliverOptions {
  readonly signal: AbortSignal;
  readonly onProgress?: (view: string, rows: number) => void;
}

/** Attempts to deliver a view while other processes deliver it, too. */
const MAX_ATTEMPTS = 5;
/**
 * How long a load reads from one snapshot of the store (ms), because a snapshot blocks VACUUM. The rest of a
 * load into a slow target comes from a later snapshot.
 */
const MAX_SNAPSHOT_MS = 600_000;

/**
 * Delivers each view of a feed: the changes since the cursor in the target, or all rows. A view that does not
 * fit the target is reported, and the others are delivered.
 * @throws {TargetError} if the target is unreachable; rows delivered before stay
 */
export async function deliverFeed(
  exports: Exports,
  target: Target,
  content: FeedContent,
  options: DeliverOptions,
): Promise<ViewReport[]> {
  const known = await exports.views();
  const reports: ViewReport[] = [];
  for (const name of content.views) {
    options.signal.throwIfAborted();
    const started = performance.now();
    const ms = (): number => Math.round(performance.now() - started);
    const failed = { view: name, kind: 'same', why: null, rows: 0 } as const;
    const view = known.find((one) => one.name === name);
    if (view === undefined) {
      const problem = {
        message: `there is no view ${name}`,
        remedy: LIST_VIEWS,
      };
      reports.push({ ...failed, ms: ms(), problem });
      continue;
    }
    try {
      const delivery = new ViewDelivery(exports, target, view, content, options);
      reports.push({ view: name, ...(await delivery.run()), ms: ms(), problem: null });
    } catch (error) {
      if (!(error instanceof TargetConflictError)) throw error;
      const { message, remedy } = error;
      reports.push({ ...failed, ms: ms(), problem: { message, remedy } });
    }
  }
  return reports;
}

/** The remedy for a view that does not exist. */
export const LIST_VIEWS = '`seller-mirror export` lists the views';

/** The shapes of the feed's existing views, in its order. */
export async function shapesOf(exports: Exports, content: FeedContent): Promise<ViewShape[]> {
  const known = await exports.views();
  return content.views.flatMap((name) => {
    const view = known.find((one) => one.name === name);
    return view === undefined ? [] : [shapeOf(view, content)];
  });
}

type Done = Pick<ViewReport, 'kind' | 'rows' | 'why'>;

/** What a feed delivers of a view. */
function shapeOf(
  { name, columns, key, bySeller }: ExportableView,
  { sellers, deletes }: FeedContent,
): ViewShape {
  const names = new Set(columns.map((column) => column.name));
  return {
    view: name,
    columns,
    key,
    sellers: bySeller ? sellers : null,
    indexed: key === null ? [] : INDEXED.filter((column) => names.has(column)),
    isMarked: key !== null && deletes === 'mark',
  };
}

/** Columns that reports often filter by. */
const INDEXED = ['purchased_at', 'happened_at', 'valid_from', 'changed_at'];

/** A hash of the shape, in 64 characters. */
function shapeHash({ columns, sellers, isMarked }: ViewShape): string {
  const types = columns.map(({ name, type }) => `${name} ${type}`);
  const text = JSON.stringify([types, sellers === null ? null : [...sellers].sort(), isMarked]);
  return createHash('sha256').update(text).digest('hex');
}

/** Delivers one view. */
class ViewDelivery {
  constructor(
    readonly exports: Exports,
    readonly target: Target,
    public view: ExportableView,
    readonly content: FeedContent,
    readonly options: DeliverOptions,
  ) {}

  async run(): Promise<Done> {
    for (let attempt = 1; ; attempt++) {
      try {
        return await this.#try();
      } catch (error) {
        const isAhead = error instanceof CursorAheadError;
        if (!isAhead && !(error instanceof MovedError)) throw error;
        // The store returned to an older state with the same epoch during a load, for example by copied files.
        if (isAhead && attempt > 1) await this.target.reset(this.view.name);
        // Other processes keep delivering this view.
        if (attempt === MAX_ATTEMPTS) return { kind: 'same', rows: 0, why: null };
        const known = await this.exports.views();
        this.view = known.find(({ name }) => name === this.view.name) ?? this.view;
      }
    }
  }

  async #try(): Promise<Done> {
    const { target, view } = this;
    const shape = shapeOf(view, this.content);
    const hash = shapeHash(shape);
    const hasTable = await target.ensureTable(shape);
    const position = await target.position(view.name);
    const { delivered } = position;
    const reading: Reading = { shape, hash, position };
    if (delivered === null) return this.#load(reading, null);
    if (!hasTable) return this.#load(reading, 'its table is gone');
    if (delivered.shape === INCOMPLETE) {
      return this.#load(reading, 'its table lacked a column, or had one of another type');
    }
    if (delivered.shape !== hash) {
      return this.#load(reading, 'its columns, or the feed’s sellers or deletes, have changed');
    }
    const since = delivered.cursor === null ? null : parseCursor(delivered.cursor);
    const done =
      since === null
        ? await this.#compare(reading)
        : await this.#follow(reading, since).catch((error: unknown) => {
            if (error instanceof CursorAheadError) return null;
            throw error;
          });
    return done ?? this.#load(reading, 'the store was restored from a backup, or is another one');
  }

  /** Delivers changes. @returns null if the target's rows come from another epoch of the store */
  async #follow({ shape, hash, position }: Reading, since: ChangeCursor): Promise<Done | null> {
    return this.#read(shape, { since, after: null }, async ({ epoch, cursor, lines }) => {
      if (epoch !== position.delivered?.epoch) return null;
      const next = { epoch, cursor: cursorText(notNull(cursor)), shape: hash, digest: null };
      const rows = await this.target.apply(shape, position, this.#counted(lines), () => next);
      return { kind: rows === 0 ? 'same' : 'changes', rows, why: null };
    });
  }

  /** Compares a view without a cursor with what was delivered. @returns null if the epoch differs */
  async #compare({ shape, hash, position }: Reading): Promise<Done | null> {
    const { delivered } = position;
    const digest = new LinesDigest();
    const epoch = await this.#read(shape, ALL_ROWS, async (source) => {
      for await (const chunk of source.lines) digest.add(chunk);
      return source.epoch;
    });
    if (epoch !== delivered?.epoch) return null;
    if (digest.text() !== delivered.digest) return this.#load({ shape, hash, position }, null);
    const { cursor } = delivered;
    const next = { epoch, cursor, shape: hash, digest: delivered.digest };
    await this.target.apply(shape, position, noLines(), () => next);
    return { kind: 'same', rows: 0, why: null };
  }

  /**
   * Delivers all rows, in parts. After an interruption it continues after the last part. Rows of later parts
   * are newer, so all changes since the start of the load are applied to them before readers see any row.
   * The result is the state of the view at the recorded cursor.
   */
  async #load({ shape, hash, position }: Reading, why: string | null): Promise<Done> {
    const { target } = this;
    const found = position.loading;
    const canContinue = found !== null && found.cursor !== null && found.shape === hash;
    let loading = canContinue ? found : null;
    let current = position;
    const digest = new LinesDigest();
    for (let isComplete = false; !isComplete;) {
      const after = loading?.after ?? null;
      isComplete = await this.#read(shape, { since: null, after }, async (source) => {
        const until = performance.now() + MAX_SNAPSHOT_MS;
        // Rows of another epoch can't be mixed with these.
        if (loading !== null && loading.epoch !== source.epoch) loading = null;
        if (loading === null) {
          loading = this.#newLoad(source, hash);
          current = await target.beginLoad(shape, current, loading);
          if (after !== null) return false;
        }
        const lines = shape.key === null ? tap(source.lines, digest.add) : source.lines;
        const counted = this.#counted(lines, loading.rows);
        for await (const part of partsOf(counted, shape, target.partBytes)) {
          current = await target.loadPart(shape, current, part.lines, part.after);
          loading = current.loading ?? loading;
          if (shape.key !== null && performance.now() > until) return false;
        }
        return true;
      });
    }
    const { epoch, cursor, rows } = notNull(loading);
    const since = cursor === null ? null : parseCursor(cursor);
    if (since === null) {
      const next = { epoch, cursor: null, shape: hash, digest: digest.text() };
      await target.publish(shape, current, noLines(), () => next);
    } else {
      await this.#read(shape, { since, after: null }, async (source) => {
        if (source.epoch !== epoch) throw new MovedError('the store was restored in the meantime');
        const next = {
          epoch,
          cursor: cursorText(notNull(source.cursor)),
          shape: hash,
          digest: null,
        };
        await target.publish(shape, current, source.lines, () => next);
      });
    }
    return { kind: 'all', rows, why };
  }

  #newLoad({ epoch, cursor }: ExportedLines, shape: string): Loading {
    const text = cursor === null ? null : cursorText(cursor);
    return { id: randomBytes(4).toString('hex'), epoch, cursor: text, shape, after: null, rows: 0 };
  }

  /** Reads rows of the view. @throws {MovedError} if its columns are no longer those of the shape */
  #read<T>(
    shape: ViewShape,
    range: Pick<Parameters<Exports['lines']>[0], 'since' | 'after'>,
    consume: (source: ExportedLines) => Promise<T>,
  ): Promise<T> {
    const { exports, target, view } = this;
    const request = { ...range, view: view.name, sellerIds: shape.sellers };
    return exports.lines({ ...request, valueSql: target.valueSql }, (source) => {
      const now = source.columns.filter(({ name }) => name !== DELETED);
      if (JSON.stringify(now) !== JSON.stringify(shape.columns)) {
        throw new MovedError(`the columns of ${view.name} have changed in the meantime`);
      }
      return consume(source);
    });
  }

  /** Reports progress while lines are read. */
  #counted(lines: ExportedLines['lines'], rowsBefore = 0): ExportedLines['lines'] {
    const { signal, onProgress } = this.options;
    let rows = rowsBefore;
    return tap(lines, (chunk) => {
      signal.throwIfAborted();
      if (onProgress !== undefined) onProgress(this.view.name, (rows += countLines(chunk)));
    });
  }
}

const ALL_ROWS = { since: null, after: null };

interface Reading {
  readonly shape: ViewShape;
  /** See `shapeHash`. */
  readonly hash: string;
  readonly position: Position;
}

function notNull<T>(value: T | null): T {
  if (value === null) throw new Error('a view that can be followed has a cursor');
  return value;
}

/** A digest of rows that does not depend on their order: the sum of their SHA-256 hashes. */
class LinesDigest {
  readonly #sum = Buffer.alloc(32);

  readonly add = (chunk: Buffer): void => {
    for (let start = 0; start < chunk.length;) {
      const end = chunk.indexOf(10, start) + 1;
      const hash = createHash('sha256').update(chunk.subarray(start, end)).digest();
      start = end;
      let carry = 0;
      for (let n = 31; n >= 0; n--) {
        const sum = (this.#sum[n] ?? 0) + (hash[n] ?? 0) + carry;
        this.#sum[n] = sum & 255;
        carry = sum >> 8;
      }
    }
  };

  text(): string {
    return this.#sum.toString('hex');
  }
}
