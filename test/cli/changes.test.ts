import fc from 'fast-check';
import { describe, expect, it, onTestFinished } from 'vitest';
import { ChangeLines } from '../../src/cli/change-lines.js';
import { width } from '../../src/cli/output/text.js';
import type { ChangeClass } from '../../src/domain/changes.js';
import type { ItemChange } from '../../src/store/item-changes.js';
import { useMirror } from '../support/mirror.js';
import { startProxy } from '../support/tcp-proxy.js';
import { marketOf, run, start, until } from './support.js';

const mirror = useMirror();
const env = () => ({ DATABASE_URL: mirror().databaseUrl });

/** A mirrored catalogue, and what mirrors it again. */
async function market(count = 12) {
  const { catalogue, sync } = await marketOf(mirror(), count);
  await sync();
  return { catalogue, sync };
}

async function changed() {
  const { catalogue, sync } = await market();
  catalogue.change(1001, { priceRegularCents: 1000 });
  await sync();
  catalogue.change(1001, { priceRegularCents: 800, tags: ['new \u001B[31mtag'] });
  catalogue.change(1002, { currency: 'EUR', priceRegularCents: 900 });
  catalogue.change(1003, { name: 'Evil \u001B]0;owned\u0007\u202E name' });
  catalogue.remove(1004);
  const { runId } = await sync();
  return { catalogue, sync, runId };
}

interface Feed {
  readonly changes: readonly {
    readonly seq: number;
    readonly field: string;
    readonly percent: string | null;
  }[];
  readonly next: number;
  readonly more: boolean;
}

const feed = async (...args: string[]): Promise<Feed> =>
  JSON.parse((await run(['changes', '--json', ...args], env())).stdout) as Feed;

describe('changes', () => {
  it('are told run by run and item by item, as a person reads them, hostile text made harmless', async () => {
    const { runId } = await changed();
    const { code, stdout } = await run(['changes'], env());
    expect(code).toBe(0);
    const last = stdout.split(/^(?=run )/m).at(-1) ?? '';
    expect(last).toMatch(new RegExp(`^run ${runId} · main · 2\\d{3}-.*Z\n`));
    expect(last).toMatch(
      / {2}1001 .+\n {4}tags {2,}\+new tag .*\n {4}regular price {2}10\.00 → 8\.00 USD \(-20\.0 %\)\n/,
    );
    expect(last).toMatch(/regular price {2}\d+\.\d\d USD → 9\.00 EUR\n {4}currency {7}USD → EUR\n/);
    expect(last).toMatch(/ {2}1003 Evil +name\n {4}name {2}.+ → Evil +name\n/);
    expect(last).toMatch(/ {2}1004 .+ {2}removed\n$/);
    expect(stdout).not.toMatch(/(?!\n)\p{Cc}|\u202E/u);
  });

  it('are chosen by class, item and time, and say so when there are none', async () => {
    await changed();
    const prices = await feed('--class', 'price', '--item', '1001');
    expect(prices.changes).toMatchObject([
      { field: 'price_regular', new_value: '10.00' },
      { field: 'price_regular', new_value: '8.00', currency: 'USD', percent: '-20.00' },
    ]);
    const csv = ['changes', '--class', 'price', '--item', '1001', '--format', 'csv'];
    const excel = await run([...csv, '--decimal-comma'], env());
    expect(excel.stdout).toContain(';price_regular;10,00;8,00;USD\r\n');
    const { stdout } = await run(['changes', '--since', '2999-01-01'], env());
    expect(stdout).toBe('No such changes.\n');
    expect((await feed('--since', '1h', '--class', 'removed,restored')).changes).toHaveLength(1);
  });

  it('of an older time are told with the currency of that time', async () => {
    const { catalogue, sync } = await changed();
    catalogue.change(1001, { currency: 'EUR' });
    await sync();
    const { stdout } = await run(['changes', '--item', '1001', '--class', 'price'], env());
    expect(stdout).toContain('10.00 → 8.00 USD (-20.0 %)');
    expect(stdout).toContain('USD → EUR');
  });

  it('can be read in portions, each from where the last one ended, without a gap or a repetition', async () => {
    const { sync, catalogue } = await changed();
    const all = await feed('--since', '0');
    expect(all.more).toBe(false);
    const first = await feed('--since', '#0', '--limit', '3');
    expect(first).toMatchObject({ more: true, next: first.changes.at(-1)?.seq });
    const rest = await feed('--since', String(first.next));
    expect([...first.changes, ...rest.changes]).toEqual(all.changes);
    expect(rest.next).toBe(all.next);
    catalogue.change(1005, { name: 'Later' });
    await sync();
    expect((await feed('--since', String(all.next))).changes).toMatchObject([{ field: 'name' }]);
    const newest = await feed('--limit', '1');
    expect(newest).toMatchObject({ more: true, changes: [{ field: 'name' }] });
  });

  it('are refused after a number that was never given: a year, or one from before the store was restored', async () => {
    const { next } = await changed().then(() => feed());
    expect((await feed('--since', String(next))).changes).toEqual([]);
    for (const more of [[], ['--follow']]) {
      const { code, stderr } = await run(['changes', '--since', '99999999', ...more], env());
      expect(stderr).toMatch(
        /there is no change 99999999 yet: .*\n.*such as 2026-01-01.*--since 0/,
      );
      expect(code).toBe(1);
    }
  });

  it('before there are any says where history begins', async () => {
    await market();
    expect(await run(['changes'], env())).toMatchObject({
      code: 0,
      stdout: expect.stringMatching(/^No changes yet: the first list starts the history/) as string,
    });
  });
});

