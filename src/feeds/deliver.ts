import { createHash, randomBytes } from 'node:crypto';
import { cursorText, parseCursor, type FeedCursor } from '../domain/feeds.js';
import {
  CursorAheadError,
  type ExportableView,
  type ExportedLines,
  type Exports,
} from '../store/exports.js';
import { countLines, none, partsOf, watched } from './lines.js';
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

/** What a feed delivers. */
export interface FeedContent {
  readonly views: readonly string[];
  /** Null: of all sellers. */
  readonly sellers: readonly string[] | null;
  readonly deletes: 'delete' | 'mark';
}

/** What came of the delivery of one view. */
export interface ViewReport {
  readonly view: string;
  /** `all`: for the first time, or over again. `same`: nothing had changed. */
  readonly kind: 'all' | 'changes' | 'same';
  /** Why all of it came although it had come before; null otherwise. */
  readonly why: string | null;
  readonly rows: number;
  readonly ms: number;
  /** Why it was not delivered; null when it was. */
  readonly problem: { readonly message: string; readonly remedy: string } | null;
}

export interface DeliverOptions {
  readonly signal: AbortSignal;
  readonly onProgress?: (view: string, rows: number) => void;
}

/** How often a delivery is tried again when somebody else delivered meanwhile. */
const TRIES = 5;
/**
 * How long a load reads the store as it was at one moment (ms): that keeps the store from cleaning up.
 * A slow target gets the rest as it is at a later moment.
 */
const LONGEST_READ_MS = 600_000;

/**
 * Delivers each view of a feed: what changed since the target's own cursor, or all of it. A view that does
 * not fit the target is reported, and the others are delivered.
 * @throws {TargetError} when the target can't be reached; what was delivered stays
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

/** What to do about a view that does not exist. */
export const LIST_VIEWS = '`seller-mirror export` lists the views';

/** The shapes of the feed's views that there are, in its order. */
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

/** Columns by which reports choose rows. */
const INDEXED = ['purchased_at', 'happened_at', 'valid_from', 'changed_at'];

/** Tells shapes apart, in 64 characters. */
function markOf({ columns, sellers, isMarked }: ViewShape): string {
  const types = columns.map(({ name, type }) => `${name} ${type}`);
  const text = JSON.stringify([types, sellers === null ? null : [...sellers].sort(), isMarked]);
  return createHash('sha256').update(text).digest('hex');
}

/** One view on its way into a target. */
class ViewDelivery {
  constructor(
    readonly exports: Exports,
    readonly target: Target,
    public view: ExportableView,
    readonly content: FeedContent,
    readonly options: DeliverOptions,
  ) {}

  async run(): Promise<Done> {
    for (let tries = 1; ; tries++) {
      try {
        return await this.#try();
      } catch (error) {
        const isAhead = error instanceof CursorAheadError;
        if (!isAhead && !(error instanceof MovedError)) throw error;
        // In the middle of a load the store was set back without another epoch, as by a copy of its files.
        if (isAhead && tries > 1) await this.target.forget(this.view.name);
        // What the other one delivered need not come again.
        if (tries === TRIES) return { kind: 'same', rows: 0, why: null };
        const known = await this.exports.views();
        this.view = known.find(({ name }) => name === this.view.name) ?? this.view;
      }
    }
  }

