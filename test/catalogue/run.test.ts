import { describe, expect, it } from 'vitest';
import { Secret } from '../../src/domain/secret.js';
import { seededCatalogue, type Simulator } from '../../src/simulator/index.js';
import { KEY, never, useMirror } from '../support/mirror.js';
import { openMarket, syncAccount, syncItems } from './market.js';

const mirror = useMirror();

describe('a run whose process died', () => {
  it('is marked as interrupted by the next run', async () => {
    const sim = await market();
    const deps = mirror().deps(sim.url);
    await syncItems(deps, never);
    await mirror().rows(
      `INSERT INTO mirror.runs (seller_id, kind, state, holder) VALUES ('main', 'items', 'running', 'gone')`,
    );
    await syncItems(deps, never);
    const runs = await mirror().rows(
      `SELECT state, problem_code FROM mirror.runs WHERE holder = 'gone'`,
    );
    expect(runs).toEqual([{ state: 'interrupted', problem_code: 'interrupted' }]);
  });
});

describe('the key', () => {
  it.each([
    ['a key of letters, in capitals', KEY, KEY.toUpperCase()],
    ['a key of digits, as a number', '4815162342', 4_815_162_342],
  ])('never reaches the database, even if the server repeats it: %s', async (_, key, echo) => {
    const catalogue = seededCatalogue({ seed: 7, count: 20 });
    const sim = await mirror().simulate({ sellers: [{ key, username: 'ada', catalogue }] });
    catalogue.change(1002, { description: `<a href="/x?api_key=${echo}">`, extra: { echo } });
    catalogue.breakRecord(1003, JSON.stringify({ id: 1003, name: null, key: echo }));
    catalogue.breakRecord(1004, JSON.stringify({ id: echo, name: null }));
    const deps = mirror().deps(sim.url, { client: { key: new Secret(key) } });
    await syncAccount(deps, never);
    await syncItems(deps, never);
    for (const [status, body] of [
      [200, { status: 'success', key: echo }],
      [401, { status: 'error', msg: `wrong key: ${echo}` }],
    ] as const) {
      sim.faults.always('list', { kind: 'reply', status, body: JSON.stringify(body) });
      expect((await syncItems(deps, never)).state).toBe('failed');
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

const market = async (): Promise<Simulator> => (await openMarket(mirror(), 5)).sim;

describe('a failed run', () => {
  it('says when to retry after a limit or maintenance', async () => {
    const sim = await market();
    const deps = mirror().deps(sim.url);
    const before = Date.now();
    for (const status of [429, 503]) {
      sim.faults.clear();
      sim.faults.always('account', {
        kind: 'reply',
        status,
        body: 'later',
        headers: { 'retry-after': '7200' },
      });
      const { report } = await syncAccount(deps, never);
      expect(report.problem?.notBefore).toBeGreaterThanOrEqual(before + 7_200_000 - 1_000);
    }
  });
});
