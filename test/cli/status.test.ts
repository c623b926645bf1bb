import { describe, expect, it } from 'vitest';
import { statusLines, sellerReport } from '../../src/cli/commands/status.js';
import { wrap } from '../../src/cli/output/text.js';
import { withRunnableCommands } from '../../src/cli/own-command.js';
import { performMirrorTask } from '../../src/catalogue/mirror-task.js';
import { syncAccount } from '../../src/catalogue/account.js';
import { syncItem } from '../../src/catalogue/sync-item.js';
import { syncItems } from '../../src/catalogue/sync-items.js';
import type { RunDeps } from '../../src/catalogue/types.js';
import type { Simulator } from '../../src/simulator/index.js';
import { never, useMirror } from '../support/mirror.js';
import { until } from '../support/until.js';
import { readSellerStatuses } from '../../src/catalogue/status-store.js';
import { lockSeller } from '../../src/db/locks.js';
import { sellerNeeds } from '../../src/service/needs.js';
import { pauseSeller } from '../../src/catalogue/sellers-store.js';
import { marketOf, printed, run, settings, start } from './support.js';

const mirror = useMirror();

/** A mirrored seller. */
async function mirrored(username = 'ada') {
  const { sim, deps, env, sync } = await marketOf(mirror(), 12, { username });
  await syncAccount(deps, never);
  await sync();
  return { sim, deps, env };
}

/** Makes a scheduled run fail for a reason that parks the seller. */
async function park(sim: Simulator, deps: RunDeps): Promise<void> {
  sim.faults.always('any', { kind: 'key-refused' });
  await performMirrorTask(deps, { kind: 'sync', dueAt: new Date(), byHand: false }, never);
}

async function report(now = new Date()) {
  const [stored] = await readSellerStatuses(mirror().db);
  const expectation = {
    configured: true,
    staleAfterHours: 26,
    needs: stored === undefined ? [] : sellerNeeds(stored, 26, now),
    schedules: [],
    scheduled: [],
    processes: [],
  };
  return sellerReport('main', expectation, stored ?? null, now);
}

const hours = (number: number): Date => new Date(Date.now() + number * 3_600_000);

describe('the verdict on a copy', () => {
  it('is “never” before the first run', async () => {
    expect(await report()).toMatchObject({ verdict: 'never', current: false });
  });

  it('is “current” for 26 hours after its items were mirrored, then “stale”', async () => {
    await mirrored();
    expect(await report(hours(25.9))).toMatchObject({ verdict: 'current', current: true });
    expect(await report(hours(26.1))).toMatchObject({ verdict: 'stale', current: false });
  });

  it('is marked, with a hint, if the list named no item: it does not name the only item of an account', async () => {
    const { sync } = await marketOf(mirror(), 1, { profile: 'field-2' });
    await sync();
    const now = new Date();
    const lines = statusLines(await report(now), now, { columns: 200, colour: false });
    expect(lines).toMatch(/^! main · current, items mirrored/);
    expect(lines).toMatch(/if there is one, run `.*seller-mirror sync item ID`/);
  });

  it('is “failing” when the newest run failed, with the reason and a remedy', async () => {
    const { sim, deps } = await mirrored();
    sim.faults.always('list', { kind: 'html', status: 200 });
    await syncItems(deps, never);
    // A later success of another kind does not make the items current.
    await syncAccount(deps, never);
    const { verdict, current, lastProblem, needs } = await report();
    expect({ verdict, current }).toEqual({ verdict: 'failing', current: false });
    expect(lastProblem).toMatchObject({ kind: 'items', problemCode: 'unavailable' });
    expect(needs).toMatchObject([
      { kind: 'failed', remedy: expect.stringContaining('sync') as string },
    ]);
  });

  it('ignores a failed look-up of an item that does not exist', async () => {
    const { deps } = await mirrored();
    expect((await syncItem(deps, 999, never)).state).toBe('failed');
    expect(await report()).toMatchObject({ verdict: 'current', lastProblem: null });
  });

  it('is “running” only while the run’s process lives', async () => {
    await mirrored();
    await mirror().rows(
      `INSERT INTO mirror.runs (seller_id, kind, state, holder) VALUES ('main', 'items', 'running', 'killed')`,
    );
    const died = { state: 'interrupted', problem: 'the process ended before the run did' };
    expect(await report()).toMatchObject({ verdict: 'current', running: null, lastProblem: died });
    const lock = await lockSeller(mirror().db, 'main');
    const during = await report();
    await lock.release();
    expect(during).toMatchObject({
      verdict: 'running',
      current: true,
      running: { holder: 'killed' },
      lastProblem: null,
    });
  });
});