/** A catalogue of 60 items: all got a version in run A, 40 of them another one in run B, with a new name. */
async function released() {
  const { catalogue, sync } = await market(60);
  const ids = Array.from({ length: 60 }, (_, n) => 1001 + n);
  for (const id of ids) catalogue.change(id, { version: '1.0' });
  await sync();
  for (const id of ids.slice(0, 40)) catalogue.change(id, { version: '2.0' });
  for (const id of ids.slice(0, 30)) catalogue.change(id, { demoLink: 'https://demo.example' });
  catalogue.change(1001, { name: 'A new name' });
  await sync();
  return { catalogue, sync };
}

describe('changes that most items of a run share', () => {
  it('are one line, so that the others are seen; --all, JSON and CSV have each', async () => {
    await released();
    const { stdout, stderr } = await run(['changes'], env());
    expect(stdout).toMatch(
      /^run .*\n {2}version: changed in 60 of 60 items \(--all shows each\)\n\nrun /,
    );
    expect(stdout).toContain('  version: 1.0 → 2.0 in 40 of 60 items (--all shows each)\n');
    expect(stdout).toMatch(/ {4}name .* → A new name\n/);
    // Half of them is not most.
    expect(stdout.match(/→ https:/g)).toHaveLength(30);
    // 33 changes are fewer than the newest 50.
    expect(stderr).toBe('');
    const all = await run(['changes', '--all', '--since', '0'], env());
    expect(all.stdout.match(/ {4}version /g)).toHaveLength(100);
    expect(all.stdout).not.toContain('--all');
    const { changes } = await feed('--since', '0');
    expect(changes.filter(({ field }) => field === 'version')).toHaveLength(100);
    const csv = await run(['changes', '--since', '0', '--format', 'csv'], env());
    expect(csv.stdout).toMatch(
      /^seq,seller_id,run_id,changed_at,item_id,item_name,class,field,old_value,new_value,currency\r\n/,
    );
    expect(csv.stdout.match(/,release,version,1\.0,2\.0,\r\n/g)).toHaveLength(40);
    const one = await run(['changes', '--item', '1002'], env());
    expect(one.stdout).toMatch(/ {4}version .*1\.0 → 2\.0\n/);
  });

  it('are told once when changes are read in portions, and none is left out', async () => {
    await released();
    const lines: string[] = [];
    let next: string | undefined = '0';
    while (next !== undefined) {
      const { stdout, stderr } = await run(['changes', '--since', next, '--limit', '8'], env());
      lines.push(...stdout.split('\n').filter((line) => line.includes('→') || line.includes(': ')));
      next = /--since (\d+)/.exec(stderr)?.[1];
    }
    expect(lines.filter((line) => line.includes('items'))).toHaveLength(2);
    expect(lines.filter((line) => line.includes('https:'))).toHaveLength(30);
    expect(lines.filter((line) => line.includes('A new name'))).toHaveLength(1);
  });
});

