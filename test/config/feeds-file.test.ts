import { beforeEach, describe, expect, it } from 'vitest';
import { useFolder } from './folder.js';

const folder = useFolder();
beforeEach(() => {
  folder.write('salt', 'a long and random salt');
  folder.write('short', 'short');
});

/** What is wrong with these feeds. */
function problemsOf(...feeds: readonly object[]): readonly string[] {
  folder.write('feeds.json', JSON.stringify({ feeds }));
  return folder.problems({ FEEDS_FILE: 'feeds.json' }, 'store');
}

describe('FEEDS_FILE', () => {
  const lake = { name: 'a', folder: 'x', views: ['items'] };
  const mysql = { name: 'a', views: ['items'] };
  const codes = ['purchases.code', 'purchases.answered_code'];
  it.each<[string, object, string]>([
    ['no target', { name: 'a', views: ['items'] }, 'set exactly one of them'],
    ['two targets', { ...lake, target: 'sqlite:x' }, 'exactly one'],
    ['no address', { ...mysql, target: 'reports' }, 'is not an address'],
    ['an unknown word', { ...lake, often: true }, 'often'],
    ['no views', { ...lake, views: [] }, 'names no view'],
    ['no seller', { ...lake, sellers: [] }, 'names no seller'],
    ['an empty folder', { ...lake, folder: '' }, 'is empty'],
    [
      'the password itself',
      { ...mysql, target: 'mysql://u@h/d', password: 'hidden' },
      '"password"',
    ],
    ['a bad time', { ...lake, when: 'at night' }, 'when'],
    ['a bare % in a password', { ...mysql, target: 'mysql://u:100%@h/d' }, 'write % as %25'],
    ['a bad name', { ...lake, name: '../a' }, 'is not a name'],
    ['columns of another view', { ...lake, columns: { purchases: ['price'] } }, 'purchases'],
    ['a hash without salt', { ...lake, views: ['purchases'], hash: codes }, 'set both or neither'],
    [
      'a hashed key',
      { ...lake, hash: ['items.item_id'], hashSaltFile: 'salt' },
      'which is part of a key',
    ],
    [
      'one of two code columns hashed',
      { ...lake, views: ['purchases'], hash: ['purchases.code'], hashSaltFile: 'salt' },
      'leaves whole codes in purchases: name purchases.answered_code as well',
    ],
    ['a short salt', { ...lake, hash: ['items.name'], hashSaltFile: 'short' }, 'fewer than 16'],
    ...['mysql://h/d?ssl-mode=REQUIRED', 'mysql://h/d?sslmode=require', 'mysql://h/d?useSSL=1'].map(
      (target): [string, object, string] => [
        'encryption that would be ignored',
        { ...mysql, target },
        'use ssl=true',
      ],
    ),
    [
      'a TLS mode that may be ignored',
      { ...mysql, target: 'postgresql://h/d?sslmode=prefer' },
      'sslmode',
    ],
  ])('is refused with %s, and the place is named', (_, feed, words) => {
    expect(problemsOf(feed)).toEqual([expect.stringContaining(words)]);
    expect(problemsOf(feed)[0]).toContain('FEEDS_FILE feeds[0]');
  });

  it('is refused with all its problems, and with two feeds that fill the same rows', () => {
    expect(
      problemsOf({ ...lake, when: 'never' }, { name: 'a', target: 'x', views: ['items'] }),
    ).toHaveLength(3);
    const target = 'mysql://reports@db/reports';
    const other = 'mysql://another@db:3306/reports';
    expect(
      problemsOf({ ...mysql, target }, { name: 'b', target: other, views: ['accounts', 'items'] }),
    ).toEqual([expect.stringContaining('that feed a fills, too')]);
    expect(
      problemsOf({ ...mysql, target }, { ...mysql, name: 'b', target: 'mysql://reports@db/other' }),
    ).toEqual([]);
  });
});
