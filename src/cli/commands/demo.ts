import { randomBytes } from 'node:crypto';
import { rm } from 'node:fs/promises';
import { join, relative } from 'node:path';
import { Option, type Command } from 'commander';
import { openApp, type App } from '../../app.js';
import { readConfig, type Config, type FeedConfig } from '../../config/index.js';
import { disk } from '../../config/load.js';
import { runFeed } from '../../reporting/feeds/open.js';
import { syncSeller } from '../../catalogue/sync-items.js';
import type { RunReport } from '../../catalogue/types.js';
import {
  type Purchases,
  seededCatalogue,
  seededPurchases,
  type Simulator,
  startSimulator,
} from '../../simulator/index.js';
import { queryReadOnly } from '../../db/read-only.js';
import { print, stdoutLook, write } from '../console.js';
import { readSettings, serviceAction } from '../execute.js';
import type { ExitCode } from '../exit-codes.js';
import { describeCommand } from '../options.js';
import { linkLines } from './dashboard.js';
import { feedLines } from './feed.js';
import { serveUntil } from './run.js';
import { Progress } from '../output/progress.js';
import { table } from '../output/table.js';
import { paint } from '../output/text.js';
import { ownCommand, shellWord } from '../own-command.js';
import { printQuery } from '../query.js';
import { removeSeller } from '../../catalogue/names-store.js';
import { CHANGES } from '../../catalogue/changes-listing.js';
import { enterLists } from '../../codes/enter-list.js';
import { shortReason } from '../../codes/evidence.js';
import type { AuditResult } from '../../codes/result.js';
import { readResults } from '../../codes/results-store.js';
import { csvLine } from '../../domain/csv.js';
import { plural } from '../../domain/text.js';
import { stateWord } from '../../listing/listing.js';
import { writeWhole } from '../../listing/write-file.js';
import { runAudit } from '../codes/check.js';
import { follow } from '../codes/follow.js';
import { readLists } from '../codes/input.js';
import { findAudit } from '../codes/options.js';
import { backdate } from '../demo-store.js';
import { listingTable } from '../listing.js';
import { SyncProgress, exitCodeOfRuns, runLines } from '../run-report.js';

const ITEMS_QUERY =
  'select item_id, name, version, price_regular, currency from reporting.items order by price_regular desc limit 5';

