import { hostname } from 'node:os';
import type { Command } from 'commander';
import type { App } from '../../app.js';
import { newToken, tokenHash } from '../../dashboard/security.js';
import { listLiveProcesses } from '../../service/processes-store.js';
import { printNote, print, userName } from '../console.js';
import { usageError } from '../errors.js';
import { appAction, serviceAction } from '../execute.js';
import { describeCommand } from '../options.js';
import type { Serving } from '../serve.js';
import type { Db } from '../../db/db.js';
import { addLoginLink } from '../../dashboard/access-store.js';
import { SERVICE_EXIT_CODES, serveUntil } from './run.js';

/** `dashboard`: serves the pages; `dashboard link`: prints a login link. */
export function add(program: Command): void {
  const dashboard = describeCommand(program.command('dashboard'), {
    about:
      'Serves the dashboard at DASHBOARD_LISTEN until SIGINT or SIGTERM. `run` serves it too; use this command on another machine, or for a store that no process works on.',
    examples: ['seller-mirror dashboard', 'seller-mirror dashboard link'],
    more: SERVICE_EXIT_CODES,
  }).action(
    serviceAction((signal) => serveUntil(signal, 'dashboard', DASHBOARD_ONLY, { onServing })),
  );
  describeCommand(dashboard.command('link'), {
    summary: 'print a link that logs in once',
    about:
      'Prints a link that logs in once as an operator, within 10 minutes. It gives no new rights: whoever can run commands on the store can do everything.',
    examples: ['seller-mirror dashboard link'],
  }).action(appAction('store', printLink));
}

const DASHBOARD_ONLY = { scheduler: false, worker: false, dashboard: true, api: false };

async function onServing({ db, dashboardUrl }: Serving): Promise<void> {
  if (dashboardUrl === null) {
    throw usageError('the dashboard is turned off', 'unset DASHBOARD_LISTEN');
  }
  await print(`The dashboard is at ${dashboardUrl}\n`);
  if (process.stdout.isTTY) await print(await linkLines(db, dashboardUrl));
  else printNote('`seller-mirror dashboard link` prints a link that logs you in\n');
}

/** Where the dashboard is for people: as the settings say, or where one is running; null: nobody knows. */
export async function addressOf({
  config,
  db,
}: Pick<App, 'config' | 'db'>): Promise<string | null> {
  const [serving] = await listLiveProcesses(db, 'dashboard');
  return config.dashboard.url ?? serving?.dashboardUrl ?? null;
}

const LINK_NOTE = 'This link logs you in once, within 10 minutes';

/** Creates a login link, and formats it for the terminal. */
export async function linkLines(db: Db, dashboardUrl: string): Promise<string> {
  return `${LINK_NOTE}:\n\n  ${await newLink(db, dashboardUrl)}\n\n`;
}

async function printLink({ config, db }: App): Promise<void> {
  const url = await addressOf({ config, db });
  if (url === null) {
    throw usageError(
      'no dashboard is running on this store',
      'start one with `seller-mirror dashboard` or `seller-mirror run`, then repeat this command',
    );
  }
  await print(`${await newLink(db, url)}\n`);
  printNote(`${LINK_NOTE}.\n`);
}

/** Creates a login link. @param account null: one's own, of an operator */
export async function newLink(
  db: Db,
  dashboardUrl: string,
  account: string | null = null,
): Promise<string> {
  const token = newToken();
  await addLoginLink(db, tokenHash(token), `${userName()}@${hostname()}`, account);
  return `${dashboardUrl}/login?token=${token}`;
}
