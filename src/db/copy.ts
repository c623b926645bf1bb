import type { PoolClient } from 'pg';
import { type CopyStreamQuery, from as copyFrom } from 'pg-copy-streams';
import { COPY_HEADER, COPY_TRAILER } from './binary-rows.js';

/**
 * A binary COPY into a table that stays open while rows arrive, which saves a round trip per batch.
 * The connection can do nothing else until `end`.
 */
export class CopyIn {
  readonly #stream: CopyStreamQuery;
  readonly #failed: Promise<never>;
  #error: Error | null = null;

  /** @param target the table, and the columns in the order of the rows' fields */
  constructor(client: PoolClient, target: string) {
    this.#stream = client.query(copyFrom(`COPY ${target} FROM STDIN (FORMAT binary)`));
    this.#failed = new Promise((_, reject) => {
      this.#stream.on('error', (error: Error) => {
        this.#error ??= error;
        reject(error);
      });
    });
    // write() and end() throw it. Between the two it must not count as unhandled.
    this.#failed.catch(() => undefined);
    this.#stream.write(COPY_HEADER);
  }

  /** Sends rows. Resolves when their buffer may be reused; the server may not have read them yet. */
  async write(rows: Buffer): Promise<void> {
    if (this.#error !== null) throw this.#error;
    const sent = new Promise<void>((resolve) => this.#stream.write(rows, () => resolve()));
    await Promise.race([sent, this.#failed]);
  }

  async end(): Promise<void> {
    if (this.#error !== null) throw this.#error;
    const finished = new Promise<void>((resolve) => this.#stream.once('finish', resolve));
    this.#stream.end(COPY_TRAILER);
    await Promise.race([finished, this.#failed]);
  }

  abandon(): void {
    if (this.#error === null) this.#stream.destroy();
  }
}
