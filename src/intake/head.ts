/** The beginning of a source, looked at before it is read. */
export interface Head {
  readonly bytes: Buffer;
  /** There is nothing after it. */
  readonly whole: boolean;
}

/** A source whose beginning can be looked at without taking it. */
export class Peekable {
  readonly #source: AsyncIterator<Uint8Array>;
  #parts: Uint8Array[] = [];
  #size = 0;
  #ended = false;

  constructor(source: AsyncIterable<Uint8Array>) {
    this.#source = source[Symbol.asyncIterator]();
  }

  /** At least so many bytes from the beginning, or all there are. */
  async peek(size: number): Promise<Head> {
    while (this.#size < size && !this.#ended) {
      const next = await this.#source.next();
      if (next.done === true) this.#ended = true;
      else {
        this.#parts.push(next.value);
        this.#size += next.value.length;
      }
    }
    const bytes = Buffer.concat(this.#parts);
    this.#parts = [bytes];
    return { bytes, whole: this.#ended };
  }

  /** Everything, what was looked at included. */
  async *read(): AsyncGenerator<Uint8Array, void, undefined> {
    try {
      const parts = this.#parts;
      this.#parts = [];
      yield* parts;
      while (!this.#ended) {
        const next = await this.#source.next();
        if (next.done === true) this.#ended = true;
        else yield next.value;
      }
    } finally {
      await this.close();
    }
  }

  /** Lets go of the source. */
  async close(): Promise<void> {
    if (this.#ended) return;
    this.#ended = true;
    await this.#source.return?.();
  }
}
