import { mkdtempSync, readdirSync } from 'node:fs';
import { join } from 'node:path';
import { beforeEach, describe, expect, it } from 'vitest';
import { useMirror } from '../support/mirror.js';
import { folder, run } from './support.js';

const mirror = useMirror();
beforeEach(async () => {
  await mirror().rows(`INSERT INTO mirror.sellers (seller_id, marketplace) VALUES ('main', 'x')`);
});

/** Expects an exit code and an error on stderr: one line, mostly with a remedy in a second one. */
async function expectRefusal(args: readonly string[], exitCode: number, why: RegExp) {
  const ended = await run(args, { DATABASE_URL: mirror().databaseUrl });
  expect(ended.stderr).toMatch(why);
  expect(ended).toMatchObject({ code: exitCode, stdout: '' });
}

describe('wrong usage', () => {
  it.each<[args: string[], why: RegExp]>([
    [['sync'], /^error: MARKETPLACE_URL is not set.*\n$/],
    [['run'], /there is no seller to mirror|MARKETPLACE_URL is not set/],
    [['sync', 'item'], /^error: which item\? .*\n {2}→ for example: .*\n$/],
    [['synk'], /^error: unknown command 'synk'\n.*sync.*\n.*help.*\n$/],
    [['status', '--check'], /^error: MARKETPLACE_URL is not set.*\n$/],
    [['status', '--seller', 'nobody'], /no seller "nobody"/],
    [['prune', '--seller', 'nobody'], /no seller "nobody" is configured or in the store/],
    [['runs', '--seller', 'nobody'], /no seller "nobody" is configured or in the store/],
    [['runs', 'show', '1', '--seller', 'nobody'], /no seller "nobody" is configured/],
    [['sync', '--accept-removals', '0'], /Runs are numbered/],
    [['sync', '--keep-removals', 'twelve'], /Runs are numbered/],
    [['audits', 'export', '0'], /Checks are numbered/],
    [['codes', 'recheck'], /^error: required option '--older-than/],
    [['snyc'], /error: unknown command 'snyc'\n\(Did you mean sync\?\)/],
    [['codes', 'chek'], /error: unknown command 'chek'\n\(Did you mean check\?\)/],
    [['help', 'nix'], /^error: unknown command 'nix'\n {2}→ usage: seller-mirror /],
    [['help', 'codes', 'nix'], /^error: unknown command 'nix'\n {2}→ usage: seller-mirror codes /],
    [['feed', 'chekc'], /^error: unknown command 'chekc'\n {2}→ usage: seller-mirror feed .*\n$/],
    [
      ['nix'],
      /^error: .*\n {2}→ usage: seller-mirror \[options\] \[command\] \(--help says more\)\n$/,
    ],
    [['export', '--nix'], /^error: .*\n {2}→ usage: seller-mirror export .*\n$/],
    [['changes', '--class', 'prices'], /'prices' is invalid. Allowed choices are price, release/],
    [
      ['changes', '--since', 'yesterday'],
      /"yesterday" is not a date or time; give one such as 2026-03/,
    ],
    [['changes', '--since', '2026-02-30'], /"2026-02-30" does not exist/],
    [['changes', '--seller', 'nobody'], /no seller "nobody" is configured or in the store/],
    [['codes', 'check', 'a', '--dry-run', '--out', 'x.csv'], /'--dry-run' cannot be used with/],
    [['restore', 'x.gz', '--check', '--replace'], /'--check' cannot be used with .*'--replace'/],
    [['runs', '--state', 'lost'], /Allowed choices are .*succeeded/s],
    [['items', '--as-of', '2999-01-01'], /in the future/],
    [['items', '--as-of', 'once'], /"once" is not a date or time/],
    [['items', '--seller', 'nobody'], /no seller "nobody"/],
    [['items', '--json', '--format', 'csv'], /cannot be used with/],
    [['sql', '--json', '--format', 'csv', 'select 1'], /^error: option .* cannot be used with/],
    [['sql', '--jsn', 'select 1'], /^error: unknown option '--jsn'/],
    [
      ['sql', ' -- none\n/* at /* all */ */ ;'],
      /^error: there is no statement to run\n {2}→ .*\n$/,
    ],
    [
      ['sql', 'copy mirror.items to stdout'],
      /^error: COPY gives no rows\n {2}→ .*--format csv.*\n$/,
    ],
    [['sql', 'copy (select generate_series(1, 5000000)) to stdout'], /^error: COPY gives no rows/],
    [['export', 'itmes'], /no view "itmes"\n {2}→ views: .*\bitems\b/],
    [['export', 'items', '--seller', 'nobody'], /no seller "nobody" .*\n.*main/],
    [['export', 'items', '--out', 'x.txt'], /can’t tell the format/],
    [['export', 'items', '--format', 'parquet', '--raw'], /--raw goes with --format csv/],
    [['export', 'items', '--out', 'x.xlsx', '--decimal-comma'], /for CSV, and this writes xlsx/],
    [['items', '--decimal-comma'], /for CSV, and this writes table\n {2}→ add --format csv/],
    [['changes', '--json', '--decimal-comma'], /for CSV, and this writes json/],
    [['export', '--out', 'x.csv'], /^error: which view\? .*\n {2}→ .*\n$/],
    [['export', '--seller', 'main', '--json'], /which view\?/],
    [['export', 'items', '--json'], /both write to stdout/],
    [['export', 'items', '--out', 'nowhere/x.csv'], /no such folder/],
    [['backup', 'nowhere/mirror.tar.gz'], /there is no such folder/],
    [['restore', 'nowhere/mirror.tar.gz'], /there is no such file/],
    [
      ['runs', 'show', '4711'],
      /^error: there is no run 4711\n {2}→ `seller-mirror runs` lists them\n$/,
    ],
    [
      ['items', 'show', '4711'],
      /^error: there is no item 4711\n {2}→ .*seller-mirror items` lists/,
    ],
    [['sync', '--accept-removals', '4711'], /there is no run 4711\n {2}→ `seller-mirror runs`/],
  ])('%j exits with 2 and an error', (args, why) => expectRefusal(args, 2, why));

  it.each<[args: string[], why: RegExp]>([
    [
      ['sql', 'insert into mirror.sellers values (1)'],
      /^error: this command only reads: .*INSERT.*\n {2}→ .*\n$/,
    ],
    [
      ['sql', 'select 1; drop schema mirror cascade'],
      /^error: there is more than one statement\n {2}→ .*\n$/,
    ],
    [
      ['sql', 'select *\nfrom itms'],
      /^error: relation "itms" does not exist \(line 2, character 6\)\n {2}→ .*reporting\.items.*\n$/,
    ],
    [
      ['sql', 'select nam from mirror.items'],
      /^error: column "nam" .* \(character 8\)\n {2}→ .*"items\.name".*\n$/,
    ],
  ])('%j exits with 1: it failed', (args, why) => expectRefusal(args, 1, why));
});

describe('a folder without a store', () => {
  it.each([
    ['status'],
    ['runs'],
    ['items'],
    ['changes'],
    ['audits'],
    ['sql', 'select 1'],
    ['export', 'items', '--out', 'x.csv'],
    ['sellers'],
    ['users'],
    ['tokens'],
    ['codes', 'show', 'a-code'],
    ['prune', '--dry-run'],
    ['dashboard', 'link'],
  ])('gets none by %j, which only reads', async (...args) => {
    const cwd = mkdtempSync(join(folder(), 'empty-'));
    const { code, stdout, stderr } = await run(args, { DATABASE_URL: '' }, { cwd });
    expect(stderr).toMatch(
      /^error: there is no store in .*data\n {2}→ run this in the folder of your store, or set DATA_DIR; `.*seller-mirror sync` makes a new store\n$/,
    );
    expect({ code, stdout, files: readdirSync(cwd) }).toEqual({ code: 2, stdout: '', files: [] });
  });
});
