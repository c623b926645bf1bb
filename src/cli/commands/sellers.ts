import { InvalidArgumentError, type Command } from 'commander';
import { renameSeller } from '../../catalogue/names-store.js';
import { SELLER } from '../../service/sellers-resource.js';
import { print, printNote } from '../console.js';
import { appAction, type CommandApp } from '../execute.js';
import { describeCommand } from '../options.js';
import { safeLine } from '../output/text.js';
import { addResource } from '../resource.js';

/** `sellers [list|show|sync|pause|resume|rename|remove]`: manages the sellers of the store. */
export function add(program: Command): void {
  const sellers = addResource(program, {
    resource: SELLER,
    source: (app) => app,
    about:
      'Lists the sellers of the store and of the settings, shows one, or acts on it. `rename` and `remove` change the store only.',
    example: 'main',
    list: {
      summary: 'list the sellers, with their accounts and numbers of items',
      examples: ['seller-mirror sellers list'],
    },
  });
  const rename = sellers
    .command('rename')
    .argument('<name>', 'of the seller in the store')
    .argument('<new>', 'its new name: that of the settings', sellerName);
  describeCommand(rename, {
    summary: 'give a seller another name, with its copy and history',
    about:
      'Gives a seller another name, with its copy, history and checks. Change the name in the settings, too. Queued jobs of the old name are deleted.',
    examples: ['seller-mirror sellers rename mian main'],
  }).action(appAction('store', renamed));
}

function sellerName(name: string): string {
  if (/^[\w.-]{1,63}$/.test(name)) return name;
  throw new InvalidArgumentError('a name has 1 to 63 letters, digits and . _ -');
}

async function renamed(app: CommandApp, from: string, to: string): Promise<void> {
  // First, so that nothing is renamed while the queue can't be reached.
  const queues = await app.queues();
  await queues.ping();
  await renameSeller(app.db, from, to);
  await queues.forgetSeller(from);
  await print(`${safeLine(from)} is now ${to}; its copy, history and checks are kept\n`);
  const names = app.config.sellers.map(({ name }) => name);
  if (names.includes(from))
    printNote(`The settings still name it ${safeLine(from)}: change that to ${to}.\n`);
}
