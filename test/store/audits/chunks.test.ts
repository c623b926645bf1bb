import { setTimeout as sleep } from 'node:timers/promises';
import { afterEach, describe, expect, it } from 'vitest';
import { AuditNotRunningError, ChunkBusyError } from '../../../src/store/audits/chunks.js';
import { StoreConnectionError } from '../../../src/store/errors.js';
import { openStore, type Store } from '../../../src/store/store.js';
import { useMirror } from '../../support/mirror.js';
import { at, enterSeller, invalid, load, SELLER } from './support.js';

const mirror = useMirror();

let opened: { close(): Promise<void> }[] = [];
afterEach(async () => {
  await Promise.all(opened.map((one) => one.close()));
  opened = [];
});

/** The store as another process sees it. */
function anotherStore(): Store {
  const store = openStore(mirror().databaseUrl, 'another');
  opened.push(store);
  return store;
}

const CODES = Array.from({ length: 25 }, (_, n) => `code ${n}`);

describe('a chunk', () => {
  it('is worked on by one at a time, of this process or of another', async () => {
    const audits = await enterSeller(mirror());
    const { auditId } = await load(audits, CODES, { canary: 'known' });
    const other = anotherStore().audits;
    const seen = await audits.withChunk(auditId, 1, async (held) => {
      expect(held).toMatchObject({ auditId, chunk: 1, sellerId: SELLER, canary: 'known' });
      const never = (): never => expect.unreachable();
      await expect(audits.withChunk(auditId, 1, never)).rejects.toThrow(ChunkBusyError);
      await expect(other.withChunk(auditId, 1, never)).rejects.toThrow(ChunkBusyError);
      held.assertHeld();
      return other.withChunk(auditId, 2, () => Promise.resolve('the next one is free'));
    });
    expect(seen).toBe('the next one is free');
    expect(await other.withChunk(auditId, 1, () => Promise.resolve('free again'))).toBe(
      'free again',
    );
  });

  it('is free again when the work fails', async () => {
    const audits = await enterSeller(mirror());
    const { auditId } = await load(audits, CODES);
    const failing = (): Promise<never> => Promise.reject(new Error('the weather'));
    await expect(audits.withChunk(auditId, 0, failing)).rejects.toThrow('the weather');
    expect(await audits.withChunk(auditId, 0, () => Promise.resolve(1))).toBe(1);
  });

  it('is not begun when the audit does not run', async () => {
    const audits = await enterSeller(mirror());
    const { auditId } = await load(audits, CODES);
    const never = (): never => expect.unreachable();
    await audits.cancel(auditId);
    await expect(audits.withChunk(auditId, 0, never)).rejects.toEqual(
      new AuditNotRunningError(auditId, 'cancelled'),
    );
    await expect(audits.withChunk(4_711n, 0, never)).rejects.toThrow('there is no audit 4711');
  });

  it('is passed over when nothing is pending in it', async () => {
    const audits = await enterSeller(mirror());
    const { auditId } = await load(audits, CODES);
    expect(await audits.nextChunks(auditId, 0, 2)).toEqual([0, 1]);
    const codes = await audits.pendingOf(auditId, 1);
    await audits.record(
      auditId,
      codes.map((code) => invalid(code, at(1))),
      12,
    );
    expect(await audits.nextChunks(auditId, 0, 9)).toEqual([0, 2]);
    expect(await audits.nextChunks(auditId, 1, 9)).toEqual([2]);
    expect(await audits.nextChunks(auditId, 3, 9)).toEqual([]);
    expect(await audits.pendingOf(auditId, 1)).toEqual([]);
    expect(await audits.pendingOf(auditId, 99)).toEqual([]);
  });
});

describe('a chunk whose connection is lost', () => {
  it('tells who works on it, and may be taken by another', async () => {
    const audits = await enterSeller(mirror());
    const { auditId } = await load(audits, CODES);
    const other = anotherStore().audits;
    await other.withChunk(auditId, 0, async (held) => {
      await mirror().rows(
        `SELECT pg_terminate_backend(pid) FROM pg_stat_activity
          WHERE datname = current_database() AND application_name = 'another'`,
      );
      while (!held.lost.aborted) await sleep(10);
      expect(() => held.assertHeld()).toThrow(StoreConnectionError);
      expect(await audits.withChunk(auditId, 0, () => Promise.resolve('taken'))).toBe('taken');
    });
  });
});
