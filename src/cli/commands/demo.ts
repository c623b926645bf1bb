import { randomBytes } from 'node:crypto';
import { rm } from 'node:fs/promises';
import { join } from 'node:path';
import { Option, type Command } from 'commander';
import { openApp, type App } from '../../app.js';
import { readConfig, type Config, type FeedConfig } from '../../config/index.js';
import { runFeed } from '../../feeds/open.js';
import { syncSeller } from '../../jobs/sync-catalogue.js';
import type { RunReport } from '../../jobs/types.js';
import { cronFault } from '../../queue/cron.js';
import type { Simulator } from '../../simulator/index.js';
import { queryReadOnly } from '../../store/read-only.js';
import { print, stdoutLook } from '../console.js';
import { DEMO_SELLER, changeMarket, installedPackages, openMarket } from '../demo-market.js';
import { action, readSettings } from '../execute.js';
import type { ExitCode } from '../exit-codes.js';
import { described } from '../options.js';
import { linkLines } from './dashboard.js';
import { feedLines } from './feed.js';
import { serveUntilSignal } from './run.js';
import { pairs, table } from '../output/table.js';
import { count, paint } from '../output/text.js';
import { ownCommand, quietCommand } from '../own-command.js';
import { SyncProgress, exitCodeOf, runLines } from '../run-report.js';

const ALL_ITEMS_QUERY =
  'select item_id, name, version, price_regular as price, state from reporting.items order by item_id';
const SHOWN_QUERY =
  'select item_id, name, version, price_regular, currency from reporting.items order by price_regular desc limit 5';

const ACCOUNT_QUERY = `select username, full_name as name, concat_ws(' ', balance, currency) as balance,
  registered_at as registered from reporting.accounts`;

export function add(program: Command): void {
  const serve = new Option(
    '--serve',
    'then serve the dashboard, with a night in the marketplace every minute',
  );
  described(program.command('demo'), {
    about:
      'Mirrors a marketplace simulated on this machine, changes something there, and mirrors again. Its data is in DATA_DIR/demo, and is deleted at each start.',
    examples: ['seller-mirror demo', 'seller-mirror demo --serve'],
    options: [serve],
  }).action(action(demo));
}

async function demo(signal: AbortSignal, options: { serve?: true }): Promise<ExitCode> {
  const dataDir = join(readSettings('store').dataDir, 'demo');
  const packages = await installedPackages();
  const key = randomBytes(32).toString('hex');
  const market = await openMarket(packages, key);
  const progress = new SyncProgress();
  const onProgress = progress.show.bind(progress);
  try {
    await heading('A marketplace on this machine');
    await print(
      `Its catalogue: ${count(packages.length)} packages installed beside this program\n`,
    );
    const config = configOf(market, key, dataDir);
    const app = await openApp(config, 'demo', signal, { onProgress });
    let exitCode: ExitCode;
    try {
      exitCode = await mirrorTwice(app, market, key, progress, signal);
    } finally {
      await app.close();
    }
    if (options.serve === true) await serveDemo(config, market, key);
    else await print(`\nTo see it in a browser: ${ownCommand()} demo --serve\n`);
    return exitCode;
  } finally {
    progress.finish();
    await market.close();
  }
}

const NIGHT_MS = 60_000;

/** Serves the dashboard on the demo's mirror, while its marketplace goes on, until Ctrl-C. */
async function serveDemo(config: Config, market: Simulator, key: string): Promise<void> {
  await serveUntilSignal(
    'demo',
    { scheduler: true, worker: true, dashboard: true },
    {
      config,
      async onServing({ store, dashboardUrl }, signal) {
        let night = 0;
        const nights = setInterval(() => changeMarket(market, key, (night += 1)), NIGHT_MS);
        signal.addEventListener('abort', () => clearInterval(nights), { once: true });
        await heading('The dashboard');
        if (dashboardUrl !== null) await print(await linkLines(store, dashboardUrl));
        await print('Each minute is a night in the marketplace. Ctrl-C ends it.\n');
      },
    },
  );
}

/** Settings of the demo alone, whatever the environment and `.env` say. */
function configOf({ url }: Simulator, key: string, dataDir: string): Config {
  const settings = {
    DATA_DIR: dataDir,
    SELLER_NAME: DEMO_SELLER,
    MARKETPLACE_URL: url,
    MARKETPLACE_API_KEY: key,
    REQUESTS_PER_MINUTE: '0',
    // A night takes a minute; half a minute later it is mirrored.
    SYNC_CRON: '30 * * * * *',
    LOG_LEVEL: 'warn',
    HEALTH_LISTEN: 'off',
  };
  return readConfig(settings, { cwd: dataDir, needs: 'sellers', cronFault });
}

