/** Values that may wait for their reader before the writer is asked to wait. */
const ROOM = 256;

/** Hands values from one who writes them to one who reads them, in order and in bounded memory. */
export class Relay<T> {
  #waiting: T[] = [];
  #isClosed = false;
  #onValues: (() => void) | null = null;
  #onRoom: (() => void) | null = null;

  /** Hands over values; the promise is fulfilled when there is room for more. */
  async put(values: readonly T[]): Promise<void> {
    this.#waiting.push(...values);
    this.#onValues?.();
    if (this.#waiting.length > ROOM && !this.#isClosed) {
      await new Promise<void>((resolve) => {
        this.#onRoom = resolve;
      });
    }
  }

  /** Nothing more will come, or be read. */
  close(): void {
    this.#isClosed = true;
    this.#onValues?.();
    this.#onRoom?.();
  }

  /** All values until it is closed. */
  async *read(): AsyncGenerator<T, void, undefined> {
    for (;;) {
      const values = this.#waiting;
      this.#waiting = [];
      this.#onRoom?.();
      yield* values;
      if (this.#waiting.length > 0) continue;
      if (this.#isClosed) return;
      await new Promise<void>((resolve) => {
        this.#onValues = resolve;
      });
    }
  }
}
