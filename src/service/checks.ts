import { statfs } from 'node:fs/promises';
import { dirname } from 'node:path';
import type { Config } from '../config/index.js';
import { bytes } from '../domain/text.js';
import { migrationState, schemaProblem, type MigrationState } from '../db/migrate.js';
import { describeDatabase, findRefusedWrite, type DatabaseInfo } from '../db/open.js';

/** The result of one check of `doctor`. */
export interface Check {
  /** The seller that was checked; null for the machine and the store. */
  readonly seller: string | null;
  readonly result: 'ok' | 'warning' | 'failed';
  readonly text: string;
  /** What to do; null when nothing needs to be done. */
  readonly remedy: string | null;
  /** Shown with --verbose. */
  readonly details?: readonly string[];
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

/** Reports the warnings about the settings, and the number of sellers. */
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

/** Splits a sentence about a setting into problem and remedy, which follows the last colon. */
export function settingsProblem(text: string): Check {
  const [, what = text, remedy = null] = /^(.*): (.+)$/s.exec(text) ?? [];
  return failed(`configuration: ${what}`, remedy);
}

/**
 * Checks a database. Tries writes, but rolls them back.
 * @param shown its address or folder, without its password
 * @returns the checks, and whether the database can be used without a migration
 * @throws the driver's error when the database can't be queried
 */
export async function databaseChecks(
  config: Config,
  url: string,
  shown: string,
  signal: AbortSignal,
): Promise<{ readonly checks: Check[]; readonly isUsable: boolean }> {
  // First, because it reports a server that is too old.
  const state = await migrationState(url);
  const look = await describeDatabase(url, signal);
  const isUsable = state.pending.length === 0 && schemaProblem(state) === null;
  const rights = rightsCheck(look, state, config);
  const refused = isUsable && rights === null ? await findRefusedWrite(url, signal) : null;
  const checks = [
    ok(`store: ${shown}, PostgreSQL ${look.version}, ${bytes(look.bytes)}`),
    look.isPowerful ? powerfulRole(look) : null,
    rights,
    refused &&
      failed(
        `store: its role ${look.role} may not ${refused.what} (${refused.why})`,
        'grant it, or use the role that owns the database in DATABASE_URL',
      ),
    schemaCheck(state),
  ].filter((check) => check !== null);
  return { checks, isUsable };
}

function powerfulRole({ role }: DatabaseInfo): Check {
  return warning(
    `store: its role ${role} is a superuser, or may run programs or access files on the server`,
    'use an ordinary role in DATABASE_URL; docs/database.md says how to create one',
  );
}

/** Reports a privilege that the role lacks; null when it has all that a run needs. */
function rightsCheck(
  { role, isReadOnly, mayCreateSchemas, mayWrite, hasQueue, mayUseQueue }: DatabaseInfo,
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
      `grant it: GRANT CREATE ON DATABASE the_database TO ${role}`,
    );
  }
  const remedy = 'use the role that created them in DATABASE_URL';
  if (!mayWrite) {
    return failed(`store: its role ${role} may not write to the tables of schema mirror`, remedy);
  }
  if (redis !== null || mayUseQueue) return null;
  return failed(`store: its role ${role} may not use the queue in schema bullmq`, remedy);
}

function schemaCheck(state: MigrationState): Check {
  const { pending } = state;
  const problem = schemaProblem(state);
  if (problem !== null) return failed(`schema: ${problem.message}`, problem.remedy);
  if (pending.length === 0) return ok('schema: up to date');
  const many = pending.length === 1 ? '1 migration' : `${pending.length} migrations`;
  return warning(
    `schema: ${many} pending (${pending.join(', ')})`,
    'run `seller-mirror migrate`, or any command that uses the store',
  );
}

/** Less free space than this is a warning, or a failure. */
const WARNING_BYTES = 1e9;
const FAILURE_BYTES = 1e8;

/** Checks the free space of the data folder's disk. */
export async function diskSpace(dataDir: string): Promise<Check> {
  const free = await freeBytes(dataDir);
  if (free === null) {
    return warning(`disk: the free space for ${dataDir} is unknown`, 'check it with `df`');
  }
  const text = `disk: ${bytes(free)} free for ${dataDir}`;
  const remedy = 'free some space, or set DATA_DIR to a folder on a larger disk';
  if (free < FAILURE_BYTES) return failed(text, remedy);
  return free < WARNING_BYTES ? warning(text, remedy) : ok(text);
}

/** Free bytes on the disk of the folder, or of its nearest existing parent. */
async function freeBytes(folder: string): Promise<number | null> {
  try {
    const { bavail, bsize } = await statfs(folder);
    return bavail * bsize;
  } catch {
    const parent = dirname(folder);
    return parent === folder ? null : freeBytes(parent);
  }
}
