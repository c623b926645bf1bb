import { readFile } from 'node:fs/promises';
import { fileURLToPath } from 'node:url';
import { describe, expect, it } from 'vitest';
import { NO_FILTERS, loadEngine } from '../../src/store/migrate/engine.js';
import { poolOf, shape } from './shape.js';

const SCHEMA = fileURLToPath(new URL('../../prisma/schema.prisma', import.meta.url));

/** What Prisma would make of `schema` in an empty database. */
async function shapeOf(schema: string): Promise<string[]> {
  const pool = await poolOf({ empty: true });
  const { engine } = await loadEngine(pool, schema);
  const to = { tag: 'schemaDatamodel' as const, files: [{ path: SCHEMA, content: schema }] };
  const { stdout } = await engine.diff({
    ...{ from: { tag: 'empty' as const }, to },
    ...{ script: true, exitCode: null, filters: NO_FILTERS },
  });
  engine.free();
  // The engine takes the history's schema for the one that need not be named.
  await pool.query(`SET search_path = mirror; ${stdout ?? ''}`);
  return await shape(pool);
}

describe('the migrations', () => {
  it('make just the tables that schema.prisma describes', async () => {
    const migrated = await shape(await poolOf());
    expect(migrated.length).toBeGreaterThan(80); // or the comparison compares nothing
    expect(migrated).toEqual(await shapeOf(await readFile(SCHEMA, 'utf8')));
  });

  it('would be seen to lack a column that is added to schema.prisma, or an index', async () => {
    const schema = await readFile(SCHEMA, 'utf8');
    const migrated = await shape(await poolOf());
    const wider = schema.replace(/(\n\s+wireHash .*)/, '$1\n  novelty String?');
    const indexed = schema.replace('@@id([sellerId, itemId])', '$&\n  @@index([name])');
    for (const changed of [wider, indexed]) {
      expect(changed).not.toBe(schema);
      const lacking = (await shapeOf(changed)).filter((line) => !migrated.includes(line));
      expect(lacking).toHaveLength(1);
    }
  });
});
