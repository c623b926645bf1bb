import { WIRE_HASH_BYTES } from './prepare-item.js';

/** An item's state in the mirror before this run. */
export type KnownState = 'live' | 'missing' | 'removed';

const STATE_CODES: Readonly<Record<KnownState, number>> = { live: 1, missing: 2, removed: 3 };
const NEW = 4;
const STATE_MASK = 7;
const SEEN = 8;
/** The stored row equals one of the item's records in the list. */
const STORED_IS_LISTED = 16;
const UNREADABLE = 32;
/** The wire hash is that of a record of this list, which differs from the stored row. */
const TAKEN = 64;

const SEGMENT_BITS = 14;
const SEGMENT_ITEMS = 1 << SEGMENT_BITS;
const SEGMENT_MASK = SEGMENT_ITEMS - 1;

/** A block of slots. The table grows by whole segments, so that growing copies no item. */
class Segment {
  readonly ids = new Float64Array(SEGMENT_ITEMS);
  readonly hashes = new Uint8Array(SEGMENT_ITEMS * WIRE_HASH_BYTES);
  readonly flags = new Uint8Array(SEGMENT_ITEMS);
}

/** The ids and wire hashes of a catalogue in few bytes an item: 17, and at most 16 for the index. */
export class KnownItems {
  readonly #segments: Segment[] = [];
  #size = 0;
  /** Open addressing with linear probing: slot + 1 at the id's place, 0 where there is none. */
  #places: Int32Array;

  /** @param expected number of items to expect; more may be added */
  constructor(expected: number) {
    this.#places = new Int32Array(placesFor(expected));
  }

  get size(): number {
    return this.#size;
  }

  addKnown(id: number, wireHash: Uint8Array, state: KnownState): void {
    this.#append(id, wireHash, STATE_CODES[state]);
  }

  /** Adds an item that is new in this run; it counts as seen, and its row as listed. */
  addNew(id: number, wireHash: Uint8Array): void {
    this.#append(id, wireHash, NEW | SEEN | STORED_IS_LISTED);
  }

  /** The slot of an id, or -1. */
  find(id: number): number {
    return (this.#places[this.#placeOf(id)] as number) - 1;
  }

  isLive(slot: number): boolean {
    return (this.#flagsAt(slot) & STATE_MASK) === STATE_CODES.live;
  }

  isSeen(slot: number): boolean {
    return (this.#flagsAt(slot) & SEEN) !== 0;
  }

  markSeen(slot: number): void {
    this.#addFlag(slot, SEEN);
  }

  /** Marks an item that the list names in a record that can't be read. */
  markUnreadable(slot: number): void {
    this.#addFlag(slot, SEEN | UNREADABLE);
  }

  /** True when the stored row equals one of the item's records in the list. */
  isStoredListed(slot: number): boolean {
    return (this.#flagsAt(slot) & STORED_IS_LISTED) !== 0;
  }

  markStoredListed(slot: number): void {
    this.#addFlag(slot, STORED_IS_LISTED);
  }

  /** Keeps the wire hash of a record that differs from the stored row's: a copy of it is told by that. */
  markDiffering(slot: number, wireHash: Uint8Array): void {
    this.#segmentOf(slot).hashes.set(wireHash, (slot & SEGMENT_MASK) * WIRE_HASH_BYTES);
    this.#addFlag(slot, TAKEN);
  }

  isDiffering(slot: number): boolean {
    return (this.#flagsAt(slot) & TAKEN) !== 0;
  }

  hasWireHash(slot: number, wireHash: Uint8Array): boolean {
    const { hashes } = this.#segmentOf(slot);
    const at = (slot & SEGMENT_MASK) * WIRE_HASH_BYTES;
    for (let i = 0; i < WIRE_HASH_BYTES; i++) {
      if (hashes[at + i] !== wireHash[i]) return false;
    }
    return true;
  }

  /** Items that were live or missing and that no record of the list named. */
  unseen(): number[] {
    const ids: number[] = [];
    for (let slot = 0; slot < this.#size; slot++) {
      if (this.#isPresent(slot) && !this.isSeen(slot)) ids.push(this.#idAt(slot));
    }
    return ids;
  }

  /** A listed item, preferably one with a readable record; null when there is none. */
  anySeen(): number | null {
    let unreadable: number | null = null;
    for (let slot = 0; slot < this.#size; slot++) {
      if (!this.isSeen(slot)) continue;
      if ((this.#flagsAt(slot) & UNREADABLE) === 0) return this.#idAt(slot);
      unreadable ??= this.#idAt(slot);
    }
    return unreadable;
  }

  /** How many items were in each state before this run. */
  stateCounts(): Record<KnownState, number> {
    const byCode: number[] = [0, 0, 0, 0, 0];
    for (let slot = 0; slot < this.#size; slot++) {
      const code = this.#flagsAt(slot) & STATE_MASK;
      byCode[code] = (byCode[code] ?? 0) + 1;
    }
    const [, live = 0, missing = 0, removed = 0] = byCode;
    return { live, missing, removed };
  }

  presentCount(): number {
    const { live, missing } = this.stateCounts();
    return live + missing;
  }

  #isPresent(slot: number): boolean {
    const state = this.#flagsAt(slot) & STATE_MASK;
    return state === STATE_CODES.live || state === STATE_CODES.missing;
  }

  #segmentOf(slot: number): Segment {
    return this.#segments[slot >> SEGMENT_BITS] as Segment;
  }

  #idAt(slot: number): number {
    return this.#segmentOf(slot).ids[slot & SEGMENT_MASK] as number;
  }

  #flagsAt(slot: number): number {
    return this.#segmentOf(slot).flags[slot & SEGMENT_MASK] as number;
  }

  #addFlag(slot: number, flag: number): void {
    this.#segmentOf(slot).flags[slot & SEGMENT_MASK] = this.#flagsAt(slot) | flag;
  }

  #append(id: number, wireHash: Uint8Array, flags: number): void {
    const slot = this.#size++;
    const within = slot & SEGMENT_MASK;
    if (within === 0) this.#segments.push(new Segment());
    const segment = this.#segmentOf(slot);
    segment.ids[within] = id;
    segment.hashes.set(wireHash, within * WIRE_HASH_BYTES);
    segment.flags[within] = flags;
    if (this.#size * 2 > this.#places.length) this.#growPlaces();
    else this.#places[this.#placeOf(id)] = slot + 1;
  }

  #growPlaces(): void {
    this.#places = new Int32Array(placesFor(this.#size));
    for (let slot = 0; slot < this.#size; slot++) {
      this.#places[this.#placeOf(this.#idAt(slot))] = slot + 1;
    }
  }

  /** The index of an id, or the free one where it belongs. */
  #placeOf(id: number): number {
    const last = this.#places.length - 1;
    // Both halves of the id, mixed: marketplace ids are nearly sequential and may pass 2^32.
    const mixed = Math.imul(id | 0, 0x9e3779b1) ^ Math.imul((id / 0x100000000) | 0, 0x85ebca6b);
    let place = (mixed ^ (mixed >>> 15)) & last;
    for (;;) {
      const slot = (this.#places[place] as number) - 1;
      if (slot < 0 || this.#idAt(slot) === id) return place;
      place = (place + 1) & last;
    }
  }
}

/** A power of two that keeps the places at most half full. */
function placesFor(items: number): number {
  return 2 ** Math.ceil(Math.log2(Math.max(512, items) * 2));
}
