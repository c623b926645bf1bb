import type { Command } from 'commander';
import { executeServing } from '../service.js';

/** `scheduler`: fires the schedules; workers do the work. */
export function addScheduler(program: Command): void {
  program
    .command('scheduler')
    .description(
      'Puts the work of each schedule into the queue, for `worker` processes. Any number may run: each tick is enqueued once.',
    )
    .addHelpText(
      'after',
      '\nExample:\n  $ REDIS_URL=redis://queue.example:6379 seller-mirror scheduler\n\nExit codes: 0 stopped in order, 1 could not start, 2 configuration, 130 second Ctrl-C',
    )
    .action(() => executeServing('scheduler', { scheduler: true, worker: false }));
}
