import { InvalidArgumentError, Option, type Command } from 'commander';
import type { App } from '../../app.js';
import { removeSeller, renameSeller } from '../../catalogue/names-store.js';
import { readSellerStatuses } from '../../catalogue/status-store.js';
import { count, plural } from '../../domain/text.js';
import { print, printList, printNote } from '../console.js';
import { appAction, openQueuesOf } from '../execute.js';
import { describeCommand, type CommonOptions } from '../options.js';
import { table } from '../output/table.js';
import { confirmed } from '../resource.js';
import { momentCell, safeLine } from '../output/text.js';

/** `sellers [list|rename|remove]`: manages the sellers of the store. */
export function add(program: Command): void {
  const sellers = describeCommand(program.command('sellers'), {
    about:
      'Lists the sellers of the store and of the settings. `rename` and `remove` change the store only.',
    examples: ['seller-mirror sellers', 'seller-mirror sellers rename mian main'],
  });
  describeCommand(sellers.command('list', { isDefault: true }), {
    summary: 'list the sellers, with their accounts and numbers of items',
    examples: ['seller-mirror sellers list'],
    options: ['json'],
  }).action(appAction('store', list));
  const rename = sellers
    .command('rename')
    .argument('<name>', 'of the seller in the store')
    .argument('<new>', 'its new name: that of the settings', sellerName);
  describeCommand(rename, {
    summary: 'give a seller another name, with its copy and history',
    about:
      'Gives a seller another name, with its copy, history and checks. Change the name in the settings, too. Queued jobs of the old name are deleted.',
    examples: ['seller-mirror sellers rename mian main'],
  }).action(appAction('store', (app, from: string, to: string) => renamed(app, from, to)));
  describeCommand(sellers.command('remove').argument('<name>', 'of the seller in the store'), {
    summary: 'delete a seller with its copy, history and checks',
    about:
      'Deletes a seller with its copy, history, checks, schedules and queued jobs. Asks for its name again. Nothing can bring the rows back but a backup.',
    examples: ['seller-mirror sellers remove old', 'seller-mirror sellers remove old --yes old'],
    options: [new Option('--yes <name>', 'the name again, so that nothing is asked')],
  }).action(appAction('store', remove));
}

function sellerName(name: string): string {
  if (/^[\w.-]{1,63}$/.test(name)) return name;
  throw new InvalidArgumentError('a name has 1 to 63 letters, digits and . _ -');
}

async function list({ db, config }: App, options: CommonOptions): Promise<void> {
  const stored = await readSellerStatuses(db);
  const configured = config.sellers.map(({ name }) => name);
  const unused = configured.filter((name) => stored.every(({ sellerId }) => sellerId !== name));
  const rows = [
    ...stored.map(({ sellerId, marketplace, account, items, knownSince }) => ({
      sellerId,
      configured: configured.includes(sellerId),
      account: account?.username ?? null,
      marketplace,
      ...items,
      knownSince,
    })),
    ...unused.map((sellerId) => ({
      ...{ sellerId, configured: true, account: null, marketplace: null },
      ...{ live: 0, missing: 0, removed: 0, knownSince: null },
    })),
  ];
  const none =
    'There is no seller. Set SELLER_NAME or SELLERS_FILE, and run `seller-mirror sync`.\n';
  await printList(options, rows, none, (look) =>
    table(
      rows,
      [
        { header: 'seller', value: ({ sellerId }) => sellerId },
        { header: 'in the settings', value: (row) => (row.configured ? 'yes' : 'no') },
        { header: 'account', value: ({ account }) => account ?? '–' },
        { header: 'marketplace', value: ({ marketplace }) => marketplace ?? '–' },
        { header: 'items', value: ({ live, missing }) => count(live + missing) },
        {
          header: 'since',
          value: ({ knownSince }) =>
            knownSince === null ? '–' : momentCell(knownSince, new Date(), look),
        },
      ],
      look,
    ),
  );
}

async function renamed(app: App, from: string, to: string): Promise<void> {
  await renameSeller(app.db, from, to);
  await forgetJobs(app, from);
  await print(`${safeLine(from)} is now ${to}; its copy, history and checks are kept\n`);
  const names = app.config.sellers.map(({ name }) => name);
  if (names.includes(from))
    printNote(`The settings still name it ${safeLine(from)}: change that to ${to}.\n`);
}

async function remove(app: App, name: string, { yes }: { readonly yes?: string }): Promise<void> {
  const ask = `This deletes the copy, history and checks of ${name}. Type its name`;
  const wrong = 'the name does not match: nothing was removed';
  await confirmed({ ask, answer: name, wrong }, yes, app.signal);
  const items = await removeSeller(app.db, name);
  await forgetJobs(app, name);
  await print(`${safeLine(name)} is removed, with ${plural(items, 'item')}\n`);
  if (app.config.sellers.some((one) => one.name === name)) {
    printNote(`The settings still name ${safeLine(name)}: the next run mirrors it again.\n`);
  }
}

/** Deletes what the queue keeps of a seller. */
async function forgetJobs(app: App, seller: string): Promise<void> {
  const queues = await openQueuesOf(app, 'sellers');
  try {
    await queues.forgetSeller(seller);
  } finally {
    await queues.close();
  }
}
