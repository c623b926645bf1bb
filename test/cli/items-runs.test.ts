import { readFileSync } from 'node:fs';
import { describe, expect, it } from 'vitest';
import { useMirror } from '../support/mirror.js';
import { freePath, marketOf, printed, run, startSync } from './support.js';

const mirror = useMirror();
const store = () => ({ DATABASE_URL: mirror().databaseUrl });
const items = (...args: string[]) => run(['items', ...args], store());
const show = (...args: string[]) => printed(args, store());

const addSeller = (name: string) =>
  mirror().rows('INSERT INTO mirror.sellers (seller_id, marketplace) VALUES ($1, $1)', [name]);

interface Row {
  readonly item_id: number;
  readonly name: string;
  readonly state: string;
}

const rows = async (...args: string[]): Promise<Row[]> =>
  JSON.parse(await show('items', '--json', ...args)) as Row[];

/** Five items; then one is renamed, one removed and one added. @returns a moment between the two lists */
async function history(): Promise<string> {
  const { catalogue, sync } = await marketOf(mirror(), 5);
  await sync();
  const [now] = await mirror().rows<{ at: Date }>('SELECT clock_timestamp() AS at');
  const [item] = catalogue.truth();
  if (item === undefined || now === undefined) throw new Error('there is nothing to change');
  catalogue.change(1001, { name: 'Renamed' });
  catalogue.remove(1002);
  catalogue.add({ ...item, id: 2001, name: 'New' });
  await new Promise((resolve) => setTimeout(resolve, 2)); // --as-of has millisecond precision
  await sync();
  return now.at.toISOString();
}

