import { describe, expect, it } from 'vitest';
import { Secret } from '../../src/domain/secret.js';
import { syncAccount } from '../../src/jobs/sync-account.js';
import { syncCatalogue } from '../../src/jobs/sync-catalogue.js';
import { seededCatalogue } from '../../src/simulator/index.js';
import { SellerBusyError } from '../../src/store/lock.js';
import { KEY, never, useMirror } from '../support/mirror.js';

const mirror = useMirror();

async function market(count = 300) {
  const catalogue = seededCatalogue({ seed: 7, count });
  return mirror().simulate({ sellers: [{ key: KEY, username: 'ada', catalogue }] });
}

describe('the seller’s lock', () => {
  it('lets a second run say who holds it, and start again afterwards', async () => {
    const sim = await market();
    sim.faults.next('list', { kind: 'stall', ms: 300 });
    const first = syncCatalogue(
      mirror().deps(sim.url, { holder: 'sync (process 4711 on atlas)' }),
      never,
    );
    while (sim.log.length < 2) await new Promise((resolve) => setTimeout(resolve, 5));
    const second = syncCatalogue(mirror().deps(sim.url), never);
    await expect(second).rejects.toThrow(SellerBusyError);
    await expect(second).rejects.toThrow(/process 4711 on atlas/);
    expect(await first).toMatchObject({ state: 'succeeded' });
    expect(await syncCatalogue(mirror().deps(sim.url), never)).toMatchObject({
      state: 'succeeded',
    });
  });

  it('keeps sellers apart: another one runs at the same time', async () => {
    const sim = await market();
    sim.addSeller({
      key: 'other-key-0123456789',
      username: 'grace',
      catalogue: seededCatalogue({ seed: 2, count: 5 }),
    });
    sim.faults.next('list', { kind: 'stall', ms: 200 });
    const reports = await Promise.all([
      syncCatalogue(mirror().deps(sim.url), never),
      syncAccount(mirror().deps(sim.url, { sellerId: 'second' }), never),
    ]);
    expect(reports[0].state).toBe('succeeded');
    expect(reports[1].report.state).toBe('succeeded');
  });
});

describe('an interrupted run', () => {
  it('changes nothing, says so in mirror.runs and frees the seller', async () => {
    const sim = await market();
    const deps = mirror().deps(sim.url);
    await syncCatalogue(deps, never);
    const before = await mirror().items();
    sim.seller(KEY).catalogue.touchShare(100, 'price');
    sim.faults.next('list', { kind: 'slow', chunkBytes: 2000, pauseMs: 20 });
    const interruption = new AbortController();
    const run = syncCatalogue(deps, interruption.signal);
    setTimeout(() => interruption.abort(new Error('interrupted')), 150);
    await expect(run).rejects.toThrow('interrupted');
    expect(await mirror().items()).toEqual(before);
    const runs = await mirror().rows('SELECT state FROM mirror.runs ORDER BY run_id');
    expect(runs).toEqual([{ state: 'succeeded' }, { state: 'interrupted' }]);
    expect(await syncCatalogue(deps, never)).toMatchObject({ counts: { changed: 300 } });
  });

  it('of a process that died is marked by the next one', async () => {
    const sim = await market(3);
    const deps = mirror().deps(sim.url);
    await syncCatalogue(deps, never);
    await mirror().rows(
      `INSERT INTO mirror.runs (seller_id, kind, state, holder) VALUES ('main', 'items', 'running', 'gone')`,
    );
    await syncCatalogue(deps, never);
    const runs = await mirror().rows(
      `SELECT state, problem_code FROM mirror.runs WHERE holder = 'gone'`,
    );
    expect(runs).toEqual([{ state: 'interrupted', problem_code: 'interrupted' }]);
  });
});

describe('a lost connection to the store', () => {
  it('in the middle of the list fails the run, changes nothing and does not end the process', async () => {
    const sim = await market();
    const deps = mirror().deps(sim.url);
    await syncCatalogue(deps, never);
    const before = await mirror().items();
    sim.seller(KEY).catalogue.touchShare(100, 'price');
    sim.faults.next('list', { kind: 'slow', chunkBytes: 20_000, pauseMs: 20 });
    const requests = sim.log.length;
    const run = syncCatalogue(deps, never);
    run.catch(() => undefined);
    while (sim.log.length < requests + 2) await new Promise((resolve) => setTimeout(resolve, 5));
    await mirror().rows(
      `SELECT pg_terminate_backend(pid) FROM pg_stat_activity
        WHERE application_name = 'test' AND datname = current_database()`,
    );
    await expect(run).rejects.toThrow();
    expect(await mirror().items()).toEqual(before);
    expect(await syncCatalogue(deps, never)).toMatchObject({ counts: { changed: 300 } });
  });
});

describe('the key', () => {
  it.each([
    ['a key of letters, in capitals', KEY, KEY.toUpperCase()],
    ['a key of digits, as a number', '4815162342', 4_815_162_342],
  ])('is nowhere in the database although the server repeats it: %s', async (_, key, echo) => {
    const catalogue = seededCatalogue({ seed: 7, count: 20 });
    const sim = await mirror().simulate({ sellers: [{ key, username: 'ada', catalogue }] });
    catalogue.change(1002, { description: `<a href="/x?api_key=${echo}">`, extra: { echo } });
    catalogue.breakRecord(1003, JSON.stringify({ id: 1003, name: null, key: echo }));
    catalogue.breakRecord(1004, JSON.stringify({ id: echo, name: null }));
    const deps = mirror().deps(sim.url, { client: { key: new Secret(key) } });
    await syncAccount(deps, never);
    await syncCatalogue(deps, never);
    for (const [status, body] of [
      [200, { status: 'success', key: echo }],
      [401, { status: 'error', msg: `wrong key: ${echo}` }],
    ] as const) {
      sim.faults.always('list', { kind: 'reply', status, body: JSON.stringify(body) });
      expect((await syncCatalogue(deps, never)).state).toBe('failed');
      sim.faults.clear();
    }
    const tables = await mirror().rows<{ name: string }>(
      `SELECT format('%I.%I', schemaname, tablename) AS name FROM pg_tables WHERE schemaname = 'mirror'`,
    );
    expect(tables.length).toBeGreaterThan(5);
    for (const { name } of tables) {
      const rows = await mirror().rows(`SELECT t::text AS text FROM ${name} t`);
      expect(JSON.stringify(rows).toLowerCase(), name).not.toContain(key.toLowerCase());
    }
  });
});
