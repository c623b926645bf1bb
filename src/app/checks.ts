import { statfs } from 'node:fs/promises';
import { dirname } from 'node:path';
import type { Config } from '../config/index.js';
import { bytes } from '../domain/units.js';
import { migrationState, type MigrationState } from '../store/migrate.js';
import { describeDatabase, type DatabaseLook } from '../store/pools.js';
import { storeRole } from '../store/read-only.js';

/** The outcome of a check. */
export interface Check {
  /** Seller it is about; null for the machine and the store. */
  readonly seller: string | null;
  readonly result: 'ok' | 'warning' | 'failed';
  readonly text: string;
  /** What to do about it; null when it is in order. */
  readonly remedy: string | null;
}

export function ok(text: string): Check {
  return { seller: null, result: 'ok', text, remedy: null };
}

export function warning(text: string, remedy: string): Check {
  return { seller: null, result: 'warning', text, remedy };
}

export function failed(text: string, remedy: string | null): Check {
  return { seller: null, result: 'failed', text, remedy };
}

/** What is odd about the settings, and how many sellers they name. */
export function settingsChecks({ warnings, exposedSecrets, sellers }: Config): Check[] {
  const found = sellers.length === 1 ? '1 seller' : `${sellers.length} sellers`;
  return [
    ...[...warnings, ...exposedSecrets].map((text): Check => {
      return { ...settingsProblem(text), result: 'warning' };
    }),
    sellers.length > 0
      ? ok(`configuration: ${found}`)
      : failed(
          'configuration: no seller to mirror',
          'set MARKETPLACE_URL and MARKETPLACE_API_KEY, or SELLERS_FILE',
        ),
  ];
}

/** Splits a sentence about the configuration: the remedy is after its last colon. */
export function settingsProblem(text: string): Check {
  const [, what = text, remedy = null] = /^(.*): (.+)$/s.exec(text) ?? [];
  return failed(`configuration: ${what}`, remedy);
}

/**
 * Checks a database without changing it.
 * @param shown its address or place, without its password
 * @returns the checks, and whether the database can be used as it is
 * @throws what the driver throws, when it can't be asked
 */
export async function databaseChecks(
  config: Config,
  url: string,
  shown: string,
  signal: AbortSignal,
): Promise<{ readonly checks: Check[]; readonly isUsable: boolean }> {
  // First: it reports a server that is too old.
  const state = await migrationState(url);
  const look = await describeDatabase(url, signal);
  const { isPowerful } = await storeRole(url, signal);
  const checks = [
    ok(`store: ${shown}, PostgreSQL ${look.version}, ${bytes(look.bytes)}`),
    isPowerful ? powerfulRole(look) : null,
    rightsCheck(look, state, config),
    schemaCheck(state),
  ].filter((check) => check !== null);
  return { checks, isUsable: state.pending.length + state.unknown.length === 0 };
}

function powerfulRole({ role }: DatabaseLook): Check {
  return warning(
    `store: its role ${role} is a superuser, or may run programs or use files on the server`,
    'use an ordinary role in DATABASE_URL: docs/operations.md says how to make one',
  );
}

/** A right that a run needs and the role lacks. */
function rightsCheck(
  { role, isReadOnly, mayCreateSchemas, mayWrite, hasQueue }: DatabaseLook,
  { pending }: MigrationState,
  { redis }: Config,
): Check | null {
  if (isReadOnly) {
    return failed(
      'store: the database takes no writes',
      'name the primary in DATABASE_URL, and look for default_transaction_read_only in its settings',
    );
  }
  const wantsSchemas = pending.length > 0 || (redis === null && !hasQueue);
  if (wantsSchemas && !mayCreateSchemas) {
    return failed(
      `store: its role ${role} may not create schemas, which the mirror and its queue need`,
      `let it: GRANT CREATE ON DATABASE the_database TO ${role}`,
    );
  }
  if (mayWrite) return null;
  return failed(
    `store: its role ${role} may not write to the tables of schema mirror`,
    'use the role in DATABASE_URL that made them',
  );
}

function schemaCheck({ pending, failed: begun, edited, unknown }: MigrationState): Check {
  const migrate = 'run `seller-mirror migrate`; every other command does it too';
  if (unknown.length > 0) {
    return failed(
      `schema: migrated by a newer version of this program (${unknown.join(', ')})`,
      'upgrade this program, or point it to another database',
    );
  }
  if (begun.length > 0) {
    return warning(`schema: ${begun.join(', ')} was begun and not finished`, migrate);
  }
  if (pending.length > 0) {
    const many = pending.length === 1 ? '1 migration' : `${pending.length} migrations`;
    return warning(`schema: ${many} pending (${pending.join(', ')})`, migrate);
  }
  if (edited.length > 0) {
    return warning(
      `schema: ${edited.join(', ')} was applied in another wording than this program has`,
      'compare the files in prisma/migrations with those of the release',
    );
  }
  return ok('schema: up to date');
}

const SCARCE_BYTES = 1e9;
const TOO_FEW_BYTES = 1e8;

/** Checks how much can still be written into the data folder. */
export async function diskSpace(dataDir: string): Promise<Check> {
  const free = await freeBytes(dataDir);
  if (free === null) {
    return warning(`disk: the free space for ${dataDir} is unknown`, 'check it with `df`');
  }
  const text = `disk: ${bytes(free)} free for ${dataDir}`;
  const remedy = 'free some space, or set DATA_DIR to a folder on a larger disk';
  if (free < TOO_FEW_BYTES) return failed(text, remedy);
  return free < SCARCE_BYTES ? warning(text, remedy) : ok(text);
}

/** Free bytes for the folder, or for the nearest one above it that exists. */
async function freeBytes(folder: string): Promise<number | null> {
  try {
    const { bavail, bsize } = await statfs(folder);
    return bavail * bsize;
  } catch {
    const above = dirname(folder);
    return above === folder ? null : freeBytes(above);
  }
}
