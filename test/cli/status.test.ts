import { describe, expect, it } from 'vitest';
import { statusLines, sellerReport } from '../../src/cli/commands/status.js';
import { wrap } from '../../src/cli/output/text.js';
import { asTyped } from '../../src/cli/own-command.js';
import { performMirrorTask } from '../../src/jobs/mirror-task.js';
import { syncAccount } from '../../src/jobs/account.js';
import { syncCatalogue } from '../../src/jobs/sync-catalogue.js';
import { syncItem } from '../../src/jobs/sync-item.js';
import type { FiredSchedule } from '../../src/store/processes.js';
import { never, useMirror } from '../support/mirror.js';
import { marketOf, run, settings, start, until } from './support.js';

const mirror = useMirror();

/** A mirrored seller, made without the command line. */
async function mirrored(username = 'ada') {
  const { sim, deps, env, sync } = await marketOf(mirror(), 12, { username });
  await syncAccount(deps, never);
  await sync();
  return { sim, deps, env };
}

async function report(now = new Date()) {
  const [stored] = await mirror().store.sellers.statuses();
  const expectation = { configured: true, staleAfterHours: 26, schedules: [], processes: [] };
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

  it('is “failing” when the newest run failed, with the reason and what to do', async () => {
    const { sim, deps } = await mirrored();
    sim.faults.always('list', { kind: 'html', status: 200 });
    await syncCatalogue(deps, never);
    // A later success of another kind does not make the items any better.
    await syncAccount(deps, never);
    const { verdict, current, lastProblem } = await report();
    expect({ verdict, current }).toEqual({ verdict: 'failing', current: false });
    expect(lastProblem).toMatchObject({ kind: 'items', problemCode: 'unavailable' });
    expect(lastProblem?.remedy).toContain('seller-mirror sync');
  });

  it('is untouched by a look-up of an item that does not exist', async () => {
    const { deps } = await mirrored();
    expect((await syncItem(deps, 999, never)).state).toBe('failed');
    expect(await report()).toMatchObject({ verdict: 'current', lastProblem: null });
  });

  it('takes a run for running only while its process lives, since a killed one can’t say so', async () => {
    await mirrored();
    await mirror().rows(
      `INSERT INTO mirror.runs (seller_id, kind, state, holder) VALUES ('main', 'items', 'running', 'killed')`,
    );
    const died = { state: 'interrupted', problem: 'the process ended before the run did' };
    expect(await report()).toMatchObject({ verdict: 'current', running: null, lastProblem: died });
    const lock = await mirror().store.sellers.lock('main');
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
  const schedule = { seller: 'main', marketplace: 'm.example', kind: 'sync', ...cron } as const;
  const fired = { seller: 'main', kind: 'sync', ...cron } as const;
  const process = (pid: number, roles: string[], schedules: FiredSchedule[] = []) => ({
    processId: `00000000-0000-4000-8000-00000000000${pid}`,
    roles,
    schedules,
    host: 'elsewhere',
    pid,
    startedAt: new Date(),
    seenAt: new Date(),
  });
  const worker = process(1, ['worker']);

  it.each([
    ['nothing runs', [], 'no-scheduler'],
    ['only workers run', [worker], 'no-scheduler'],
    ['the scheduler has other sellers', [worker, process(2, ['scheduler'])], 'not-scheduled'],
    [
      'the scheduler was started with another schedule',
      [worker, process(2, ['scheduler'], [{ ...fired, cron: '0 3 * * *' }])],
      'not-scheduled',
    ],
    ['nobody works on the queue', [process(2, ['scheduler'], [fired])], 'no-worker'],
    ['scheduler and workers run', [worker, process(2, ['scheduler'], [fired])], null],
    ['`run` runs', [process(3, ['scheduler', 'worker'], [fired])], null],
  ] as const)('are told only if somebody keeps them: %s', (_, processes, obstacle) => {
    const expectation = { configured: true, staleAfterHours: 26, schedules: [schedule], processes };
    const { schedules } = sellerReport('main', expectation, null, new Date('2026-11-21T12:00:00Z'));
    const times = ['22', '23', '24'].map((day) => new Date(`2026-11-${day}T02:00:00Z`));
    expect(schedules).toEqual([
      { kind: 'sync', ...cron, next: obstacle === null ? times : [], obstacle },
    ]);
  });

  it('come with `run` and go with it, also when it is killed, since a dead scheduler keeps nothing', async () => {
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

  it('are not told of a paused seller', async () => {
    await mirrored();
    await mirror().store.sellers.pause('main', 'paused by ada');
    const [stored] = await mirror().store.sellers.statuses();
    const processes = [process(3, ['scheduler', 'worker'], [fired])];
    const expectation = { configured: true, staleAfterHours: 26, schedules: [schedule], processes };
    const { schedules } = sellerReport('main', expectation, stored ?? null, new Date());
    expect(schedules).toMatchObject([{ obstacle: 'paused', next: [] }]);
  });

  it('are not told of a parked seller, whom schedules leave alone', async () => {
    const { sim, deps } = await mirrored();
    sim.faults.always('any', { kind: 'key-refused' });
    await performMirrorTask(deps, { kind: 'sync', askedAt: new Date(), byHand: false }, never);
    const [stored] = await mirror().store.sellers.statuses();
    const processes = [process(3, ['scheduler', 'worker'], [fired])];
    const expectation = { configured: true, staleAfterHours: 26, schedules: [schedule], processes };
    const { schedules } = sellerReport('main', expectation, stored ?? null, new Date());
    expect(schedules).toMatchObject([{ obstacle: 'parked', next: [] }]);
  });
});

describe('status', () => {
  it('wraps a command as it is typed here, and wraps it once', () => {
    const cron = { cron: '0 2 * * *', timeZone: 'America/Argentina/Buenos_Aires' };
    const schedule = { seller: 'main', marketplace: 'm.example', kind: 'sync', ...cron } as const;
    const expectation = { configured: true, staleAfterHours: 26, schedules: [schedule] };
    const report = sellerReport('main', { ...expectation, processes: [] }, null, new Date());
    const lines = statusLines(report, new Date(), { columns: 80, colour: false });
    expect(lines).toMatch(/running;\n {12}start `.+ run`\n/);
    expect(wrap(asTyped(lines), 80)).toBe(lines);
  });

  it('shows configured sellers and those that only the store knows, hostile names made harmless', async () => {
    const { sim } = await mirrored('ada\u001B[2J\u202E');
    const env = settings(mirror().databaseUrl, sim.url, { SELLER_NAME: 'other' });
    const { code, stdout } = await run(['status'], env);
    expect(code).toBe(0);
    expect(stdout).toMatch(
      /^! other · never mirrored\n {2}schedule +0 2 \* \* \* \(.+\): no scheduler is running; start `seller-mirror run`\n {2}remedy +run `seller-mirror sync`\n\n✓ main · current, items mirrored .* \(in the store, not configured\)\n/,
    );
    expect(stdout).toMatch(/account +ada, balance 1234\.50 USD/);
    expect(stdout).toMatch(/items +12 live · 0 missing · 0 removed/);
  });

  it('tells what to do when there is no seller at all', async () => {
    const { code, stdout } = await run(['status'], { DATABASE_URL: mirror().databaseUrl });
    expect(code).toBe(0);
    expect(stdout).toMatch(/^No seller is configured, .*MARKETPLACE_URL/);
  });

  it('with --check ends with 1 as soon as a configured copy is not current, for monitoring', async () => {
    const { env } = await mirrored();
    const good = await run(['status', '--check', '--json'], env);
    expect(good.code).toBe(0);
    expect(JSON.parse(good.stdout)).toMatchObject([
      { seller_id: 'main', configured: true, verdict: 'current', live_items: 12 },
    ]);
    await mirror().rows(`UPDATE mirror.runs SET finished_at = now() - interval '27 hours'`);
    expect(await run(['status', '--check'], env)).toMatchObject({
      code: 1,
      stdout: expect.stringMatching(/^! main · stale, items mirrored 27 h ago/) as string,
    });
  });

  it('of a paused seller says by whom and how to resume, and --check is content however old its copy is', async () => {
    const { env } = await mirrored();
    await mirror().store.sellers.pause('main', 'paused by ada');
    await mirror().rows(`UPDATE mirror.runs SET finished_at = now() - interval '27 hours'`);
    const { code, stdout } = await run(['status', '--check'], env);
    expect(code).toBe(0);
    expect(stdout).toMatch(/^– main · paused, items mirrored 27 h ago/);
    expect(stdout).toMatch(/paused +(?:just now|\d+ s ago): paused by ada; schedules leave/);
    expect(stdout).toMatch(/remedy +press Resume on the page of main in the dashboard/);
    const json = await run(['status', '--json'], env);
    expect(JSON.parse(json.stdout)).toMatchObject([
      { verdict: 'paused', parked: null, parked_at: null, paused: { reason: 'paused by ada' } },
    ]);
  });

  it('of a parked seller says why, since when and how to resume, and --check fails', async () => {
    const { sim, deps, env } = await mirrored();
    sim.faults.always('any', { kind: 'key-refused' });
    await performMirrorTask(deps, { kind: 'sync', askedAt: new Date(), byHand: false }, never);
    const { code, stdout } = await run(['status', '--check'], env);
    expect(code).toBe(1);
    expect(stdout).toMatch(/^✗ main · parked, items mirrored /);
    expect(stdout).toMatch(
      /parked +(?:just now|\d+ s ago), by run \d+: the marketplace refused the API key/,
    );
    expect(stdout).toMatch(/remedy +fix the key, then `seller-mirror sync --seller main` resumes/);
    const json = await run(['status', '--json'], env);
    expect(JSON.parse(json.stdout)).toMatchObject([
      { verdict: 'parked', current: false, parked: { problem_code: 'refused' } },
    ]);
    sim.faults.clear();
    expect((await run(['sync', '--seller', 'main'], env)).code).toBe(0);
    expect(await report()).toMatchObject({ verdict: 'current', parked: null });
  });
});
