import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { openDashboard, textOf, useDashboard } from '../dashboard/dashboard.js';
import { folder, marketOf, printed, run, start } from '../cli/support.js';
import { KEY } from '../support/mirror.js';
import * as states from '../support/states.js';
import { until } from '../support/until.js';
import { dailyCron } from './support.js';

const { mirror, dashboard } = useDashboard();
const storeSeller = (...args: Tail<typeof states.storeSeller>) =>
  states.storeSeller(mirror(), ...args);
const storeCheck = (...args: Tail<typeof states.storeCheck>) =>
  states.storeCheck(mirror(), ...args);
const park = (...args: Tail<typeof states.park>) => states.park(mirror(), ...args);
type Tail<F> = F extends (first: never, ...rest: infer R) => unknown ? R : never;

/** Settings of these sellers, and of the feed `bi`. */
function envOf(sellers: readonly string[], more: Readonly<Record<string, string>> = {}) {
  const [file, feeds] = [join(folder(), 'sellers.json'), join(folder(), 'feeds.json')];
  const url = 'http://127.0.0.1:1';
  writeFileSync(
    file,
    JSON.stringify({ sellers: sellers.map((name) => ({ name, url, keyEnv: 'KEY' })) }),
  );
  const bi = { name: 'bi', target: 'postgresql://a@127.0.0.1:9/x', views: ['items'] };
  writeFileSync(feeds, JSON.stringify({ feeds: [bi] }));
  return {
    ...{ DATABASE_URL: mirror().databaseUrl, SELLERS_FILE: file, FEEDS_FILE: feeds, KEY },
    ...{ SYNC_CRON: '0 2 * * *', TZ: 'UTC' },
    ...more,
  };
}

interface Status {
  readonly seller_id: string;
  readonly verdict: string;
  readonly current: boolean;
  readonly needs: readonly Readonly<
    Record<'kind' | 'tone' | 'title' | 'text' | 'remedy', string>
  >[];
}

const statusOf = async (env: Readonly<Record<string, string>>): Promise<Status[]> =>
  JSON.parse(await printed(['status', '--json'], env)) as Status[];

const SELLERS = ['fresh', 'resting', 'h', 'k', 'f', 'i', 'o', 'n', 'e'];

