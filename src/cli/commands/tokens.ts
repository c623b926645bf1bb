import { InvalidArgumentError, Option, type Command } from 'commander';
import type { App } from '../../app.js';
import { TOKEN } from '../../service/tokens-resource.js';
import { createToken, type Scope, SCOPES } from '../../service/tokens-store.js';
import { print, printNote } from '../console.js';
import { usageError } from '../errors.js';
import { appAction } from '../execute.js';
import { describeCommand } from '../options.js';
import { addResource } from '../resource.js';

/** `tokens [list|add|revoke]`: manages the programs that may use the HTTP API. */
export function add(program: Command): void {
  const tokens = addResource(program, {
    resource: TOKEN,
    source: ({ db }) => db,
    about:
      'Manages the tokens of programs that look up purchase codes (docs/lookup.md) or manage the mirror (docs/api.md) over HTTP, at API_LISTEN.',
    example: 'helpdesk',
    list: {
      summary: 'list the tokens, and when each was last used',
      examples: ['seller-mirror tokens list'],
    },
  });
  const about = 'of the program: letters, digits and . _ -';
  describeCommand(tokens.command('add').argument('<name>', about, tokenName), {
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
}

function tokenName(name: string): string {
  if (/^[\w.-]{1,63}$/.test(name)) return name;
  throw new InvalidArgumentError('a name has 1 to 63 letters, digits and . _ -');
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
