import { setTimeout as sleep } from 'node:timers/promises';
import { afterEach, describe, expect, it } from 'vitest';
import { AuditNotRunningError, ChunkBusyError } from '../../../src/store/audits/chunks.js';
import { StoreConnectionError } from '../../../src/store/errors.js';
import { openStore, type Store } from '../../../src/store/store.js';
import { useMirror } from '../../support/mirror.js';
import { at, enterSeller, invalid, load } from './support.js';

const mirror = useMirror();

let opened: { close(): Promise<void> }[] = [];
afterEach(async () => {
  await Promise.all(opened.map((store) => store.close()));
  opened = [];
});

/** A store with connections of its own, like that of another process. */
function anotherStore(): Store {
  const store = openStore(mirror().databaseUrl, 'another');
  opened.push(store);
  return store;
}

const CODES = Array.from({ length: 25 }, (_, n) => `code ${n}`);

describe('a chunk', () => {
  it('can be locked once at a time, by this process or another', async () => {
    const audits = await enterSeller(mirror());
    const { auditId } = await load(audits, CODES, { canary: 'known' });
    const other = anotherStore().audits;
    const result = await audits.withChunk(auditId, 1, async (locked) => {
      expect(locked).toMatchObject({ auditId, chunkSize: 10, canary: 'known', confirm: 'auto' });
      const never = (): never => expect.unreachable();
      await expect(audits.withChunk(auditId, 1, never)).rejects.toThrow(ChunkBusyError);
      await expect(other.withChunk(auditId, 1, never)).rejects.toThrow(ChunkBusyError);
      return other.withChunk(auditId, 2, () => Promise.resolve('the next one is free'));
    });
    expect(result).toBe('the next one is free');
    expect(await other.withChunk(auditId, 1, () => Promise.resolve('unlocked'))).toBe('unlocked');
  });

  it('is unlocked when the work fails', async () => {
    const audits = await enterSeller(mirror());
    const { auditId } = await load(audits, CODES);
    const failing = (): Promise<never> => Promise.reject(new Error('out of memory'));
    await expect(audits.withChunk(auditId, 0, failing)).rejects.toThrow('out of memory');
    expect(await audits.withChunk(auditId, 0, () => Promise.resolve(1))).toBe(1);
  });

  it('is refused when the audit is not running', async () => {
    const audits = await enterSeller(mirror());
    const { auditId } = await load(audits, CODES);
    const never = (): never => expect.unreachable();
    await audits.cancel(auditId);
    await expect(audits.withChunk(auditId, 0, never)).rejects.toEqual(
      new AuditNotRunningError(auditId, 'cancelled'),
    );
    await expect(audits.withChunk(4_711n, 0, never)).rejects.toThrow('there is no audit 4711');
  });

  it('is skipped when none of its codes is pending', async () => {
    const audits = await enterSeller(mirror());
    const { auditId } = await load(audits, CODES);
    expect(await audits.nextChunks(auditId, 0, 2)).toEqual([0, 1]);
    const codes = await audits.pendingOf(auditId, 1, 10);
    const results = codes.map((code) => invalid(code, at(1)));
    await audits.record(auditId, results, 12);
    expect(await audits.nextChunks(auditId, 0, 9)).toEqual([0, 2]);
    expect(await audits.nextChunks(auditId, 1, 9)).toEqual([2]);
    expect(await audits.nextChunks(auditId, 3, 9)).toEqual([]);
    expect(await audits.pendingOf(auditId, 1, 10)).toEqual([]);
    expect(await audits.pendingOf(auditId, 99, 10)).toEqual([]);
  });
});

it('losing the connection aborts the work on a chunk, and unlocks it for others', async () => {
  const audits = await enterSeller(mirror());
  const { auditId } = await load(audits, CODES);
  const other = anotherStore().audits;
  await other.withChunk(auditId, 0, async (locked) => {
    await mirror().rows(
      `SELECT pg_terminate_backend(pid) FROM pg_stat_activity
        WHERE datname = current_database() AND application_name = 'another'`,
    );
    while (!locked.lost.aborted) await sleep(10);
    expect(locked.lost.reason).toBeInstanceOf(StoreConnectionError);
    expect(await audits.withChunk(auditId, 0, () => Promise.resolve('locked'))).toBe('locked');
  });
});
