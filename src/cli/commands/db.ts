import { UserError } from '../../domain/user-error.js';
import type { Command } from 'commander';
import type { Config } from '../../config/index.js';
import {
  describeEmbedded,
  hold,
  release,
  type EmbeddedDescription,
} from '../../db/embedded/index.js';
import { grantReports, migrate } from '../../db/migrate.js';
import { printNote, print, printResult, stdoutLook } from '../console.js';
import { usageError } from '../errors.js';
import { action, configFor } from '../execute.js';
import { pairs } from '../output/table.js';
import { safeLine } from '../output/text.js';
import { plural } from '../../domain/text.js';
import { describeCommand, type CommonOptions } from '../options.js';
import { ownCommand } from '../own-command.js';

export function add(program: Command): void {
  const db = describeCommand(program.command('db'), {
    about:
      'The embedded PostgreSQL runs only while a command needs it. These commands keep it running for psql and BI tools, and show how to connect. They don’t manage your own server (DATABASE_URL).',
    examples: [
      'seller-mirror db start',
      'psql "$(seller-mirror db url --read-only)" -c "select * from reporting.items"',
    ],
  });
  describeCommand(db.command('start'), {
    summary: 'start the server and keep it running',
    about: 'Starts the server, unless it runs already, and keeps it running until `db stop`.',
    examples: ['seller-mirror db start'],
    options: ['json'],
  }).action(action(start));
  describeCommand(
    db.command('stop').option('--now', 'stop it at once, which disconnects everybody'),
    {
      summary: 'no longer keep the server running',
      about: 'Stops the server as soon as its last session ends.',
      examples: ['seller-mirror db stop --now'],
    },
  ).action(action(stop));
  describeCommand(
    db
      .command('url')
      .option('--read-only', 'of a user who may only read schema reporting, for BI tools'),
    {
      summary: 'print the address of the running server, password included',
      examples: ['psql "$(seller-mirror db url --read-only)"'],
    },
  ).action(action(printUrl));
  describeCommand(db.command('status'), {
    summary: 'show where the data is, whether the server runs, and who is connected',
    examples: ['seller-mirror db status'],
    options: ['json'],
  }).action(action(status));
}

function embeddedConfig(): Config {
  const config = configFor('store');
  if (config.databaseUrl === null) return config;
  throw usageError(
    'DATABASE_URL is set, so there is no embedded server to manage',
    'give your tools the address in DATABASE_URL, or unset it to use the embedded server',
  );
}

async function start(signal: AbortSignal, options: CommonOptions): Promise<void> {
  const { dataDir } = embeddedConfig();
  const held = await hold({ dataDir, applicationName: 'seller-mirror db', signal });
  const { url, readOnlyUrl, location, port, startedHere } = held;
  await migrate(url);
  await grantReports(url, signal);
  const { hostname: host, pathname, username: owner } = new URL(url);
  const { username: user } = new URL(readOnlyUrl);
  const database = pathname.slice(1);
  await printResult(options, { host, port, database, user, owner, location, startedHere }, () => {
    const command = ownCommand();
    const connection = [
      ['host', host],
      ['port', port],
      ['database', database],
      ['user', user],
      ['password', `part of the address that \`${command} db url --read-only\` prints`],
      ['schema', 'reporting, which is all that this user may read'],
      ['data', location],
    ] as const;
    return [
      `The embedded PostgreSQL ${startedHere ? 'has started' : 'is running'} and keeps running until \`${command} db stop\`.\n\n`,
      `  psql "$(${ownCommand()} db url --read-only)"\n\n`,
      'For BI tools and other programs:\n',
      pairs(connection, stdoutLook(), '  '),
    ].join('');
  });
}

async function stop(_: AbortSignal, { now = false }: { readonly now?: boolean }): Promise<void> {
  const { dataDir } = embeddedConfig();
  const server = (await release(dataDir, { now }))?.server ?? null;
  const users = server === null ? '' : usersOf(server.sessions);
  if (server === null) await print('The embedded server is not running.\n');
  else if (now) await print('The embedded server is stopped.\n');
  else if (users === '') await print('The embedded server stops in a few seconds.\n');
  else {
    await print(
      `The embedded server stops when the last session ends; connected: ${users}. \`--now\` disconnects them.\n`,
    );
  }
}

type Sessions = NonNullable<EmbeddedDescription['server']>['sessions'];

interface UrlOptions {
  readonly readOnly?: boolean;
}

/** The connected programs, each with the number of its sessions. */
function usersOf(sessions: Sessions): string {
  const counts = new Map<string, number>();
  for (const { applicationName } of sessions) {
    const name = safeLine(applicationName) || 'a program without a name';
    counts.set(name, (counts.get(name) ?? 0) + 1);
  }
  return [...counts].map(([name, count]) => `${name} (${plural(count, 'session')})`).join(', ');
}

async function printUrl(_: AbortSignal, { readOnly = false }: UrlOptions): Promise<void> {
  const { dataDir } = embeddedConfig();
  const { server = null, held = false } = (await describeEmbedded(dataDir)) ?? {};
  if (server === null) {
    throw new UserError(
      'the embedded server is not running, so it has no address',
      '`seller-mirror db start` starts it and keeps it running',
      'FAILED',
    );
  }
  if (!held) {
    printNote(
      'warning: the server stops as soon as no command needs it; `seller-mirror db start` keeps it running\n',
    );
  }
  await print(`${readOnly ? server.readOnlyUrl : server.url}\n`);
}

async function status(_: AbortSignal, options: CommonOptions): Promise<void> {
  const { dataDir } = embeddedConfig();
  const found = await describeEmbedded(dataDir);
  const { location = null, held = false, server = null } = found ?? {};
  // The address is left out: it holds the password.
  const { pid, port, sessions = [] } = server ?? {};
  const json = { location, held, server: server && { pid, port, sessions } };
  await printResult(options, json, () => {
    if (location === null) return `There is no database in ${dataDir} yet.\n`;
    const lines = [
      ['server', server === null ? 'not running' : `running on port ${port}`],
      ['stays up', held ? `until \`${ownCommand()} db stop\`` : 'while a command needs it'],
      ['connected', usersOf(sessions) || 'nobody'],
      ['data', location],
    ] as const;
    return pairs(lines, stdoutLook());
  });
}
