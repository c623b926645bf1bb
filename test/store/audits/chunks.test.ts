import { setTimeout as sleep } from 'node:timers/promises';
import { afterEach, describe, expect, it } from 'vitest';
import {
  AuditNotRunningError,
  ChunkBusyError,
  withChunk,
  findNextChunks,
  readPendingCodes,
} from '../../../src/store/audits/chunks.js';
import { StoreConnectionError } from '../../../src/store/errors.js';
import { useMirror } from '../../support/mirror.js';
import { type Db, openDb } from '../../../src/store/db.js';
import { cancelAudit } from '../../../src/store/audits/progress.js';
import { recordResults } from '../../../src/store/audits/record.js';
import { at, enterSeller, invalid, load } from './support.js';

const mirror = useMirror();

let opened: { close(): Promise<void> }[] = [];
afterEach(async () => {
  await Promise.all(opened.map((store) => store.close()));
  opened = [];
});

/** A store with connections of its own, like that of another process. */
function anotherStore(): Db {
  const db = openDb(mirror().databaseUrl, 'another');
  opened.push(db);
  return db;
}

const CODES = Array.from({ length: 25 }, (_, n) => `code ${n}`);

describe('a chunk', () => {
  it('can be locked once at a time, by this process or another', async () => {
    const db = await enterSeller(mirror());
    const { auditId } = await load(db, CODES, { canary: 'known' });
    const other = anotherStore();
    const result = await withChunk(db, auditId, 1, async (locked) => {
      expect(locked).toMatchObject({ auditId, chunkSize: 10, canary: 'known', confirm: 'auto' });
      const never = (): never => expect.unreachable();
      await expect(withChunk(db, auditId, 1, never)).rejects.toThrow(ChunkBusyError);
      await expect(withChunk(other, auditId, 1, never)).rejects.toThrow(ChunkBusyError);
      return withChunk(other, auditId, 2, () => Promise.resolve('the next one is free'));
    });
    expect(result).toBe('the next one is free');
    expect(await withChunk(other, auditId, 1, () => Promise.resolve('unlocked'))).toBe('unlocked');
  });

  it('is unlocked when the work fails', async () => {
    const db = await enterSeller(mirror());
    const { auditId } = await load(db, CODES);
    const failing = (): Promise<never> => Promise.reject(new Error('out of memory'));
    await expect(withChunk(db, auditId, 0, failing)).rejects.toThrow('out of memory');
    expect(await withChunk(db, auditId, 0, () => Promise.resolve(1))).toBe(1);
  });

  it('is refused when the audit is not running', async () => {
    const db = await enterSeller(mirror());
    const { auditId } = await load(db, CODES);
    const never = (): never => expect.unreachable();
    await cancelAudit(db, auditId);
    await expect(withChunk(db, auditId, 0, never)).rejects.toEqual(
      new AuditNotRunningError(auditId, 'cancelled'),
    );
    await expect(withChunk(db, 4_711n, 0, never)).rejects.toThrow('there is no audit 4711');
  });

  it('is skipped when none of its codes is pending', async () => {
    const db = await enterSeller(mirror());
    const { auditId } = await load(db, CODES);
    expect(await findNextChunks(db, auditId, 0, 2)).toEqual([0, 1]);
    const codes = await readPendingCodes(db, auditId, 1, 10);
    const results = codes.map((code) => invalid(code, at(1)));
    await recordResults(db, auditId, results, 12);
    expect(await findNextChunks(db, auditId, 0, 9)).toEqual([0, 2]);
    expect(await findNextChunks(db, auditId, 1, 9)).toEqual([2]);
    expect(await findNextChunks(db, auditId, 3, 9)).toEqual([]);
    expect(await readPendingCodes(db, auditId, 1, 10)).toEqual([]);
    expect(await readPendingCodes(db, auditId, 99, 10)).toEqual([]);
  });
});

it('losing the connection aborts the work on a chunk, and unlocks it for others', async () => {
  const db = await enterSeller(mirror());
  const { auditId } = await load(db, CODES);
  const other = anotherStore();
  await withChunk(other, auditId, 0, async (locked) => {
    await mirror().rows(
      `SELECT pg_terminate_backend(pid) FROM pg_stat_activity
        WHERE datname = current_database() AND application_name = 'another'`,
    );
    while (!locked.lost.aborted) await sleep(10);
    expect(locked.lost.reason).toBeInstanceOf(StoreConnectionError);
    expect(await withChunk(db, auditId, 0, () => Promise.resolve('locked'))).toBe('locked');
  });
});
