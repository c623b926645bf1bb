/** Hashes a seed, a safe integer and a salt to 32 bits. Must not change between versions. */
export function hash32(seed: number, value: number, salt = 0): number {
  let h = Math.imul(seed ^ 0x9e3779b9, 0x85ebca6b) ^ Math.imul(salt + 0x165667b1, 0x27d4eb2f);
  h = Math.imul(h ^ (h >>> 15) ^ (value | 0), 0xc2b2ae35);
  h = Math.imul(h ^ (h >>> 13) ^ Math.floor(value / 0x100000000), 0x85ebca6b);
  h = Math.imul(h ^ (h >>> 16), 0x9e3779b1);
  return (h ^ (h >>> 15)) >>> 0;
}

/** Seeded random numbers for the fields of one record. */
export class SeededRandom {
  #state: number;

  constructor(seed: number, index: number) {
    this.#state = hash32(seed, index);
  }

  /** A whole number from 0 to `limit - 1`. */
  below(limit: number): number {
    this.#state = (this.#state + 0x6d2b79f5) >>> 0;
    let t = Math.imul(this.#state ^ (this.#state >>> 15), this.#state | 1);
    t ^= t + Math.imul(t ^ (t >>> 7), t | 61);
    return ((t ^ (t >>> 14)) >>> 0) % limit;
  }

  pick<T>(values: readonly T[]): T {
    return values[this.below(values.length)] as T;
  }
}

const ROUNDS = [0, 1, 2, 3];

/**
 * A seeded permutation of 0 … size-1 in constant memory, for shuffled lists, exact shares and purchase codes. A
 * Feistel network with cycle walking, for sizes up to 2^32.
 */
export class Permutation {
  readonly #size: number;
  readonly #seed: number;
  /** Each half of a number is less than this. */
  readonly #base: number;

  constructor(size: number, seed: number) {
    this.#size = size;
    this.#seed = seed;
    this.#base = 2 ** Math.max(1, Math.ceil(Math.log2(Math.max(2, size)) / 2));
  }

  /** The place of `index`. */
  at(index: number): number {
    let value = index;
    do {
      let left = Math.floor(value / this.#base);
      let right = value % this.#base;
      for (const round of ROUNDS) [left, right] = [right, this.#mixed(left, right, round)];
      value = left * this.#base + right;
    } while (value >= this.#size);
    return value;
  }

  /** The index whose place is `place`. */
  invert(place: number): number {
    let value = place;
    do {
      let left = Math.floor(value / this.#base);
      let right = value % this.#base;
      for (const round of ROUNDS.toReversed())
        [left, right] = [this.#mixed(right, left, round), left];
      value = left * this.#base + right;
    } while (value >= this.#size);
    return value;
  }

  #mixed(half: number, other: number, round: number): number {
    return (half ^ (hash32(this.#seed, other, round) % this.#base)) >>> 0;
  }
}