describe('items', () => {
  it('lists all with their states, or those with one state', async () => {
    await history();
    const stdout = await show('items');
    expect(stdout).toMatch(/^item +name +version +state +price +extended +changed +seller\n/);
    expect(stdout.trimEnd().split('\n')).toHaveLength(7);
    expect(await rows('--state', 'live')).toHaveLength(5);
    expect(await rows('--state', 'removed')).toMatchObject([{ item_id: 1002, state: 'removed' }]);
    const newest = await rows('--sort', 'changed', '--limit', '3');
    expect(newest.map(({ item_id }) => item_id)).toEqual([1001, 1002, 2001]);
  });

  it('are written as `export` writes them, so that a file does not depend on how it was made', async () => {
    const { catalogue, sync } = await marketOf(mirror(), 2);
    const tags = ['a b', 'c,d', 'null', 'e"f', 'g\\h', '{}', 'plain', 'größer'];
    catalogue.change(1001, { tags, name: '=1+1', priceRegularCents: 1990 });
    await sync();
    // Only the export has undocumented fields, in its last column. Its order is that of writing.
    const exported = await show('export', 'items', '--seller', 'main');
    const lines = exported
      .replaceAll(/,(?:extra|\{\})(?=\r\n)/g, '')
      .trimEnd()
      .split('\r\n');
    const listed = (await show('items', '--format', 'csv')).trimEnd().split('\r\n');
    expect(listed[1]).toMatch(/^main,1001,'=1\+1,/);
    expect(listed.toSorted()).toEqual(lines.toSorted());
  });

  it('lists them exactly as they were', async () => {
    const moment = await history();
    const were = await rows('--as-of', moment);
    expect(were.map(({ item_id }) => item_id)).toEqual([1001, 1002, 1003, 1004, 1005]);
    expect(were.every(({ state }) => state === 'live')).toBe(true);
    expect(were[0]?.name).not.toBe('Renamed');
    expect((await rows()).map(({ name }) => name)).toContain('Renamed');
  });

  it('before the first list are an error that says when history begins', async () => {
    await history();
    const [first] = await mirror().rows<{ at: Date }>(
      'SELECT min(first_seen_at) AS at FROM mirror.items',
    );
    const begin = first?.at.toISOString() ?? '';
    const early = await items('--as-of', '2001-01-01');
    expect(early).toMatchObject({ code: 1, stdout: '' });
    expect(early.stderr).toContain(`history of seller "main" begins at ${begin}`);
    expect(await rows('--as-of', begin)).toHaveLength(5);
    // History that was pruned is unknown too.
    await mirror().rows(`UPDATE mirror.sellers SET history_since = now() - interval '1 second'`);
    expect((await items('--as-of', '1h')).code).toBe(1);
  });

  it('warn about a seller that was added later, and list the others', async () => {
    const moment = await history();
    await addSeller('second');
    const { code, stderr, stdout } = await items('--as-of', moment, '--json');
    expect(stderr).toBe('warning: no list of seller "second" has been mirrored yet\n');
    expect(code).toBe(0);
    expect(JSON.parse(stdout)).toHaveLength(5);
  });
});

describe('items show', () => {
  it('shows all of an item with its prices over time; JSON also has the record as received', async () => {
    const { catalogue, sync } = await marketOf(mirror(), 3);
    catalogue.change(1002, { name: 'Basalt \u001B[31mKit', priceRegularCents: 1900 });
    await sync();
    catalogue.change(1002, { version: '9.9' });
    await sync();
    catalogue.change(1002, { priceRegularCents: 2150 });
    await sync();

    const stdout = await show('items', 'show', '1002');
    expect(stdout).toMatch(/^item 1002 · Basalt Kit · live\n/);
    expect(stdout).toMatch(/\nversion +9\.9\n/);
    expect(stdout).toMatch(/\npurchases +0\n/);
    const prices = stdout.slice(stdout.indexOf('\nprices\n')).split('\n').slice(3, 5);
    expect(prices.map((line) => line.split(/ {2,}/)[1])).toEqual(['19.00 USD', '21.50 USD']);

    const [listed] = await rows('--item', '1002');
    expect(JSON.parse(await show('items', 'show', '1002', '--json'))).toMatchObject({
      ...listed,
      purchases: 0,
      raw: { id: 1002, name: 'Basalt \u001B[31mKit' },
      price_history: [{ currency: 'USD' }, { currency: 'USD' }],
    });
  });

  it('prints the same JSON on a terminal: text is neither wrapped nor changed', async () => {
    const { catalogue, sync } = await marketOf(mirror(), 3);
    catalogue.change(1002, { name: `A long name ${'and on '.repeat(20)}\`seller-mirror sync\`` });
    await sync();
    const args = ['items', 'show', '1002', '--json'];
    const { stdout } = await run(args, store(), { terminal: ['stdout'] });
    expect(stdout).toBe(await printed(args, store()));
    expect(stdout).toContain('`seller-mirror sync`');
  });
});

/** Two runs; the second quarantines a record. */
async function twoRuns(): Promise<bigint> {
  const { catalogue, sync } = await marketOf(mirror(), 12, { profile: 'field-2' });
  await sync();
  catalogue.breakRecord(
    1003,
    `{"id":1003,"name":"\u001B]0;owned\u0007","price":"${'x'.repeat(5000)}"}`,
  );
  return (await sync()).runId;
}

describe('runs', () => {
  it('lists the newest first, up to --limit', async () => {
    const newest = await twoRuns();
    const [head, first, ...rest] = (await show('runs', 'list', '--limit', '1'))
      .trimEnd()
      .split('\n');
    expect(head).toMatch(/^ *run +seller +kind +state +started/);
    expect(first).toMatch(new RegExp(`^ *${newest} +main +items +succeeded`));
    expect(rest).toEqual([]);
  });

  it('numbers records on, although long lists are read page by page', async () => {
    await addSeller('main');
    await mirror().rows(
      `INSERT INTO mirror.runs (seller_id, kind, state, holder, finished_at)
       SELECT 'main', 'items', 'succeeded', 'a test', now() FROM generate_series(1, 501)`,
    );
    expect(await show('runs', 'list', '--vertical', '--limit', '501')).toContain('── 501 ──');
    const cut = await run(['runs', '--json'], store());
    expect(cut.stderr).toBe('more than 20 runs; --limit shows more\n');
    expect(JSON.parse(cut.stdout)).toHaveLength(20);
    expect((await run(['runs', '-q'], store())).stderr, 'quiet').toBe('');
    expect((await run(['runs', '--limit', '5'], store())).stderr, 'as was asked').toBe('');
    const file = freePath('ndjson');
    await show('runs', '-o', file);
    expect(readFileSync(file, 'utf8').trim().split('\n'), 'a file has all').toHaveLength(501);
    const refused = await run(['runs', '--json', '-o', file], store());
    expect(refused.stderr).toMatch(/^error: --json and the ending of "[^"]*\.ndjson" differ\n/);
    expect(refused.code).toBe(2);
  });

  it('shows one run: figures, warnings, quirks, and the beginning of unreadable records', async () => {
    const id = await twoRuns();
    const stdout = await show('runs', 'show', String(id));
    expect(stdout).toContain(`run ${id} · main · items · succeeded`);
    expect(stdout).toMatch(/^listed +12$/m);
    expect(stdout).toMatch(/^quarantined +1$/m);
    expect(stdout).toContain('could not be read and are in mirror.quarantine');
    expect(stdout).toContain('envelope.items-object');
    expect(stdout).toMatch(/\n1003  is not JSON: .*  \{"id":1003,"name":"","price":"x+…\n/);
    expect(Math.max(...stdout.split('\n').map((line) => line.length))).toBeLessThan(400);
    expect(JSON.parse(await show('runs', 'show', String(id), '--json'))).toMatchObject({
      run: { run_id: Number(id), quarantined: 1 },
      quarantine: [{ item_id: 1003, raw: expect.stringMatching(/^\{"id":1003.*…$/s) as string }],
    });
  });
});

/** Forty items; then twenty are gone, one with control characters in its name, and the others have a new price. */
async function held() {
  const { catalogue, sim, sync: mirrorItems, env } = await marketOf(mirror(), 40);
  catalogue.change(1001, { name: 'Evil \u001B]0;owned\u0007\u202E name' });
  await mirrorItems();
  for (const { id } of [...catalogue.truth()]) {
    if (id <= 1020) catalogue.remove(id);
    else catalogue.change(id, { priceRegularCents: 100 });
  }
  const sync = await run(['sync', 'items'], env);
  const [newest] = await mirror().rows<{ id: string }>('SELECT max(run_id) AS id FROM mirror.runs');
  return { sim, env, sync, id: newest?.id ?? '' };
}

describe('held removals', () => {
  it('are shown by sync, status and runs, with names, both remedies and wide changes', async () => {
    const { env, sync, id } = await held();
    expect(sync.code).toBe(3);
    const sentence = '20 of 40 items are no longer listed (1001 Evil';
    const remedies = (words: (verb: string) => string): string[] => ['accept', 'keep'].map(words);
    const bySync = remedies((verb) => `seller-mirror sync --${verb}-removals ${id}`);
    const byRuns = remedies((verb) => `seller-mirror runs ${verb} ${id}`);
    const wide = 'price_regular changed in all 20 items';
    const status = await printed(['status'], env);
    for (const [stdout, actions] of [
      [sync.stdout, bySync],
      [status, bySync],
      [await show('runs', 'show', id), byRuns],
    ] as const) {
      for (const words of [sentence, 'and 17 more', ...actions, wide]) {
        expect(stdout).toContain(words);
      }
      expect(stdout).not.toMatch(/(?!\n)\p{Cc}|\u202E/u);
    }
    expect(status).toMatch(/^ {2}needs you +.*run \d+: 20 of 40 items/m);
    expect(JSON.parse(await printed(['status', '--json'], env))).toMatchObject([
      {
        last_problem: null,
        held: { run_id: Number(id), items: 20, confirmed: 20, present: 40 },
        last_wide: { changes: [{ field: 'price_regular', items: 20, of: 20 }] },
      },
    ]);
    expect(await show('runs')).toMatch(new RegExp(`^${id} +main +items +removals held `, 'm'));
  });

  it('can be accepted, and the runs then say what went', async () => {
    const { env, id } = await held();
    expect(await show('sync', '--accept-removals', id)).toMatch(
      /^✓ main · 20 of 20 items removed \(run \d+\)\n$/,
    );
    const status = await printed(['status'], env);
    expect(status).toContain('20 live · 0 missing · 20 removed');
    expect(status).not.toMatch(/held|remedy|needs you/);
    expect(await show('runs', 'show', id)).toMatch(
      /20 are removed\.\n[^]*\nremovals accepted +by run \d+, which removed them\n/,
    );
    const [accepting] = JSON.parse(await show('runs', '--json', '--limit', '1')) as [
      { run_id: number },
    ];
    expect(await show('runs', 'show', String(accepting.run_id))).toMatch(
      /accepted by .* on .*: the removals that run \d+ shows[^]*^removed +20$/m,
    );
  });

  it('can be kept, which leaves the items missing', async () => {
    const { env, id } = await held();
    expect(await show('sync', '--keep-removals', id)).toContain('20 items stay missing');
    await printed(['sync', 'items'], env);
    expect(await printed(['status'], env)).toContain('20 live · 20 missing · 0 removed');
  });

  it('can’t be accepted while another run of the seller is under way', async () => {
    const { sim, env, id } = await held();
    const running = await startSync(sim, env);
    const { code, stderr } = await run(['sync', '--accept-removals', id], env);
    running.process.kill('SIGKILL');
    expect(stderr).toMatch(/^error: seller "main" is already being mirrored by .*\n {2}→ /);
    expect(code).toBe(1);
  });
});