describe('what needs somebody', () => {
  it('has one urgency, the same words and the same remedy in each face', async () => {
    const { held, stuck, open } = await states.storeEveryNeed(mirror());
    const problem = 'PostgreSQL at db: connect ECONNREFUSED';
    await states.storeFeed(mirror(), 'bi', { problem, waitingHours: 1 });
    const env = envOf(SELLERS);
    const needs = (await statusOf(env)).flatMap((one) => one.needs);
    expect(needs.map(({ kind, tone, title, text, remedy }) => [kind, tone, title, text, remedy]))
      .toEqual([
        ['check', 'bad', `fresh: check ${stuck} can’t go on`, 'the key was refused',
          `fix this, then run \`seller-mirror audits resume ${stuck}\`; recorded codes are not checked again`],
        ['unproven', 'warn', `fresh: check ${open} left 1 code unproven`, '1 code got no verdict',
          'check the list again later'],
        ['decision', 'warn', 'h: removals wait for you',
          '1 of 4 items are no longer listed (1 Theme 1), more than a run removes by itself; none of them is proven to be gone; present items are mirrored and nothing was removed',
          `if they are really gone, \`seller-mirror sync --accept-removals ${held}\` removes them; if not, \`seller-mirror sync --keep-removals ${held}\` keeps them as missing`],
        ['stopped', 'bad', 'k is stopped',
          'the marketplace refused the API key; schedules skip this seller until that is fixed',
          'fix the key, then `seller-mirror sync --seller k` resumes the schedule'],
        ['failed', 'bad', 'f: the last run failed', 'the marketplace failed with HTTP 500',
          'run `seller-mirror sync` again; the copy is unchanged'],
        ['interrupted', 'warn', 'i: the last run was interrupted', 'it was killed',
          'run `seller-mirror sync` again to continue; nothing is half done'],
        ['stale', 'warn', 'o: the copy is stale', 'its items were last mirrored more than 26 hours ago',
          'check that `seller-mirror run` is running; `seller-mirror sync --seller o` mirrors it now'],
        ['stale', 'warn', 'n was never mirrored', 'its items were never mirrored',
          'check that `seller-mirror run` is running; `seller-mirror sync --seller n` mirrors it now'],
        ['no-items', 'warn', 'e: no items',
          'the list names no item, which is also so for an account with exactly one',
          'if there is one, run `seller-mirror sync item ID`'],
      ]); // prettier-ignore
    const [status, doctor] = [await printed(['status'], env), (await run(['doctor'], env)).stdout];
    const feed = 'items not delivered: PostgreSQL at db: connect ECONNREFUSED';
    const feedRemedy = '`seller-mirror feed check bi` tests the target';
    for (const words of [feed, feedRemedy]) {
      expect(plain(status)).toContain(plain(words));
      expect(plain(doctor)).toContain(plain(words));
    }
    for (const { kind, text, remedy } of needs) {
      for (const words of [text, remedy]) expect(plain(status)).toContain(plain(words));
      // Before its first sync, a new seller is no finding.
      if (kind !== 'stale') expect(plain(doctor)).toContain(plain(text));
    }
    const page = textOf(await overviewOf(env));
    expect(needs.filter(({ text }) => !page.toLowerCase().includes(text.toLowerCase()))).toEqual(
      [],
    );
    const titles = [
      ...['h: removals wait for you', 'k is stopped', 'f: the last run failed'],
      ...['Feed bi does not deliver', `check ${stuck} can’t go on`, 'i: the last run was'],
      ...[`check ${open} left 1 code`, 'o: the copy is stale', 'n was never', 'e: no items'],
    ];
    const places = titles.map((title) => page.indexOf(title));
    expect(places).toEqual(places.toSorted((a, b) => a - b));
    expect(places).not.toContain(-1);
  });

  it('says on pages what the reader can do, and no command: viewers press no button', async () => {
    await states.storeEveryNeed(mirror());
    const env = envOf(SELLERS);
    for (const [role, words] of [
      [undefined, 'You can accept the removals, or keep the items.'],
      ['viewer', 'An operator can accept the removals, or keep the items.'],
    ] as const) {
      const page = await overviewOf(env, role);
      expect(textOf(page)).toContain(words);
      expect(page).not.toMatch(/npx|seller-mirror (?:sync|run|status)/);
      expect(page.includes('>Sync now</button>')).toBe(role === undefined);
    }
  });

  it('shows in each face what is about no seller: a clock that was ahead', async () => {
    for (const name of ['a', 'b']) await storeSeller(name, 'succeeded');
    await states.storeProcess(mirror(), ['worker'], [], { secondsAgo: -7_200 });
    const env = envOf(['a', 'b']);
    const words = /a heartbeat on elsewhere was recorded for .*, which is in the future/i;
    expect((await printed(['status'], env)).replaceAll(/\s+/g, ' ')).toMatch(words);
    expect(textOf(await overviewOf(env))).toMatch(words);
    for (const { needs } of await statusOf(env)) {
      expect(needs.map(({ kind }) => kind)).toEqual(['clock']);
    }
  });

  it('is over once it is over: a check that was stopped needs nobody when its codes have a verdict', async () => {
    await storeSeller('main', 'succeeded');
    for (const state of ['failed', 'finished'] as const) await storeCheck('main', state);
    const env = envOf(['main']);
    const kinds = async () =>
      (await statusOf(env)).flatMap(({ needs }) => needs.map((n) => n.kind));
    expect(await kinds()).toEqual(['check', 'unproven']);
    await mirror().rows(
      `UPDATE mirror.purchase_codes SET verdict = 'valid', verdict_since = now(), first_checked_at = now(),
              last_checked_at = now()`,
    );
    expect(await kinds()).toEqual([]);
    expect(textOf(await overviewOf(env))).toContain('Nothing needs you.');
  });

  it('shows a failed check behind many newer unproven ones, of this seller or others', async () => {
    for (const name of ['a', 'b']) await storeSeller(name, 'succeeded');
    const stuck = await storeCheck('a', 'failed');
    const own = await storeCheck('a', 'finished');
    const others: string[] = [];
    for (let n = 0; n < 4; n++) others.push(await storeCheck('b', 'finished'));
    const titles = (await statusOf(envOf(['a', 'b']))).map(({ needs }) =>
      needs.map((n) => n.title),
    );
    expect(titles).toEqual([
      [`a: check ${stuck} can’t go on`, `a: check ${own} left 1 code unproven`],
      [3, 2, 1].map((n) => `b: check ${others[n]} left 1 code unproven`),
    ]);
  });

  it('leaves out sellers that are no longer configured: nobody can act on their key or schedule', async () => {
    await storeSeller('kept', 'failed');
    await storeSeller('gone', 'failed');
    await storeCheck('gone', 'failed');
    const needs = async (sellers: readonly string[]) =>
      (await statusOf(envOf(sellers))).map((one) => [one.seller_id, one.needs.length]);
    expect(await needs(['kept'])).toEqual([
      ['kept', 1],
      ['gone', 0],
    ]);
    expect(await printed(['status'], envOf(['kept']))).toMatch(/^✗ gone · failing, /m);
    const bare = { DATABASE_URL: mirror().databaseUrl };
    expect((await statusOf(bare)).map(({ needs }) => needs.length)).toEqual([2, 1]);
  });
});

