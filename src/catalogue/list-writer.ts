import type { KnownItems } from './known-items.js';
import { prepareItem, type PreparedItem, type ItemRows } from './prepare-item.js';
import type { ListElement } from '../marketplace/types.js';
import type { ItemSession, QuarantineEntry } from './session-store.js';
import { noteTolerated, type RunContext } from './run.js';

/** Flush after this many bytes. Larger buffers survive V8's young generation and cost a full GC. */
const FLUSH_BYTES = 1024 * 1024;

/**
 * Writes a list as it arrives. Records with the bytes of the stored row are skipped. The others are staged;
 * into an empty table they are written directly. PostgreSQL works while the next records are read.
 */
export class ListWriter {
  readonly #run: RunContext;
  readonly #session: ItemSession;
  readonly #known: KnownItems;
  #filling: ItemRows;
  /** Swaps with `#filling`: one is filled while the other is sent. */
  #sending: ItemRows;
  #sent: Promise<void> = Promise.resolve();
  /** Whether rows go into the empty table, until an item is listed twice. */
  #isDirect: boolean;
  #broken: QuarantineEntry[] = [];
  #brokenBytes = 0;
  /** Why the first broken record could not be read. */
  firstReason: string | null = null;

  constructor(run: RunContext, session: ItemSession, known: KnownItems) {
    this.#run = run;
    this.#session = session;
    this.#known = known;
    this.#filling = session.newRows();
    this.#sending = session.newRows();
    this.#isDirect = known.size === 0;
  }

  async add(batch: readonly ListElement[]): Promise<void> {
    for (const element of batch) {
      await this.#addRecord(element);
      if (this.#filling.size + this.#brokenBytes >= FLUSH_BYTES) await this.#flush();
    }
    this.#run.counts.listed += batch.length;
  }

  /** Waits until everything is written. */
  async finish(): Promise<void> {
    await this.#flush();
    await this.#sent;
    await this.#session.endCopy();
  }

  /** Waits for rows under way, and ignores their errors. */
  async abandon(): Promise<void> {
    await this.#sent.catch(() => undefined);
  }

  #addRecord(element: ListElement): Promise<void> | void {
    const { idHint: id } = element;
    const known = this.#known;
    const slot = id === null ? -1 : known.find(id);
    if (element.unfit !== null) return this.#reject(element.bytes, element.unfit, id);
    const wire = element.wireHash();
    if (slot >= 0 && known.hasWireHash(slot, wire) && !known.isStaged(slot)) {
      if (known.isListed(slot)) return void this.#run.counts.duplicates++;
      if (known.isLive(slot)) {
        known.markListed(slot);
        return void this.#run.counts.unchanged++;
      }
    }
    const preparation = prepareItem(element.bytes, wire);
    if (!preparation.ok) {
      return this.#reject(element.bytes, preparation.reason, preparation.id ?? id);
    }
    noteTolerated(this.#run, preparation.tolerated);
    return this.#addItem(preparation.prepared);
  }

  #addItem(prepared: PreparedItem): Promise<void> | void {
    const [known, { counts }] = [this.#known, this.#run];
    const slot = known.find(prepared.item.id);
    if (slot < 0) {
      const added = known.addNew(prepared.item.id, prepared.wireHash);
      if (!this.#isDirect) known.markStaged(added);
    } else {
      if (known.isListed(slot)) {
        counts.duplicates++;
        if (!known.isNew(slot) && !known.isStaged(slot)) counts.unchanged--;
      }
      known.markStaged(slot);
      if (this.#isDirect) return this.#stageFromNowOn(prepared);
    }
    this.#filling.add(prepared);
  }

  /** An item that the list repeats replaces the row that was written before. */
  async #stageFromNowOn(prepared: PreparedItem): Promise<void> {
    const copy = { ...prepared, raw: Buffer.from(prepared.raw) };
    await this.#flush();
    this.#isDirect = false;
    this.#filling.add(copy);
  }

  #reject(bytes: Uint8Array, reason: string, id: number | null): void {
    this.#run.counts.quarantined++;
    this.firstReason ??= reason;
    this.#broken.push({ itemId: id, reason, bytes: Buffer.from(bytes) });
    this.#brokenBytes += bytes.length;
    // The item is listed, though unreadable, so it must not become missing.
    const slot = id === null ? -1 : this.#known.find(id);
    if (slot >= 0) this.#known.markUnreadable(slot);
  }

  /** Waits for the rows sent before, and starts to send the next ones. */
  async #flush(): Promise<void> {
    await this.#sent;
    [this.#filling, this.#sending] = [this.#sending, this.#filling];
    this.#filling.clear();
    const [broken, rows] = [this.#broken, this.#sending];
    this.#broken = [];
    this.#brokenBytes = 0;
    this.#sent = this.#send(rows, this.#isDirect, broken);
    // The next flush awaits it; until then its failure must not count as unhandled.
    this.#sent.catch(() => undefined);
  }

  async #send(
    rows: ItemRows,
    isDirect: boolean,
    broken: readonly QuarantineEntry[],
  ): Promise<void> {
    if (isDirect) await this.#session.insert(rows);
    else await this.#session.stage(rows);
    await this.#session.stageBroken(broken);
  }
}
