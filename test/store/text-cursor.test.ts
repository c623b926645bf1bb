import pg from 'pg';
import { expect, it, onTestFinished } from 'vitest';
import { TextCursor } from '../../src/store/text-cursor.js';
import { createTestDatabase } from '../support/postgres.js';

it('reads few rows at a time where they are large, and many where they are small', async () => {
  const database = await createTestDatabase({ empty: true });
  const client = new pg.Client(database.url);
  await client.connect();
  onTestFinished(async () => {
    await client.end();
    await database.drop();
  });
  const cursor = await TextCursor.open(
    client,
    `SELECT repeat('x', CASE WHEN n BETWEEN 1001 AND 2000 THEN 100000 ELSE 10 END), n
       FROM generate_series(1, 5000) n`,
  );
  const sizes: number[] = [];
  const seen: number[] = [];
  for await (const rows of cursor.batches()) {
    sizes.push(rows.reduce((sum, row) => sum + (row[0]?.length ?? 0), 0));
    seen.push(...rows.map(([, n]) => Number(n)));
  }
  expect(seen).toEqual(Array.from({ length: 5000 }, (_, n) => n + 1));
  // Those that are the first large ones come before anybody knows that they are.
  expect(sizes.filter((size) => size > 10_000_000).length).toBeLessThanOrEqual(1);
  expect(sizes.length).toBeLessThan(80);
});
