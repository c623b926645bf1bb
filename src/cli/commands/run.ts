import type { Command } from 'commander';
import type { Roles } from '../../app/service.js';
import { complain } from '../execute.js';
import { EXIT } from '../exit-codes.js';

/** `run`: scheduler and worker in one process. */
export function addRun(program: Command): void {
  program
    .command('run')
    .description(
      'Runs the schedules (SYNC_CRON, ACCOUNT_CRON) and does their work, in one process, until SIGINT or SIGTERM. Health and metrics are at HEALTH_LISTEN.',
    )
    .addHelpText(
      'after',
      '\nExample:\n  $ SYNC_CRON="30 3 * * *" TZ=Europe/Berlin seller-mirror run\n\nExit codes: 0 stopped in order, 1 could not start, 2 configuration, 130 second Ctrl-C',
    )
    .action(() => serveUntilSignal('run', { scheduler: true, worker: true }));
}

/** `scheduler`: puts scheduled jobs into the queue. */
export function addScheduler(program: Command): void {
  program
    .command('scheduler')
    .description(
      'Puts the jobs of each schedule into the queue, for `worker` processes. Any number may run: each tick is enqueued once.',
    )
    .addHelpText(
      'after',
      '\nExample:\n  $ REDIS_URL=redis://queue.example:6379 seller-mirror scheduler\n\nExit codes: 0 stopped in order, 1 could not start, 2 configuration, 130 second Ctrl-C',
    )
    .action(() => serveUntilSignal('scheduler', { scheduler: true, worker: false }));
}

/** `worker`: does the jobs in the queue. */
export function addWorker(program: Command): void {
  program
    .command('worker')
    .description(
      'Does the jobs that `scheduler` and `sync --queue` put into the queue, WORKER_CONCURRENCY at a time. Any number may run, on any number of machines; they share the request budget.',
    )
    .addHelpText(
      'after',
      '\nExample:\n  $ WORKER_CONCURRENCY=8 seller-mirror worker\n\nExit codes: 0 stopped in order, 1 could not start, 2 configuration, 130 second Ctrl-C',
    )
    .action(() => serveUntilSignal('worker', { scheduler: false, worker: true }));
}

/**
 * Runs a service until SIGINT or SIGTERM, then stops it in order and ends with 0. A second signal ends
 * it at once with 130: the next worker repeats the unfinished jobs.
 */
async function serveUntilSignal(name: string, roles: Roles): Promise<void> {
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
    const service = await serve(name, roles, interruption.signal);
    await interrupted;
    await service.stop();
  } catch (error) {
    if (!interruption.signal.aborted) exitCode = complain(error);
  }
  // Ends also when something is still open, such as the wait for a host that never answers.
  process.exit(exitCode);
}
