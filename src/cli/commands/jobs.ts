import type { Command } from 'commander';
import { JOB } from '../../service/jobs-resource.js';
import { addResource } from '../resource.js';

/** `jobs [list|retry]`: jobs of the queue that failed for good. */
export function add(program: Command): void {
  addResource(program, {
    resource: JOB,
    source: (app) => app,
    about:
      'Lists the jobs that failed for good, or has one done again. What is due by a schedule comes again by itself.',
    example: 'mirror-42',
    list: {
      summary: 'list the failed jobs, newest first',
      examples: ['seller-mirror jobs list', 'seller-mirror jobs list --queue feeds'],
    },
  });
}
