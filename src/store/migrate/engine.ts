import { readFile } from 'node:fs/promises';
import { createRequire } from 'node:module';
import { dirname, join } from 'node:path';
import { PrismaPg } from '@prisma/adapter-pg';
import {
  DriverAdapterError,
  bindMigrationAwareSqlAdapterFactory,
} from '@prisma/driver-adapter-utils';
import type { MigrationList, SchemaEngine } from '@prisma/schema-engine-wasm/schema_engine_bg';
import { DatabaseError, type Pool } from 'pg';
import { errorCode } from '../errors.js';
import { checksum, type MigrationOnDisk, HISTORY_SCHEMA } from '../migrate.js';

const PACKAGE = '@prisma/schema-engine-wasm/schema_engine_bg';
export const NO_FILTERS = { externalTables: [], externalEnums: [] };

/** Prisma's schema engine on a database. `free()` it. */
export interface LoadedEngine {
  readonly engine: SchemaEngine;
  /** What the database said to the script that failed last; the engine keeps it to itself. */
  readonly failure: () => unknown;
}

/**
 * Loads Prisma's own schema engine as WebAssembly (the native one would be downloaded at run
 * time), to work on `pool`. Takes some 50 ms.
 */
export async function loadEngine(pool: Pool, schemaPrisma?: string): Promise<LoadedEngine> {
  const { SchemaEngine } = await (loaded ??= instantiate());
  const factory = new AtomicPg(pool, { schema: HISTORY_SCHEMA });
  const datamodels: [string, string][] | undefined =
    schemaPrisma === undefined ? undefined : [['schema.prisma', schemaPrisma]];
  const bound = bindMigrationAwareSqlAdapterFactory(factory);
  const engine = await SchemaEngine.new({ datamodels }, () => {}, bound);
  return { engine, failure: () => factory.failure };
}

/** The little of WebAssembly that is used here; TypeScript has it only in its browser types. */
declare const WebAssembly: {
  instantiate(
    code: Uint8Array,
    imports: Record<string, object>,
  ): Promise<{ instance: { exports: Record<string, unknown> } }>;
};

let loaded: ReturnType<typeof instantiate> | null = null;

/** The package's own entry imports the .wasm file, which Node only does with a flag. */
async function instantiate() {
  const glue = await import('@prisma/schema-engine-wasm/schema_engine_bg');
  const code = await readFile(
    join(dirname(createRequire(import.meta.url).resolve(PACKAGE)), 'schema_engine_bg.wasm'),
  );
  const imports = { './schema_engine_bg.js': { ...glue, ...withoutLingering(glue) } };
  const { instance } = await WebAssembly.instantiate(code, imports);
  glue.__wbg_set_wasm(instance.exports);
  const start = instance.exports['__wbindgen_start'] as () => void;
  start();
  return glue;
}

/**
 * The engine bounds its wait for a lock by a timer of 10 s, which it leaves running: it would keep
 * every command that migrates alive for that long.
 */
function withoutLingering(glue: object): Record<string, unknown> {
  const names = Object.keys(glue).filter((name) => name.startsWith('__wbg_setTimeout_'));
  const start = (callback: () => void, ms: number) => setTimeout(callback, ms).unref();
  return Object.fromEntries(names.map((name) => [name, start]));
}

/**
 * Prisma's adapter, but a migration is one message to the server and thus one transaction, as with
 * Prisma's native engine. (The adapter itself cuts scripts at every `;`, be it within a literal,
 * and sends the pieces one by one.) In the same transaction the migration is recorded as finished,
 * so that a process killed at any moment leaves it wholly done or not done at all.
 */
class AtomicPg extends PrismaPg {
  readonly #pool: Pool;
  failure: unknown = null;

  constructor(pool: Pool, options: { schema: string }) {
    super(pool, options);
    this.#pool = pool;
  }

  override async connect() {
    const adapter = await super.connect();
    adapter.executeScript = async (script) => {
      try {
        await this.#pool.query(`${script}\n;${markFinished(script)}`);
      } catch (error) {
        this.failure = error;
        throw toldToEngine(error);
      }
    };
    return adapter;
  }
}

function markFinished(script: string): string {
  return `UPDATE ${HISTORY_SCHEMA}._prisma_migrations SET finished_at = now()
    WHERE checksum = '${checksum(script)}' AND finished_at IS NULL AND rolled_back_at IS NULL`;
}

function toldToEngine(error: unknown): unknown {
  if (!(error instanceof DatabaseError)) return error;
  return new DriverAdapterError({
    kind: 'postgres',
    code: errorCode(error),
    severity: error.severity ?? 'ERROR',
    message: error.message,
    detail: error.detail,
    column: error.column,
    hint: error.hint,
  });
}

/** Migrations in the form the engine takes them. */
export function toMigrationList(
  folder: string,
  migrations: readonly MigrationOnDisk[],
): MigrationList {
  return {
    baseDir: folder,
    lockfile: { path: 'migration_lock.toml', content: 'provider = "postgresql"\n' },
    shadowDbInitScript: '',
    migrationDirectories: migrations.map(({ name, sql }) => ({
      path: name,
      migrationFile: { path: 'migration.sql', content: { tag: 'ok', value: sql } },
    })),
  };
}
