import type { Command } from 'commander';
import { RUN } from '../../catalogue/runs-resource.js';
import { addResource, resourceCommand } from '../resource.js';

export const RUNS = resourceCommand({
  resource: RUN,
  source: ({ db }) => db,
  about: 'Lists the newest runs, shows one, or settles what it holds.',
  example: '42',
  list: {
    summary: 'list the newest runs',
    examples: ['seller-mirror runs list --limit 5', 'seller-mirror runs list --state failed'],
  },
});

export function add(program: Command): void {
  addResource(program, RUNS);
}
