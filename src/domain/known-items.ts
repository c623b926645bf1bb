import type { ItemState } from './item.js';
import { WIRE_HASH_BYTES } from './prepare-item.js';

const STATE_CODES: Readonly<Record<ItemState, number>> = { live: 1, missing: 2, removed: 3 };
const NEW = 4;
const STATE_MASK = 7;
const SEEN = 8;
/** The stored row equals one of the item's records in the list. */
const STORED_IS_LISTED = 16;
const UNREADABLE = 32;
/** The wire hash belongs to a record of this list that differs from the stored row. */
const DIFFERING = 64;

const SEGMENT_BITS = 14;
const SEGMENT_ITEMS = 1 << SEGMENT_BITS;
const SEGMENT_MASK = SEGMENT_ITEMS - 1;

/** The table grows by whole segments, so that growing copies no item. */
class Segment {
  readonly ids = new Float64Array(SEGMENT_ITEMS);
  readonly hashes = new Uint8Array(SEGMENT_ITEMS * WIRE_HASH_BYTES);
  readonly flags = new Uint8Array(SEGMENT_ITEMS);
}

/** The ids and wire hashes of a catalogue: 17 bytes per item, plus at most 16 for the index. */
export class KnownItems {
  readonly #segments: Segment[] = [];
  #size = 0;
  /** Hash index, open addressing with linear probing: slot + 1, or 0 if the place is free. */
  #places: Int32Array;

  /** @param expected number of items; more may be added */
  constructor(expected: number) {
    this.#places = new Int32Array(placesFor(expected));
  }

  get size(): number {
    return this.#size;
  }

  addKnown(id: number, wireHash: Uint8Array, state: ItemState): void {
    this.#append(id, wireHash, STATE_CODES[state]);
  }

  /** Adds an item that is new in this run. It counts as seen, and its row as listed. */
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

  /** Marks an item whose record in the list can't be read. */
  markUnreadable(slot: number): void {
    this.#addFlag(slot, SEEN | UNREADABLE);
  }

  /** True if the stored row equals one of the item's records in the list. */
  isStoredListed(slot: number): boolean {
    return (this.#flagsAt(slot) & STORED_IS_LISTED) !== 0;
  }

  markStoredListed(slot: number): void {
    this.#addFlag(slot, STORED_IS_LISTED);
  }

  /** Keeps the wire hash of a record that differs from the stored row, to recognise its duplicates. */
  markDiffering(slot: number, wireHash: Uint8Array): void {
    this.#segmentOf(slot).hashes.set(wireHash, (slot & SEGMENT_MASK) * WIRE_HASH_BYTES);
    this.#addFlag(slot, DIFFERING);
  }

  isDiffering(slot: number): boolean {
    return (this.#flagsAt(slot) & DIFFERING) !== 0;
  }

  hasWireHash(slot: number, wireHash: Uint8Array): boolean {
    const { hashes } = this.#segmentOf(slot);
    const at = (slot & SEGMENT_MASK) * WIRE_HASH_BYTES;
    for (let i = 0; i < WIRE_HASH_BYTES; i++) {
      if (hashes[at + i] !== wireHash[i]) return false;
    }
    return true;
  }

  /** Ids of items that were live or missing and are not in the list. */
  unseen(): number[] {
    const ids: number[] = [];
    for (let slot = 0; slot < this.#size; slot++) {
      if (this.#isPresent(slot) && !this.isSeen(slot)) ids.push(this.#idAt(slot));
    }
    return ids;
  }

  /** The id of a listed item, preferably one with a readable record; null if the list is empty. */
  anySeen(): number | null {
    let unreadable: number | null = null;
    for (let slot = 0; slot < this.#size; slot++) {
      if (!this.isSeen(slot)) continue;
      if ((this.#flagsAt(slot) & UNREADABLE) === 0) return this.#idAt(slot);
      unreadable ??= this.#idAt(slot);
    }
    return unreadable;
  }

  /** Items by their state before this run. */
  stateCounts(): Record<ItemState, number> {
    const byCode = [0, 0, 0, 0, 0];
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

  /** The place of an id in the index, or the free place where it belongs. */
  #placeOf(id: number): number {
    const last = this.#places.length - 1;
    // Mixes both halves: marketplace ids are nearly sequential, and may exceed 2^32.
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
