import { describe, expect, it } from 'vitest';
import { syncCatalogue } from '../../src/jobs/sync-catalogue.js';
import { seededCatalogue } from '../../src/simulator/index.js';
import { KEY, never, useMirror } from '../support/mirror.js';
import { run } from './support.js';

const mirror = useMirror();

/** Two runs; the second met a record that can't be read. */
async function twoRuns(): Promise<bigint> {
  const catalogue = seededCatalogue({ seed: 3, count: 12 });
  const sim = await mirror().simulate({
    sellers: [{ key: KEY, username: 'ada', catalogue }],
    profile: 'field-2',
  });
  const deps = mirror().deps(sim.url);
  await syncCatalogue(deps, never);
  catalogue.breakRecord(
    1003,
    `{"id":1003,"name":"\u001B]0;owned\u0007","price":"${'x'.repeat(5000)}"}`,
  );
  return (await syncCatalogue(deps, never)).runId;
}

describe('runs', () => {
  it('lists the newest first, as many as wanted', async () => {
    const newest = await twoRuns();
    const env = { DATABASE_URL: mirror().databaseUrl };
    const { code, stdout } = await run(['runs', '--limit', '1'], env);
    expect(code).toBe(0);
    const [head, first, ...rest] = stdout.trimEnd().split('\n');
    expect(head).toMatch(/^ *run +seller +kind +state +started/);
    expect(first).toMatch(new RegExp(`^ *${newest} +main +items +succeeded`));
    expect(rest).toEqual([]);
  });

  it('shows one whole: figures, warnings, quirks, and records it could not read, shortened', async () => {
    const id = await twoRuns();
    const env = { DATABASE_URL: mirror().databaseUrl };
    const { code, stdout } = await run(['runs', String(id)], env);
    expect(code).toBe(0);
    expect(stdout).toContain(`run ${id} · main · items · succeeded`);
    expect(stdout).toMatch(/^listed +12$/m);
    expect(stdout).toMatch(/^quarantined +1$/m);
    expect(stdout).toContain('could not be read and are in mirror.quarantine');
    expect(stdout).toContain('envelope.items-object');
    expect(stdout).toMatch(/item 1003: .*\n {4}\{"id":1003,"name":"","price":"x+…\n/);
    expect(Math.max(...stdout.split('\n').map((line) => line.length))).toBeLessThan(400);
    const json = await run(['runs', String(id), '--json'], env);
    expect(JSON.parse(json.stdout)).toMatchObject({
      run: { run_id: Number(id), quarantined: 1 },
      quarantine: [{ item_id: 1003, raw: expect.stringMatching(/^\{"id":1003.*…$/s) as string }],
    });
  });

  it('says so when there is no such run', async () => {
    const { code, stderr } = await run(['runs', '4711'], { DATABASE_URL: mirror().databaseUrl });
    expect(stderr).toBe('error: there is no run 4711\n  → `seller-mirror runs` lists them\n');
    expect(code).toBe(1);
  });
});
