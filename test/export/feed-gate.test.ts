import pg from 'pg';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { openStore, type Store } from '../../src/store/store.js';
import { at, invalid, load, pending, purchaseOf, valid } from '../store/audits/support.js';
import { HistoryBook } from '../store/history-book.js';
import { linesOf, take } from './support.js';

/** A lock that stops writers between the numbers they have taken and their commit. */
const PAUSE = 4711;

let book: HistoryBook;
let store: Store;
let holder: pg.Client;
beforeAll(async () => {
  book = await HistoryBook.open();
  store = openStore(book.url, 'test');
  holder = new pg.Client(book.url);
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
  await store.close();
  await book.close();
});

/** Waits until somebody who says so waits for a lock, or `isOver` says that there is no need to. */
async function waiting(who: string, isOver = (): boolean => false): Promise<void> {
  const of = `SELECT FROM pg_locks l JOIN pg_stat_activity a USING (pid)
    WHERE l.locktype = 'advisory' AND NOT l.granted AND a.datname = current_database() AND ${who}`;
  while (!isOver()) {
    const { rowCount } = await holder.query(of);
    if (rowCount !== 0) return;
  }
}

/**
 * Lets `write` come as far as to its commit, begins to export a view, and lets both come to their ends.
 * @returns what this export and the next one tell
 */
async function exportAmid(view: string, write: () => Promise<unknown>): Promise<string[]> {
  const { cursor } = await take(book.url, view, null);
  await holder.query(`SELECT pg_advisory_lock(${PAUSE})`);
  const written = write();
  await waiting(`l.objid = ${PAUSE}`);
  let isOver = false;
  const first = take(book.url, view, cursor).finally(() => (isOver = true));
  await waiting(`a.application_name = 'seller-mirror export'`, () => isOver);
  await holder.query(`SELECT pg_advisory_unlock(${PAUSE})`);
  await written;
  const taken = await first;
  return [...linesOf(taken), ...linesOf(await take(book.url, view, taken.cursor))];
}

describe('what a writer has numbered and not committed when an export begins', () => {
  it('comes in that export or the next one: changes of items', async () => {
    await book.night('2026-01-01T02:00:00Z', { listed: [{ id: 1, name: 'before' }] });
    const lines = await exportAmid('item_changes', () =>
      book.night('2026-01-02T02:00:00Z', { listed: [{ id: 1, name: 'after' }] }),
    );
    expect(lines.join()).toContain('"new_value":"after"');
  });

  it('comes in that export or the next one: purchases', async () => {
    await store.sellers.ensure('main', 'x');
    const audit = async (n: number, isValid: boolean): Promise<unknown> => {
      const { auditId } = await load(store.audits, ['P'], { sellerId: 'main' });
      const results = (await pending(store.audits, auditId)).map((place) =>
        isValid ? valid(place, at(n), purchaseOf(place.code)) : invalid(place, at(n)),
      );
      return store.audits.record(auditId, results, results.length);
    };
    await audit(1, true);
    const lines = await exportAmid('purchases', () => audit(2, false));
    expect(lines.join()).toContain('"_deleted":true');
  });
});