describe('the state of a copy', () => {
  const stored =
    (hoursAgo: number, more: { items?: number } = {}) =>
    (name: string) =>
      storeSeller(name, 'succeeded', { hoursAgo, ...more });
  const withRun = (kind: string, state: string) => async (name: string) => {
    await storeSeller(name, 'succeeded', { hoursAgo: 2 });
    await states.storeRun(mirror(), name, kind, state);
  };
  const parked =
    (hoursAgo: number, code: string, reason: string, run?: string) => async (name: string) => {
      await storeSeller(name, 'succeeded', { hoursAgo });
      await park(name, code, reason, run);
    };
  // prettier-ignore
  const CASES: readonly [string, (name: string) => Promise<unknown>, RegExp, string, boolean][] = [
    ['before the first run', (name) => storeSeller(name, null), /^! NAME · never mirrored\n/, 'never', false],
    ['25 hours after its items were mirrored', stored(25.9), /^✓ NAME · current, items mirrored 25 h ago\n/, 'current', true],
    ['27 hours after', stored(26.1), /^! NAME · stale, items mirrored 26 h ago\n/, 'stale', false],
    ['after a held run, which mirrors all that is listed', (name) => storeSeller(name, 'held'),
      /^✓ NAME · current, items mirrored (?:60 min|1 h) ago/, 'current', true],
    ['after a failed run, whatever succeeded before', withRun('items', 'failed'),
      /^✗ NAME · failing, items mirrored 2 h ago\n/, 'failing', false],
    ['after a failed run of one item, which says nothing about the copy', withRun('item', 'failed'), /^✓ NAME · current/, 'current', true],
    ['after a run whose process died', withRun('account', 'running'),
      /^✓ NAME · current[^]*needs you +! 1 h ago, run \d+: the process ended before the run did/, 'current', true],
    ['while a check of its codes can’t go on', async (name) => {
      await storeSeller(name, 'succeeded', { hoursAgo: 2 });
      await storeCheck(name, 'failed');
    }, /^✓ NAME · current[^]*needs you +✗ orders\.csv: the key was refused/, 'current', true],
    ['while a code that was given as an argument is unproven', async (name) => {
      await storeSeller(name, 'succeeded', { hoursAgo: 2 });
      await storeCheck(name, 'finished');
      await mirror().rows(`UPDATE mirror.audits SET source = 'arguments' WHERE seller_id = '${name}'`);
    }, /^✓ NAME · current[^]*needs you +! Codes typed in: 1 code got no verdict/, 'current', true],
    ['if the list named no item', stored(1, { items: 0 }), /^✓ NAME · current[^]*needs you +! the list names no item/, 'current', true],
    ['of a paused seller', parked(27, 'paused', 'paused by ada'),
      /^– NAME · paused, items mirrored 27 h ago[^]*paused +(?:just now|\d+ s ago) by ada; schedules skip[^]*remedy +`seller-mirror sellers resume NAME`, or Resume on its page/, 'paused', false],
    ['of a stopped seller', parked(2, 'refused', 'the marketplace refused the API key', '1'),
      /^✗ NAME · stopped, items mirrored 2 h ago[^]*needs you +✗ (?:just now|\d+ s ago), run 1: the marketplace refused the API key/, 'parked', false],
  ];

  it('has the same mark and word in `status`, as JSON and on its page, and `status --check` fails if it is not current', async () => {
    const names = CASES.map((_, n) => `s${n}`);
    for (const [n, [, store]] of CASES.entries()) await store(`s${n}`);
    const env = envOf(names);
    const blocks = (await printed(['status'], env)).split(/\n(?=\S)/);
    const found = await statusOf(env);
    const visitor = await dashboard().login();
    for (const [n, [what, , head, verdict, current]] of CASES.entries()) {
      const name = `s${n}`;
      const block = blocks.find((one) => one.includes(` ${name} · `)) ?? '';
      expect(`${block}\n`, what).toMatch(new RegExp(head.source.replaceAll('NAME', name)));
      expect(found.find((one) => one.seller_id === name), what).toMatchObject({ verdict, current });
      const state = verdict === 'parked' ? 'stopped' : verdict === 'never' ? 'never mirrored' : verdict;
      expect(await visitor.page(`/sellers/${name}`), what).toContain(`>${state}</span>`);
      const { code } = await run(['status', '--check', '--seller', name], env);
      expect(code, what).toBe(!current && verdict !== 'paused' ? 1 : 0);
    }
  }); // prettier-ignore

  it('is running while a run holds the seller’s lock, and current meanwhile', async () => {
    await storeSeller('main', 'succeeded');
    const env = envOf(['main']);
    const during = await states.whileRunning(mirror(), 'main', async () => {
      expect(await printed(['status'], env)).toMatch(
        /^… main · running \(items, begun 1 h ago by /,
      );
      return statusOf(env);
    });
    expect(during).toMatchObject([{ verdict: 'running', current: true, needs: [] }]);
  });

  it('shows the account’s name without its control characters', async () => {
    const { env } = await marketOf(mirror(), 12, { username: 'ada\u001B[2J\u202E' });
    await printed(['sync'], env);
    const stdout = await printed(['status'], env);
    expect(stdout).toMatch(/account +ada, balance 1234\.50 USD/);
    expect(stdout).toMatch(/items +12 live · 0 missing · 0 removed/);
  });

  it('comes with a suggestion when there is no seller at all', async () => {
    const stdout = await printed(['status'], { DATABASE_URL: mirror().databaseUrl });
    expect(stdout).toMatch(/^No seller is configured, .*MARKETPLACE_URL/);
  });
});

describe('the next times of a schedule', () => {
  const cron = { name: 'main', kind: 'sync', cron: '0 2 29 2 *', timeZone: 'UTC' };
  const env = () => envOf(['main'], { SYNC_CRON: cron.cron });
  const schedule = async () => / {2}schedule +(.*)\n/.exec(await printed(['status'], env()))?.[1];

  it.each<[string, readonly (readonly [string[], (typeof cron)[]])[], RegExp]>([
    ['nothing runs', [], /: no scheduler is running; start `seller-mirror run`$/],
    ['only workers run', [[['worker'], []]], /: no scheduler is running; start/],
    ['the scheduler has other sellers', [[['worker'], []], [['scheduler'], []]],
      /: the running scheduler was started with other settings; restart it/],
    ['the scheduler was started with another schedule',
      [[['worker'], []], [['scheduler'], [{ ...cron, cron: '0 3 * * *' }]]], /other settings; restart it/],
    ['no worker runs', [[['scheduler'], [cron]]], /: no worker is running; start `seller-mirror worker`$/],
    ['scheduler and workers run', [[['worker'], []], [['scheduler'], [cron]]],
      /: \w{3} 29 Feb 02:00, \w{3} 29 Feb 02:00, \w{3} 29 Feb 02:00$/],
    ['`run` runs', [[['scheduler', 'worker'], [cron]]], /: \w{3} 29 Feb 02:00, /],
  ])('are shown only if some process keeps them: %s', async (_, processes, expected) => {
    for (const [roles, own] of processes) await states.storeProcess(mirror(), roles, own);
    expect(await schedule()).toMatch(expected);
  }); // prettier-ignore

  it.each([
    ['paused', 'not while the seller is paused'],
    ['refused', 'not while the seller is stopped'],
  ])('are not shown for a seller that is %s', async (code, words) => {
    await storeSeller('main', 'succeeded');
    await park('main', code, 'a reason');
    await states.storeProcess(mirror(), ['scheduler', 'worker'], [cron]);
    expect(await schedule()).toContain(words);
    expect(await (await dashboard().login()).page('/sellers/main')).toContain(words);
  });

  it('break between words on a terminal, and the command stays on its line as it must be typed', async () => {
    const { stdout } = await run(['status'], env(), { terminal: ['stdout'] });
    expect(stdout).toMatch(/no scheduler is running;\s+start\s+`[^`\n]*seller-mirror run`/);
  });
});

it.each<[string, Parameters<typeof states.storeFeed>[2] | null, RegExp, string]>([
  ['that never delivered', null, /^… feed bi · waiting, never delivered\n/m, 'waiting'],
  ['that has delivered all', {}, /^✓ feed bi · current, all delivered just now\n/m, 'current'],
  ['with rows that wait', { waitingHours: 1 },
    /^… feed bi · waiting since (?:60 min|1 h) ago, all delivered just now\n(?: .*\n)* {2}behind +items\n/m, 'waiting'],
  ['that has waited too long', { waitingHours: 30 }, /^! feed bi · stale since 30 h ago[^]*needs you +✗/m, 'stale'],
  ['whose delivery fails', { problem: 'the target is gone', waitingHours: 1, failures: 3 },
    /^✗ feed bi · failing since [^]*needs you +✗ .*items not delivered: the target is gone \(failed 3 times\)/m, 'failing'],
])('a feed %s', async (_, feed, head, state) => {
  if (feed !== null) await states.storeFeed(mirror(), 'bi', feed);
  const env = envOf(['main']);
  expect(await printed(['status'], env)).toMatch(head);
  const visitor = await (await openDashboard(mirror(), {}, { settings: env })).login();
  expect(await visitor.page('/feeds/bi')).toContain(`>${state}</span>`);
}); // prettier-ignore

describe('metrics', () => {
  it('show what `status` shows and needs somebody, of configured sellers and feeds alone', async () => {
    await states.storeEveryNeed(mirror());
    await storeSeller('main', 'succeeded', { hoursAgo: 2, items: 7 });
    await storeSeller('stranger', 'failed');
    await storeCheck('main', 'running');
    await states.storeFeed(mirror(), 'bi', { problem: 'down', waitingHours: 1, failures: 3 });
    await states.storeFeed(mirror(), 'old', { problem: 'down', waitingHours: 1 });
    const lines = await (await serve(envOf([...SELLERS, 'main', 'new']))).metrics();
    const value = (series: string): number =>
      Number(
        lines
          .find((line) => line.startsWith(`seller_mirror_${series} `))
          ?.split(' ')
          .at(-1),
      );
    expect(value('items{seller="main",state="live"}')).toBe(7);
    expect(value('last_success_age_seconds{seller="main",kind="items"}')).toBeGreaterThanOrEqual(
      7_200,
    );
    expect(value('last_success_timestamp_seconds{seller="new",kind="items"}')).toBe(0);
    expect(value('last_success_age_seconds{seller="new",kind="items"}')).toBeLessThan(60);
    expect(value('seller_paused{seller="main"}')).toBe(0);
    expect(value('audits_running{seller="main"}')).toBe(1);
    expect(value('codes_pending{seller="main"}')).toBe(1);
    expect(value('feed_failures{feed="bi"}')).toBe(3);
    expect(value('feed_lag_seconds{feed="bi",view="items"}')).toBeGreaterThanOrEqual(3_600);
    expect(value('needs{kind="feed",seller="",feed="bi"}')).toBe(1);
    expect(value('runs_total{seller="new",kind="items",state="succeeded"}')).toBe(0);
    expect(value('scrape_errors_total{source="store"}')).toBe(0);
    expect(value('queue_jobs{queue="mirror",state="failed"}')).toBe(0);
    expect(lines.filter((line) => /stranger|feed="old"/.test(line))).toEqual([]);
    const kinds = lines.flatMap(
      (line) => /^seller_mirror_needs\{kind="([^"]+)/.exec(line)?.[1] ?? [],
    );
    const all = ['check', 'decision', 'failed', 'feed', 'interrupted', 'no-items', 'stale'];
    expect([...new Set(kinds)].toSorted()).toEqual([...all, 'stopped', 'unproven']);
  });

  it('count runs, items, calls and jobs of the process, and follow Prometheus’s naming', async () => {
    const { env } = await marketOf(mirror());
    const SYNC_CRON = dailyCron();
    const service = await serve({ ...env, CATCH_UP: 'true', SYNC_CRON });
    const ended = /^seller_mirror_runs_total.*"items".*"succeeded"\} [1-9]/m;
    await until(async () => ended.test((await service.metrics()).join('\n')));
    const lines = await service.metrics();
    expect(lines).toContain('seller_mirror_items_total{seller="main",change="added"} 12');
    expect(lines).toContain(
      'seller_mirror_api_calls_total{seller="main",operation="list",outcome="answered"} 1',
    );
    for (const name of [
      'process_cpu_seconds_total',
      'nodejs_eventloop_lag_seconds',
      'seller_mirror_build_info',
    ]) {
      expect(
        lines.some((line) => line.startsWith(name)),
        name,
      ).toBe(true);
    }
    expect(await printed(['status'], { ...env, SYNC_CRON })).toMatch(/schedule +\d/);
    const types = lines.flatMap((line) => [
      ...line.matchAll(/^# TYPE (seller_mirror_\w+) (\w+)$/g),
    ]);
    expect(types.length).toBeGreaterThan(10);
    for (const [, name, type] of types) {
      expect(name?.endsWith('_total')).toBe(type === 'counter');
      if (type === 'histogram') expect(name).toMatch(/_seconds$/);
    }
  });
});

/** Starts `run`, and reads its metrics. */
async function serve(env: Readonly<Record<string, string>>) {
  const service = start(['run'], {
    ...{ CATCH_UP: 'false', DASHBOARD_LISTEN: 'off', LOG_FORMAT: 'json' },
    ...env,
    HEALTH_LISTEN: '127.0.0.1:0',
  });
  const seen = async () => (await mirror().rows('SELECT FROM mirror.processes')).length > 0;
  await until(async () => service.stdout().includes('service started') && (await seen()));
  const [, url] = /"health":"([^"]+)"/.exec(service.stdout()) ?? [];
  const metrics = async (): Promise<readonly string[]> =>
    (await (await fetch(`${url}/metrics`)).text()).split('\n');
  return { metrics };
}

async function overviewOf(env: Readonly<Record<string, string>>, role?: 'viewer'): Promise<string> {
  return (await (await openDashboard(mirror(), {}, { settings: env })).login(role)).page('/');
}

/** Without what the terminal adds: backticks, line breaks and the way to start the program. */
function plain(text: string): string {
  return text.replaceAll(/`|npx |(?:node )?\S*(?=seller-mirror )/g, '').replaceAll(/\s+/g, ' ');
}
