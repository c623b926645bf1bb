import type { Command } from 'commander';
import { CHANGES } from '../../catalogue/changes-listing.js';
import { addListing } from '../listing.js';

export function add(program: Command): void {
  addListing(program.command('changes'), CHANGES, {
    source: ({ db }) => db,
    about:
      'Lists the changes of items, newest first. The first list starts the history: its items are not changes. If more than 20 items change in the same way in one run, as in a sale, one line stands for all of them; --all prints a line for each. CSV and JSON always have a line for each.',
    examples: [
      'seller-mirror changes --since 7d --class price',
      'seller-mirror changes --item 4711 --limit 100',
      'seller-mirror changes --since 2026-11-01 -o changes.csv',
    ],
    limit: 50,
  });
}
