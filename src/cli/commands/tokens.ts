import { InvalidArgumentError, Option, type Command } from 'commander';
import {
  createToken,
  listTokens,
  revokeToken,
  type Scope,
  SCOPES,
} from '../../api/tokens-store.js';
import type { App } from '../../app.js';
import { print, printList, printNote } from '../console.js';
import { usageError } from '../errors.js';
import { appAction } from '../execute.js';
import { describeCommand, type CommonOptions } from '../options.js';
import { table } from '../output/table.js';
import { momentCell } from '../output/text.js';

/** `tokens [list|add|revoke]`: manages the programs that may use the HTTP API. */
export function add(program: Command): void {
  const tokens = describeCommand(program.command('tokens'), {
    about:
      'Manages the tokens of programs that look up purchase codes (docs/lookup.md) or manage the mirror (docs/api.md) over HTTP, at API_LISTEN.',
    examples: ['seller-mirror tokens add helpdesk', 'seller-mirror tokens revoke helpdesk'],
  });
  describeCommand(tokens.command('list', { isDefault: true }), {
    summary: 'list the tokens, and when each was last used',
    examples: ['seller-mirror tokens list'],
    options: ['json'],
  }).action(appAction('store', list));
  const named = (name: string, about: string): Command =>
    tokens.command(name).argument('<name>', about, tokenName);
  describeCommand(named('add', 'of the program: letters, digits and . _ -'), {
    summary: 'make a token, and print it once',
    about: 'Makes a token and prints it. Only its hash is stored, so it can’t be shown again.',
    examples: [
      'seller-mirror tokens add helpdesk',
      'seller-mirror tokens add shop --seller main',
      'seller-mirror tokens add n8n --scope manage',
    ],
  })
    .option('--seller <name>', 'the only seller that it may ask about')
    .addOption(
      new Option(
        '--scope <scope>',
        'codes: look up purchase codes; manage: read the state and changes, and ask for syncs',
      )
        .choices(SCOPES)
        .default('codes'),
    )
    .action(appAction('sellers', addToken));
  describeCommand(named('revoke', 'of the program'), {
    summary: 'make a token useless',
    examples: ['seller-mirror tokens revoke helpdesk'],
  }).action(appAction('store', revoke));
}

function tokenName(name: string): string {
  if (/^[\w.-]{1,63}$/.test(name)) return name;
  throw new InvalidArgumentError('a name has 1 to 63 letters, digits and . _ -');
}

async function list({ db }: App, options: CommonOptions): Promise<void> {
  const tokens = await listTokens(db);
  const none = 'There is no token. `seller-mirror tokens add NAME` makes one.\n';
  await printList(options, tokens, none, (look) =>
    table(
      tokens,
      [
        { header: 'name', value: ({ name }) => name },
        { header: 'scope', value: ({ scope }) => scope },
        { header: 'seller', value: ({ sellerId }) => sellerId ?? 'all' },
        { header: 'since', value: ({ createdAt }) => momentCell(createdAt, new Date(), look) },
        {
          header: 'last used',
          value: ({ lastUsedAt }) =>
            lastUsedAt === null ? 'never' : momentCell(lastUsedAt, new Date(), look),
        },
      ],
      look,
    ),
  );
}

async function addToken(
  { config, db }: App,
  name: string,
  { seller, scope }: { readonly seller?: string; readonly scope: Scope },
): Promise<void> {
  const names = config.sellers.map((one) => one.name);
  if (seller !== undefined && !names.includes(seller)) {
    throw usageError(`there is no seller "${seller}"`, `the sellers are ${names.join(', ')}`);
  }
  const token = await createToken(db, name, seller ?? null, scope);
  if (token === null) {
    throw usageError(
      `there is already a token "${name}"`,
      'revoke it first, or choose another name',
    );
  }
  printNote(`The token of ${name}. It is not shown again:\n`);
  await print(`${token}\n`);
}

async function revoke({ db }: App, name: string): Promise<void> {
  if (!(await revokeToken(db, name))) {
    throw usageError(`there is no token "${name}"`, '`seller-mirror tokens` lists them');
  }
  await print(`the token of ${name} is revoked\n`);
}
