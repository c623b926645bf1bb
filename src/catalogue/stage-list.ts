import { setImmediate as yieldNow } from 'node:timers/promises';
import type { PoolClient } from 'pg';
import type { ItemState } from '../domain/item.js';
import type { ItemList, ListElement } from '../marketplace/types.js';
import { CopyIn } from '../db/copy.js';
import { ITEM_COLUMNS, ItemRows, prepareItem, type PreparedItem } from './prepare-item.js';
import { noteTolerated, type RunContext } from './run.js';

/** An item, and what the list says about it. */
interface Known {
  /** Hash of the stored record; of a new item, of its first one. */
  readonly hash: string;
  /** Null: the mirror did not know it. */
  readonly state: ItemState | null;
  /** The list has a readable record of it. */
  isListed: boolean;
  /** The list has a record of it that can't be read. */
  isUnreadable: boolean;
  /** Its last record was staged, so the stored row no longer says what the list says. */
  isStaged: boolean;
}

/** The items of a catalogue, and what the list says about them. */
export class KnownItems {
  readonly #items = new Map<number, Known>();

  /** Number of stored items that are live or missing. */
  present = 0;

  get size(): number {
    return this.#items.size;
  }

  addStored(id: number, hash: string, state: ItemState): void {
    if (state !== 'removed') this.present++;
    this.#items.set(id, { hash, state, isListed: false, isUnreadable: false, isStaged: false });
  }

  addNew(id: number, hash: string, isStaged: boolean): void {
    this.#items.set(id, { hash, state: null, isListed: true, isUnreadable: false, isStaged });
  }

  has(id: number): boolean {
    return this.#items.has(id);
  }

  /** Notes a record with this hash. @returns false unless it is that of the stored row, which is live */
  noteSame(id: number, hash: string): boolean {
    const item = this.#items.get(id);
    if (item === undefined || item.hash !== hash || item.isStaged) return false;
    if (item.state !== 'live' && !item.isListed) return false;
    item.isListed = true;
    return true;
  }

  /** Notes that a record of a known item is staged. @returns true if one was before */
  noteStaged(id: number): boolean {
    const item = this.#items.get(id) as Known;
    const wasStaged = item.isStaged;
    item.isListed = true;
    item.isStaged = true;
    return wasStaged;
  }

  noteUnreadable(id: number): void {
    const item = this.#items.get(id);
    if (item !== undefined) item.isUnreadable = true;
  }

  /** What the list says about the items. @param mostWitnesses readable ones come first */
  summarize(mostWitnesses: number): KnownSummary {
    const unlisted: number[] = [];
    const fresh: number[] = [];
    const readable: number[] = [];
    const unreadable: number[] = [];
    let [listed, unchanged] = [0, 0];
    for (const [id, { state, isListed, isUnreadable, isStaged }] of this.#items) {
      if (isListed) listed++;
      if (isListed && !isStaged && state !== null) unchanged++;
      if (state === null) fresh.push(id);
      if (isListed) readable.push(id);
      else if (isUnreadable) unreadable.push(id);
      else if (state === 'live' || state === 'missing') unlisted.push(id);
    }
    const witnesses = [...spread(readable, mostWitnesses), ...spread(unreadable, mostWitnesses)];
    witnesses.length = Math.min(witnesses.length, mostWitnesses);
    return { present: this.present, unlisted, fresh, listed, unchanged, witnesses };
  }
}

export interface KnownSummary {
  /** Number of items that were live or missing before. */
  readonly present: number;
  /** Those of them that the list does not name. */
  readonly unlisted: readonly number[];
  /** Items that the mirror did not know. */
  readonly fresh: readonly number[];
  /** Number of items with a readable record. */
  readonly listed: number;
  /** Number of known items whose record has the bytes of the stored row. */
  readonly unchanged: number;
  /** Items that the list names, from all parts of the catalogue. */
  readonly witnesses: readonly number[];
}

/** Up to `most` of these ids, from all over. */
export function spread(ids: readonly number[], most: number): readonly number[] {
  const step = Math.max(1, ids.length / most);
  return Array.from(
    { length: Math.min(most, ids.length) },
    (_, n) => ids[Math.floor(n * step)] as number,
  );
}

/** A record that could not be decoded. */
export interface BrokenRecord {
  readonly itemId: number | null;
  readonly reason: string;
  /** The record, cut after 1 MiB. */
  readonly bytes: Uint8Array;
}

export interface StagedList {
  readonly broken: readonly BrokenRecord[];
  /** Number of rows written. */
  readonly rows: number;
  /** Whether an item was staged more than once; the last record counts. */
  readonly repeats: boolean;
}

const MAX_BROKEN_BYTES = 1 << 20;
/** Records between two looks at the signal and the lock. */
const RECORDS_BETWEEN_LOOKS = 1_000;

/**
 * Reads a list into a table by COPY. Records with the bytes of last night are skipped without parsing them.
 * @param into the staging table, or the empty table of items itself
 * @returns null if `into` is the table of items, and the list names an item twice: stage it instead
 */
