import { wireHash } from '../domain/fingerprint.js';
import type { KnownItems } from '../domain/known-items.js';
import { prepareItem, type PreparedItem } from '../domain/prepare-item.js';
import type { ListElement } from '../marketplace/types.js';
import type { Staged } from '../store/catalogue.js';
import type { QuarantineEntry } from '../store/quarantine.js';
import type { ItemSession } from '../store/session.js';
import { noteTolerated, type RunContext } from './run.js';

/** What one batch of the list comes to. */
interface Sorted {
  readonly fresh: PreparedItem[];
  /** Known items whose bytes differ; their hashes decide. */
  readonly candidates: PreparedItem[];
  /** Further copies of items met before. */
  readonly copies: Staged[];
  readonly broken: QuarantineEntry[];
}

/**
 * Takes the list in, batch by batch, within one transaction. A record whose bytes are those of the
 * stored row is done with at once; of the others, only those that really differ are written.
 */
export class CatalogueIntake {
  readonly #run: RunContext;
  readonly #session: ItemSession;
  readonly #known: KnownItems;
  /** The writing of the batch before, which goes on while the next one is read. */
  #writing: Promise<void> = Promise.resolve();
  /** The first reason why a record could not be read. */
  firstReason: string | null = null;

  constructor(run: RunContext, session: ItemSession, known: KnownItems) {
    this.#run = run;
    this.#session = session;
    this.#known = known;
  }

  async take(batch: readonly ListElement[]): Promise<void> {
    const sorted: Sorted = { fresh: [], candidates: [], copies: [], broken: [] };
    for (const element of batch) this.#sort(element, sorted);
    this.#run.counts.listed += batch.length;
    await this.#writing;
    this.#writing = this.#write(sorted);
    // Awaited at the next batch or at the end; until then a failure must not count as unhandled.
    this.#writing.catch(() => undefined);
  }

  /** Waits for the last batch and applies what differs. */
  async finish(): Promise<void> {
    await this.#writing;
    const applied = await this.#session.apply();
    const { counts } = this.#run;
    counts.changed = applied.changed;
    counts.extraChanged = applied.extraChanged;
    counts.restored = applied.restored;
  }

  #sort(element: ListElement, sorted: Sorted): void {
    const { idHint: id } = element;
    const hinted = id === null ? -1 : this.#known.find(id);
    if (element.unfit !== null) return this.#reject(sorted, element.bytes, element.unfit, id);
    const wire = wireHash(element.bytes);
    if (hinted >= 0 && this.#known.hasWireHash(hinted, wire)) {
      const seen = this.#known.isSeen(hinted);
      if (seen && this.#known.isStoredListed(hinted)) {
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
      return this.#reject(sorted, element.bytes, preparation.reason, preparation.id ?? id);
    }
    noteTolerated(this.#run, preparation.tolerated);
    this.#place(preparation.prepared, sorted);
  }

  #place(prepared: PreparedItem, sorted: Sorted): void {
    const slot = this.#known.find(prepared.item.id);
    if (slot < 0) {
      this.#known.addNew(prepared.item.id, prepared.wireHash);
      this.#run.counts.added++;
      sorted.fresh.push(prepared);
    } else if (this.#known.isSeen(slot)) {
      this.#run.counts.duplicates++;
      sorted.copies.push({ prepared, rival: false });
    } else {
      this.#known.markSeen(slot);
      sorted.candidates.push(prepared);
    }
  }

  #reject(sorted: Sorted, bytes: Uint8Array, reason: string, id: number | null): void {
    this.#run.counts.quarantined++;
    this.firstReason ??= reason;
    sorted.broken.push({ itemId: id, reason, bytes });
    // It is listed, though unreadable: nothing may look for it among the missing.
    const slot = id === null ? -1 : this.#known.find(id);
    if (slot >= 0) this.#known.markSeen(slot);
  }

  async #write(sorted: Sorted): Promise<void> {
    await this.#session.insert(sorted.fresh);
    const staged = await this.#differing(sorted.candidates);
    const copies = sorted.copies.map(({ prepared }) => ({
      prepared,
      rival: this.#known.isStoredListed(this.#known.find(prepared.item.id)),
    }));
    await this.#session.stage([...staged, ...copies]);
    await this.#session.quarantine(sorted.broken);
  }

  /** Of the records whose bytes differ from the stored row's, those whose content does. */
  async #differing(candidates: readonly PreparedItem[]): Promise<Staged[]> {
    if (candidates.length === 0) return [];
    const stored = await this.#session.hashesOf(candidates.map(({ item }) => item.id));
    const differing: Staged[] = [];
    for (const prepared of candidates) {
      const row = stored.get(prepared.item.id);
      const same =
        row !== undefined &&
        row.live &&
        row.contentHash.equals(prepared.contentHash) &&
        row.extraHash.equals(prepared.extraHash);
      if (same) {
        this.#known.markStoredListed(this.#known.find(prepared.item.id));
        this.#run.counts.unchanged++;
      } else {
        differing.push({ prepared, rival: false });
      }
    }
    return differing;
  }
}
