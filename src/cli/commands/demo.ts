import { randomBytes } from 'node:crypto';
import { join } from 'node:path';
import type { Command } from 'commander';
import { openApp, type App } from '../../app.js';
import type { Config, SellerConfig } from '../../config/index.js';
import { Secret } from '../../domain/secret.js';
import { syncAccount } from '../../jobs/sync-account.js';
import { syncCatalogue } from '../../jobs/sync-catalogue.js';
import type { RunReport } from '../../jobs/types.js';
import type { Simulator } from '../../simulator/index.js';
import { queryReadOnly } from '../../store/read-only.js';
import { print, stdoutLook } from '../console.js';
import { DEMO_SELLER, changeMarket, installedPackages, openMarket } from '../demo-market.js';
import { execute, readSettings } from '../execute.js';
import type { ExitCode } from '../exit-codes.js';
import { pairs, table } from '../output/table.js';
import { count, paint } from '../output/text.js';
import { ownCommand, quietCommand } from '../own-command.js';
import { SyncProgress, exitCodeOf, runLines } from '../run-report.js';

const ALL_ITEMS_QUERY =
  'select item_id, name, version, price_regular as price, state from reporting.items order by item_id';
const SHOWN_QUERY =
  'select item_id, name, version, price_regular, currency from reporting.items order by price_regular desc limit 5';

/** `demo`: mirrors a simulated marketplace twice. */
export function addDemo(program: Command): void {
  program
    .command('demo')
    .description(
      'Mirrors a marketplace simulated on this machine, changes something there, and mirrors again. Its data is in DATA_DIR/demo, and is deleted at each start.',
    )
    .addHelpText('after', '\nExample:\n  $ seller-mirror demo')
    .action(() => execute(demo));
}

async function demo(signal: AbortSignal): Promise<ExitCode> {
  const dataDir = join(readSettings('store').dataDir, 'demo');
  const packages = await installedPackages();
  const key = randomBytes(32).toString('hex');
  const market = await openMarket(packages, key);
  const progress = new SyncProgress();
  try {
    await heading('A marketplace on this machine');
    await print(
      `Its catalogue: ${count(packages.length)} packages installed beside this program\n`,
    );
    const app = await openApp(configFor(market, key, dataDir), 'demo', signal, {
      onProgress: (seller, step) => progress.show(seller, step),
    });
    try {
      return await mirrorTwice(app, market, key, progress, signal);
    } finally {
      await app.close();
    }
  } finally {
    progress.finish();
    await market.close();
  }
}

function configFor(market: Simulator, key: string, dataDir: string): Config {
  const seller: SellerConfig = {
    name: DEMO_SELLER,
    url: new URL(market.url),
    key: new Secret(key),
    requestsPerMinute: 0,
    carriage: { placement: 'default', keyHeader: null },
    syncCron: null,
    accountCron: null,
    auditCron: null,
    timeZone: 'UTC',
  };
  return {
    sellers: [seller],
    databaseUrl: null,
    dataDir,
    allowPlainHttp: false,
    removalGuard: { items: 10, percent: 20 },
    lookupsPerRun: 100,
    logLevel: 'info',
    logFormat: 'auto',
    redis: null,
    queuePrefix: 'seller-mirror',
    recheck: { share: 0.25, olderThanDays: 30 },
    workerConcurrency: 1,
    catchUp: false,
    shutdownTimeoutMs: 30_000,
    keepJobsDays: 7,
    retention: { raw: null, runs: null, versions: null, audits: null },
    staleAfterHours: 26,
    health: null,
    alerts: null,
    warnings: [],
    exposedSecrets: [],
  };
}

async function mirrorTwice(
  app: App,
  market: Simulator,
  key: string,
  progress: SyncProgress,
  signal: AbortSignal,
): Promise<ExitCode> {
  const { url } = app.database;
  await app.store.sellers.forget(DEMO_SELLER);
  await heading('The first mirror');
  const first = await mirror(app, progress, signal);
  const before = await rowsOf(url, ALL_ITEMS_QUERY, signal);

  await heading('Overnight, in the marketplace');
  await print(`${changeMarket(market, key)}\n`);

  await heading('The second mirror');
  const second = await mirror(app, progress, signal);
  const after = await rowsOf(url, ALL_ITEMS_QUERY, signal);

  await heading('What changed');
  await print(changesTable(before, after));
  await heading('The account');
  await print(
    accountPairs((await rowsOf(url, 'select * from reporting.accounts', signal))[0] ?? {}),
  );
  await heading('Some items');
  await print(itemsTable(await rowsOf(url, SHOWN_QUERY, signal)));
  await heading('Yours to query');
  await print(howToQuery(app));
  return exitCodeOf([...first, ...second]);
}

async function mirror(app: App, progress: SyncProgress, signal: AbortSignal): Promise<RunReport[]> {
  const [seller] = app.config.sellers;
  if (seller === undefined) return [];
  const reports = await app.withJobs(seller, {}, async (deps) => {
    const account = await syncAccount(deps, signal);
    return [account.report, await syncCatalogue(deps, signal, account.proof)];
  });
  progress.finish();
  await print(reports.map((report) => runLines(report, stdoutLook())).join(''));
  return reports;
}

async function heading(text: string): Promise<void> {
  await print(`\n${paint('bold', text, stdoutLook())}\n`);
}

/** A row of a query, by column name. */
type Row = Readonly<Record<string, string | null>>;

/** Runs a query on the mirror and reads all its rows. */
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

/** A field of an item that differs between two states of the mirror. */
interface Difference {
  readonly item: string;
  readonly what: string;
  readonly before: string;
  readonly after: string;
}

/** Compares two states of the same items, field by field. */
function differences(before: readonly Row[], after: readonly Row[]): Difference[] {
  const old = new Map(before.map((row) => [row['item_id'], row]));
  return after.flatMap((row) => {
    const was = old.get(row['item_id'] ?? null);
    const item = `${row['item_id'] ?? ''} ${was?.['name'] ?? row['name'] ?? ''}`;
    if (was === undefined) return [{ item, what: 'added', before: '', after: row['price'] ?? '' }];
    return Object.keys(row)
      .filter((column) => row[column] !== was[column])
      .map((what) => ({ item, what, before: was[what] ?? '', after: row[what] ?? '' }));
  });
}

function changesTable(before: readonly Row[], after: readonly Row[]): string {
  return table(
    differences(before, after),
    [
      { header: 'item', value: (row) => row.item },
      { header: 'what', value: (row) => row.what },
      { header: 'before', value: (row) => row.before },
      { header: 'after', value: (row) => row.after },
    ],
    stdoutLook(),
  );
}

function accountPairs(row: Row): string {
  return pairs(
    [
      ['username', row['username']],
      ['name', row['full_name']],
      ['balance', `${row['balance'] ?? ''} ${row['currency'] ?? ''}`],
      ['registered', row['registered_at']],
    ],
    stdoutLook(),
  );
}

function itemsTable(rows: readonly Row[]): string {
  return table(
    rows,
    ['item_id', 'name', 'version', 'price_regular', 'currency'].map((column) => ({
      header: column,
      value: (row: Row) => row[column],
      ...(column === 'price_regular' ? { align: 'right' as const } : {}),
    })),
    stdoutLook(),
  );
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
