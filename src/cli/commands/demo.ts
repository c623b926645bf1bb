import { randomBytes } from 'node:crypto';
import { rm } from 'node:fs/promises';
import { join } from 'node:path';
import { Option, type Command } from 'commander';
import { openApp, type App } from '../../app.js';
import { readConfig, type Config, type FeedConfig } from '../../config/index.js';
import { runFeed } from '../../reporting/feeds/open.js';
import { syncSeller } from '../../catalogue/sync-items.js';
import type { RunReport } from '../../catalogue/types.js';
import { cronFault } from '../../service/cron.js';
import { type Simulator, seededCatalogue, startSimulator } from '../../simulator/index.js';
import { queryReadOnly } from '../../db/read-only.js';
import { print, stdoutLook, write } from '../console.js';
import { readSettings, serviceAction } from '../execute.js';
import type { ExitCode } from '../exit-codes.js';
import { describeCommand } from '../options.js';
import { linkLines } from './dashboard.js';
import { feedLines } from './feed.js';
import { serveUntil } from './run.js';
import { paint } from '../output/text.js';
import { ownCommand } from '../own-command.js';
import { writeRows } from '../rows.js';
import { removeSeller } from '../../catalogue/names-store.js';
import { CHANGES, readShownChanges } from '../../catalogue/changes-listing.js';
import { listingTable } from '../listing.js';
import { SyncProgress, exitCodeOfRuns, runLines } from '../run-report.js';

const ITEMS_QUERY =
  'select item_id, name, version, price_regular, currency from reporting.items order by price_regular desc limit 5';

const ACCOUNT_QUERY = `select username, full_name as name, concat_ws(' ', balance, currency) as balance,
  registered_at as registered from reporting.accounts`;

export function add(program: Command): void {
  const serve = new Option(
    '--serve',
    'then serve the dashboard; each minute is a night of changes',
  );
  describeCommand(program.command('demo'), {
    about:
      'Mirrors a marketplace simulated on this machine, changes something there, and mirrors it again. Keeps its data in DATA_DIR/demo, and deletes it at each start.',
    examples: ['seller-mirror demo', 'seller-mirror demo --serve'],
    options: [serve],
  }).action(serviceAction(demo));
}

async function demo(signal: AbortSignal, options: { serve?: true }): Promise<ExitCode> {
  const dataDir = join(readSettings('store').dataDir, 'demo');
  const market = await openMarket();
  const progress = new SyncProgress();
  const onProgress = progress.show.bind(progress);
  try {
    await heading('A marketplace on this machine');
    await print(`Its catalogue: ${ITEMS} items of one seller\n`);
    const config = configOf(market, dataDir);
    const app = await openApp(config, 'demo', signal, { onProgress });
    let exitCode: ExitCode;
    try {
      exitCode = await mirrorTwice(app, market, progress);
    } finally {
      await app.close();
    }
    if (options.serve === true) await serveDemo(config, market, signal);
    else await print(`\nTo see it in a browser: ${ownCommand()} demo --serve\n`);
    return exitCode;
  } finally {
    progress.finish();
    await market.simulator.close();
  }
}

const NIGHT_MS = 60_000;

/** Serves the dashboard on the demo's mirror until Ctrl-C, while its marketplace keeps changing. */
async function serveDemo(config: Config, market: Market, signal: AbortSignal): Promise<void> {
  const roles = { scheduler: true, worker: true, dashboard: true, api: false };
  await serveUntil(signal, 'demo', roles, {
    config,
    async onServing({ db, dashboardUrl }) {
      let night = 0;
      const nights = setInterval(() => changeMarket(market, (night += 1)), NIGHT_MS);
      signal.addEventListener('abort', () => clearInterval(nights), { once: true });
      await heading('The dashboard');
      if (dashboardUrl !== null) await print(await linkLines(db, dashboardUrl));
      await print('Each minute is a night in the marketplace. Ctrl-C ends it.\n');
    },
  });
}

/** The demo's own settings; ignores the environment and `.env`. */
function configOf({ simulator, key }: Market, dataDir: string): Config {
  const settings = {
    DATA_DIR: dataDir,
    SELLER_NAME: DEMO_SELLER,
    MARKETPLACE_URL: simulator.url,
    MARKETPLACE_API_KEY: key,
    REQUESTS_PER_MINUTE: '0',
    // Half a minute after each night, which also comes once a minute.
    SYNC_CRON: '30 * * * * *',
    LOG_LEVEL: 'warn',
    HEALTH_LISTEN: 'off',
  };
  return readConfig(settings, { cwd: dataDir, needs: 'sellers', cronFault });
}

/** More changes than one night makes. */
const MAX_CHANGES = 100;

