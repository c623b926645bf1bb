import { createHash } from 'node:crypto';
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import {
  compare,
  ownership,
  type KeyRow,
  type Side,
  type Sums,
} from '../../../src/reporting/feeds/plan.js';

/** Hashes of 40 bits: sums of different rows are practically never the same. */
const hashOf = (key: readonly string[], version: number): string =>
  String(
    parseInt(createHash('md5').update(`${key.join()} ${version}`).digest('hex').slice(0, 10), 16),
  );
const row = fc
  .tuple(
    fc.tuple(fc.constantFrom('ada', 'bob'), fc.constantFrom('1', '2', '3', '1025')),
    fc.constantFrom(0, 1, 2),
    fc.constantFrom(1, 2),
  )
  .map(([key, bucket, version]): KeyRow => ({ key, bucket, hash: hashOf(key, version) }));
const rows = fc.uniqueArray(row, { selector: ({ key }) => key.join(' '), maxLength: 8 });

/** A side that holds these rows. */
function sideOf(held: readonly KeyRow[]): Side {
  const sums = new Map<number, { rows: number; sum: string }>();
  for (const { bucket, hash } of held) {
    const { rows: count, sum } = sums.get(bucket) ?? { rows: 0, sum: '0' };
    sums.set(bucket, { rows: count + 1, sum: String(BigInt(sum) + BigInt(hash)) });
  }
  return {
    sums: () => Promise.resolve<Sums>(sums),
    keys: (buckets) => Promise.resolve(held.filter(({ bucket }) => buckets.includes(bucket))),
  };
}

const textOf = ({ key, bucket, hash }: KeyRow): string => JSON.stringify([key, bucket, hash]);

describe('a plan', () => {
  it('makes the target equal to the source, and writes only rows that differ', async () => {
    await fc.assert(
      fc.asyncProperty(rows, rows, async (source, target) => {
        const plan = await compare(sideOf(source), sideOf(target), true);
        if (plan.kind !== 'rows') {
          if (plan.kind === 'all') expect(target).toEqual([]);
          return;
        }
        const after = new Map(target.map((one) => [one.key.join(), one]));
        for (const one of plan.remove) after.delete(one.key.join());
        for (const one of plan.write) {
          expect(after.get(one.key.join())).not.toEqual(one);
          after.set(one.key.join(), one);
        }
        expect([...after.values()].map(textOf).sort()).toEqual(source.map(textOf).sort());
      }),
      { numRuns: 1_000 },
    );
  });

  it('knows a moment in each notation of a database', async () => {
    const of = (at: string): KeyRow => ({ key: ['1', at], bucket: 0, hash: '7' });
    const source = [of('2026-03-01 02:00:00.5+00'), { ...of('2026-03-02 00:00:00+00'), hash: '8' }];
    for (const target of [
      ['2026-03-01 02:00:00.500000', '2026-03-02 00:00:00.000000'],
      ['2026-03-01T02:00:00.5Z', '2026-03-02T00:00:00Z'],
    ]) {
      const plan = await compare(sideOf(source), sideOf(target.map(of)), true);
      expect(plan).toMatchObject({ kind: 'rows', remove: [] });
      expect(plan.kind === 'rows' && plan.write.map(textOf)).toEqual([textOf(source[1] ?? of(''))]);
    }
  });

  it('writes all rows over those of an earlier version, and into an empty table', async () => {
    const all = [{ key: ['1'], bucket: 0, hash: '5' }];
    expect(await compare(sideOf(all), sideOf([]), true)).toEqual({ kind: 'all' });
    const old = [{ key: ['1'], bucket: -1, hash: '-1' }];
    expect(await compare(sideOf(all), sideOf(old), true)).toEqual({ kind: 'all' });
    expect(await compare(sideOf([]), sideOf([]), true)).toEqual({ kind: 'same' });
  });
});

describe('an owner', () => {
  const tokens = { ofFeed: new Set(['mine']), ofOthers: new Set(['earlier']) };
  const owner = (token: string, sellers: string[] | null) => ({
    ...{ token, sellers, deliveredAt: new Date(0) },
  });
  it.each([
    ['nobody', [], null, 'free'],
    ['this store', [owner('mine', null)], null, 'ours'],
    ['this store, of a feed with an earlier name', [owner('earlier', null)], ['ada'], 'ours'],
    ['another feed of this store', [owner('earlier', ['bob'])], ['ada'], 'free'],
    ['another store', [owner('x', null)], null, 'taken'],
    ['another store, of other sellers', [owner('x', ['bob'])], ['ada'], 'free'],
    ['another store, of all sellers', [owner('x', null)], ['ada'], 'taken'],
    [
      'this store and one of other sellers',
      [owner('x', ['bob']), owner('mine', ['ada'])],
      ['ada'],
      'ours',
    ],
    [
      'this store, that now wants more',
      [owner('x', ['bob']), owner('mine', ['ada'])],
      null,
      'taken',
    ],
  ])('that is %s', (_, owners, sellers, kind) => {
    expect(ownership(owners, tokens, sellers).kind).toBe(kind);
  });
});
