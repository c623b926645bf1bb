import { readFile } from 'node:fs/promises';
import { fileURLToPath } from 'node:url';
import { Pool } from 'pg';
import { describe, expect, it, onTestFinished } from 'vitest';
import { NO_FILTERS, loadEngine } from '../../src/store/migrate/engine.js';
import { createTestDatabase } from '../support/postgres.js';

const SCHEMA = fileURLToPath(new URL('../../prisma/schema.prisma', import.meta.url));

/** Everything that a Prisma schema can say of the tables, a line for each thing. Order is no matter. */
const SHAPE = `
  WITH tables AS (
    SELECT c.oid, n.nspname || '.' || c.relname AS name
    FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
    WHERE c.relkind = 'r' AND n.nspname IN ('mirror', 'reporting')
      AND c.relname <> '_prisma_migrations'
  )
  SELECT concat_ws(' ', 'column', t.name, a.attname, format_type(a.atttypid, a.atttypmod),
      CASE WHEN a.attnotnull THEN 'not null' END, pg_get_expr(d.adbin, d.adrelid)) AS line
    FROM tables t JOIN pg_attribute a ON a.attrelid = t.oid AND a.attnum > 0 AND NOT a.attisdropped
    LEFT JOIN pg_attrdef d ON d.adrelid = t.oid AND d.adnum = a.attnum
  UNION ALL
  SELECT concat_ws(' ', 'constraint', t.name, k.conname, pg_get_constraintdef(k.oid))
    FROM tables t JOIN pg_constraint k ON k.conrelid = t.oid
  UNION ALL
  SELECT concat_ws(' ', 'index', t.name, pg_get_indexdef(i.indexrelid))
    FROM tables t JOIN pg_index i ON i.indrelid = t.oid
  UNION ALL
  SELECT concat_ws(' ', 'enum', n.nspname, y.typname, string_agg(e.enumlabel, ' ' ORDER BY e.enumsortorder))
    FROM pg_enum e JOIN pg_type y ON y.oid = e.enumtypid JOIN pg_namespace n ON n.oid = y.typnamespace
    GROUP BY n.nspname, y.typname
  ORDER BY line`;

async function poolOf(options?: { empty: boolean }): Promise<Pool> {
  const database = await createTestDatabase(options);
  const pool = new Pool({ connectionString: database.url, max: 1 });
  onTestFinished(async () => {
    await pool.end();
    await database.drop();
  });
  return pool;
}

async function shape(pool: Pool): Promise<string[]> {
  await pool.query(`SET search_path = ''`); // so that every name is told in full
  return (await pool.query<{ line: string }>(SHAPE)).rows.map(({ line }) => line);
}

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
