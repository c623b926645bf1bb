import { spawn, type ChildProcess } from 'node:child_process';
import { once } from 'node:events';
import { chmod, mkdtemp, realpath, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { onTestFinished } from 'vitest';
import {
  connect,
  findPostmaster,
  readCredentials,
  WATCHER_NAME,
} from '../../../src/db/embedded/server.js';
import { DIST } from '../../support/built.js';
import { openEmbedded, release, type EmbeddedDatabase } from '../../../src/db/embedded/index.js';

export { DIST };

/** A folder that the service account can enter too. Removed after the test. */
export async function trialFolder(name = 'trial'): Promise<string> {
  const folder = await realpath(
    await mkdtemp(join(tmpdir(), `seller-mirror-tests-${process.pid}-${name}-`)),
  );
  await chmod(folder, 0o755);
  onTestFinished(async () => {
    await rm(folder, { recursive: true, force: true, maxRetries: 20 });
  });
  return folder;
}

/** A data folder whose server is stopped after the test. */
export async function trialDataDir(name?: string): Promise<string> {
  const dataDir = join(await trialFolder(name), 'data');
  onTestFinished(async () => {
    await release(dataDir, { now: true }).catch(() => {}); // the test may have broken it
  });
  return dataDir;
}

/** Opens the database, and closes it after the test. */
export async function open(
  dataDir: string,
  options: Partial<Parameters<typeof openEmbedded>[0]> = {},
): Promise<EmbeddedDatabase> {
  const database = await openEmbedded({ dataDir, applicationName: 'test', ...options });
  onTestFinished(() => database.close());
  return database;
}

/** PID of the server on `location`, or null if none runs. */
export async function serverPid(location: string): Promise<number | null> {
  return (await findPostmaster(location))?.pid ?? null;
}

/** PIDs of the watchers that watch the server on `location`. */
export async function watcherPids(location: string): Promise<number[]> {
  const port = (await findPostmaster(location))?.port ?? 0;
  const client = await connect(await readCredentials(location), port, 'admin', 'test');
  try {
    const { rows } = await client.query<{ name: string }>(
      'SELECT application_name AS name FROM pg_stat_activity WHERE starts_with(application_name, $1)',
      [WATCHER_NAME],
    );
    return rows.map(({ name }) => Number.parseInt(name.slice(WATCHER_NAME.length), 10));
  } finally {
    await client.end();
  }
}

/** A separate process that keeps the database open until `end`. */
export interface Command {
  readonly process: ChildProcess;
  /** The result of its `openEmbedded`. */
  readonly opened: Promise<Opened>;
  /** Makes it close the database and exit. Resolves to the exit code once its output is closed too. */
  end(): Promise<number | null>;
}

type Opened = Pick<EmbeddedDatabase, 'url' | 'location' | 'port' | 'startedHere'>;

const SCRIPT = `
  const { openEmbedded } = await import(process.argv[1]);
  const database = await openEmbedded({ dataDir: process.argv[2], applicationName: 'command' });
  console.log(JSON.stringify(database));
  process.stdin.resume();
  process.stdin.on('end', () => void database.close());
`;

export function startCommand(dataDir: string, user?: { uid: number; gid: number }): Command {
  const index = join(DIST, 'db/embedded/index.js');
  const child = spawn(
    process.execPath,
    ['--input-type=module', '-e', SCRIPT, '--', index, dataDir],
    { ...user, cwd: '/', detached: true, stdio: ['pipe', 'pipe', 'pipe'] },
  );
  onTestFinished(() => {
    child.kill('SIGKILL');
  });
  const closed = once(child, 'close') as Promise<[number | null]>;
  return {
    process: child,
    opened: firstLine(child),
    end: async () => {
      child.stdin.end();
      return (await closed)[0];
    },
  };
}

async function firstLine(child: ChildProcess): Promise<Opened> {
  let errors = '';
  child.stderr?.on('data', (part: Buffer) => (errors += part.toString()));
  if (child.stdout !== null) {
    for await (const line of createInterface(child.stdout)) return JSON.parse(line) as Opened;
  }
  throw new Error(`the command ended without opening the database: ${errors}`);
}
