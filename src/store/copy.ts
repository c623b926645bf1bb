import type { PoolClient } from 'pg';
import { type CopyStreamQuery, from as copyFrom } from 'pg-copy-streams';

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

/**
 * PostgreSQL's binary COPY format (documentation of COPY, "Binary Format"). Unlike the text format it
 * needs no escaping on this side and no unescaping on the other for the JSON that fills most of each row.
 */
export const COPY_HEADER = Buffer.from('PGCOPY\n\xff\r\n\0\0\0\0\0\0\0\0\0', 'latin1');
/** A field count of -1. */
export const COPY_TRAILER = Buffer.from([0xff, 0xff]);
const TEXT_OID = 25;
/** PostgreSQL's epoch, 2000-01-01, in milliseconds since 1970. */
const EPOCH_MS = 946_684_800_000;

/**
 * Encodes rows of a binary COPY, which go between header and trailer. Write the fields of a row in the
 * order of the COPY's column list.
 */
export class BinaryRows {
  #buffer: Buffer;
  /** A view of the same memory. Its writes are several times faster than the buffer's. */
  #view: DataView;
  #length = 0;
  #lastTimestamp = '';
  #lastMicros = 0n;
  rows = 0;

  constructor(initialBytes = 1 << 20) {
    this.#buffer = Buffer.allocUnsafeSlow(initialBytes);
    this.#view = new DataView(this.#buffer.buffer);
  }

  get size(): number {
    return this.#length;
  }

  startRow(fields: number): void {
    this.#int16(fields);
    this.rows++;
  }

  null(): void {
    this.#int32(-1);
  }

  text(value: string | null): void {
    if (value === null) return this.null();
    this.#reserve(4 + value.length * 3);
    const start = this.#length + 4;
    const bytes = this.#buffer.write(value, start, 'utf8');
    this.#view.setInt32(this.#length, bytes);
    this.#length = start + bytes;
  }

  bytes(value: Uint8Array): void {
    this.#int32(value.length);
    this.append(value);
  }

  /** Appends encoded fields. */
  append(bytes: Uint8Array): void {
    this.#reserve(bytes.length);
    this.#buffer.set(bytes, this.#length);
    this.#length += bytes.length;
  }

  /** @param json JSON text in UTF-8 */
  jsonb(json: Uint8Array): void {
    this.#int32(json.length + 1);
    this.#reserve(1);
    this.#buffer[this.#length++] = 1; // the version of jsonb's binary form
    this.append(json);
  }

  boolean(value: boolean): void {
    this.#int32(1);
    this.#reserve(1);
    this.#buffer[this.#length++] = value ? 1 : 0;
  }

  bigint(value: number | null): void {
    if (value === null) return this.null();
    this.#int32(8);
    this.#int64(BigInt(value));
  }

  textArray(values: readonly string[]): void {
    this.#int32(0); // the size, known at the end
    const start = this.#length;
    this.#int32(values.length === 0 ? 0 : 1); // dimensions
    this.#int32(0); // no nulls
    this.#int32(TEXT_OID);
    if (values.length > 0) {
      this.#int32(values.length);
      this.#int32(1); // lower bound
      for (const value of values) this.text(value);
    }
    this.#view.setInt32(start - 4, this.#length - start);
  }

  /** @param value ISO 8601 in UTC with at most six digits of fraction */
  timestamp(value: string | null): void {
    if (value === null) return this.null();
    // Most rows of a run have the same timestamp: the run's start.
    if (value !== this.#lastTimestamp) {
      this.#lastTimestamp = value;
      this.#lastMicros = postgresMicros(value);
    }
    this.#int32(8);
    this.#int64(this.#lastMicros);
  }

  /** @param value decimal text with two decimals */
  money(value: string | null): void {
    if (value === null) return this.null();
    const cents = Math.round(Math.abs(Number(value)) * 100);
    // Digits in base 10,000, most significant first, without leading and trailing zeros. The last one is
    // the cents.
    const digits = [(cents % 100) * 100];
    for (let rest = Math.floor(cents / 100); rest > 0; rest = Math.floor(rest / 10_000)) {
      digits.unshift(rest % 10_000);
    }
    const weight = digits.length - 2;
    while (digits.at(-1) === 0) digits.pop();
    this.#int32(8 + digits.length * 2);
    this.#int16(digits.length);
    this.#int16(digits.length === 0 ? 0 : weight);
    this.#int16(value.startsWith('-') ? 0x4000 : 0);
    this.#int16(2); // decimals shown
    for (const digit of digits) this.#int16(digit);
  }

  /** The encoded rows. The buffer is valid until the next write. */
  data(): Buffer {
    return this.#buffer.subarray(0, this.#length);
  }

  clear(): void {
    this.#length = 0;
    this.rows = 0;
  }

  #int16(value: number): void {
    this.#reserve(2);
    this.#view.setInt16(this.#length, value);
    this.#length += 2;
  }

  #int32(value: number): void {
    this.#reserve(4);
    this.#view.setInt32(this.#length, value);
    this.#length += 4;
  }

  #int64(value: bigint): void {
    this.#reserve(8);
    this.#view.setBigInt64(this.#length, value);
    this.#length += 8;
  }

  #reserve(bytes: number): void {
    const needed = this.#length + bytes;
    if (needed <= this.#buffer.length) return;
    const bigger = Buffer.allocUnsafeSlow(Math.max(needed, this.#buffer.length * 2));
    this.#buffer.copy(bigger, 0, 0, this.#length);
    this.#buffer = bigger;
    this.#view = new DataView(bigger.buffer);
  }
}

/** Microseconds since 2000-01-01 of an ISO 8601 timestamp in UTC. */
function postgresMicros(timestamp: string): bigint {
  const [seconds = '', fraction] = timestamp.slice(0, -1).split('.');
  const micros = BigInt(Date.parse(`${seconds}Z`) - EPOCH_MS) * 1000n;
  return fraction === undefined ? micros : micros + BigInt(fraction.padEnd(6, '0'));
}
