import { statfs } from 'node:fs/promises';
import { dirname } from 'node:path';
import type { Config } from '../../config/index.js';
import { describeEmbedded, openEmbedded } from '../../store/embedded/index.js';
import { shownUrl } from '../../store/errors.js';
import { migrationState, type MigrationState } from '../../store/migrate.js';
import { queryReadOnly } from '../../store/read-only.js';
import { reportError } from '../errors.js';
import { bytes, plural } from '../output/index.js';
import { Checks, type Check } from './check.js';

/** The store as doctor found it. */
export interface StoreFound {
  readonly checks: readonly Check[];
  /** Null when it can't be used as it is. */
  readonly url: string | null;
  close(): Promise<void>;
}

const MACHINE = new Checks(null);

/** Looks at the store without changing it: a database that is not there yet is not made. */
export async function checkStore(config: Config, signal: AbortSignal): Promise<StoreFound> {
  const { databaseUrl, dataDir } = config;
  if (databaseUrl !== null) {
    const url = databaseUrl.reveal();
    return looked(url, shownUrl(url), [], () => Promise.resolve(), signal);
  }
  const space = await diskSpace(dataDir);
  try {
    const there = await describeEmbedded(dataDir);
    if (there === null) {
      const none = MACHINE.ok(`store: no database in ${dataDir} yet; the first command makes it`);
      return { checks: [none, space], url: null, close: () => Promise.resolve() };
    }
    const database = await openEmbedded({
      dataDir,
      applicationName: 'seller-mirror doctor',
      signal,
    });
    const shown = `embedded server in ${database.location}`;
    return await looked(database.url, shown, [space], () => database.close(), signal);
  } catch (error) {
    if (signal.aborted) throw error;
    return { checks: [unusable(error, null), space], url: null, close: () => Promise.resolve() };
  }
}

async function looked(
  url: string,
  shown: string,
  more: readonly Check[],
  close: () => Promise<void>,
  signal: AbortSignal,
): Promise<StoreFound> {
  try {
    // First: it tells a server that is too old.
    const state = await migrationState(url);
    const [version = '', size = '0'] = await ask(url, signal);
    const checks = [
      MACHINE.ok(`store: ${shown}, PostgreSQL ${version}, ${bytes(Number(size))}`),
      schemaCheck(state),
      ...more,
    ];
    const { pending, unknown } = state;
    return { checks, url: pending.length + unknown.length === 0 ? url : null, close };
  } catch (error) {
    if (signal.aborted) throw error;
    return { checks: [unusable(error, url), ...more], url: null, close };
  }
}

function ask(url: string, signal: AbortSignal): Promise<string[]> {
  const sql = `SELECT current_setting('server_version'), pg_database_size(current_database())`;
  return queryReadOnly(
    url,
    sql,
    async ({ rows }) => {
      const answer: string[] = [];
      for await (const row of rows) answer.push(...row.map((value) => value ?? ''));
      return answer;
    },
    signal,
  );
}

function unusable(error: unknown, url: string | null): Check {
  const [problem = '', remedy = ''] = reportError(error, url).lines;
  return MACHINE.failed(`store: ${problem}`, remedy.replace(/^→ /, '') || null);
}

function schemaCheck({ pending, failed: begun, edited, unknown }: MigrationState): Check {
  if (unknown.length > 0) {
    return MACHINE.failed(
      `schema: migrated by a newer version of this program (${unknown.join(', ')})`,
      'upgrade this program, or point it to another database',
    );
  }
  if (begun.length > 0) {
    return MACHINE.warning(`schema: ${begun.join(', ')} was begun and not finished`, MIGRATE);
  }
  if (pending.length > 0)
    return MACHINE.warning(
      `schema: ${plural(pending.length, 'migration')} pending (${pending.join(', ')})`,
      MIGRATE,
    );
  if (edited.length > 0) {
    return MACHINE.warning(
      `schema: ${edited.join(', ')} was applied in another wording than this program has`,
      'compare the files in prisma/migrations with those of the release',
    );
  }
  return MACHINE.ok('schema: up to date');
}

const MIGRATE = 'run `seller-mirror migrate`; every other command does it too';

const SCARCE_BYTES = 1e9;
const TOO_FEW_BYTES = 1e8;

async function diskSpace(dataDir: string): Promise<Check> {
  const free = await freeBytes(dataDir);
  if (free === null)
    return MACHINE.warning(`disk: the room in ${dataDir} can’t be told`, 'look with `df`');
  const text = `disk: ${bytes(free)} free for ${dataDir}`;
  const remedy = 'free some space, or set DATA_DIR to a folder on a larger disk';
  if (free < TOO_FEW_BYTES) return MACHINE.failed(text, remedy);
  return free < SCARCE_BYTES ? MACHINE.warning(text, remedy) : MACHINE.ok(text);
}

/** Of the folder, or of the nearest one above it that is there. */
async function freeBytes(folder: string): Promise<number | null> {
  try {
    const { bavail, bsize } = await statfs(folder);
    return bavail * bsize;
  } catch {
    const above = dirname(folder);
    return above === folder ? null : freeBytes(above);
  }
}
