import { describe, expect, it } from 'vitest';
import { useMirror } from '../support/mirror.js';
import { marketOf, printed } from './support.js';

const mirror = useMirror();
const changes = (...args: string[]) =>
  printed(['changes', ...args], { DATABASE_URL: mirror().databaseUrl });

interface Change {
  readonly seq: number;
  readonly run_id: number;
  readonly field: string;
  readonly percent: string | null;
}
const readJson = async (...args: string[]) =>
  JSON.parse(await changes('--json', ...args)) as readonly Change[];

async function market(count = 12) {
  const { catalogue, sync } = await marketOf(mirror(), count);
  await sync();
  return { catalogue, sync };
}

/** Two nights of changes. */
async function changed() {
  const { catalogue, sync } = await market();
  catalogue.change(1001, { priceRegularCents: 1000 });
  await sync();
  catalogue.change(1001, { priceRegularCents: 800, tags: ['new \u001B[31mtag'] });
  catalogue.change(1002, { currency: 'EUR', priceRegularCents: 900 });
  catalogue.change(1003, { name: 'Evil \u001B]0;owned\u0007\u202E name' });
  catalogue.remove(1004);
  await sync();
  return { catalogue, sync };
}

describe('changes', () => {
  it('are listed newest first, without control characters', async () => {
    await changed();
    const stdout = await changes();
    expect(stdout).toMatch(/^at +seller +item +name +what +change\n.* 1004 .+ {2}state +removed\n/);
    expect(stdout).toMatch(/ main +1001 .+ {2}tags +\+new tag .*\n/);
    expect(stdout).toMatch(/ 1001 .+ {2}regular price +10\.00 → 8\.00 USD \(-20\.0 %\)\n/);
    expect(stdout).toMatch(/ {2}currency +USD → EUR\n.*regular price +\d+\.\d\d USD → 9\.00 EUR\n/);
    expect(stdout).toMatch(/ 1003 +Evil +name +name +.+ → Evil +name\n/);
    expect(stdout).not.toMatch(/(?!\n)\p{Cc}|\u202E/u);
  });

  it('show prices in the currency of their time', async () => {
    const { catalogue, sync } = await changed();
    catalogue.change(1001, { currency: 'EUR' });
    await sync();
    const stdout = await changes('--item', '1001', '--class', 'price');
    expect(stdout).toContain('10.00 → 8.00 USD (-20.0 %)');
    expect(stdout).toContain('USD → EUR');
  });

  it('can be filtered; JSON and CSV have the same values', async () => {
    await changed();
    expect(await readJson('--class', 'price', '--item', '1001')).toMatchObject([
      { field: 'price_regular', new_value: '8.00', currency: 'USD', percent: '-20.00' },
      { field: 'price_regular', new_value: '10.00' },
    ]);
    const csv = ['--class', 'price', '--item', '1001', '--format', 'csv'];
    expect(await changes(...csv, '--decimal-comma')).toMatch(
      /^\uFEFFseq;seller_id;run_id;changed_at;item_id;item_name;class;field;old_value;new_value;currency;percent\r\n.*;price_regular;10,00;8,00;USD;-20,00\r\n/,
    );
    const [newest] = await readJson('--limit', '1');
    const ofRun = await readJson('--run', String(newest?.run_id));
    expect(new Set(ofRun.map(({ run_id }) => run_id)).size).toBe(1);
    expect(ofRun.length).toBeLessThan((await readJson()).length);
    expect(await changes('--since', '2999-01-01')).toBe('No changes match the filter.\n');
    expect(await readJson('--since', '1h', '--class', 'removed')).toHaveLength(1);
  });

  it('explain where history begins if there are none', async () => {
    await market();
    expect(await changes()).toMatch(/^No changes yet: the first list starts the history/);
  });
});

describe('changes that many items of a run share', () => {
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
  }

  it('are one line; --all, JSON and CSV have each', async () => {
    await released();
    // With folds, 33 changes: fewer than the 50 newest.
    const stdout = await changes();
    expect(stdout).toMatch(/\n.* 60 of 60 items +version +changed\n/);
    expect(stdout).toMatch(/\n.* 40 of 60 items +version +1\.0 → 2\.0\n/);
    expect(stdout).toMatch(/ {2}name .* → A new name\n/);
    // Each link was another one before, and 30 of 60 is not more than half.
    expect(stdout.match(/→ https:/g)).toHaveLength(30);
    const all = await changes('--all', '--limit', '500');
    expect(all.match(/ {2}version /g)).toHaveLength(100);
    expect(all).not.toContain(' of 60 items');
    const json = await readJson('--limit', '500');
    expect(json.filter(({ field }) => field === 'version')).toHaveLength(100);
    const csv = await changes('--limit', '500', '--format', 'csv');
    expect(csv.match(/,release,version,1\.0,2\.0,,\r\n/g)).toHaveLength(40);
  });

  it.each([
    ['--class release', 2, 0],
    ['--class text', 0, 31],
    ['--item 1002', 0, 3],
    ['--since 2999-01-01', 0, 0],
  ])(
    'are a line only for what matches %s, so that no line stands for others',
    async (options, folds, single) => {
      await released();
      const lines = (await changes(...options.split(' '))).trimEnd().split('\n').slice(1);
      expect(lines.filter((line) => line.includes(' of 60 items'))).toHaveLength(folds);
      expect(lines.filter((line) => line.includes(' main '))).toHaveLength(folds + single);
    },
  );

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
});
