import type { Command } from 'commander';
import { executeServing } from '../service.js';

/** `run`: schedule and work in one process. */
export function addRun(program: Command): void {
  program
    .command('run')
    .description(
      'Fires the schedules (SYNC_CRON, ACCOUNT_CRON) and does the work, in one process, until SIGINT or SIGTERM. Health and metrics are at HEALTH_LISTEN.',
    )
    .addHelpText(
      'after',
      '\nExample:\n  $ SYNC_CRON="30 3 * * *" TZ=Europe/Berlin seller-mirror run\n\nExit codes: 0 stopped in order, 1 could not start, 2 configuration, 130 second Ctrl-C',
    )
    .action(() => executeServing('run', { scheduler: true, worker: true }));
}
