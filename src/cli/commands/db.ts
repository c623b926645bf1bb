import type { Command } from 'commander';
import type { Config } from '../../config/index.js';
import {
  describeEmbedded,
  hold,
  release,
  type EmbeddedDescription,
} from '../../store/embedded/index.js';
import { migrate } from '../../store/migrate.js';
import { print, printJson, stdoutLook, note } from '../console.js';
import { CommandError, usageError } from '../errors.js';
import { configFor, execute } from '../execute.js';
import { EXIT, type ExitCode } from '../exit-codes.js';
import { pairs, type TableCell } from '../output/table.js';
import { plural, safeLine } from '../output/text.js';
import { withCommonOptions, type CommonOptions } from '../options.js';
import { ownCommand, quietCommand } from '../own-command.js';

/** `db start|stop|url|status`: the embedded server, for psql and BI tools. */
export function addDb(program: Command): void {
  const db = program
    .command('db')
    .description(
      'The embedded PostgreSQL runs while a command needs it. These commands keep it running for psql and BI tools, and show how to connect. They don’t manage a server of your own (DATABASE_URL).',
    )
    .addHelpText(
      'after',
      '\nExample:\n  $ seller-mirror db start\n  $ psql "$(seller-mirror db url)" -c "select * from reporting.items"',
    );
  const start = db
    .command('start')
    .summary('start it and keep it up')
    .description('Starts the server if need be and keeps it up until `db stop`.')
    .addHelpText('after', '\nExample:\n  $ seller-mirror db start');
  withCommonOptions(start, { seller: false }).action((options: CommonOptions) =>
    execute((signal) => startServer(options, signal)),
  );
  db.command('stop')
    .summary('let it stop')
    .description('Lets the server stop when the last session ends.')
    .option('--now', 'stop it at once and cut off who is connected')
    .addHelpText('after', '\nExample:\n  $ seller-mirror db stop --now')
    .action((options: { readonly now?: true }) => execute(() => stopServer(options.now === true)));
  db.command('url')
    .summary('print its address, password included')
    .description('Prints the connection address of the running server, with its password.')
    .addHelpText('after', '\nExample:\n  $ psql "$(seller-mirror db url)"')
    .action(() => execute(printUrl));
  const status = db
    .command('status')
    .summary('tell whether it runs, and who is connected')
    .description('Tells where the data is, whether the server runs, and who is connected.')
    .addHelpText('after', '\nExample:\n  $ seller-mirror db status');
  withCommonOptions(status, { seller: false }).action((options: CommonOptions) =>
    execute(() => showStatus(options)),
  );
}

/** The configuration, when there is an embedded server to manage. */
async function embeddedConfig(): Promise<Config> {
  const config = await configFor('store');
  if (config.databaseUrl === null) return config;
  throw usageError(
    'DATABASE_URL is set, so there is no embedded server to manage',
    'give your tools the address that is in DATABASE_URL; unset it to use the embedded server',
  );
}

async function startServer({ json }: CommonOptions, signal: AbortSignal): Promise<ExitCode> {
  const config = await embeddedConfig();
  const { dataDir } = config;
  const { url, location, port, startedHere } = await hold({
    dataDir,
    applicationName: 'seller-mirror db',
    signal,
  });
  await migrate(url);
  const { host, database, user } = connectionOf(url);
  if (json === true) {
    await printJson({ host, port, database, user, location, startedHere });
    return EXIT.done;
  }
  const command = ownCommand();
  const quiet = quietCommand();
  await print(
    `The embedded PostgreSQL ${startedHere ? 'is started' : 'runs'} and stays up until \`${command} db stop\`.\n\n`,
    `  psql "$(${quiet} db url)"\n\n`,
    'For BI tools and other programs:\n',
    indented([
      ['host', host],
      ['port', port],
      ['database', database],
      ['user', user],
      ['password', `in the address that \`${command} db url\` prints`],
      ['schema', 'reporting'],
      ['data', location],
    ]),
  );
  return EXIT.done;
}

function connectionOf(url: string): { host: string; database: string; user: string } {
  const { hostname, pathname, username } = new URL(url);
  return { host: hostname, database: pathname.slice(1), user: decodeURIComponent(username) };
}

function indented(lines: readonly (readonly [string, TableCell])[]): string {
  return pairs(lines, stdoutLook(), '  ');
}

async function stopServer(now: boolean): Promise<ExitCode> {
  const { dataDir } = await embeddedConfig();
  const server = (await release(dataDir, { now }))?.server ?? null;
  if (server === null) {
    await print('The embedded server does not run.\n');
  } else if (now) {
    await print('The embedded server is stopped.\n');
  } else {
    const users = usersOf(server.sessions);
    await print(
      users.length === 0
        ? 'The embedded server stops in a few seconds.\n'
        : `The embedded server stops when the last session ends; connected: ${users.join(', ')}. \`--now\` cuts them off.\n`,
    );
  }
  return EXIT.done;
}

type Sessions = NonNullable<EmbeddedDescription['server']>['sessions'];

/** Programs that are connected, each once, with the number of its sessions. */
function usersOf(sessions: Sessions): string[] {
  const numbers = new Map<string, number>();
  for (const { applicationName } of sessions) {
    const name = safeLine(applicationName) || 'a program without a name';
    numbers.set(name, (numbers.get(name) ?? 0) + 1);
  }
  return [...numbers].map(([name, number]) => `${name} (${plural(number, 'session')})`);
}

async function printUrl(): Promise<ExitCode> {
  const config = await embeddedConfig();
  const found = await describeEmbedded(config.dataDir);
  if (found === null || found.server === null) {
    throw new CommandError(
      'the embedded server does not run, so it has no address',
      `\`${ownCommand()} db start\` starts it and keeps it up`,
    );
  }
  if (!found.held) {
    note(
      'warning: the server stops when nobody needs it any more; `seller-mirror db start` keeps it up\n',
    );
  }
  await print(`${found.server.url}\n`);
  return EXIT.done;
}

async function showStatus({ json }: CommonOptions): Promise<ExitCode> {
  const { dataDir } = await embeddedConfig();
  const found = await describeEmbedded(dataDir);
  if (json === true) await printJson(withoutPassword(found));
  else if (found === null) await print(`There is no database in ${dataDir} yet.\n`);
  else await print(indentedStatus(found));
  return EXIT.done;
}

function withoutPassword(found: EmbeddedDescription | null) {
  if (found === null) return { location: null, held: false, server: null };
  const { location, held, server } = found;
  if (server === null) return { location, held, server };
  const { pid, port, sessions } = server;
  return { location, held, server: { pid, port, sessions } };
}

function indentedStatus({ location, held, server }: EmbeddedDescription): string {
  const users = server === null ? [] : usersOf(server.sessions);
  const state = server === null ? 'not running' : `running on port ${server.port}`;
  const until = held ? 'until `seller-mirror db stop`' : 'while a command needs it';
  return pairs(
    [
      ['server', state],
      ['stays up', until],
      ['connected', users.length === 0 ? 'nobody' : users.join(', ')],
      ['data', location],
    ],
    stdoutLook(),
  );
}
