import {
  lstatSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  statSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs';
import { join } from 'node:path';
import { beforeEach, describe, expect, it } from 'vitest';
import { folder as ownFolder, run, start } from '../cli/support.js';
import { useMirror } from '../support/mirror.js';
import { until } from '../support/until.js';

const mirror = useMirror();
let folder: string;
let path: string;
beforeEach(() => {
  folder = mkdtempSync(join(ownFolder(), 'write-'));
  path = join(folder, 'result.csv');
});

const env = () => ({ DATABASE_URL: mirror().databaseUrl });
const write = (view: string, out = path) => run(['export', view, '--out', out], env());

/** A view whose last of many rows can't be read, or takes an hour. */
async function viewThat(end: 'fails' | 'waits'): Promise<string> {
  const last = end === 'fails' ? '1 / (n - 100000)' : 'length(pg_sleep(3600)::text)';
  await mirror().rows(
    `CREATE OR REPLACE VIEW reporting.long AS SELECT n, CASE WHEN n = 100000 THEN ${last} END AS last
       FROM generate_series(1, 100000) AS n`,
  );
  return 'long';
}

describe('a file', () => {
  it('is written whole, readable only by its owner, since it may hold codes', async () => {
    expect(await write('accounts')).toMatchObject({ code: 0 });
    expect(readFileSync(path, 'utf8')).toMatch(/^seller_id,.*\r\n$/);
    expect(statSync(path).mode & 0o777).toBe(0o600);
    expect(readdirSync(folder)).toEqual(['result.csv']);
  });

  it('keeps its old content, and leaves no other file, when the rows can’t all be read', async () => {
    writeFileSync(path, 'old');
    expect(await write(await viewThat('fails'))).toMatchObject({ code: 1 });
    expect(readFileSync(path, 'utf8')).toBe('old');
    expect(readdirSync(folder)).toEqual(['result.csv']);
  });

  it('keeps its old content until the new one is complete, and after Ctrl-C', async () => {
    writeFileSync(path, 'old');
    const running = start(['export', await viewThat('waits'), '--out', path], env());
    const draft = () => readdirSync(folder).find((name) => name.endsWith('.tmp')) ?? '';
    await until(() => draft() !== '' && statSync(join(folder, draft())).size > 100_000);
    expect(readFileSync(path, 'utf8')).toBe('old');
    running.process.kill('SIGINT');
    expect(await running.ended).toMatchObject({ code: 130 });
    expect(readFileSync(path, 'utf8')).toBe('old');
    expect(readdirSync(folder)).toEqual(['result.csv']);
  });

  it('replaces a link instead of following it, since others may have made it', async () => {
    const other = join(folder, 'other.txt');
    writeFileSync(other, 'mine');
    symlinkSync(other, path);
    expect(await write('accounts')).toMatchObject({ code: 0 });
    expect(lstatSync(path).isFile()).toBe(true);
    expect(readFileSync(other, 'utf8')).toBe('mine');
  });

  it.each([
    ['sub', 'is a folder'],
    ['absent/x.csv', 'there is no such folder'],
    [`${'x'.repeat(300)}.csv`, 'the name is too long'],
    ['null.csv', 'is not an ordinary file'],
  ])('is refused at an impossible path: %s', async (name, problem) => {
    mkdirSync(join(folder, 'sub'));
    if (name === 'null.csv') symlinkSync('/dev/null', join(folder, name));
    const before = readdirSync(folder);
    const { code, stderr } = await run(
      ['export', 'accounts', '--format', 'csv', '--out', `${folder}/${name}`],
      env(),
    );
    expect(stderr).toContain(problem);
    expect(code).toBe(2);
    expect(readdirSync(folder)).toEqual(before);
    expect(statSync('/dev/null').isCharacterDevice()).toBe(true);
  });
});
