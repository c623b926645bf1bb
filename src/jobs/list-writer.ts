import { type WideChange, wideChanges } from '../domain/changes.js';
import type { KnownItems } from '../domain/known-items.js';
import { prepareItem, type PreparedItem } from '../domain/prepare-item.js';
import type { ListElement } from '../marketplace/types.js';
import { type Applied, addApplied, NOTHING_APPLIED } from '../store/apply-items.js';
import type { ItemRows } from '../store/item-rows.js';
import type { ItemSession, QuarantineEntry } from '../store/session.js';
import { noteTolerated, type RunContext } from './run.js';

/** Flush after this many bytes. Larger buffers survive V8's young generation and cost a full GC. */
const FLUSH_BYTES = 1024 * 1024;
/** Flush after this many parsed records (about 10 KB each). */
const FLUSH_RECORDS = 250;
/** Once this many records differ and they are the majority, apply changes while the list is read. */
const EARLY_RECORDS = 1_000;
/** Records per early application. Fewer cost more planning; more don’t fit into `temp_buffers` (8 MB). */
const APPLY_RECORDS = 2_500;

/**
 * The list holds an item twice with different bytes, and changes were applied already. Which copy counts
 * is known only at the end of the list, so it must be read again without applying early.
 */
export class ListedTwice extends Error {
  override readonly name = 'ListedTwice';
}

/** Records to write in the next flush. */
class WriteBuffer {
  /** Further copies of items listed before. */
  copies: PreparedItem[] = [];
  broken: QuarantineEntry[] = [];
  /** Bytes of `copies` and `broken`. */
  bytes = 0;

  /**
   * @param fresh new items
   * @param changed known items whose bytes differ; the database compares their hashes
   */
  constructor(
    readonly fresh: ItemRows,
    readonly changed: ItemRows,
  ) {}

  get isFull(): boolean {
    const records = this.copies.length + this.broken.length;
    const bytes = this.fresh.size + this.changed.size + this.bytes;
    return bytes >= FLUSH_BYTES || records >= FLUSH_RECORDS;
  }

  /** Clears what was written, except the rows: writing empties them. */
  clear(): void {
    this.copies = [];
    this.broken = [];
    this.bytes = 0;
  }
}

/**
 * Stores a list batch by batch within one transaction. Skips records with the bytes of the stored row.
 * The others go into a staging table. Those whose content differs are applied at the end of the list,
 * which may hold an item twice. If most records differ, as in a sale, they are applied while it is read.
 */
export class ListWriter {
  readonly #run: RunContext;
  readonly #session: ItemSession;
  readonly #known: KnownItems;
  #filling: WriteBuffer;
  /** Swaps with `#filling`: one is filled while the other is written. */
  #written: WriteBuffer;
  /** False if the list may hold an item twice. */
  #mayApplyEarly: boolean;
  #appliesEarly = false;
  /** Records staged since the last application. */
  #staged = 0;
  #applied: Applied = NOTHING_APPLIED;
  #writing: Promise<void> = Promise.resolve();
  /** Why the first broken record could not be read. */
  firstReason: string | null = null;
  wideChanges: readonly WideChange[] = [];

  /** @param mayApplyEarly false after `ListedTwice` */
  constructor(run: RunContext, session: ItemSession, known: KnownItems, mayApplyEarly: boolean) {
    this.#run = run;
    this.#session = session;
    this.#known = known;
    this.#mayApplyEarly = mayApplyEarly;
    this.#filling = new WriteBuffer(session.newRows(), session.newRows());
    this.#written = new WriteBuffer(session.newRows(), session.newRows());
  }

