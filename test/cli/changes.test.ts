import { describe, expect, it, onTestFinished } from 'vitest';
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
  it('are listed oldest first, without control characters', async () => {
    await changed();
    const stdout = await changes();
    expect(stdout).toMatch(/^at +seller +item +name +what +change\n/);
    expect(stdout).toMatch(/ main +1001 .+ {2}tags +\+new tag .*\n/);
    expect(stdout).toMatch(/ 1001 .+ {2}regular price +10\.00 → 8\.00 USD \(-20\.0 %\)\n/);
    expect(stdout).toMatch(/regular price +\d+\.\d\d USD → 9\.00 EUR\n.* {2}currency +USD → EUR\n/);
    expect(stdout).toMatch(/ 1003 +Evil +name +name +.+ → Evil +name\n/);
    expect(stdout).toMatch(/ 1004 .+ {2}state +removed\n$/);
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
    expect(excel).toContain(';price_regular;10,00;8,00;USD;-20,00\r\n');
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
    expect(stdout).toMatch(/\n.* 60 of 60 items +version +changed\n/);
    expect(stdout).toMatch(/\n.* 40 of 60 items +version +1\.0 → 2\.0\n/);
    expect(stdout).toMatch(/ {2}name .* → A new name\n/);
    // Each link was another one before, and 30 of 60 is not more than half.
    expect(stdout.match(/→ https:/g)).toHaveLength(30);
    // With folds, 33 changes: fewer than the 50 newest.
    expect(stderr).toBe('');
    const all = await changes('--all', '--since', '0');
    expect(all.match(/ {2}version /g)).toHaveLength(100);
    expect(all).not.toContain(' of 60 items');
    const json = await readJson('--since', '0');
    expect(json.changes.filter(({ field }) => field === 'version')).toHaveLength(100);
    const csv = await changes('--since', '0', '--format', 'csv');
    expect(csv).toMatch(
      /^seq,seller_id,run_id,changed_at,item_id,item_name,class,field,old_value,new_value,currency,percent\r\n/,
    );
    expect(csv.match(/,release,version,1\.0,2\.0,,\r\n/g)).toHaveLength(40);
    expect(await changes('--item', '1002')).toMatch(/ {2}version .*1\.0 → 2\.0\n/);
  });

  it('are one line for more than 20 items, however many others there are: rows of missing items hid the rest', async () => {
    const { catalogue, sync } = await market(60);
    for (let id = 1001; id <= 1025; id++) catalogue.remove(id);
    catalogue.change(1060, { name: 'A new name' });
    await sync();
    const stdout = await changes();
    expect(stdout).toMatch(/ 25 of 60 items +/);
    expect(stdout).toContain('→ A new name');
    expect(stdout).not.toContain(' 1025 ');
    expect(await changes('--all')).toContain(' 1025 ');
  });

  it('are shown once, and with all others, when changes are read page by page', async () => {
    await released();
    const lines: string[] = [];
    let next: string | undefined = '0';
    while (next !== undefined) {
      const { stdout, stderr } = await run(['changes', '--since', next, '--limit', '8'], env());
      lines.push(...stdout.split('\n'));
      next = /--since (\d+)/.exec(stderr)?.[1];
    }
    expect(lines.filter((line) => line.includes('items'))).toHaveLength(2);
    expect(lines.filter((line) => line.includes('https:'))).toHaveLength(30);
    expect(lines.filter((line) => line.includes('→ A new name'))).toHaveLength(1);
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
    await until(() => following.stdout().match(/740 of 800 items +state +added/) !== null);
    for (let id = 1001; id <= 1700; id++) catalogue.change(id, { version: '3.0' });
    catalogue.change(1800, { name: 'The last' });
    await sync();
    await until(() => following.stdout().includes('The last'));
    following.process.kill('SIGINT');
    const { stdout } = await following.ended;
    expect(stdout.match(/\d+ of \d+ items +version +changed/g)).toEqual([
      expect.stringContaining('60 of 60 items'),
      expect.stringContaining('700 of 800 items'),
    ]);
    expect(stdout.match(/ {2}version /g)).toHaveLength(3);
  });

  it('starts with the newest changes, has one header, and says how to continue', async () => {
    const { catalogue, sync } = await changed();
    const following = start(['changes', '--follow', '--limit', '1'], env());
    await until(() => following.stdout().includes('removed'));
    catalogue.change(1007, { version: '9.9.9' });
    await sync();
    await until(() => following.stdout().includes('9.9.9'));
    following.process.kill('SIGTERM');
    const { code, stdout, stderr } = await following.ended;
    expect(code).toBe(0);
    expect(stdout.match(/^at +seller/gm)).toHaveLength(1);
    expect(stdout.trimEnd().split('\n')).toHaveLength(3);
    const { next } = await readJson('--since', '0');
    expect(stderr).toBe(`to continue from here: --since ${next} --follow\n`);
  });
});