export async function stageList(
  run: RunContext,
  list: ItemList,
  known: KnownItems,
  into: 'staging' | 'items',
): Promise<StagedList | null> {
  const { counts, deps, lock, signal } = run;
  const { present } = known;
  const rows = new RowCopy(run, into);
  const broken: BrokenRecord[] = [];
  let repeats = false;
  const tell = (): void => {
    const progress = { phase: 'list', records: counts.listed, bytes: list.bytes } as const;
    deps.onProgress?.({ ...progress, expected: present === 0 ? null : present });
  };
  const reject = ({ bytes }: ListElement, reason: string, itemId: number | null): void => {
    broken.push({ itemId, reason, bytes: Buffer.from(bytes.subarray(0, MAX_BROKEN_BYTES)) });
    // The item is listed, though unreadable, so it must not become missing.
    if (itemId !== null) known.noteUnreadable(itemId);
  };
  try {
    for (const element of list.records) {
      if (++counts.listed % RECORDS_BETWEEN_LOOKS === 0) {
        await yieldNow();
        signal.throwIfAborted();
        lock.lost.throwIfAborted();
        tell();
      }
      const { idHint: id, unfit } = element;
      if (unfit !== null) {
        reject(element, unfit, id);
        continue;
      }
      const wire = element.wireHash();
      if (id !== null && known.noteSame(id, wire)) continue;
      const preparation = prepareItem(element.bytes, wire);
      if (!preparation.ok) {
        reject(element, preparation.reason, preparation.id ?? id);
        continue;
      }
      noteTolerated(run, preparation.tolerated);
      const { prepared } = preparation;
      if (!known.has(prepared.item.id)) known.addNew(prepared.item.id, wire, into === 'staging');
      else if (into === 'items') return await rows.end();
      else if (known.noteStaged(prepared.item.id)) repeats = true;
      await rows.add(prepared);
    }
    await rows.end();
    tell();
  } catch (error) {
    await rows.abandon();
    throw error;
  }
  counts.bytes = list.bytes;
  counts.quarantined = broken.length;
  return { broken, rows: rows.count, repeats };
}

/** Send after this many bytes. Larger buffers survive V8's young generation and cost a full GC. */
const SEND_BYTES = 1024 * 1024;
/**
 * Foreign keys of a table are checked when a COPY ends. Small COPYs spread the checks over the time in which the
 * records are decoded.
 */
const ROWS_PER_COPY = 2_000;

/** Copies rows while the next ones are encoded. */
class RowCopy {
  #filling: ItemRows;
  #sending: ItemRows;
  #sent: Promise<void> = Promise.resolve();
  #copy: CopyIn | null = null;
  #rowsOfCopy = 0;
  count = 0;
  readonly #client: PoolClient;
  readonly #extraFields: Set<string>;

  constructor(
    { lock, stamp, extraFields }: Pick<RunContext, 'lock' | 'stamp' | 'extraFields'>,
    readonly into: 'staging' | 'items',
  ) {
    this.#client = lock.client;
    this.#extraFields = extraFields;
    this.#filling = new ItemRows(stamp);
    this.#sending = new ItemRows(stamp);
  }

  add(prepared: PreparedItem): Promise<void> | void {
    this.#filling.add(prepared);
    for (const name in prepared.extra) this.#extraFields.add(name);
    this.count++;
    if (this.#filling.size >= SEND_BYTES) return this.#flush();
  }

  /** Ends the COPY, so that others can use the connection. */
  async end(): Promise<null> {
    await this.#flush();
    await this.#sent;
    await this.#copy?.end();
    return null;
  }

  /** Ends it after an error: what is under way is cut off. */
  async abandon(): Promise<void> {
    await this.#sent.catch(() => undefined);
    this.#copy?.abandon();
  }

  /** Waits for the rows sent before, and starts to send the next ones. */
  async #flush(): Promise<void> {
    await this.#sent;
    [this.#filling, this.#sending] = [this.#sending, this.#filling];
    this.#filling.clear();
    this.#sent = this.#send(this.#sending);
    // The next flush awaits it; until then its failure must not count as unhandled.
    this.#sent.catch(() => undefined);
  }

  async #send(rows: ItemRows): Promise<void> {
    if (rows.rows === 0) return;
    if (this.into === 'items' && this.#rowsOfCopy >= ROWS_PER_COPY) {
      await this.#copy?.end();
      this.#copy = null;
      this.#rowsOfCopy = 0;
    }
    const table = this.into === 'items' ? 'mirror.items' : STAGE;
    this.#copy ??= new CopyIn(this.#client, `${table} (${ITEM_COLUMNS.join(', ')})`);
    this.#rowsOfCopy += rows.rows;
    await this.#copy.write(rows.data());
  }
}

/** Records of the run, staged while the list is read. A temporary table of the run's connection. */
export const STAGE = 'pg_temp.incoming_items';

/** Stages a few items. */
export async function stageItems(
  run: Pick<RunContext, 'lock' | 'stamp' | 'extraFields'>,
  items: readonly PreparedItem[],
): Promise<void> {
  if (items.length === 0) return;
  const rows = new RowCopy(run, 'staging');
  for (const item of items) await rows.add(item);
  await rows.end();
}