describe('changes --summary', () => {
  it('counts changes by seller, class and field, of those that were asked for', async () => {
    await released();
    const { stdout } = await run(['changes', '--summary'], env());
    expect(stdout).toMatch(
      /^seller +class +field +changes +items\nmain +release +version +100 +60\nmain +text +demo_link +30 +30\nmain +text +name +1 +1\n$/,
    );
    const json = await run(
      ['changes', '--summary', '--class', 'text', '--since', '1h', '--json'],
      env(),
    );
    const main = { seller_id: 'main', class: 'text' };
    expect(JSON.parse(json.stdout)).toEqual({
      changes: 31,
      counts: [
        { ...main, field: 'demo_link', changes: 30, items: 30 },
        { ...main, field: 'name', changes: 1, items: 1 },
      ],
    });
    const csv = await run(['changes', '--summary', '--item', '1040', '--format', 'csv'], env());
    expect(csv.stdout).toBe('seller_id,class,field,changes,items\r\nmain,release,version,2,1\r\n');
    const none = await run(['changes', '--summary', '--since', '2999-01-01'], env());
    expect(none.stdout).toBe('No such changes.\n');
  });

  it('has no field for items that came or went', async () => {
    await changed();
    const { stdout } = await run(['changes', '--summary', '--class', 'removed', '--json'], env());
    expect(JSON.parse(stdout)).toEqual({
      changes: 1,
      counts: [{ seller_id: 'main', class: 'removed', field: null, changes: 1, items: 1 }],
    });
  });
});

describe('changes --follow', () => {
  it('tells what is committed, each once, also after the database was away; Ctrl-C ends it with 0', async () => {
    const { catalogue, sync } = await changed();
    const url = new URL(mirror().databaseUrl);
    const proxy = await startProxy({ host: url.hostname, port: Number(url.port) });
    onTestFinished(() => proxy.close());
    url.port = String(proxy.port);
    const following = start(['changes', '--follow', '--json', '--since', '0'], {
      DATABASE_URL: url.href,
    });
    const told = (): Feed['changes'] =>
      following
        .stdout()
        .split('\n')
        .slice(0, -1)
        .map((line) => JSON.parse(line) as Feed['changes'][number]);
    const before = (await feed('--since', '0')).changes.length;
    await until(() => told().length === before);

    await proxy.set('refuse');
    catalogue.change(1006, { name: 'While it was away' });
    await sync();
    await until(() => following.stderr().includes('trying again'));
    await proxy.set('pass');
    await until(() => told().length > before);
    catalogue.change(1006, { name: 'Afterwards' });
    await sync();
    await until(() => told().length > before + 1);

    following.process.kill('SIGINT');
    const { code, stderr } = await following.ended;
    expect(code).toBe(0);
    expect(stderr).toMatch(/^database .*; trying again\nthe database is back\n$/);
    const { changes } = await feed('--since', '0');
    expect(told().map(({ seq }) => seq)).toEqual(changes.map(({ seq }) => seq));
  });

  it('folds what most items of a run share, also where a run is longer than a page of the feed', async () => {
    const { catalogue, sync } = await released();
    const following = start(['changes', '--follow', '--since', '0'], env());
    for (let id = 1061; id <= 1800; id++) {
      catalogue.add({ ...catalogue.original(0), id, version: `0.${id}` });
    }
    await sync();
    await until(() => following.stdout().includes('added: 740 of 800 items'));
    for (let id = 1001; id <= 1700; id++) catalogue.change(id, { version: '3.0' });
    catalogue.change(1800, { name: 'The last' });
    await sync();
    await until(() => following.stdout().includes('The last'));
    following.process.kill('SIGINT');
    const { stdout } = await following.ended;
    expect(stdout.match(/^ {2}version: changed in .*/gm)).toEqual([
      '  version: changed in 60 of 60 items (--all shows each)',
      '  version: changed in 700 of 800 items (--all shows each)',
    ]);
    expect(stdout.match(/ {4}version /g)).toBeNull();
  });

  it('begins with the newest ones, goes on within a run without its title again, and says where it ended', async () => {
    const { catalogue, sync } = await changed();
    const following = start(['changes', '--follow', '--limit', '1'], env());
    await until(() => following.stdout().includes('removed'));
    catalogue.change(1007, { version: '9.9.9' });
    const { runId } = await sync();
    await until(() => following.stdout().includes('9.9.9'));
    following.process.kill('SIGTERM');
    const { code, stdout, stderr } = await following.ended;
    expect(code).toBe(0);
    expect(stdout.match(/^run /gm)).toHaveLength(2);
    expect(stdout).toMatch(new RegExp(`\n\nrun ${runId} · main`));
    const { next } = await feed('--since', '0');
    expect(stderr).toBe(`to continue from here: --since ${next} --follow\n`);
  });
});

