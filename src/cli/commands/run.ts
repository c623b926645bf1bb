import type { Command } from 'commander';
import type { Roles } from '../../app/service.js';
import type { Config } from '../../config/index.js';
import { complain } from '../execute.js';
import { EXIT } from '../exit-codes.js';
import { described } from '../options.js';
import type { Serving } from '../serve.js';

export function add(program: Command): void {
  addService(
    program.command('run'),
    { scheduler: true, worker: true, dashboard: true },
    'Runs the schedules (SYNC_CRON, ACCOUNT_CRON) and does their work, in one process, until SIGINT or SIGTERM. The dashboard is at DASHBOARD_LISTEN, health and metrics at HEALTH_LISTEN.',
    'SYNC_CRON="30 3 * * *" TZ=Europe/Berlin',
  );
}

export function addScheduler(program: Command): void {
  addService(
    program.command('scheduler'),
    { scheduler: true, worker: false, dashboard: false },
    'Puts the jobs of each schedule into the queue, for `worker` processes. Any number may run: each tick is enqueued once.',
    'REDIS_URL=redis://queue.example:6379',
  );
}

export function addWorker(program: Command): void {
  addService(
    program.command('worker'),
    { scheduler: false, worker: true, dashboard: false },
    'Does the jobs that `scheduler` and `sync --queue` put into the queue, WORKER_CONCURRENCY at a time. Any number may run, on any number of machines; they share the request budget.',
    'WORKER_CONCURRENCY=8',
  );
}

function addService(command: Command, roles: Roles, about: string, settings: string): void {
  const name = command.name();
  described(command, {
    about,
    examples: [`${settings} seller-mirror ${name}`],
    more: SERVICE_EXIT_CODES,
  }).action(() => serveUntilSignal(name, roles));
}

export const SERVICE_EXIT_CODES =
  'Exit codes: 0 stopped in order, 1 could not start, 2 configuration, 130 second Ctrl-C';

interface ServeOptions {
  /** Other than that of this process. */
  readonly config?: Config | null;
  /** Called once it serves; the signal ends what it starts. */
  readonly onServing?: (service: Serving, signal: AbortSignal) => Promise<void>;
}

/**
 * Runs a service until SIGINT or SIGTERM, then stops it in order and ends with 0. A second signal ends
 * it at once with 130: the next worker repeats the unfinished jobs.
 */
export async function serveUntilSignal(
  name: string,
  roles: Roles,
  { config = null, onServing }: ServeOptions = {},
): Promise<void> {
  const interruption = new AbortController();
  const interrupted = new Promise<void>((resolve) => {
    const onSignal = (): void => {
      if (interruption.signal.aborted) process.exit(EXIT.interrupted);
      interruption.abort(new Error('interrupted'));
      resolve();
    };
    process.on('SIGINT', onSignal);
    process.on('SIGTERM', onSignal);
  });
  let exitCode: number = EXIT.done;
  try {
    const { serve } = await import('../serve.js'); // takes long to load: it brings the queue
    const service = await serve(name, roles, interruption.signal, config);
    await onServing?.(service, interruption.signal);
    await interrupted;
    await service.stop();
  } catch (error) {
    if (!interruption.signal.aborted) exitCode = complain(error);
  }
  // Ends also when something is still open, such as the wait for a host that never answers.
  process.exit(exitCode);
}
