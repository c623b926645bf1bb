import { spawn, type ChildProcess } from 'node:child_process';
import { existsSync } from 'node:fs';
import { open } from 'node:fs/promises';
import { fileURLToPath } from 'node:url';
import { z } from 'zod';
import { EmbeddedStartError } from '../errors.js';
import { files } from './place.js';
import { plainEnvironment } from './service-user.js';

/** A keeper's first argument, as JSON. It holds no secret: arguments can be seen. */
export const KEEPER_TASK = z.object({
  place: z.object({
    pointer: z.string(),
    location: z.string(),
    user: z.object({ uid: z.number(), gid: z.number() }).nullable(),
  }),
  /** The server program. */
  postgres: z.string(),
  /** False: commits need not survive a power cut. For tests. */
  durable: z.boolean(),
  /** Tells the server started for this task from others; see `START_MARK`. */
  mark: z.string(),
});

export type KeeperTask = z.infer<typeof KEEPER_TASK>;

/** A setting of the server's in which it carries the mark of the task it was started for. */
export const START_MARK = 'seller_mirror.start_mark';

/**
 * Starts a keeper that outlives this process: it has a session of its own, none of our streams,
 * and none of our environment. It ends by itself, with exit code 1 when it could not start the
 * server.
 */
export async function startKeeper(task: KeeperTask): Promise<ChildProcess> {
  const program = keeperProgram();
  const log = await open(files.log(task.place.location), 'a', 0o600);
  try {
    const child = spawn(process.execPath, [program, JSON.stringify(task)], {
      detached: true,
      cwd: '/',
      env: plainEnvironment(),
      stdio: ['ignore', log.fd, log.fd],
    });
    child.on('error', () => {}); // then it has no pid and no exit code; the caller's wait times out
    child.unref();
    return child;
  } finally {
    await log.close();
  }
}

/** The keeper is its own process, so it needs compiled JavaScript even where tests run TypeScript. */
function keeperProgram(): string {
  const compiled = import.meta.url.endsWith('.ts')
    ? '../../../dist/store/embedded/keeper.js'
    : './keeper.js';
  const path = fileURLToPath(new URL(compiled, import.meta.url));
  if (existsSync(path)) return path;
  throw new EmbeddedStartError(`${path} is missing`, 'Build the program first: npm run build');
}
