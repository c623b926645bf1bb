import { symlinkSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { keepLists } from '../../src/cli/codes/result-file.js';
import { folder } from './support.js';

describe('the place of a result', () => {
  const place = (path: string | null) => ({ path, format: 'csv' as const });

  it('is not that of a list, by whatever name, since a result does not hold all of it', () => {
    const dir = folder();
    const list = join(dir, 'list.csv');
    const link = join(dir, 'link.csv');
    writeFileSync(list, 'code\na-code\n');
    symlinkSync(list, link);
    const replaced = /would replace the list/;
    expect(() => keepLists(place(list), ['-', list])).toThrow(replaced);
    expect(() => keepLists(place(link), [list])).toThrow(replaced);
    expect(() => keepLists(place(join(dir, '.', 'list.csv')), [link])).toThrow(replaced);
  });

  it('may be stdout, a new file, or a result of before', () => {
    const dir = folder();
    const [list, before] = [join(dir, 'list.csv'), join(dir, 'result.csv')];
    writeFileSync(list, 'code\na-code\n');
    writeFileSync(before, 'code,verdict\n');
    for (const path of [null, before, join(dir, 'new.csv')]) {
      expect(() => keepLists(place(path), [list])).not.toThrow();
    }
  });
});