  async add(batch: readonly ListElement[]): Promise<void> {
    for (const element of batch) {
      this.#addRecord(element);
      if (this.#filling.isFull) await this.#flush();
    }
    this.#run.counts.listed += batch.length;
  }

  /** Writes and applies the rest, and sets the run's counts. */
  async finish(): Promise<void> {
    await this.#flush();
    await this.#writing;
    await this.#apply();
    const [{ counts }, applied] = [this.#run, this.#applied];
    counts.changed = applied.changed;
    counts.extraChanged = applied.extraChanged;
    counts.restored = applied.restored;
    const known = counts.listed - counts.duplicates - counts.quarantined - counts.added;
    counts.unchanged = known - applied.written + applied.foundAgain;
    this.wideChanges = wideChanges(applied.fields, known);
  }

  /** Waits for the write in progress, and ignores its errors. */
  async writesEnded(): Promise<void> {
    await this.#writing.catch(() => undefined);
  }

  #addRecord(element: ListElement): void {
    const { idHint: id } = element;
    const hinted = id === null ? -1 : this.#known.find(id);
    if (element.unfit !== null) return this.#reject(element.bytes, element.unfit, id);
    const wire = element.wireHash();
    if (hinted >= 0 && this.#known.hasWireHash(hinted, wire)) {
      const seen = this.#known.isSeen(hinted);
      if (seen && (this.#known.isStoredListed(hinted) || this.#known.isDiffering(hinted))) {
        this.#run.counts.duplicates++;
        return;
      }
      if (!seen && this.#known.isLive(hinted)) {
        this.#known.markSeen(hinted);
        this.#known.markStoredListed(hinted);
        this.#run.counts.unchanged++;
        return;
      }
    }
    const preparation = prepareItem(element.bytes, wire);
    if (!preparation.ok) {
      return this.#reject(element.bytes, preparation.reason, preparation.id ?? id);
    }
    noteTolerated(this.#run, preparation.tolerated);
    this.#addItem(preparation.prepared);
  }

  #addItem(prepared: PreparedItem): void {
    const slot = this.#known.find(prepared.item.id);
    if (slot < 0) {
      this.#known.addNew(prepared.item.id, prepared.wireHash);
      this.#run.counts.added++;
      this.#filling.fresh.add(prepared);
      return;
    }
    // Not `isSeen`: an unreadable record may have named it before.
    if (!this.#known.isDiffering(slot) && !this.#known.isStoredListed(slot)) {
      this.#known.markSeen(slot);
      this.#known.markDiffering(slot, prepared.wireHash);
      this.#filling.changed.add(prepared, false);
      return;
    }
    if (this.#appliesEarly) throw new ListedTwice();
    this.#mayApplyEarly = false;
    this.#run.counts.duplicates++;
    // Copies the bytes, which would otherwise keep the whole received chunk in memory.
    this.#filling.copies.push({ ...prepared, raw: Buffer.from(prepared.raw) });
    this.#filling.bytes += prepared.raw.length;
  }

  #reject(bytes: Uint8Array, reason: string, id: number | null): void {
    this.#run.counts.quarantined++;
    this.firstReason ??= reason;
    this.#filling.broken.push({ itemId: id, reason, bytes: Buffer.from(bytes) });
    this.#filling.bytes += bytes.length;
    // The item is listed, though unreadable, so it must not become missing.
    const slot = id === null ? -1 : this.#known.find(id);
    if (slot >= 0) this.#known.markUnreadable(slot);
  }

  /** Waits for the last write and starts the next one, which continues while the list is read. */
  async #flush(): Promise<void> {
    await this.#writing;
    [this.#filling, this.#written] = [this.#written, this.#filling];
    this.#filling.clear();
    this.#writing = this.#write(this.#written);
    // The next flush awaits it; until then its failure must not count as unhandled.
    this.#writing.catch(() => undefined);
  }

  async #write(buffer: WriteBuffer): Promise<void> {
    await this.#session.insertRows(buffer.fresh);
    const copies = buffer.copies.map((prepared) => ({
      prepared,
      rival: this.#known.isStoredListed(this.#known.find(prepared.item.id)),
    }));
    this.#staged += copies.length + buffer.changed.rows;
    await this.#session.stage(copies);
    await this.#session.stageRows(buffer.changed);
    await this.#session.quarantine(buffer.broken);
    this.#appliesEarly ||= this.#mayApplyEarly && this.#mostDiffer();
    if (this.#appliesEarly && this.#staged >= APPLY_RECORDS) await this.#apply();
  }

  /** Whether most records differ: applying all of them at the end would take longer than reading the list. */
  #mostDiffer(): boolean {
    const { unchanged, added } = this.#run.counts;
    return this.#staged >= EARLY_RECORDS && this.#staged > unchanged + added;
  }

  async #apply(): Promise<void> {
    this.#applied = addApplied(this.#applied, await this.#session.apply());
    this.#staged = 0;
  }
}
