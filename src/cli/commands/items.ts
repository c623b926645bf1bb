import { UserError } from '../../domain/user-error.js';
import type { Command } from 'commander';
import type { App } from '../../app.js';
import { ITEM } from '../../catalogue/items-resource.js';
import { readHistoryStarts } from '../../catalogue/items-store.js';
import { printNote } from '../console.js';
import { usageError } from '../errors.js';
import { safeLine } from '../output/text.js';
import { addResource } from '../resource.js';

export function add(program: Command): void {
  const items = addResource(program, {
    resource: ITEM,
    source: ({ db }) => db,
    about: 'Lists the items of the mirror, now or at an earlier time, or shows one.',
    example: '4711',
    list: {
      summary: 'list the items',
      about:
        'Lists every item ever seen with its state, as it is now or, with --as-of, exactly as the mirror knew it at that moment: a day (00:00 UTC), a moment, or an age such as 7d. A table shows the most important columns, the other formats show all.',
      examples: [
        'seller-mirror items --state live --as-of 2026-03-01',
        'seller-mirror items --state removed --format csv > removed.csv',
        'seller-mirror items --item 4711 --as-of 30d --json',
      ],
      limit: Infinity,
      check: (app, { asOf, seller }) =>
        asOf instanceof Date ? assertKnown(app, asOf, seller) : Promise.resolve(),
    },
    show: {
      about:
        'Shows one item in full: all its fields, its prices over time, its changes, and how many of its purchases are known. JSON also has the record as the marketplace sent it.',
    },
  });
  // The name of `show` in earlier versions.
  items.commands.find((one) => one.name() === 'show')?.alias('view');
}

/**
 * Warns of sellers without history at a moment.
 * @throws {UserError} when nothing is known about the moment
 */
async function assertKnown(app: App, asOf: Date, seller: string | undefined): Promise<void> {
  if (asOf.getTime() > Date.now()) {
    throw usageError(
      'that moment is in the future',
      'leave --as-of out for the items as they are now',
    );
  }
  const all = await readHistoryStarts(app.db);
  const chosen = all.filter(({ sellerId }) => seller === undefined || sellerId === seller);
  const starts = chosen.flatMap(({ sellerId, since }) => {
    if (since === null) return [`no list of seller "${sellerId}" has been mirrored yet`];
    const begin = `history of seller "${sellerId}" begins at ${since.toISOString()}`;
    return since > asOf ? [begin] : [];
  });
  if (starts.length === chosen.length) {
    throw new UserError(
      `nothing is known about that moment: ${starts.join('; ') || 'nothing has been mirrored yet'}`,
      'give a later moment',
      'FAILED',
    );
  }
  printNote(starts.map((line) => `warning: ${safeLine(line)}\n`).join(''));
}
