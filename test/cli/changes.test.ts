import fc from 'fast-check';
import { describe, expect, it, onTestFinished } from 'vitest';
import { ChangeLines } from '../../src/cli/change-lines.js';
import { width } from '../../src/cli/output/text.js';
import type { ChangeClass } from '../../src/catalogue/changes.js';
import type { ItemChange } from '../../src/catalogue/item-changes-store.js';
import { useMirror } from '../support/mirror.js';
import { startProxy } from '../support/tcp-proxy.js';
import { until } from '../support/until.js';
import { marketOf, printed, run, start } from './support.js';

const mirror = useMirror();
const env = () => ({ DATABASE_URL: mirror().databaseUrl });

/** A mirrored catalogue, and a function that mirrors it again. */
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

interface ChangesPage {
  readonly changes: readonly {
    readonly seq: number;
    readonly field: string;
    readonly percent: string | null;
  }[];
  readonly next: number;
  readonly more: boolean;
}

const changes = (...args: string[]) => printed(['changes', ...args], env());
const readJson = async (...args: string[]) =>
  JSON.parse(await changes('--json', ...args)) as ChangesPage;

describe('changes', () => {
  it('are listed by run and item, without control characters', async () => {
    const { runId } = await changed();
    const stdout = await changes();
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

  it('can be filtered by class, item and time', async () => {
    await changed();
    const prices = await readJson('--class', 'price', '--item', '1001');
    expect(prices.changes).toMatchObject([
      { field: 'price_regular', new_value: '10.00' },
      { field: 'price_regular', new_value: '8.00', currency: 'USD', percent: '-20.00' },
    ]);
    const csv = ['--class', 'price', '--item', '1001', '--format', 'csv'];
    const excel = await changes(...csv, '--decimal-comma');
    expect(excel).toContain(';price_regular;10,00;8,00;USD\r\n');
    expect(await changes('--since', '2999-01-01')).toBe('No such changes.\n');
    expect((await readJson('--since', '1h', '--class', 'removed,restored')).changes).toHaveLength(
      1,
    );
  });

  it('show prices in the currency of their time', async () => {
    const { catalogue, sync } = await changed();
    catalogue.change(1001, { currency: 'EUR' });
    await sync();
    const stdout = await changes('--item', '1001', '--class', 'price');
    expect(stdout).toContain('10.00 → 8.00 USD (-20.0 %)');
    expect(stdout).toContain('USD → EUR');
  });

  it('can be read page by page, without gaps or repetitions', async () => {
    const { sync, catalogue } = await changed();
    const all = await readJson('--since', '0');
    expect(all.more).toBe(false);
    const first = await readJson('--since', '#0', '--limit', '3');
    expect(first).toMatchObject({ more: true, next: first.changes.at(-1)?.seq });
    const rest = await readJson('--since', String(first.next));
    expect([...first.changes, ...rest.changes]).toEqual(all.changes);
    expect(rest.next).toBe(all.next);
    catalogue.change(1005, { name: 'Later' });
    await sync();
    expect((await readJson('--since', String(all.next))).changes).toMatchObject([
      { field: 'name' },
    ]);
    const newest = await readJson('--limit', '1');
    expect(newest).toMatchObject({ more: true, changes: [{ field: 'name' }] });
  });

  it('refuse --since with a number that no change has yet, such as a year', async () => {
    const { next } = await changed().then(() => readJson());
    expect((await readJson('--since', String(next))).changes).toEqual([]);
    for (const more of [[], ['--follow']]) {
      const { code, stderr } = await run(['changes', '--since', '99999999', ...more], env());
      expect(stderr).toMatch(
        /there is no change 99999999 yet: .*\n.*such as 2026-01-01.*--since 0/,
      );
      expect(code).toBe(1);
    }
  });

  it('explain where history begins if there are none', async () => {
    await market();
    expect(await changes()).toMatch(/^No changes yet: the first list starts the history/);
  });
});

/** 60 items: run A changes the version of all; run B changes 40 versions, 30 links and a name. */
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
  it('are one line; --all, JSON and CSV have each', async () => {
    await released();
    const { stdout, stderr } = await run(['changes'], env());
    expect(stdout).toMatch(
      /^run .*\n {2}version: changed in 60 of 60 items \(--all shows each\)\n\nrun /,
    );
    expect(stdout).toContain('  version: 1.0 → 2.0 in 40 of 60 items (--all shows each)\n');
    expect(stdout).toMatch(/ {4}name .* → A new name\n/);
    // 30 of 60 is not more than half.
    expect(stdout.match(/→ https:/g)).toHaveLength(30);
    // With folds, 33 changes: fewer than the 50 newest.
    expect(stderr).toBe('');
    const all = await changes('--all', '--since', '0');
    expect(all.match(/ {4}version /g)).toHaveLength(100);
    expect(all).not.toContain('--all');
    const json = await readJson('--since', '0');
    expect(json.changes.filter(({ field }) => field === 'version')).toHaveLength(100);
    const csv = await changes('--since', '0', '--format', 'csv');
    expect(csv).toMatch(
      /^seq,seller_id,run_id,changed_at,item_id,item_name,class,field,old_value,new_value,currency\r\n/,
    );
    expect(csv.match(/,release,version,1\.0,2\.0,\r\n/g)).toHaveLength(40);
    expect(await changes('--item', '1002')).toMatch(/ {4}version .*1\.0 → 2\.0\n/);
  });

  it('are shown once, and with all others, when changes are read page by page', async () => {
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
  it('counts the selected changes by seller, class and field', async () => {
    await released();
    expect(await changes('--summary')).toMatch(
      /^seller +class +field +changes +items\nmain +release +version +100 +60\nmain +text +demo_link +30 +30\nmain +text +name +1 +1\n$/,
    );
    const json = await changes('--summary', '--class', 'text', '--since', '1h', '--json');
    const main = { seller_id: 'main', class: 'text' };
    expect(JSON.parse(json)).toEqual({
      changes: 31,
      counts: [
        { ...main, field: 'demo_link', changes: 30, items: 30 },
        { ...main, field: 'name', changes: 1, items: 1 },
      ],
    });
    const csv = await changes('--summary', '--item', '1040', '--format', 'csv');
    expect(csv).toBe('seller_id,class,field,changes,items\r\nmain,release,version,2,1\r\n');
    expect(await changes('--summary', '--since', '2999-01-01')).toBe('No such changes.\n');
  });

  it('has no field for added and removed items', async () => {
    await changed();
    expect(JSON.parse(await changes('--summary', '--class', 'removed', '--json'))).toEqual({
      changes: 1,
      counts: [{ seller_id: 'main', class: 'removed', field: null, changes: 1, items: 1 }],
    });
  });
});

describe('changes --follow', () => {
  it('prints each change once, also after an outage of the database; Ctrl-C exits with 0', async () => {
    const { catalogue, sync } = await changed();
    const url = new URL(mirror().databaseUrl);
    const proxy = await startProxy({ host: url.hostname, port: Number(url.port) });
    onTestFinished(() => proxy.close());
    url.port = String(proxy.port);
    const following = start(['changes', '--follow', '--json', '--since', '0'], {
      DATABASE_URL: url.href,
    });
    const shown = (): ChangesPage['changes'] =>
      following
        .stdout()
        .split('\n')
        .slice(0, -1)
        .map((line) => JSON.parse(line) as ChangesPage['changes'][number]);
    const before = (await readJson('--since', '0')).changes.length;
    await until(() => shown().length === before);

    await proxy.set('refuse');
    catalogue.change(1006, { name: 'While it was away' });
    await sync();
    await until(() => following.stderr().includes('trying again'));
    await proxy.set('pass');
    await until(() => shown().length > before);
    catalogue.change(1006, { name: 'Afterwards' });
    await sync();
    await until(() => shown().length > before + 1);

    following.process.kill('SIGINT');
    const { code, stderr } = await following.ended;
    expect(code).toBe(0);
    expect(stderr).toMatch(/^database .*; trying again\nthe database is back\n$/);
    const all = await readJson('--since', '0');
    expect(shown().map(({ seq }) => seq)).toEqual(all.changes.map(({ seq }) => seq));
  });

  it('ends when the reader of stdout goes away', async () => {
    const { catalogue, sync } = await changed();
    const following = start(['changes', '--follow', '--json', '--since', '0'], env());
    await until(() => following.stdout() !== '');
    following.process.stdout.destroy();
    catalogue.change(1006, { name: 'Nobody reads it' });
    await sync();
    expect(await following.ended).toMatchObject({ code: 0, stderr: '' });
  });

  it('folds changes that most items of a run share, also in runs longer than a page', async () => {
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

  it('starts with the newest changes, prints each run’s title once, and says how to continue', async () => {
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
    const { next } = await readJson('--since', '0');
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

const linesOf = (changes: readonly Partial<ItemChange>[], columns: number | null = null): string =>
  new ChangeLines({ columns, colour: false }).format({
    changes: changes.map((one) => ({ ...CHANGE, ...one })),
    folds: [],
  });

describe('the lines of changes', () => {
  it('start with the folds of a run, each one line that says how to see all', () => {
    const fold = {
      runId: 3n,
      sellerId: 'main',
      changedAt: new Date(0),
      class: 'text' as ChangeClass,
      items: 4_812,
      of: 5_000,
      place: 9n,
    };
    const lines = new ChangeLines({ columns: null, colour: false }).format({
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

  it('name items per seller, since marketplaces may use the same ids', () => {
    const lines = linesOf([
      { sellerId: 'a', itemName: 'Of the first', field: 'name', old: '1', new: '2' },
      { sellerId: 'b', itemName: 'Of the second', field: 'name', old: '1', new: '2' },
    ]);
    expect(lines).toMatch(/ · a · [^]* {2}7 Of the first\n[^]* · b · [^]* {2}7 Of the second\n/);
  });

  it('show the difference in texts of wide characters, which take two columns', () => {
    const visible = fc.constantFrom('日', '本', 'あ', '🎨', 'a', 'é', '<p>', ' layout ');
    const text = fc.array(visible, { maxLength: 120 }).map((parts) => parts.join('').trim());
    const columns = fc.constantFrom(null, 40, 80, 200);
    fc.assert(
      fc.property(text, visible, visible, text, columns, (start, a, b, end, room) => {
        fc.pre(a.trim() !== b.trim());
        const lines = linesOf([{ old: `${start}${a}${end}`, new: `${start}${b}${end}` }], room);
        expect(lines).not.toContain('invisible');
        if (room === null) return;
        for (const line of lines.split('\n')) expect(width(line)).toBeLessThanOrEqual(room);
      }),
    );
  });
});
