import type { Command } from 'commander';
import { executeServing } from '../service.js';

/** `worker`: does what is in the queue. */
export function addWorker(program: Command): void {
  program
    .command('worker')
    .description(
      'Does the work that `scheduler` and `sync --queue` put into the queue, WORKER_CONCURRENCY jobs at a time. Any number may run, on any number of machines; they share the request budget.',
    )
    .addHelpText(
      'after',
      '\nExample:\n  $ WORKER_CONCURRENCY=8 seller-mirror worker\n\nExit codes: 0 stopped in order, 1 could not start, 2 configuration, 130 second Ctrl-C',
    )
    .action(() => executeServing('worker', { scheduler: false, worker: true }));
}