const CHANGE: ItemChange = {
  seq: 1n,
  sellerId: 'main',
  itemId: 7n,
  itemName: 'Seven',
  runId: 3n,
  changedAt: new Date(0),
  class: 'text',
  field: 'description',
  old: null,
  new: null,
  currencies: null,
};

const told = (changes: readonly Partial<ItemChange>[], columns: number | null = null): string =>
  new ChangeLines({ columns, colour: false }).of({
    changes: changes.map((one) => ({ ...CHANGE, ...one })),
    folds: [],
  });

describe('the lines of changes', () => {
  it('of folds come before the items of their run, each as one line that says how to see all', () => {
    const fold = {
      runId: 3n,
      sellerId: 'main',
      changedAt: new Date(0),
      class: 'text' as ChangeClass,
      items: 4_812,
      of: 5_000,
      place: 9n,
    };
    const lines = new ChangeLines({ columns: null, colour: false }).of({
      changes: [{ ...CHANGE, seq: 4n, field: 'name', old: 'Six', new: 'Seven' }],
      folds: [
        { ...fold, field: 'category', same: { old: 'A', new: null } },
        { ...fold, field: 'tags', same: { old: ['a', 'b'], new: ['b', 'c'] } },
        { ...fold, field: 'price_regular', class: 'price', same: { old: '10.00', new: '8.00' } },
        { ...fold, field: 'thumbnail_url', class: 'media', same: null },
        { ...fold, field: 'state', class: 'removed', same: { old: 'live', new: 'removed' } },
      ],
    });
    const many = '4,812 of 5,000 items (--all shows each)';
    expect(lines.split('\n')).toEqual([
      'run 3 · main · 1970-01-01 00:00:00Z',
      `  category: A → – in ${many}`,
      `  tags: +c −a in ${many}`,
      `  regular price: 10.00 → 8.00 (-20.0 %) in ${many}`,
      `  thumbnail: changed in ${many}`,
      `  removed: ${many}`,
      '  7 Seven',
      '    name  Six → Seven',
      '',
    ]);
  });

  it('name each item as its own seller does: marketplaces number their items alike', () => {
    const lines = told([
      { sellerId: 'a', itemName: 'Of the first', field: 'name', old: '1', new: '2' },
      { sellerId: 'b', itemName: 'Of the second', field: 'name', old: '1', new: '2' },
    ]);
    expect(lines).toMatch(/ · a · [^]* {2}7 Of the first\n[^]* · b · [^]* {2}7 Of the second\n/);
  });

  it('show what differs in texts of wide characters, which take twice the room', () => {
    const visible = fc.constantFrom('日', '本', 'あ', '🎨', 'a', 'é', '<p>', ' layout ');
    const text = fc.array(visible, { maxLength: 120 }).map((parts) => parts.join('').trim());
    const columns = fc.constantFrom(null, 40, 80, 200);
    fc.assert(
      fc.property(text, visible, visible, text, columns, (start, a, b, end, room) => {
        fc.pre(a.trim() !== b.trim());
        const lines = told([{ old: `${start}${a}${end}`, new: `${start}${b}${end}` }], room);
        expect(lines).not.toContain('invisible');
        if (room === null) return;
        for (const line of lines.split('\n')) expect(width(line)).toBeLessThanOrEqual(room);
      }),
    );
  });
});
