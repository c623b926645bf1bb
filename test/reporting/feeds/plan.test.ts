import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { compare, type Plan, type Side, type Sums } from '../../../src/reporting/feeds/plan.js';

interface Row {
  readonly number: number;
  readonly bucket: number;
  readonly hash: number;
}

/** A side that holds these rows. Like the databases, it adds the bucket to the hash. */
function sideOf(rows: readonly Row[]): Side {
  const sums = (some: readonly Row[], by: 'number' | 'bucket'): Sums => {
    const found = new Map<number, { rows: number; sum: string }>();
    for (const { [by]: value, hash, bucket } of some) {
      const { rows: count, sum } = found.get(value) ?? { rows: 0, sum: '0' };
      found.set(value, { rows: count + 1, sum: String(Number(sum) + hash + bucket) });
    }
    return found;
  };
  return {
    sums: (within) =>
      Promise.resolve(
        within === null
          ? sums(rows, 'bucket')
          : sums(
              rows.filter(({ bucket }) => within.includes(bucket)),
              'number',
            ),
      ),
  };
}

/** The target after a delivery that follows the plan. */
function after(plan: Plan, source: readonly Row[], target: readonly Row[]): readonly Row[] {
  if (plan === 'same') return target;
  if (plan === 'all') return source;
  const isReplaced = ({ number, bucket }: Row): boolean =>
    plan.values.includes(plan.column === '_bucket' ? bucket : number);
  const written = source.filter(isReplaced);
  const hasKey = (row: Row): boolean => written.some(({ number }) => number === row.number);
  return [...target.filter((row) => !isReplaced(row) && !hasKey(row)), ...written];
}

const texts = (rows: readonly Row[]): string[] => rows.map((row) => JSON.stringify(row)).sort();
const row = fc
  .record({ number: fc.nat({ max: 6 }), bucket: fc.nat({ max: 2 }), version: fc.nat({ max: 2 }) })
  // Sums of different rows are never the same.
  .map(({ number, bucket, version }): Row => ({
    number,
    bucket,
    hash: 10 ** (number + 3) * (version + 1),
  }));
const rows = fc.uniqueArray(row, { selector: ({ number }) => number, maxLength: 7 });
const many = (count: number, hash: number): Row[] =>
  Array.from({ length: count }, (_, number) => ({ number, bucket: number % 3, hash }));

describe('a plan', () => {
  it('makes the target equal to the source', async () => {
    await fc.assert(
      fc.asyncProperty(rows, rows, async (source, target) => {
        const plan = await compare(sideOf(source), sideOf(target), 'number');
        expect(texts(after(plan, source, target))).toEqual(texts(source));
      }),
      { numRuns: 1_000 },
    );
  });

  it.each<[string, readonly Row[], readonly Row[], Plan]>([
    ['nothing if all is the same', many(9, 5), many(9, 5), 'same'],
    [
      'only rows that differ',
      [...many(8, 5), { number: 8, bucket: 2, hash: 6 }],
      many(9, 5),
      { column: 'number', values: [8], rows: 1 },
    ],
    ['all rows into an empty table', many(9, 5), [], 'all'],
    [
      'all rows over those of an earlier version',
      many(9, 5),
      [{ number: 0, bucket: -1, hash: -1 }],
      'all',
    ],
    [
      'whole buckets if the list of rows is too long',
      many(10_002, 5),
      many(10_002, 6),
      { column: '_bucket', values: [0, 1, 2], rows: 10_002 },
    ],
    [
      'whole buckets if there are too many rows to compare',
      [...many(120_001, 5), { number: -1, bucket: 7, hash: 1 }],
      [...many(120_001, 6), { number: -1, bucket: 7, hash: 1 }],
      { column: '_bucket', values: [0, 1, 2], rows: 120_001 },
    ],
  ])('writes %s', async (_, source, target, plan) => {
    expect(await compare(sideOf(source), sideOf(target), 'number')).toEqual(plan);
  });

  it('writes a view without a number in its key whole', async () => {
    expect(await compare(sideOf(many(9, 5)), sideOf(many(8, 5)), null)).toBe('all');
  });
});
