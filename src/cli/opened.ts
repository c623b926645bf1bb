/** Something that was opened and must be closed. */
export interface Closable {
  close(): Promise<void>;
}

/** What was opened, to be closed in reverse order. */
export class Opened {
  readonly #things: Closable[] = [];

  /** Remembers it and gives it back. */
  add<T extends Closable>(thing: T): T {
    this.#things.push(thing);
    return thing;
  }

  /** Closes everything, each whether or not the one before could be closed. */
  async close(): Promise<void> {
    for (const thing of this.#things.splice(0).toReversed()) {
      // What can't be closed in order ends with the process.
      await thing.close().catch(() => undefined);
    }
  }
}
