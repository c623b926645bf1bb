import { setTimeout } from 'node:timers/promises';
import {
  lstat,
  mkdir,
  mkdtemp,
  readdir,
  readFile,
  rm,
  stat,
  symlink,
  writeFile,
} from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { assertWritable, writeWhole } from '../../src/intake/write-whole.js';

let folder: string;
let path: string;
beforeEach(async () => {
  folder = await mkdtemp(join(tmpdir(), 'seller-mirror-write-'));
  path = join(folder, 'result.csv');
});
afterEach(() => rm(folder, { recursive: true, force: true }));

const content = (): Promise<string> => readFile(path, 'utf8');

describe('a file that is written whole', () => {
  it('is there at its end, for nobody else to read', async () => {
    await writeWhole(path, ['a\n', 'b\n', 'ü\n']);
    expect(await content()).toBe('a\nb\nü\n');
    expect((await stat(path)).mode & 0o777).toBe(0o600);
    expect(await readdir(folder)).toEqual(['result.csv']);
  });

  it('is not there before its end', async () => {
    await writeFile(path, 'old');
    const seen: string[] = [];
    async function* text(): AsyncGenerator<string, void, undefined> {
      yield 'a'.repeat(1_000_000);
      seen.push(await content());
      yield 'b';
      seen.push(await content());
    }
    await writeWhole(path, text());
    expect(seen).toEqual(['old', 'old']);
    expect(await content()).toHaveLength(1_000_001);
  });

  it('may be empty', async () => {
    await writeWhole(path, []);
    expect(await content()).toBe('');
  });

  it('is as it was, with nothing beside it, when the text fails', async () => {
    await writeFile(path, 'old');
    async function* text(): AsyncGenerator<string, void, undefined> {
      yield 'a';
      await Promise.resolve();
      throw Object.assign(new Error('the database is gone'), { code: 'ENOSPC' });
    }
    await expect(writeWhole(path, text())).rejects.toThrow('the database is gone');
    expect(await content()).toBe('old');
    expect(await readdir(folder)).toEqual(['result.csv']);
  });

  it.each(['while a piece is due', 'between pieces', 'before'])(
    'is as it was when it is given up %s',
    async (when) => {
      await writeFile(path, 'old');
      const stop = new AbortController();
      async function* text(): AsyncGenerator<string, void, undefined> {
        yield 'a';
        if (when === 'between pieces') stop.abort();
        else setImmediate(() => stop.abort());
        if (when === 'while a piece is due') await setTimeout(50);
        yield 'b';
        await setTimeout(1);
        yield 'c';
      }
      if (when === 'before') stop.abort();
      await expect(writeWhole(path, text(), stop.signal)).rejects.toThrow('abort');
      expect(await content()).toBe('old');
      expect(await readdir(folder)).toEqual(['result.csv']);
    },
  );

  it.each([
    ['a file', 'mine'],
    ['nothing', null],
  ])(
    'takes the place of a link to %s, and leaves what it leads to alone: others may have laid it',
    async (_, former) => {
      const other = join(folder, 'other.txt');
      if (former !== null) await writeFile(other, former);
      await symlink(other, path);
      await writeWhole(path, ['new']);
      expect(await content()).toBe('new');
      expect((await lstat(path)).isFile()).toBe(true);
      expect(await readFile(other, 'utf8').catch(() => null)).toBe(former);
    },
  );

  it('never takes the place of a device', async () => {
    await expect(writeWhole('/dev/null', ['x'])).rejects.toThrow('is not an ordinary file');
    await symlink('/dev/null', path);
    await expect(writeWhole(path, ['x'])).rejects.toThrow('is not an ordinary file');
    expect((await stat('/dev/null')).isCharacterDevice()).toBe(true);
  });

  it.each([
    ['sub', 'is a folder'],
    ['sub/', 'is a folder'],
    ['absent/', 'is a folder'],
    ['absent/x.csv', 'there is no such folder'],
    [`${'x'.repeat(300)}.csv`, 'the name is too long'],
  ])('is refused before any work where it can’t be: %s', async (name, problem) => {
    await mkdir(join(folder, 'sub'));
    const target = `${folder}/${name}`;
    await expect(assertWritable(target)).rejects.toThrow(problem);
    await expect(writeWhole(target, ['x'])).rejects.toThrow(problem);
    expect(await readdir(folder)).toEqual(['sub']);
  });

  it('may be where nothing is yet, and asking leaves nothing there', async () => {
    await assertWritable(path);
    expect(await readdir(folder)).toEqual([]);
  });
});
