import { readFile } from 'node:fs/promises';
import { createRequire } from 'node:module';
import { dirname, join } from 'node:path';
import { PrismaPg } from '@prisma/adapter-pg';
import { bindMigrationAwareSqlAdapterFactory } from '@prisma/driver-adapter-utils';
import type { SchemaEngine } from '@prisma/schema-engine-wasm/schema_engine_bg';
import { Pool } from 'pg';
import { onTestFinished } from 'vitest';
import { DbClient } from '../../src/db/connection.js';
import { createTestDatabase } from '../support/postgres.js';

/** A test's own database. */
export async function poolOf(options?: { empty: boolean }): Promise<Pool> {
  const database = await createTestDatabase(options);
  const pool = new Pool({ Client: DbClient, connectionString: database.url, max: 1 });
  onTestFinished(async () => {
    await pool.end();
    await database.drop();
  });
  return pool;
}

/** Everything that a Prisma schema can express about tables, one line per object. */
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

/** The tables of a database, one sorted line per object. */
export async function shape(pool: Pool): Promise<string[]> {
  await pool.query(`SET search_path = ''`); // prints qualified names
  return (await pool.query<{ line: string }>(SHAPE)).rows.map(({ line }) => line);
}

const ENGINE = '@prisma/schema-engine-wasm/schema_engine_bg';

/** TypeScript declares WebAssembly only in its browser types. */
declare const WebAssembly: {
  instantiate(
    code: Uint8Array,
    imports: Record<string, object>,
  ): Promise<{ instance: { exports: Record<string, unknown> } }>;
};

let glue: ReturnType<typeof instantiate> | null = null;

/** Loads the .wasm file, which the package imports in a way that Node supports only with a flag. */
async function instantiate() {
  const loaded = await import('@prisma/schema-engine-wasm/schema_engine_bg');
  const folder = dirname(createRequire(import.meta.url).resolve(ENGINE));
  const code = await readFile(join(folder, 'schema_engine_bg.wasm'));
  const { instance } = await WebAssembly.instantiate(code, { './schema_engine_bg.js': loaded });
  loaded.__wbg_set_wasm(instance.exports);
  (instance.exports['__wbindgen_start'] as () => void)();
  return loaded;
}

/** Runs Prisma's schema engine, as WebAssembly, since the native one would be downloaded. */
export async function withEngine<T>(
  pool: Pool,
  work: (engine: SchemaEngine) => Promise<T>,
  schemaPrisma?: string,
): Promise<T> {
  const { SchemaEngine } = await (glue ??= instantiate());
  const factory = bindMigrationAwareSqlAdapterFactory(new PrismaPg(pool, { schema: 'mirror' }));
  const datamodels: [string, string][] | undefined =
    schemaPrisma === undefined ? undefined : [['schema.prisma', schemaPrisma]];
  const engine = await SchemaEngine.new({ datamodels }, () => {}, factory);
  try {
    return await work(engine);
  } finally {
    engine.free();
  }
}

export const NO_FILTERS = { externalTables: [], externalEnums: [] };
