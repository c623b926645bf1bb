import { once } from 'node:events';
import type { Command } from 'commander';
import type { Roles } from '../../service/service.js';
import type { Config } from '../../config/index.js';
import { usageError } from '../errors.js';
import { serviceAction } from '../execute.js';
import { describeCommand } from '../options.js';
import type { Serving } from '../serve.js';

export function add(program: Command): void {
  addService(
    program.command('run'),
    { scheduler: true, worker: true, dashboard: true, api: true },
    'Runs the schedules (SYNC_CRON, ACCOUNT_CRON, AUDIT_CRON) and does all jobs in the queue, in one process, until SIGINT or SIGTERM. Serves the dashboard at DASHBOARD_LISTEN, health and metrics at HEALTH_LISTEN, and the look-up API at API_LISTEN, if that is set.',
    'SYNC_CRON="30 3 * * *" TZ=Europe/Berlin',
  );
}

export function addScheduler(program: Command): void {
  addService(
    program.command('scheduler'),
    { scheduler: true, worker: false, dashboard: false, api: false },
    'Puts the jobs of each schedule into the queue, for `worker` processes. Any number may run: each tick still becomes one job.',
    'REDIS_URL=redis://queue.example:6379',
  );
}

export function addWorker(program: Command): void {
  addService(
    program.command('worker'),
    { scheduler: false, worker: true, dashboard: false, api: false },
    'Does the jobs that `scheduler`, `sync --queue`, `codes check --detach` and the dashboard put into the queue, WORKER_CONCURRENCY at a time, and continues interrupted checks. Any number may run, on any number of machines; they share the request budget.',
    'WORKER_CONCURRENCY=8',
  );
}

function addService(command: Command, roles: Roles, about: string, settings: string): void {
  const name = command.name();
  describeCommand(command, {
    about,
    examples: [`${settings} seller-mirror ${name}`],
    more: SERVICE_EXIT_CODES,
  }).action(serviceAction((signal) => serveUntil(signal, name, roles)));
}

/** `api`: serves the look-up API alone. */
export function addApi(program: Command): void {
  const command = describeCommand(program.command('api'), {
    about:
      'Lets your own programs look up purchase codes over HTTP at API_LISTEN, until SIGINT or SIGTERM. `run` serves it too, if API_LISTEN is set. A `worker` or `run` must be up: it confirms denied codes.',
    examples: ['API_LISTEN=127.0.0.1:8792 seller-mirror api', 'seller-mirror tokens add helpdesk'],
    more: SERVICE_EXIT_CODES,
  });
  const roles = { scheduler: false, worker: false, dashboard: false, api: true };
  const onServing = ({ apiUrl }: Serving): Promise<void> => {
    if (apiUrl !== null) return Promise.resolve();
    throw usageError('the look-up API has no address', 'set API_LISTEN, such as 127.0.0.1:8792');
  };
  command.action(serviceAction((signal) => serveUntil(signal, 'api', roles, { onServing })));
}

export const SERVICE_EXIT_CODES =
  'Exit codes: 0 stopped cleanly, 1 could not start, 2 wrong configuration, 130 second Ctrl-C';

interface ServeOptions {
  /** Used instead of this process's configuration. */
  readonly config?: Config | null;
  /** Called once the service is up. */
  readonly onServing?: (service: Serving) => Promise<void>;
}

/** Runs a service until the signal, then stops it cleanly. */
export async function serveUntil(
  signal: AbortSignal,
  name: string,
  roles: Roles,
  { config = null, onServing }: ServeOptions = {},
): Promise<void> {
  try {
    const { serve } = await import('../serve.js'); // slow to load: it brings the queue
    const service = await serve(name, roles, signal, config);
    await onServing?.(service);
    if (!signal.aborted) await once(signal, 'abort');
    await service.stop();
  } catch (error) {
    if (!signal.aborted) throw error;
  }
}