async function mirrorTwice(app: App, market: Market, progress: SyncProgress): Promise<ExitCode> {
  const query = (sql: string): Promise<void> =>
    queryReadOnly(app.database.url, sql, (rows) => writeRows(rows, { pager: false }), app.signal);
  await removeSeller(app.db, DEMO_SELLER, { force: true });
  await heading('The first mirror');
  const first = await mirror(app, progress);

  await heading('Overnight, in the marketplace');
  await print(`${changeMarket(market)}\n`);

  await heading('The second mirror');
  const second = await mirror(app, progress);

  await heading('What changed');
  const changes = await readShownChanges(app.db, {}, { limit: MAX_CHANGES }, false);
  await write(listingTable(CHANGES, changes));
  await heading('The account');
  await query(ACCOUNT_QUERY);
  await heading('Some items');
  await query(ITEMS_QUERY);
  await heading('A feed into a folder');
  await print(await feedFolder(app));
  await heading('Query it yourself');
  await print(howToQuery(app));
  return exitCodeOfRuns([...first, ...second]);
}

async function mirror(app: App, progress: SyncProgress): Promise<RunReport[]> {
  const [seller] = app.config.sellers;
  if (seller === undefined) return [];
  const reports: RunReport[] = [];
  await app.withMarketplace(seller, {}, async (deps) => {
    for await (const report of syncSeller(deps, app.signal)) reports.push(report);
  });
  progress.finish();
  await print(reports.map((report) => runLines(report, stdoutLook())).join(''));
  return reports;
}

async function heading(text: string): Promise<void> {
  await print(`\n${paint('bold', text, stdoutLook())}\n`);
}

/** Delivers views into a folder next to the data, as a feed in FEEDS_FILE would after each sync. */
async function feedFolder({ config, db, signal }: App): Promise<string> {
  const path = join(config.dataDir, 'feed');
  const feed: FeedConfig = {
    name: 'demo',
    target: { kind: 'folder', path, format: 'ndjson' },
    place: path,
    views: ['items', 'item_changes'],
    sellers: null,
    cron: null,
    timeZone: 'UTC',
    columns: {},
    hash: {},
    salt: null,
  };
  // The demo starts with new data, so the folder of an earlier start is no longer its copy.
  await rm(path, { recursive: true, force: true });
  const views = await runFeed(db, feed, { signal, isFull: false });
  const more = 'Databases too: PostgreSQL, MySQL, MariaDB, SQLite; see docs/feeds.md.';
  return `${feedLines(feed, null, views)}  ${more}\n`;
}

/** Commands to paste into a shell in the current folder. */
function howToQuery(app: App): string {
  // An empty DATABASE_URL overrides the one of the environment or `.env`.
  const own = readSettings('store').databaseUrl === null ? '' : 'DATABASE_URL= ';
  const command = own + ownCommand(app.config.dataDir);
  return `The data is in ${app.database.location ?? ''}

  ${command} sql "${ITEMS_QUERY}"

The server runs only while a command needs it. To use other tools, keep it running:

  ${command} db start
  psql "$(${own}${ownCommand(app.config.dataDir)} db url)" -c "select count(*) from reporting.items"
  ${command} db stop
`;
}

const DEMO_SELLER = 'demo';
const FIRST_ID = 1001;
const ITEMS = 200;

/** The simulated marketplace, and the API key of its only seller. */
interface Market {
  readonly simulator: Simulator;
  readonly key: string;
}

async function openMarket(): Promise<Market> {
  const key = randomBytes(32).toString('hex');
  const account = {
    firstname: 'Dana',
    lastname: 'Demo',
    email: 'dana@demo-studio.example',
    heading: 'Themes, scripts and icons',
  };
  const catalogue = seededCatalogue({ seed: 1, count: ITEMS, firstId: FIRST_ID });
  const simulator = await startSimulator({
    profile: 'field-2',
    quirks: { version: 'contract', nulls: false },
    sellers: [{ key, username: 'demo-studio', account, catalogue }],
  });
  return { simulator, key };
}

/** Changes the marketplace as a night would. @returns a description of the changes */
function changeMarket({ simulator, key }: Market, night = 0): string {
  const seller = simulator.seller(key);
  const { catalogue } = seller;
  const all = [...catalogue.truth()];
  // Each night changes other items.
  const items = [...all.slice(7 * night), ...all.slice(0, 7 * night)];
  for (const { id, version } of items.slice(20, 24)) {
    const [major = '0', minor = '9'] = version?.split('.') ?? [];
    catalogue.change(id, { version: `${major}.${Number(minor) + 1}.0` });
  }
  for (const { id, priceRegularCents } of items.slice(60, 63)) {
    catalogue.change(id, { priceRegularCents: Math.round((priceRegularCents ?? 0) * 0.8) });
  }
  const [first, renamed] = [items[0], items[100]];
  if (renamed !== undefined) {
    catalogue.change(renamed.id, { name: `${renamed.name} (new edition)` });
  }
  for (const { id } of items.slice(120, 122)) catalogue.remove(id);
  if (first !== undefined) {
    const id = FIRST_ID + catalogue.size;
    const name = 'Hello Marketplace Theme';
    catalogue.add({ ...first, id, name, version: '1.0.0', description: '<p>Brand new.</p>' });
  }
  seller.account = { ...seller.account, balanceCents: seller.account.balanceCents + 4_990 };
  return '4 new versions, 3 prices cut by 20 %, 1 new name, 1 new item, 2 withdrawn, one sale';
}
