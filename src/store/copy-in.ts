import type { PoolClient } from 'pg';
import { from as copyFrom, type CopyStreamQuery } from 'pg-copy-streams';
import { COPY_HEADER, COPY_TRAILER } from './copy-binary.js';

/**
 * A binary COPY into a table, open as long as rows come. A statement for each portion would have
 * both sides wait for the other at every turn. Until its end the connection can do nothing else.
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
    // Who writes or ends is told; a failure between the two must not count as unhandled.
    this.#failed.catch(() => undefined);
    this.#stream.write(COPY_HEADER);
  }

  /** Sends rows. Returns when their memory may be used again, before the server has read them. */
  async write(rows: Buffer): Promise<void> {
    if (this.#error !== null) throw this.#error;
    const sent = new Promise<void>((resolve) => this.#stream.write(rows, () => resolve()));
    await Promise.race([sent, this.#failed]);
  }

  /** Waits until the server has taken in all rows. */
  async end(): Promise<void> {
    if (this.#error !== null) throw this.#error;
    const finished = new Promise<void>((resolve) => this.#stream.once('finish', resolve));
    this.#stream.end(COPY_TRAILER);
    await Promise.race([finished, this.#failed]);
  }

  /** Gives it up; the transaction can then only be rolled back. */
  abandon(): void {
    if (this.#error === null) this.#stream.destroy();
  }
}
