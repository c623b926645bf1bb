import { type WideChange, wideChanges } from '../domain/changes.js';
import type { KnownItems } from '../domain/known-items.js';
import { prepareItem, type PreparedItem } from '../domain/prepare-item.js';
import type { ListElement } from '../marketplace/types.js';
import { type Applied, addApplied, NOTHING_APPLIED } from '../store/catalogue.js';
import type { ItemRows } from '../store/item-rows.js';
import type { ItemSession, QuarantineEntry } from '../store/session.js';
import { noteTolerated, type RunContext } from './run.js';

/** What waits to be written is written when it is this much: more would outlive young collections. */
const WRITE_BYTES = 1024 * 1024;
/** Of records that wait as objects, each some 10 KB. */
const WRITE_RECORDS = 250;
/** From so many on that differ, most of the list may: they are applied while it is read. */
const EARLY_RECORDS = 1_000;
/** Records applied at once: fewer cost more planning, more don’t fit into the 8 MB of `temp_buffers`. */
const APPLY_RECORDS = 2_500;

/**
 * The list holds an item twice, with different bytes, after changes were applied: which copy counts is only
 * known at its end. The list must be taken in again, without applying early.
 */
export class ListedTwice extends Error {
  override readonly name = 'ListedTwice';
}

class Pending {
  /** Further copies of items met before. */
  copies: PreparedItem[] = [];
  broken: QuarantineEntry[] = [];
  /** Bytes of the records besides those in rows. */
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
    return bytes >= WRITE_BYTES || records >= WRITE_RECORDS;
  }

  /** Forgets what was written. Writing has emptied the rows. */
  clear(): void {
    this.copies = [];
    this.broken = [];
    this.bytes = 0;
  }
}

/**
 * Takes the list in, batch by batch, within one transaction. A record whose bytes are those of the
 * stored row is done with at once. The others go into a staging table, and those whose content differs
 * are applied at the end of the list, which may contain an item twice. If most records differ, as in a
 * sale, they are applied while the list is read.
 */
export class CatalogueIntake {
  readonly #run: RunContext;
  readonly #session: ItemSession;
  readonly #known: KnownItems;
  #pending: Pending;
  /** Takes turns with `#pending`: one is written while the other is filled. */
  #other: Pending;
  /** False when the list may hold an item twice. */
  #mayApplyEarly: boolean;
  #appliesEarly = false;
  /** Records staged since they were last applied. */
  #staged = 0;
  #applied: Applied = NOTHING_APPLIED;
  #writing: Promise<void> = Promise.resolve();
  firstReason: string | null = null;
  wideChanges: readonly WideChange[] = [];

  /** @param mayApplyEarly false after `ListedTwice` */
  constructor(run: RunContext, session: ItemSession, known: KnownItems, mayApplyEarly: boolean) {
    this.#run = run;
    this.#session = session;
    this.#known = known;
    this.#mayApplyEarly = mayApplyEarly;
    this.#pending = new Pending(session.newRows(), session.newRows());
    this.#other = new Pending(session.newRows(), session.newRows());
  }

  async take(batch: readonly ListElement[]): Promise<void> {
    for (const element of batch) {
      this.#sort(element);
      if (this.#pending.isFull) await this.#startWriting();
    }
    this.#run.counts.listed += batch.length;
  }

  async finish(): Promise<void> {
    await this.#startWriting();
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

  /** Waits for the writing under way, whatever comes of it. */
  async settled(): Promise<void> {
    await this.#writing.catch(() => undefined);
  }

  #sort(element: ListElement): void {
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
    this.#place(preparation.prepared);
  }

  #place(prepared: PreparedItem): void {
    const slot = this.#known.find(prepared.item.id);
    if (slot < 0) {
      this.#known.addNew(prepared.item.id, prepared.wireHash);
      this.#run.counts.added++;
      this.#pending.fresh.add(prepared);
      return;
    }
    // It may have been seen in a record that can't be read.
    if (!this.#known.isDiffering(slot) && !this.#known.isStoredListed(slot)) {
      this.#known.markSeen(slot);
      this.#known.markDiffering(slot, prepared.wireHash);
      this.#pending.changed.add(prepared, false);
      return;
    }
    if (this.#appliesEarly) throw new ListedTwice();
    this.#mayApplyEarly = false;
    this.#run.counts.duplicates++;
    // Copies the bytes, which would otherwise keep the whole received chunk in memory.
    this.#pending.copies.push({ ...prepared, raw: Buffer.from(prepared.raw) });
    this.#pending.bytes += prepared.raw.length;
  }

  #reject(bytes: Uint8Array, reason: string, id: number | null): void {
    this.#run.counts.quarantined++;
    this.firstReason ??= reason;
    this.#pending.broken.push({ itemId: id, reason, bytes: Buffer.from(bytes) });
    this.#pending.bytes += bytes.length;
    // It is listed, though unreadable: nothing may look for it among the missing.
    const slot = id === null ? -1 : this.#known.find(id);
    if (slot >= 0) this.#known.markUnreadable(slot);
  }

  /** Waits for the writing before, and starts the next, which goes on while the list is read. */
  async #startWriting(): Promise<void> {
    await this.#writing;
    const full = this.#pending;
    this.#pending = this.#other;
    this.#pending.clear();
    this.#other = full;
    this.#writing = this.#write(full);
    // Awaited at the next turn or at the end; until then a failure must not count as unhandled.
    this.#writing.catch(() => undefined);
  }

  async #write(pending: Pending): Promise<void> {
    await this.#session.insertRows(pending.fresh);
    const copies = pending.copies.map((prepared) => ({
      prepared,
      rival: this.#known.isStoredListed(this.#known.find(prepared.item.id)),
    }));
    this.#staged += copies.length + pending.changed.rows;
    await this.#session.stage(copies);
    await this.#session.stageRows(pending.changed);
    await this.#session.quarantine(pending.broken);
    this.#appliesEarly ||= this.#mayApplyEarly && this.#isWideChange();
    if (this.#appliesEarly && this.#staged >= APPLY_RECORDS) await this.#apply();
  }

  /** Most records differ: applying them all at the end would take longer than reading the list. */
  #isWideChange(): boolean {
    const { unchanged, added } = this.#run.counts;
    return this.#staged >= EARLY_RECORDS && this.#staged > unchanged + added;
  }

  async #apply(): Promise<void> {
    this.#applied = addApplied(this.#applied, await this.#session.apply());
    this.#staged = 0;
  }
}