async function mirrorTwice(
  app: App,
  market: Simulator,
  key: string,
  progress: SyncProgress,
  signal: AbortSignal,
): Promise<ExitCode> {
  const rows = (sql: string): Promise<Row[]> => rowsOf(app.database.url, sql, signal);
  await app.store.sellers.forget(DEMO_SELLER);
  await heading('The first mirror');
  const first = await mirror(app, progress, signal);
  const before = await rows(ALL_ITEMS_QUERY);

  await heading('Overnight, in the marketplace');
  await print(`${changeMarket(market, key)}\n`);

  await heading('The second mirror');
  const second = await mirror(app, progress, signal);

  await heading('What changed');
  await print(rowsTable(differences(before, await rows(ALL_ITEMS_QUERY))));
  await heading('The account');
  const [account = {}] = await rows(ACCOUNT_QUERY);
  await print(pairs(Object.entries(account), stdoutLook()));
  await heading('Some items');
  await print(rowsTable(await rows(SHOWN_QUERY)));
  await heading('A feed into a folder');
  await print(await feedFolder(app, signal));
  await heading('Yours to query');
  await print(howToQuery(app));
  return exitCodeOf([...first, ...second]);
}

async function mirror(app: App, progress: SyncProgress, signal: AbortSignal): Promise<RunReport[]> {
  const [seller] = app.config.sellers;
  if (seller === undefined) return [];
  const reports: RunReport[] = [];
  await app.withJobs(seller, {}, async (deps) => {
    for await (const report of syncSeller(deps, signal)) reports.push(report);
  });
  progress.finish();
  await print(reports.map((report) => runLines(report, stdoutLook())).join(''));
  return reports;
}

async function heading(text: string): Promise<void> {
  await print(`\n${paint('bold', text, stdoutLook())}\n`);
}

type Row = Readonly<Record<string, string | null | undefined>>;

function rowsOf(url: string, sql: string, signal: AbortSignal): Promise<Row[]> {
  return queryReadOnly(
    url,
    sql,
    async ({ columns, rows }) => {
      const all: Row[] = [];
      for await (const row of rows) {
        all.push(Object.fromEntries(columns.map(({ name }, index) => [name, row[index] ?? null])));
      }
      return all;
    },
    signal,
  );
}

function differences(before: readonly Row[], after: readonly Row[]): Row[] {
  const old = new Map(before.map((row) => [row['item_id'], row]));
  return after.flatMap((row) => {
    const was = old.get(row['item_id']);
    const item = `${row['item_id']} ${(was ?? row)['name']}`;
    if (was === undefined) return [{ item, what: 'added', before: null, after: row['price'] }];
    return Object.keys(row)
      .filter((column) => row[column] !== was[column])
      .map((what) => ({ item, what, before: was[what], after: row[what] }));
  });
}

function rowsTable(rows: readonly Row[]): string {
  const columns = Object.keys(rows[0] ?? {}).map((header) => {
    const align = header.startsWith('price') ? ('right' as const) : ('left' as const);
    return { header, value: (row: Row) => row[header], align };
  });
  return table(rows, columns, stdoutLook());
}

/** Delivers views into a folder beside the data, as a feed in FEEDS_FILE would after each sync. */
async function feedFolder({ config, database }: App, signal: AbortSignal): Promise<string> {
  const path = join(config.dataDir, 'feed');
  const feed: FeedConfig = {
    ...{ name: 'demo', target: { kind: 'folder', path, format: 'ndjson' }, place: path },
    ...{ views: ['items', 'item_changes'], sellers: null, deletes: 'delete' },
    ...{ cron: null, timeZone: 'UTC' },
  };
  // The demo's data is new at each start, and so is its copy.
  await rm(path, { recursive: true, force: true });
  const views = await runFeed(database.url, feed, { signal });
  const more = 'Databases too: PostgreSQL, MySQL, MariaDB, SQLite; see docs/feeds.md.';
  return `${feedLines(feed, null, views)}  ${more}\n`;
}

/** Commands that work when pasted into a shell in this folder. */
function howToQuery(app: App): string {
  // An empty DATABASE_URL overrides the one that is set here.
  const own = readSettings('store').databaseUrl === null ? '' : 'DATABASE_URL= ';
  const command = own + ownCommand(app.config.dataDir);
  return `The data is in ${app.database.location ?? ''}

  ${command} sql "${SHOWN_QUERY}"

The server runs while a command needs it. To use other tools, keep it up:

  ${command} db start
  psql "$(${own}${quietCommand(app.config.dataDir)} db url)" -c "select count(*) from reporting.items"
  ${command} db stop
`;
}
