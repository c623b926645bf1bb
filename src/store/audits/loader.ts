import type { PoolClient } from 'pg';
import { openLong, type LockPools, type LongConnection } from '../advisory-lock.js';
import { BinaryRows } from '../copy-binary.js';
import { CopyIn } from '../copy-in.js';
import { enterList, measureList, type ListCounts } from './enter-list.js';
import { LONGEST_CELL, LONGEST_TEXT, storable } from './text.js';
import type { AuditLoader, AuditRow, AuditSize, EnteredAudit, NewAudit } from './types.js';

/** Rows are sent in portions of about this size; two of them are in memory, and what sends them. */
const PORTION_BYTES = 1 << 18;

const TARGET = 'pg_temp.incoming_entries (entry, line, code, rejected, columns)';

/**
 * Begins to take in a list. Its rows go to a table that is the connection's own, so that a loader that
 * dies leaves nothing, and that is in no transaction, so that a slow list holds nothing up.
 */
export async function beginAudit(pools: LockPools, audit: NewAudit): Promise<AuditLoader> {
  const connection = await openLong(pools);
  try {
    const { client } = connection;
    await client.query('DROP TABLE IF EXISTS pg_temp.incoming_entries');
    await client.query(
      `CREATE TEMP TABLE incoming_entries (
         entry bigint NOT NULL, line bigint NOT NULL, code text COLLATE "C", rejected text,
         columns text[] NOT NULL)`,
    );
    return new Loader(audit, connection);
  } catch (error) {
    connection.release(false);
    throw error;
  }
}

class Loader implements AuditLoader {
  readonly #audit: NewAudit;
  readonly #connection: LongConnection;
  #filling = new BinaryRows(PORTION_BYTES * 2);
  #spare = new BinaryRows(PORTION_BYTES * 2);
  #sending: Promise<void> = Promise.resolve();
  #entries = 0;
  #rejected = 0;
  #isOver = false;

  constructor(audit: NewAudit, connection: LongConnection) {
    this.#audit = audit;
    this.#connection = connection;
  }

  async add(rows: readonly AuditRow[]): Promise<void> {
    this.#assertOpen();
    for (const row of rows) {
      this.#addRow(row);
      if (this.#filling.size >= PORTION_BYTES) await this.#send();
    }
  }

  async measure(): Promise<AuditSize> {
    this.#assertOpen();
    await this.#send();
    await this.#sending;
    return measureList(this.#connection.client, this.#audit, this.#counts);
  }

  async finish(): Promise<EnteredAudit> {
    this.#assertOpen();
    this.#isOver = true;
    const { client } = this.#connection;
    try {
      await this.#send();
      await this.#sending;
      const entered = await enterList(client, this.#audit, this.#counts);
      this.#connection.release(true);
      return entered;
    } catch (error) {
      // With the connection go the transaction and the rows.
      this.#connection.release(false);
      throw error;
    }
  }

  async abort(): Promise<void> {
    if (this.#isOver) return;
    this.#isOver = true;
    await this.#sending.catch(() => undefined);
    this.#connection.release(false);
  }

  get #counts(): ListCounts {
    return { lines: this.#entries, rejected: this.#rejected };
  }

  #assertOpen(): void {
    if (this.#isOver) throw new Error('the list was ended already');
  }

  #addRow(row: AuditRow): void {
    const rows = this.#filling;
    rows.startRow(5);
    rows.bigint(++this.#entries);
    rows.bigint(row.line);
    if ('code' in row) {
      rows.text(sound(row.code));
      rows.null();
    } else {
      this.#rejected++;
      rows.null();
      rows.text(storable(row.rejected, LONGEST_TEXT));
    }
    rows.textArray(row.columns.map((cell) => storable(cell, LONGEST_CELL)));
  }

  /** Sends what was gathered as soon as what was sent before has arrived. */
  async #send(): Promise<void> {
    await this.#sending;
    if (this.#filling.rows === 0) return;
    const rows = this.#filling;
    [this.#filling, this.#spare] = [this.#spare, rows];
    this.#sending = copy(this.#connection.client, rows);
    // Whoever adds or finishes is told; until then it must not count as unhandled.
    this.#sending.catch(() => undefined);
  }
}

async function copy(client: PoolClient, rows: BinaryRows): Promise<void> {
  const into = new CopyIn(client, TARGET);
  await into.write(rows.data());
  await into.end();
  rows.clear();
}

/** A code is asked for as it is, so it can't be stored as anything else. */
function sound(code: string): string {
  if (code === '' || code.includes('\0') || !code.isWellFormed()) {
    throw new RangeError('a text that can’t be a code was given as one');
  }
  return code;
}
