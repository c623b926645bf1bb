import type pg from 'pg';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import {
  at,
  invalid,
  load,
  pending,
  recordResults,
  purchaseOf,
  valid,
} from '../../codes/store-support.js';
import { HistoryBook } from '../../catalogue/history-book.js';
import { type Db, openDb } from '../../../src/db/db.js';
import { ensureSeller } from '../../../src/catalogue/sellers-store.js';
import { DbClient } from '../../../src/db/connection.js';
import { exportView, linesOf } from './support.js';

/** An advisory lock that stops writers after they have drawn their numbers, before they commit. */
const PAUSE = 4711;

let book: HistoryBook;
let db: Db;
let holder: pg.Client;
beforeAll(async () => {
  book = await HistoryBook.open();
  db = openDb(book.url, 'test');
  holder = new DbClient(book.url);
  await holder.connect();
  await book.pool.query(`
    CREATE FUNCTION pause() RETURNS trigger LANGUAGE plpgsql AS $$
    BEGIN PERFORM pg_advisory_xact_lock_shared(${PAUSE}); RETURN NULL; END $$;
    CREATE TRIGGER pause AFTER INSERT ON mirror.item_changes
      FOR EACH STATEMENT EXECUTE FUNCTION pause();
    CREATE TRIGGER pause AFTER UPDATE ON mirror.purchase_codes
      FOR EACH STATEMENT EXECUTE FUNCTION pause()`);
});
afterAll(async () => {
  await holder.end();
  await db.close();
  await book.close();
});

/** Waits until a session waits for an advisory lock, or `isOver`. @param session SQL condition for the session */
async function untilBlocked(session: string, isOver = (): boolean => false): Promise<void> {
  const blocked = `SELECT FROM pg_locks l JOIN pg_stat_activity a USING (pid)
    WHERE l.locktype = 'advisory' AND NOT l.granted AND a.datname = current_database() AND ${session}`;
  while (!isOver()) {
    const { rowCount } = await holder.query(blocked);
    if (rowCount !== 0) return;
  }
}

/**
 * Stops `write` just before its commit, starts an export of a view, and lets both finish.
 * @returns the lines of this export and the next one
 */
async function exportDuring(view: string, write: () => Promise<unknown>): Promise<string[]> {
  const { cursor } = await exportView(book.url, view, null);
  await holder.query(`SELECT pg_advisory_lock(${PAUSE})`);
  const written = write();
  await untilBlocked(`l.objid = ${PAUSE}`);
  let isOver = false;
  const exporting = exportView(book.url, view, cursor).finally(() => (isOver = true));
  await untilBlocked(`a.application_name = 'seller-mirror export'`, () => isOver);
  await holder.query(`SELECT pg_advisory_unlock(${PAUSE})`);
  await written;
  const first = await exporting;
  return [...linesOf(first), ...linesOf(await exportView(book.url, view, first.cursor))];
}

describe('rows that are numbered but not committed when an export starts', () => {
  it('are in that export or the next one: changes of items', async () => {
    await book.night('2026-01-01T02:00:00Z', { listed: [{ id: 1, name: 'before' }] });
    const lines = await exportDuring('item_changes', () =>
      book.night('2026-01-02T02:00:00Z', { listed: [{ id: 1, name: 'after' }] }),
    );
    expect(lines.join()).toContain('"new_value":"after"');
  });

  it('are in that export or the next one: purchases', async () => {
    await ensureSeller(db, 'main', 'x');
    const audit = async (n: number, isValid: boolean): Promise<unknown> => {
      const { auditId } = await load(db, ['P'], { sellerId: 'main' });
      const results = (await pending(db, auditId)).map((place) =>
        isValid ? valid(place, at(n), purchaseOf(place.code)) : invalid(place, at(n)),
      );
      return recordResults(db, auditId, results, results.length);
    };
    await audit(1, true);
    const lines = await exportDuring('purchases', () => audit(2, false));
    expect(lines.join()).toContain('"_deleted":true');
  });
});