describe('the next times of a schedule', () => {
  const cron = { cron: '0 2 * * *', timeZone: 'UTC' };
  const schedule = { name: 'main', kind: 'sync', ...cron } as const;
  const nextAt = new Date('2030-11-22T02:00:00Z');
  const stored = { ...schedule, nextAt, lastAt: null };
  const process = (pid: number, roles: string[]) => ({
    processId: `00000000-0000-4000-8000-00000000000${pid}`,
    roles,
    host: 'elsewhere',
    pid,
    startedAt: new Date(),
    seenAt: new Date(),
  });
  const worker = process(1, ['worker']);

  it.each([
    ['nothing runs', [], [stored], 'no-scheduler'],
    ['only workers run', [worker], [stored], 'no-scheduler'],
    ['the scheduler has other sellers', [worker, process(2, ['scheduler'])], [], 'not-scheduled'],
    [
      'the scheduler was started with another schedule',
      [worker, process(2, ['scheduler'])],
      [{ ...stored, cron: '0 3 * * *' }],
      'not-scheduled',
    ],
    ['no worker runs', [process(2, ['scheduler'])], [stored], 'no-worker'],
    ['scheduler and workers run', [worker, process(2, ['scheduler'])], [stored], null],
    ['`run` runs', [process(3, ['scheduler', 'worker'])], [stored], null],
  ] as const)(
    'are shown only if some process keeps them: %s',
    (_, processes, scheduled, obstacle) => {
      const given = { configured: true, staleAfterHours: 26, needs: [], schedules: [schedule] };
      const expectation = { ...given, processes, scheduled };
      const { schedules } = sellerReport(
        'main',
        expectation,
        null,
        new Date('2030-11-21T12:00:00Z'),
      );
      const times = ['22', '23', '24'].map((day) => new Date(`2030-11-${day}T02:00:00Z`));
      expect(schedules).toEqual([
        { kind: 'sync', ...cron, next: obstacle === null ? times : [], obstacle },
      ]);
    },
  );

  it('are shown while `run` runs, and no longer once it is killed', async () => {
    const { sim } = await mirrored();
    const more = { SYNC_CRON: '0 0 29 2 *', HEALTH_LISTEN: 'off', CATCH_UP: 'false' };
    const env = settings(mirror().databaseUrl, sim.url, more);
    const scheduleLine = async (other: Readonly<Record<string, string>> = {}) =>
      /schedule +(.*)\n/.exec((await run(['status'], { ...env, ...other })).stdout)?.[1];
    const service = start(['run'], env);
    await until(() => service.stdout().includes('service started'));
    await until(async () => (await mirror().rows('SELECT FROM mirror.processes')).length > 0);
    expect(await scheduleLine()).toMatch(/: Tue 29 Feb 00:00, /);
    expect(await scheduleLine({ SYNC_CRON: '0 1 29 2 *' })).toContain(
      'started with other settings; restart it',
    );
    service.process.kill('SIGKILL');
    await service.ended;
    expect(await scheduleLine()).toContain('no scheduler is running; start `seller-mirror run`');
  });

  it.each(['paused', 'parked'] as const)('are not shown for a %s seller', async (obstacle) => {
    const { sim, deps } = await mirrored();
    if (obstacle === 'paused') await pauseSeller(mirror().db, 'main', 'paused by ada');
    else await park(sim, deps);
    const [status] = await readSellerStatuses(mirror().db);
    const given = { configured: true, staleAfterHours: 26, needs: [], schedules: [schedule] };
    const processes = [process(3, ['scheduler', 'worker'])];
    const expectation = { ...given, processes, scheduled: [stored] };
    const { schedules } = sellerReport('main', expectation, status ?? null, new Date());
    expect(schedules).toMatchObject([{ obstacle, next: [] }]);
  });
});

