import { WIRE_HASH_BYTES } from './fingerprint.js';

/** What the mirror knew of an item before this run. */
export type KnownState = 'live' | 'missing' | 'removed';

const STATE_CODES: Readonly<Record<KnownState, number>> = { live: 1, missing: 2, removed: 3 };
const NEW = 4;
const STATE_MASK = 7;
const SEEN = 8;
/** The row in the store is itself one of the copies the list holds of this item. */
const STORED_IS_LISTED = 16;

/**
 * The ids of a catalogue with the wire hash of each, in 17 bytes an item: a mirror of a million
 * items must not cost memory to match. An open-addressing table with linear probing.
 */
export class KnownItems {
  #capacity: number;
  #ids: Float64Array;
  #hashes: Uint8Array;
  #flags: Uint8Array;
  #size = 0;

  /** @param expected how many items are expected; more may come */
  constructor(expected: number) {
    this.#capacity = capacityFor(expected);
    this.#ids = new Float64Array(this.#capacity);
    this.#hashes = new Uint8Array(this.#capacity * WIRE_HASH_BYTES);
    this.#flags = new Uint8Array(this.#capacity);
  }

  get size(): number {
    return this.#size;
  }

  /** Enters an item of the store. */
  addKnown(id: number, wireHash: Uint8Array, state: KnownState): void {
    this.#insert(id, wireHash, STATE_CODES[state]);
  }

  /** Enters an item that this run met first; it counts as seen, and its row as listed. */
  addNew(id: number, wireHash: Uint8Array): void {
    this.#insert(id, wireHash, NEW | SEEN | STORED_IS_LISTED);
  }

  /** The slot of an id, or -1. A slot stays good until the next `add`. */
  find(id: number): number {
    let slot = this.#home(id);
    while (this.#flags[slot] !== 0) {
      if (this.#ids[slot] === id) return slot;
      slot = slot + 1 === this.#capacity ? 0 : slot + 1;
    }
    return -1;
  }

  isLive(slot: number): boolean {
    return (this.#flagsAt(slot) & STATE_MASK) === STATE_CODES.live;
  }

  isSeen(slot: number): boolean {
    return (this.#flagsAt(slot) & SEEN) !== 0;
  }

  markSeen(slot: number): void {
    this.#flags[slot] = this.#flagsAt(slot) | SEEN;
  }

  /** Whether the row in the store is one of the copies that the list holds of this item. */
  isStoredListed(slot: number): boolean {
    return (this.#flagsAt(slot) & STORED_IS_LISTED) !== 0;
  }

  markStoredListed(slot: number): void {
    this.#flags[slot] = this.#flagsAt(slot) | STORED_IS_LISTED;
  }

  hasWireHash(slot: number, wireHash: Uint8Array): boolean {
    const at = slot * WIRE_HASH_BYTES;
    for (let i = 0; i < WIRE_HASH_BYTES; i++) {
      if (this.#hashes[at + i] !== wireHash[i]) return false;
    }
    return true;
  }

  /** Items that were live or missing and that no record of the list named. */
  unseen(): number[] {
    const ids: number[] = [];
    for (let slot = 0; slot < this.#capacity; slot++) {
      const flags = this.#flagsAt(slot);
      const state = flags & STATE_MASK;
      const present = state === STATE_CODES.live || state === STATE_CODES.missing;
      if (present && (flags & SEEN) === 0) ids.push(this.#ids[slot] as number);
    }
    return ids;
  }

  /** An item that a record of the list named; null when there is none. */
  anySeen(): number | null {
    const slot = this.#flags.findIndex((flags) => (flags & SEEN) !== 0);
    return slot < 0 ? null : (this.#ids[slot] as number);
  }

  /** How many items the store held as live or missing. */
  presentCount(): number {
    let count = 0;
    for (const flags of this.#flags) {
      const state = flags & STATE_MASK;
      if (state === STATE_CODES.live || state === STATE_CODES.missing) count++;
    }
    return count;
  }

  #flagsAt(slot: number): number {
    return this.#flags[slot] as number;
  }

  #home(id: number): number {
    // Both halves of the id, mixed: marketplace ids are nearly sequential and may pass 2^32.
    const mixed = Math.imul(id | 0, 0x9e3779b1) ^ Math.imul((id / 0x100000000) | 0, 0x85ebca6b);
    return ((mixed ^ (mixed >>> 15)) >>> 0) % this.#capacity;
  }

  #insert(id: number, wireHash: Uint8Array, flags: number): void {
    if (capacityFor(this.#size + 1) > this.#capacity) this.#grow();
    let slot = this.#home(id);
    while (this.#flags[slot] !== 0) slot = slot + 1 === this.#capacity ? 0 : slot + 1;
    this.#ids[slot] = id;
    this.#hashes.set(wireHash, slot * WIRE_HASH_BYTES);
    this.#flags[slot] = flags;
    this.#size++;
  }

  #grow(): void {
    const bigger = new KnownItems(Math.ceil(this.#size * 1.5));
    for (let slot = 0; slot < this.#capacity; slot++) {
      const flags = this.#flagsAt(slot);
      if (flags === 0) continue;
      const at = slot * WIRE_HASH_BYTES;
      const wireHash = this.#hashes.subarray(at, at + WIRE_HASH_BYTES);
      bigger.#insert(this.#ids[slot] as number, wireHash, flags);
    }
    this.#capacity = bigger.#capacity;
    this.#ids = bigger.#ids;
    this.#hashes = bigger.#hashes;
    this.#flags = bigger.#flags;
  }
}

/** At most 70 % full, and odd, so that ids with a common stride spread. */
function capacityFor(size: number): number {
  return Math.max(1023, Math.ceil(size / 0.7) | 1);
}
