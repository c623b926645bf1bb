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
import { assertWritable, writeWhole } from '../../src/listing/write-file.js';

let folder: string;
let path: string;
beforeEach(async () => {
  folder = await mkdtemp(join(tmpdir(), 'seller-mirror-write-'));
  path = join(folder, 'result.csv');
});
afterEach(() => rm(folder, { recursive: true, force: true }));

const content = (): Promise<string> => readFile(path, 'utf8');

describe('writing a file', () => {
  it('writes all of it, readable only by its owner', async () => {
    await writeWhole(path, ['a\n', 'b\n', 'ü\n']);
    expect(await content()).toBe('a\nb\nü\n');
    expect((await stat(path)).mode & 0o777).toBe(0o600);
    expect(await readdir(folder)).toEqual(['result.csv']);
  });

  it('keeps the old file until the new one is complete', async () => {
    await writeFile(path, 'old');
    const contents: string[] = [];
    async function* text(): AsyncGenerator<string, void, undefined> {
      yield 'a'.repeat(1_000_000);
      contents.push(await content());
      yield 'b';
      contents.push(await content());
    }
    await writeWhole(path, text());
    expect(contents).toEqual(['old', 'old']);
    expect(await content()).toHaveLength(1_000_001);
  });

  it('writes an empty file', async () => {
    await writeWhole(path, []);
    expect(await content()).toBe('');
  });

  it('keeps the old file, and leaves no other, when the text fails', async () => {
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

  it.each(['while waiting for a piece', 'between pieces', 'before it starts'])(
    'keeps the old file when it is aborted %s',
    async (when) => {
      await writeFile(path, 'old');
      const stop = new AbortController();
      async function* text(): AsyncGenerator<string, void, undefined> {
        yield 'a';
        if (when === 'between pieces') stop.abort();
        else setImmediate(() => stop.abort());
        if (when === 'while waiting for a piece') await setTimeout(50);
        yield 'b';
        await setTimeout(1);
        yield 'c';
      }
      if (when === 'before it starts') stop.abort();
      await expect(writeWhole(path, text(), stop.signal)).rejects.toThrow('abort');
      expect(await content()).toBe('old');
      expect(await readdir(folder)).toEqual(['result.csv']);
    },
  );

  it.each([
    ['a file', 'mine'],
    ['nothing', null],
  ])(
    'replaces a link to %s instead of following it, since others may have made it',
    async (_, linked) => {
      const other = join(folder, 'other.txt');
      if (linked !== null) await writeFile(other, linked);
      await symlink(other, path);
      await writeWhole(path, ['new']);
      expect(await content()).toBe('new');
      expect((await lstat(path)).isFile()).toBe(true);
      expect(await readFile(other, 'utf8').catch(() => null)).toBe(linked);
    },
  );

  it('never replaces a device', async () => {
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
  ])('is refused at an impossible path: %s', async (name, problem) => {
    await mkdir(join(folder, 'sub'));
    const target = `${folder}/${name}`;
    await expect(assertWritable(target)).rejects.toThrow(problem);
    await expect(writeWhole(target, ['x'])).rejects.toThrow(problem);
    expect(await readdir(folder)).toEqual(['sub']);
  });

  it('can be checked beforehand, which leaves nothing', async () => {
    await assertWritable(path);
    expect(await readdir(folder)).toEqual([]);
  });
});
