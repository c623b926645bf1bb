import { createHash } from 'node:crypto';
import { cursorText, parseCursor, type FeedCursor } from '../domain/feed-cursor.js';
import {
  CursorAheadError,
  type ExportableView,
  type Exported,
  type Exports,
} from '../store/exports.js';
import type { TextRow } from '../store/text-cursor.js';
import {
  DELETED,
  TargetConflictError,
  TargetError,
  TargetMovedError,
  type Delivered,
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
const TRIES = 3;

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
  const epoch = await exports.epoch();
  const reports: ViewReport[] = [];
  for (const name of content.views) {
    options.signal.throwIfAborted();
    const started = performance.now();
    const ms = (): number => Math.round(performance.now() - started);
    const view = known.find((one) => one.name === name);
    if (view === undefined) {
      const problem = {
        message: `there is no view ${name}`,
        remedy: '`seller-mirror export` lists the views',
      };
      reports.push({ view: name, kind: 'same', rows: 0, ms: ms(), problem });
      continue;
    }
    try {
      const done = await deliverView({ exports, target, view, epoch, content, options });
      reports.push({ view: name, ...done, ms: ms(), problem: null });
    } catch (error) {
      if (!(error instanceof TargetConflictError)) throw error;
      const { message, remedy } = error;
      reports.push({ view: name, kind: 'same', rows: 0, ms: ms(), problem: { message, remedy } });
    }
  }
  return reports;
}

interface ViewDelivery {
  readonly exports: Exports;
  readonly target: Target;
  readonly view: ExportableView;
  readonly epoch: string;
  readonly content: FeedContent;
  readonly options: DeliverOptions;
}

type Done = Pick<ViewReport, 'kind' | 'rows'>;

async function deliverView(delivery: ViewDelivery): Promise<Done> {
  const { view } = delivery;
  for (let tries = 1; ; tries++) {
    try {
      return await (view.key === null ? deliverWhole(delivery) : deliverFollowed(delivery));
    } catch (error) {
      if (!(error instanceof TargetMovedError)) throw error;
      // What the other one delivered need not come again.
      if (tries === TRIES) return { kind: 'same', rows: 0 };
    }
  }
}

/** Delivers a view that can be followed: changes since the target's cursor, else all rows. */
async function deliverFollowed(delivery: ViewDelivery, isAll = false): Promise<Done> {
  const { exports, target, view, epoch, content, options } = delivery;
  const { sellers, deletes } = content;
  const from = await target.delivered(view.name);
  const since = isAll ? null : sinceOf(from, epoch);
  const request = { view: view.name, sellerIds: view.bySeller ? sellers : null, counted: false };
  try {
    return await exports
      .read(
        { ...request, since, deletions: since !== null },
        async ({ columns, batches, cursor }) => {
          const shape = shapeOf(view, columns);
          // A column that the view has gained is filled in all rows.
          if (since !== null && from !== null && from.shape !== markOf(shape)) return null;
          if (cursor === null) throw new Error(`${view.name} has no cursor`);
          const kind = since === null ? 'all' : 'changes';
          const rows = await target.deliver({
            ...{ shape, kind, sellers: view.bySeller ? sellers : null, deletes, from },
            batches: counted(view.name, batches, options),
            next: () => ({ epoch, cursor: cursorText(cursor), shape: markOf(shape), digest: null }),
          });
          return { kind: kind === 'changes' && rows === 0 ? 'same' : kind, rows } as const;
        },
      )
      .then((done) => done ?? deliverFollowed(delivery, true));
  } catch (error) {
    // The store was set back without an epoch of its own, as by a copy of its files.
    if (error instanceof CursorAheadError && !isAll) return deliverFollowed(delivery, true);
    throw error;
  }
}

/** Where to go on; null: from the beginning, as after the store was restored from a backup. */
function sinceOf(from: Delivered | null, epoch: string): FeedCursor | null {
  const cursor = from?.epoch === epoch ? from.cursor : null;
  return cursor === null ? null : parseCursor(cursor);
}

/** Delivers a view that is small: all of it, but only when it differs from what was delivered last. */
async function deliverWhole(delivery: ViewDelivery): Promise<Done> {
  const { exports, target, view, epoch, content, options } = delivery;
  const sellers = view.bySeller ? content.sellers : null;
  const from = await target.delivered(view.name);
  const request = {
    view: view.name,
    since: null,
    deletions: false,
    sellerIds: sellers,
    counted: false,
  };
  const now = await exports.read(request, async ({ columns, batches }) => {
    const digest = new RowsDigest();
    for await (const rows of batches) digest.add(rows);
    return { digest: digest.text(), shape: markOf(shapeOf(view, columns)) };
  });
  if (from?.digest === now.digest && from.shape === now.shape && from.epoch === epoch) {
    return { kind: 'same', rows: 0 };
  }
  return exports.read(request, async ({ columns, batches }) => {
    const shape = shapeOf(view, columns);
    const digest = new RowsDigest();
    const rows = await target.deliver({
      ...{ shape, kind: 'all', sellers, deletes: 'delete', from },
      batches: digest.through(counted(view.name, batches, options)),
      next: () => ({ epoch, cursor: null, shape: markOf(shape), digest: digest.text() }),
    });
    return { kind: 'all', rows };
  });
}

function shapeOf({ name, key }: ExportableView, columns: Exported['columns']): ViewShape {
  return { view: name, key, columns: columns.filter((column) => column.name !== DELETED) };
}

/** Names and types of the columns in 64 characters. */
function markOf({ columns }: ViewShape): string {
  const text = columns.map(({ name, type }) => `${name} ${type}`).join('\n');
  return createHash('sha256').update(text).digest('hex');
}

async function* counted(
  view: string,
  batches: Exported['batches'],
  { signal, onProgress }: DeliverOptions,
): AsyncGenerator<readonly TextRow[]> {
  let rows = 0;
  for await (const batch of batches) {
    signal.throwIfAborted();
    onProgress?.(view, (rows += batch.length));
    yield batch;
  }
}

/** SHA-256 of rows, whatever the order in which they come. */
class RowsDigest {
  readonly #sum = Buffer.alloc(32);

  add(rows: readonly TextRow[]): void {
    for (const row of rows) {
      const hash = createHash('sha256').update(JSON.stringify(row)).digest();
      let carry = 0;
      for (let n = 31; n >= 0; n--) {
        const sum = (this.#sum[n] ?? 0) + (hash[n] ?? 0) + carry;
        this.#sum[n] = sum & 255;
        carry = sum >> 8;
      }
    }
  }

  async *through(batches: AsyncIterable<readonly TextRow[]>): AsyncGenerator<readonly TextRow[]> {
    for await (const rows of batches) {
      this.add(rows);
      yield rows;
    }
  }

  text(): string {
    return this.#sum.toString('hex');
  }
}

/** A problem of a target as a report has it; null for errors that are none. */
export function problemOf(error: unknown): ViewReport['problem'] {
  if (!(error instanceof TargetError)) return null;
  return { message: error.message, remedy: error.remedy };
}