export function add(program: Command): void {
  const serve = new Option(
    '--serve',
    'begin with months of nights and purchases, then serve the dashboard; each minute is a night of changes',
  );
  describeCommand(program.command('demo'), {
    about:
      'Mirrors a marketplace simulated on this machine, changes something there, mirrors it again, and checks a list of purchase codes. Keeps its data in DATA_DIR/demo, and deletes it at each start.',
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
    await print(`Its catalogue: ${ITEMS} items of one seller, ${PURCHASES} purchases\n`);
    const config = configOf(market, dataDir);
    const app = await openApp(config, 'demo', signal, { onProgress });
    let exitCode: ExitCode;
    try {
      exitCode = await doTheJob(app, market, progress, options.serve === true);
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
  return readConfig(settings, { cwd: dataDir, files: disk, needs: 'sellers' });
}

/** More changes than one night makes. */
const MAX_CHANGES = 100;

/** Mirrors, lets a night pass, mirrors again, checks a list of codes, and delivers a feed. */
async function doTheJob(
  app: App,
  market: Market,
  progress: SyncProgress,
  hasHistory: boolean,
): Promise<ExitCode> {
  await removeSeller(app.db, DEMO_SELLER, { force: true });
  if (hasHistory) {
    await heading('Three months of nights, in fast motion');
    await print(await liveThroughMonths(app, market, progress));
  } else {
    await heading('The first mirror');
    await printRuns(await mirror(app, progress));
    await enterCodes(app, 'past-customers.csv', market.codes);
  }

  await heading('Overnight, in the marketplace');
  await print(`${changeMarket(market)}\n`);

  await heading('The next mirror');
  const runs = await mirror(app, progress);
  await printRuns(runs);

  await heading('What changed');
  const filters = { run: String(runs.find(({ kind }) => kind === 'items')?.runId ?? 0) };
  const page = { from: null, limit: MAX_CHANGES, face: 'tables' } as const;
  await write(listingTable(CHANGES, await CHANGES.read(app.db, filters, page)));
  await heading('Some items');
  const { url } = app.database;
  await queryReadOnly(
    url,
    ITEMS_QUERY,
    (rows) => printQuery(rows, { pager: false }, app.signal),
    app.signal,
  );
  await heading('A list of purchase codes');
  const checked = await checkList(app, market);
  await heading('A feed into a folder');
  await print(await feedFolder(app));
  await heading('Query it yourself');
  await print(howToQuery(app));
  return exitCodeOfRuns(runs) || checked;
}

async function mirror(app: App, progress: SyncProgress): Promise<RunReport[]> {
  const [seller] = app.config.sellers;
  if (seller === undefined) return [];
  const reports: RunReport[] = [];
  await app.withMarketplace(seller, {}, async (deps) => {
    for await (const report of syncSeller(deps, app.signal)) reports.push(report);
  });
  progress.finish();
  return reports;
}

async function printRuns(reports: readonly RunReport[]): Promise<void> {
  await print(reports.map((report) => runLines(report, stdoutLook())).join(''));
}

/** Days from each night of the history to the next: some weeks apart first, then a month without a gap. */
const NIGHTS: readonly number[] = [...Array<number>(9).fill(7), ...Array<number>(30).fill(1)];
/** New customers are checked every so many nights. */
const CHECK_EVERY = 6;
/** So many nights before today, some purchases were refunded, and their codes checked again. */
const REFUNDED_NIGHT = 12;

/** Mirrors night after night, each of them recorded as long ago as it would have been. @returns what was done */
async function liveThroughMonths(
  app: App,
  market: Market,
  progress: SyncProgress,
): Promise<string> {
  const { codes, ages } = market;
  const bar = new Progress('three months of nights', { total: NIGHTS.length });
  let known = codes.length;
  let ago = NIGHTS.reduce((sum, days) => sum + days, 0);
  try {
    for (const [night, days] of NIGHTS.entries()) {
      bar.update(night);
      app.signal.throwIfAborted();
      await mirror(app, progress);
      if (night % CHECK_EVERY === 0) {
        const bought = ages.findIndex((age) => age > ago);
        await enterCodes(app, `customers-${night + 1}.csv`, codes.slice(bought, known));
        known = bought;
      }
      if (night === NIGHTS.length - REFUNDED_NIGHT) {
        const some = codes.slice(200, 230);
        for (const code of some.slice(0, 4)) purchasesOf(market).setState(code, 'refunded');
        await enterCodes(app, 'returns.csv', some);
      }
      changeMarket(market, night + 1);
      await backdate(app.db, days);
      ago -= days;
    }
  } finally {
    bar.finish();
  }
  const checked = plural(codes.length - known, 'purchase code');
  return `${NIGHTS.length} nights were mirrored, and ${checked} checked\n`;
}

/** Writes a list of customers, as a shop exports it, and enters it as a check. @returns its number */
async function enterList(
  { config, db, signal }: App,
  name: string,
  codes: readonly string[],
  confirmAfterMs: number,
): Promise<bigint> {
  const [seller] = config.sellers;
  if (seller === undefined) throw new Error('the demo has a seller');
  const path = join(config.dataDir, name);
  const rows = codes.map((code, n) => [...customer(n), code]);
  const header = ['Name', 'E-mail', 'Purchase code'];
  await writeWhole(
    path,
    [header, ...rows].map((row) => csvLine(row, ',')),
    signal,
  );
  const lists = await readLists([path], {}, signal);
  const { auditId } = await enterLists(db, seller, lists, { confirmAfterMs }, { signal });
  return auditId;
}

/** Checks a list of codes at once, without a minute between two denials. */
async function enterCodes(app: App, name: string, codes: readonly string[]): Promise<void> {
  const auditId = await enterList(app, name, codes, 0);
  const audit = await findAudit(app, auditId, DEMO_SELLER);
  await follow(app, audit, { resume: null, isAnswer: true });
}

const CONFIRM_AFTER_MS = 5_000;

/** Checks a list with bad and odd codes, as `codes check` does, and prints its result. */
async function checkList(app: App, market: Market): Promise<ExitCode> {
  const { dataDir } = app.config;
  const codes = listRows(market);
  const path = shellWord(relative('.', join(dataDir, 'customers.csv')));
  await print(
    `${plural(codes.length, 'line')}, as a shop exports them: ${path}\n`,
    'A denied code is asked again after 5 s; outside of the demo after a minute.\n',
  );
  const auditId = await enterList(app, 'customers.csv', codes, CONFIRM_AFTER_MS);
  const out = join(dataDir, 'customers checked.csv');
  const destination = { path: out, format: 'csv', decimalComma: false } as const;
  const exitCode = await runAudit(app, auditId, { destination });
  const results: AuditResult[] = [];
  const parts = [{ auditId, sellerId: DEMO_SELLER }];
  for await (const row of readResults(app.db, parts)) results.push(row);
  const columns = [
    { header: 'customer', value: (row: AuditResult) => row.columns[0] ?? null },
    { header: 'code', value: (row: AuditResult) => row.columns[2] ?? null },
    { header: 'verdict', value: (row: AuditResult) => stateWord(row.verdict) },
    { header: 'why', value: (row: AuditResult) => shortReason(row) },
  ];
  await write(`\n${table(results, columns, stdoutLook())}`);
  return exitCode;
}

/** The cells of codes of the list: most are valid; the others are what shops find in theirs. */
function listRows(market: Market): readonly string[] {
  const { codes } = market;
  const [first = '', second = '', third = '', fourth = ''] = codes;
  const refunded = codes.slice(100, 102);
  for (const code of refunded) purchasesOf(market).setState(code, 'refunded');
  const mistyped = (code: string): string => `${code.slice(0, -4)}0000`;
  return [
    ...codes.slice(0, 3),
    ` ${fourth.toUpperCase()} `,
    ...refunded,
    mistyped(first),
    ...codes.slice(20, 24),
    `Purchase code: ${codes[24] ?? ''}`,
    'see e-mail',
    ...codes.slice(25, 27),
    mistyped(second),
    '4.6123E+31',
    `${third} / ${second}`,
    '',
    first,
  ];
}

const FIRST_NAMES = 'Mira Jonas Ana Kenji Priya Luca Chloé Omar Eva Tomás Sofia Nils'.split(' ');
const LAST_NAMES = 'Okafor Lindqvist Sousa Watanabe Raman Ferri Martin Haddad Nováková'.split(' ');

/** Name and e-mail address of the n-th customer. */
function customer(n: number): readonly [name: string, email: string] {
  const first = FIRST_NAMES[n % FIRST_NAMES.length] ?? '';
  const last = LAST_NAMES[(5 * n) % LAST_NAMES.length] ?? '';
  const address = `${first}.${last}`
    .normalize('NFD')
    .replaceAll(/[^\w.]/g, '')
    .toLowerCase();
  return [`${first} ${last}`, `${address}${n}@customer.example`];
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
const PURCHASES = 480;
/** Age of the oldest purchase. */
const PURCHASE_DAYS = 760;
const DAY_MS = 86_400_000;

/** The simulated marketplace, and the API key of its only seller. */
interface Market {
  readonly simulator: Simulator;
  readonly key: string;
  /** The codes of its purchases, the newest first. */
  readonly codes: readonly string[];
  /** How long ago each was bought (days). */
  readonly ages: readonly number[];
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
  const purchases = seededPurchases({ seed: 1, count: PURCHASES, format: 'uuid' });
  const simulator = await startSimulator({
    profile: 'field-2',
    quirks: { version: 'contract', nulls: false },
    sellers: [{ key, username: 'demo-studio', account, catalogue, purchases }],
  });
  const codes = [...purchases.codes()];
  // More of them lately: the shop grows.
  const ages = codes.map((_, n) => PURCHASE_DAYS * (n / PURCHASES) ** 1.2);
  for (const [n, code] of codes.entries()) {
    const boughtAt = Date.now() - (ages[n] ?? 0) * DAY_MS;
    const supportDays = [182, 365, null, 182][n % 4] ?? null;
    const supportedUntil = supportDays === null ? null : secondsOf(boughtAt + supportDays * DAY_MS);
    purchases.change(code, { date: secondsOf(boughtAt), supportedUntil });
  }
  return { simulator, key, codes, ages };
}

function secondsOf(ms: number): string {
  return `${new Date(ms).toISOString().slice(0, 'YYYY-MM-DDTHH:MM:SS'.length)}Z`;
}

function purchasesOf({ simulator, key }: Market): Purchases {
  return simulator.seller(key).purchases;
}

/** Changes the marketplace as a night would; each fifth one is busy. @returns a description of the changes */
function changeMarket({ simulator, key }: Market, night = 0): string {
  const seller = simulator.seller(key);
  const { catalogue } = seller;
  const all = [...catalogue.truth()];
  const isBusy = night % 5 === 0;
  // Each night changes other items.
  const some = (from: number, count: number) =>
    Array.from({ length: count }, (_, n) => all[(37 * night + from + n) % all.length]).filter(
      (item) => item !== undefined,
    );
  const released = some(20, isBusy ? 4 : 1);
  for (const { id, version } of released) {
    const [major = '0', minor = '9'] = version?.split('.') ?? [];
    catalogue.change(id, { version: `${major}.${Number(minor) + 1}.0` });
  }
  const isSale = night % 2 === 0;
  const priced = some(60, isBusy ? 3 : night % 3);
  for (const { id, priceRegularCents } of priced) {
    const factor = isSale ? 0.8 : 1.15;
    catalogue.change(id, { priceRegularCents: Math.round((priceRegularCents ?? 0) * factor) });
  }
  seller.account = { ...seller.account, balanceCents: seller.account.balanceCents + 4_990 };
  const moves = `${plural(priced.length, 'price')} ${isSale ? 'cut by 20 %' : 'raised by 15 %'}`;
  const usual = [plural(released.length, 'new version'), moves];
  if (!isBusy) return [...usual, 'one sale'].join(', ');
  const [first] = all;
  for (const { id, name } of some(100, 1)) {
    catalogue.change(id, { name: `${name} (new edition)` });
  }
  for (const { id } of some(120, 2)) catalogue.remove(id);
  if (first !== undefined) {
    const id = FIRST_ID + catalogue.size;
    const name = 'Hello Marketplace Theme';
    catalogue.add({ ...first, id, name, version: '1.0.0', description: '<p>Brand new.</p>' });
  }
  return [...usual, '1 new name, 1 new item, 2 withdrawn, one sale'].join(', ');
}
