import type { ItemState } from '../domain/item.js';
import { WIRE_HASH_BYTES } from '../marketplace/decode.js';

const STATE_CODES: Readonly<Record<ItemState, number>> = { live: 1, missing: 2, removed: 3 };
const NEW = 4;
const STATE_MASK = 7;
/** The list has a readable record of the item. */
const LISTED = 8;
/** The list has a record of the item that can't be read. */
const UNREADABLE = 16;
/** The item's last record was staged, so the stored row no longer says what the list says. */
const STAGED = 32;

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

  /** Adds an item that is new in this run. @returns its slot */
  addNew(id: number, wireHash: Uint8Array): number {
    this.#append(id, wireHash, NEW | LISTED);
    return this.#size - 1;
  }

  /** The slot of an id, or -1. */
  find(id: number): number {
    return (this.#places[this.#placeOf(id)] as number) - 1;
  }

  isLive(slot: number): boolean {
    return (this.#flagsAt(slot) & STATE_MASK) === STATE_CODES.live;
  }

  isNew(slot: number): boolean {
    return (this.#flagsAt(slot) & STATE_MASK) === NEW;
  }

  isListed(slot: number): boolean {
    return (this.#flagsAt(slot) & LISTED) !== 0;
  }

  markListed(slot: number): void {
    this.#addFlag(slot, LISTED);
  }

  isStaged(slot: number): boolean {
    return (this.#flagsAt(slot) & STAGED) !== 0;
  }

  markStaged(slot: number): void {
    this.#addFlag(slot, LISTED | STAGED);
  }

  markUnreadable(slot: number): void {
    this.#addFlag(slot, UNREADABLE);
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
  unlisted(): number[] {
    const ids: number[] = [];
    for (let slot = 0; slot < this.#size; slot++) {
      if (this.#isPresent(slot) && !this.#isNamed(slot)) ids.push(this.#idAt(slot));
    }
    return ids;
  }

  /** Items that are new in this run. */
  newIds(): number[] {
    const ids: number[] = [];
    for (let slot = 0; slot < this.#size; slot++) if (this.isNew(slot)) ids.push(this.#idAt(slot));
    return ids;
  }

  /** Whether the list names any item. */
  isAnyNamed(): boolean {
    return this.listedIds(1).length > 0;
  }

  /** Ids of up to `most` listed items, from all parts of the list; those with a readable record come first. */
  listedIds(most: number): number[] {
    const [readable, others]: [number[], number[]] = [[], []];
    const step = Math.max(1, Math.floor(this.#size / most / 2));
    for (let start = 0; start < step && readable.length < most; start++) {
      for (let slot = start; slot < this.#size && readable.length < most; slot += step) {
        if (this.isListed(slot)) readable.push(this.#idAt(slot));
        else if (this.#isNamed(slot) && others.length < most) others.push(this.#idAt(slot));
      }
    }
    return [...readable, ...others].slice(0, most);
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

  #isNamed(slot: number): boolean {
    return (this.#flagsAt(slot) & (LISTED | UNREADABLE)) !== 0;
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