  async #try(): Promise<Done> {
    const { target, view } = this;
    const shape = shapeOf(view, this.content);
    const mark = markOf(shape);
    const isThere = await target.ensure(shape);
    const position = await target.cursor(view.name);
    const { delivered } = position;
    const reading: Reading = { shape, mark, position };
    if (delivered === null) return this.#load(reading, null);
    if (!isThere) return this.#load(reading, 'its table is gone');
    if (delivered.shape === INCOMPLETE) {
      return this.#load(reading, 'its table lacked a column, or had one of another type');
    }
    if (delivered.shape !== mark) {
      return this.#load(reading, 'its columns, or the feed’s sellers or deletes, are others now');
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

  /** Delivers what changed. @returns null when the store has another past than the target's rows */
  async #follow({ shape, mark, position }: Reading, since: FeedCursor): Promise<Done | null> {
    return this.#read(shape, { since, after: null }, async ({ epoch, cursor, lines }) => {
      if (epoch !== position.delivered?.epoch) return null;
      const next = { epoch, cursor: cursorText(given(cursor)), shape: mark, digest: null };
      const rows = await this.target.apply(shape, position, this.#counted(lines), () => next);
      return { kind: rows === 0 ? 'same' : 'changes', rows, why: null };
    });
  }

  /** Looks whether a view that can't be followed is as it was delivered. @returns null when it is not */
  async #compare({ shape, mark, position }: Reading): Promise<Done | null> {
    const { delivered } = position;
    const digest = new LinesDigest();
    const epoch = await this.#read(shape, WHOLE, async (source) => {
      for await (const chunk of source.lines) digest.add(chunk);
      return source.epoch;
    });
    if (epoch !== delivered?.epoch) return null;
    if (digest.text() !== delivered.digest) return this.#load({ shape, mark, position }, null);
    const { cursor } = delivered;
    const next = { epoch, cursor, shape: mark, digest: delivered.digest };
    await this.target.apply(shape, position, none(), () => next);
    return { kind: 'same', rows: 0, why: null };
  }

  /**
   * Delivers all rows, in parts. Interrupted, it goes on after the last part: rows of later parts are
   * newer, and what changed since the load began is applied to all of them before readers see any. So the
   * rows are those of the moment whose cursor is recorded.
   */
  async #load({ shape, mark, position }: Reading, why: string | null): Promise<Done> {
    const { target } = this;
    const found = position.loading;
    const isGoingOn = found !== null && found.cursor !== null && found.shape === mark;
    let loading = isGoingOn ? found : null;
    let at = position;
    const digest = new LinesDigest();
    for (let isWhole = false; !isWhole;) {
      const after = loading?.after ?? null;
      isWhole = await this.#read(shape, { since: null, after }, async (source) => {
        const until = performance.now() + LONGEST_READ_MS;
        // Rows of another store, or of another state of it, do not go with these.
        if (loading !== null && loading.epoch !== source.epoch) loading = null;
        if (loading === null) {
          loading = this.#newLoad(source, mark);
          at = await target.begin(shape, at, loading);
          if (after !== null) return false;
        }
        const lines = shape.key === null ? watched(source.lines, digest.add) : source.lines;
        const counted = this.#counted(lines, loading.rows);
        for await (const part of partsOf(counted, shape, target.partBytes)) {
          at = await target.load(shape, at, part.lines, part.after);
          loading = at.loading ?? loading;
          if (shape.key !== null && performance.now() > until) return false;
        }
        return true;
      });
    }
    const { epoch, cursor, rows } = given(loading);
    const since = cursor === null ? null : parseCursor(cursor);
    if (since === null) {
      const next = { epoch, cursor: null, shape: mark, digest: digest.text() };
      await target.publish(shape, at, none(), () => next);
    } else {
      await this.#read(shape, { since, after: null }, async (source) => {
        if (source.epoch !== epoch) throw new MovedError('the store was restored meanwhile');
        const next = { epoch, cursor: cursorText(given(source.cursor)), shape: mark, digest: null };
        await target.publish(shape, at, source.lines, () => next);
      });
    }
    return { kind: 'all', rows, why };
  }

  #newLoad({ epoch, cursor }: ExportedLines, shape: string): Loading {
    const text = cursor === null ? null : cursorText(cursor);
    return { id: randomBytes(4).toString('hex'), epoch, cursor: text, shape, after: null, rows: 0 };
  }

  /** @throws {MovedError} when the view's columns are no longer those of the shape */
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
        throw new MovedError(`the columns of ${view.name} have changed meanwhile`);
      }
      return consume(source);
    });
  }

  #counted(lines: ExportedLines['lines'], before = 0): ExportedLines['lines'] {
    const { signal, onProgress } = this.options;
    let rows = before;
    return watched(lines, (chunk) => {
      signal.throwIfAborted();
      if (onProgress !== undefined) onProgress(this.view.name, (rows += countLines(chunk)));
    });
  }
}

const WHOLE = { since: null, after: null };

interface Reading {
  readonly shape: ViewShape;
  readonly mark: string;
  readonly position: Position;
}

function given<T>(value: T | null): T {
  if (value === null) throw new Error('a view that is followed has a cursor');
  return value;
}

/** SHA-256 of rows, whatever the order in which they come. */
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