describe('status', () => {
  it('wraps lines once, with the command as it must be typed', () => {
    const cron = { cron: '0 2 * * *', timeZone: 'America/Argentina/Buenos_Aires' };
    const schedule = { name: 'main', kind: 'sync', ...cron } as const;
    const expectation = { configured: true, staleAfterHours: 26, needs: [], schedules: [schedule] };
    const report = sellerReport(
      'main',
      { ...expectation, scheduled: [], processes: [] },
      null,
      new Date(),
    );
    const lines = statusLines(report, new Date(), { columns: 80, colour: false });
    expect(lines).toMatch(/running;\n {12}start `.+ run`\n/);
    expect(wrap(withRunnableCommands(lines), 80)).toBe(lines);
  });

  it('shows configured sellers and those that only the store knows, with control characters removed', async () => {
    const { sim } = await mirrored('ada\u001B[2J\u202E');
    const env = settings(mirror().databaseUrl, sim.url, { SELLER_NAME: 'other' });
    const stdout = await printed(['status'], env);
    expect(stdout).toMatch(
      /^! other · never mirrored\n {2}schedule +0 2 \* \* \* \(.+\): no scheduler is running; start `seller-mirror run`\n {2}needs you +its items were never mirrored\n {2}remedy +check that `seller-mirror run` is running; `seller-mirror sync --seller other` mirrors it now\n\n✓ main · current, items mirrored .* \(in the store, not configured\)\n/,
    );
    expect(stdout).toMatch(/account +ada, balance 1234\.50 USD/);
    expect(stdout).toMatch(/items +12 live · 0 missing · 0 removed/);
  });

  it('suggests settings when there is no seller at all', async () => {
    const stdout = await printed(['status'], { DATABASE_URL: mirror().databaseUrl });
    expect(stdout).toMatch(/^No seller is configured, .*MARKETPLACE_URL/);
  });

  it('with --check exits with 1 if a configured copy is not current', async () => {
    const { env } = await mirrored();
    expect(JSON.parse(await printed(['status', '--check', '--json'], env))).toMatchObject([
      { seller_id: 'main', configured: true, verdict: 'current', live_items: 12 },
    ]);
    await mirror().rows(`UPDATE mirror.runs SET finished_at = now() - interval '27 hours'`);
    expect(await run(['status', '--check'], env)).toMatchObject({
      code: 1,
      stdout: expect.stringMatching(/^! main · stale, items mirrored 27 h ago/) as string,
    });
  });

  it('shows who paused a seller and how to resume it; --check ignores the seller', async () => {
    const { env } = await mirrored();
    await pauseSeller(mirror().db, 'main', 'paused by ada');
    await mirror().rows(`UPDATE mirror.runs SET finished_at = now() - interval '27 hours'`);
    const stdout = await printed(['status', '--check'], env);
    expect(stdout).toMatch(/^– main · paused, items mirrored 27 h ago/);
    expect(stdout).toMatch(/paused +(?:just now|\d+ s ago): paused by ada; schedules skip/);
    expect(stdout).toMatch(/remedy +press Resume on the page of main in the dashboard/);
    expect(JSON.parse(await printed(['status', '--json'], env))).toMatchObject([
      { verdict: 'paused', parked: null, parked_at: null, paused: { reason: 'paused by ada' } },
    ]);
  });

  it('shows why and since when a seller is parked, and how to resume it; --check fails', async () => {
    const { sim, deps, env } = await mirrored();
    await park(sim, deps);
    const { code, stdout } = await run(['status', '--check'], env);
    expect(code).toBe(1);
    expect(stdout).toMatch(/^✗ main · stopped, items mirrored /);
    expect(stdout).toMatch(
      /needs you +(?:just now|\d+ s ago), run \d+: the marketplace refused the API key/,
    );
    expect(stdout).toMatch(/remedy +fix the key, then `seller-mirror sync --seller main` resumes/);
    expect(JSON.parse(await printed(['status', '--json'], env))).toMatchObject([
      { verdict: 'parked', current: false, parked: { problem_code: 'refused' } },
    ]);
    sim.faults.clear();
    await printed(['sync', '--seller', 'main'], env);
    expect(await report()).toMatchObject({ verdict: 'current', parked: null });
  });
});
