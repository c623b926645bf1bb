import { statfs } from 'node:fs/promises';
import { createServer } from 'node:http';
import { hostname } from 'node:os';
import { dirname } from 'node:path';
import type { Command } from 'commander';
import { ConfigError, type Config } from '../../config/index.js';
import { silentLog, type Log } from '../../domain/log.js';
import { MarketplaceOptionsError } from '../../marketplace/types.js';
import { QueueError } from '../../queue/errors.js';
import { assertCanBeMade, describeEmbedded, openEmbedded } from '../../store/embedded/index.js';
import { shownUrl } from '../../store/errors.js';
import { migrationState, type MigrationState } from '../../store/migrate.js';
import { ALIVE_MS, isAlive } from '../../store/processes.js';
import { openStore, type Store } from '../../store/store.js';
import { storeRole } from '../../store/read-only.js';
import { describeDatabase, type DatabaseLook } from '../../store/pools.js';
import { HealthListenError, listen } from '../../web/listen.js';
import { print, printJson, stdoutLook } from '../console.js';
import { reportError } from '../errors.js';
import { execute, readSettings, unlessAborted } from '../execute.js';
import { EXIT, type ExitCode } from '../exit-codes.js';
import { Checks, checkSeller, type Check, type OpenedAccount } from '../marketplace-checks.js';
import { bytes, paint, plural, safeLine } from '../output/text.js';
import { asTyped } from '../own-command.js';
import { chosenSellers, withCommonOptions, type CommonOptions } from '../options.js';

/** `doctor`: checks everything that a run needs. */
export function addDoctor(program: Command): void {
  const command = program
    .command('doctor')
    .description(
      'Checks everything that a run needs, and says what to do about each problem. It changes nothing, and makes at most three requests to each seller’s marketplace: account, beginning of the list, one item.',
    )
    .addHelpText(
      'after',
      '\nExample:\n  $ seller-mirror doctor --seller main\n\nExit codes: 0 nothing failed, 1 a check failed, 2 the configuration can’t be used',
    );
  withCommonOptions(command, { seller: true }).action((options: CommonOptions) =>
    execute((signal) => doctor(options, signal)),
  );
}

/** Prints or collects a check. */
type Report = (check: Check) => Promise<void>;

async function doctor(options: CommonOptions, signal: AbortSignal): Promise<ExitCode> {
  const checks: Check[] = [];
  const report: Report = async (check) => {
    checks.push(check);
    if (options.json !== true) await print(linesOf(check));
  };
  const config = await checkConfiguration(report);
  const requests = config === null ? 0 : await checkRest(config, options, report, signal);
  if (options.json === true) await printJson({ checks: checks.map(checkJson), requests });
  else await print(`\n${summary(checks)}; ${plural(requests, 'request')} to marketplaces\n`);
  if (config === null) return EXIT.usage;
  return checks.some(({ result }) => result === 'failed') ? EXIT.failed : EXIT.done;
}

function checkJson({ seller, result, text, remedy }: Check): object {
  const typed = remedy === null ? null : asTyped(remedy);
  return { sellerId: seller, result, text, remedy: typed };
}

const MACHINE = new Checks(null);

/** Reads the configuration; null when it can't be used. */
async function checkConfiguration(report: Report): Promise<Config | null> {
  try {
    const config = readSettings('store');
    for (const warning of [...config.warnings, ...config.exposedSecrets])
      await report(sentence('warning', warning));
    const { sellers } = config;
    if (sellers.length > 0) {
      await report(MACHINE.ok(`configuration: ${plural(sellers.length, 'seller')}`));
    } else {
      const remedy = 'set MARKETPLACE_URL and MARKETPLACE_API_KEY, or SELLERS_FILE';
      await report(MACHINE.failed('configuration: no seller to mirror', remedy));
    }
    return config;
  } catch (error) {
    if (!(error instanceof ConfigError)) throw error;
    for (const problem of error.problems) await report(sentence('failed', problem));
    return null;
  }
}

/** Splits a sentence about the configuration: the remedy is after its last colon. */
function sentence(result: 'warning' | 'failed', text: string): Check {
  const colon = text.lastIndexOf(': ');
  const [what, remedy] = colon < 0 ? [text, ''] : [text.slice(0, colon), text.slice(colon + 2)];
  return { seller: null, result, text: `configuration: ${what}`, remedy: remedy || null };
}

/** Checks everything but the configuration. @returns the number of requests made */
async function checkRest(
  config: Config,
  options: CommonOptions,
  report: Report,
  signal: AbortSignal,
): Promise<number> {
  const sellers = chosenSellers(config, options.seller);
  const found = await unlessAborted(checkStore(config, signal), signal);
  const store = found.url === null ? null : openStore(found.url, 'seller-mirror doctor');
  try {
    for (const check of found.checks) await report(check);
    for (const check of await unlessAborted(checkQueue(config), signal)) await report(check);
    for (const check of await checkHealth(config, store)) await report(check);
    let requests = 0;
    const others: OpenedAccount[] = [];
    for (const seller of sellers) {
      signal.throwIfAborted();
      try {
        const asked = await checkSeller(config, seller, { store, others }, signal);
        requests += asked.requests;
        if (asked.account !== null) others.push(asked.account);
        for (const check of asked.checks) await report(check);
      } catch (error) {
        if (!(error instanceof MarketplaceOptionsError)) throw error;
        await report(
          new Checks(seller.name).failed(`host: ${error.message}`, 'correct the setting'),
        );
      }
    }
    return requests;
  } finally {
    await store?.close();
    await found.close();
  }
}

/** The store as doctor found it. */
interface StoreFound {
  readonly checks: readonly Check[];
  /** Null when it can't be used as it is. */
  readonly url: string | null;
  close(): Promise<void>;
}

/** Checks the store without changing it: does not create a missing database. */
export async function checkStore(config: Config, signal: AbortSignal): Promise<StoreFound> {
  const { databaseUrl, dataDir } = config;
  if (databaseUrl !== null) {
    const url = databaseUrl.reveal();
    const close = (): Promise<void> => Promise.resolve();
    return lookAt(config, { url, shown: shownUrl(url), close }, [], signal);
  }
  const space = await diskSpace(dataDir);
  try {
    const there = await describeEmbedded(dataDir);
    if (there === null) {
      await assertCanBeMade(dataDir);
      const none = MACHINE.ok(`store: no database in ${dataDir} yet; the first command makes it`);
      return { checks: [none, space], url: null, close: () => Promise.resolve() };
    }
    const applicationName = 'seller-mirror doctor';
    const database = await openEmbedded({ dataDir, applicationName, signal });
    const { url, location } = database;
    const opened = { url, shown: `embedded server in ${location}`, close: () => database.close() };
    return await lookAt(config, opened, [space], signal);
  } catch (error) {
    if (signal.aborted) throw error;
    return { checks: [unusable(error, null), space], url: null, close: () => Promise.resolve() };
  }
}

async function lookAt(
  config: Config,
  { url, shown, close }: { url: string; shown: string; close: () => Promise<void> },
  more: readonly Check[],
  signal: AbortSignal,
): Promise<StoreFound> {
  try {
    // First: it reports a server that is too old.
    const state = await migrationState(url);
    const look = await describeDatabase(url, signal);
    const { isPowerful } = await storeRole(url, signal);
    const checks = [
      MACHINE.ok(`store: ${shown}, PostgreSQL ${look.version}, ${bytes(look.bytes)}`),
      ...(isPowerful ? [powerfulRole(look)] : []),
      ...rightsChecks(look, state, config),
      schemaCheck(state),
      ...more,
    ];
    const { pending, unknown } = state;
    return { checks, url: pending.length + unknown.length === 0 ? url : null, close };
  } catch (error) {
    if (signal.aborted) throw error;
    return { checks: [unusable(error, url), ...more], url: null, close };
  }
}

function unusable(error: unknown, url: string | null): Check {
  const [problem = '', remedy = ''] = reportError(error, url).lines;
  return MACHINE.failed(`store: ${problem}`, remedy.replace(/^→ /, '') || null);
}

function powerfulRole({ role }: DatabaseLook): Check {
  return MACHINE.warning(
    `store: its role ${role} is a superuser, or may run programs or use files on the server`,
    'use an ordinary role in DATABASE_URL: docs/operations.md says how to make one',
  );
}

/** The rights that a run needs and the role lacks. */
function rightsChecks(
  { role, isReadOnly, mayCreateSchemas, mayWrite, hasQueue }: DatabaseLook,
  { pending }: MigrationState,
  { redis }: Config,
): Check[] {
  if (isReadOnly) {
    return [
      MACHINE.failed(
        'store: the database takes no writes',
        'name the primary in DATABASE_URL, and look for default_transaction_read_only in its settings',
      ),
    ];
  }
  const wantsSchemas = pending.length > 0 || (redis === null && !hasQueue);
  if (wantsSchemas && !mayCreateSchemas) {
    return [
      MACHINE.failed(
        `store: its role ${role} may not create schemas, which the mirror and its queue need`,
        `let it: GRANT CREATE ON DATABASE the_database TO ${role}`,
      ),
    ];
  }
  if (mayWrite) return [];
  return [
    MACHINE.failed(
      `store: its role ${role} may not write to the tables of schema mirror`,
      'use the role in DATABASE_URL that made them',
    ),
  ];
}

function schemaCheck({ pending, failed: begun, edited, unknown }: MigrationState): Check {
  if (unknown.length > 0) {
    return MACHINE.failed(
      `schema: migrated by a newer version of this program (${unknown.join(', ')})`,
      'upgrade this program, or point it to another database',
    );
  }
  if (begun.length > 0) {
    return MACHINE.warning(`schema: ${begun.join(', ')} was begun and not finished`, MIGRATE);
  }
  if (pending.length > 0) {
    const many = plural(pending.length, 'migration');
    return MACHINE.warning(`schema: ${many} pending (${pending.join(', ')})`, MIGRATE);
  }
  if (edited.length > 0) {
    return MACHINE.warning(
      `schema: ${edited.join(', ')} was applied in another wording than this program has`,
      'compare the files in prisma/migrations with those of the release',
    );
  }
  return MACHINE.ok('schema: up to date');
}

const MIGRATE = 'run `seller-mirror migrate`; every other command does it too';

const SCARCE_BYTES = 1e9;
const TOO_FEW_BYTES = 1e8;

async function diskSpace(dataDir: string): Promise<Check> {
  const free = await freeBytes(dataDir);
  if (free === null) {
    return MACHINE.warning(`disk: the free space for ${dataDir} is unknown`, 'check it with `df`');
  }
  const text = `disk: ${bytes(free)} free for ${dataDir}`;
  const remedy = 'free some space, or set DATA_DIR to a folder on a larger disk';
  if (free < TOO_FEW_BYTES) return MACHINE.failed(text, remedy);
  return free < SCARCE_BYTES ? MACHINE.warning(text, remedy) : MACHINE.ok(text);
}

/** Free bytes for the folder, or for the nearest one above it that exists. */
async function freeBytes(folder: string): Promise<number | null> {
  try {
    const { bavail, bsize } = await statfs(folder);
    return bavail * bsize;
  } catch {
    const above = dirname(folder);
    return above === folder ? null : freeBytes(above);
  }
}

/** Checks the queue and the settings of its server. Writes a key that expires in a minute. */
async function checkQueue(config: Config): Promise<readonly Check[]> {
  if (config.redis === null) return [MACHINE.ok('queue: in the database; REDIS_URL is not set')];
  const warnings: string[] = [];
  const log: Log = { ...silentLog, warn: (text) => warnings.push(text), child: () => log };
  const { openQueues } = await import('../../queue/queues.js'); // slow to load
  const queues = await openQueues({
    target: config.redis,
    databaseUrl: '',
    prefix: config.queuePrefix,
    keepJobsDays: config.keepJobsDays,
    applicationName: 'seller-mirror doctor',
    log,
  });
  try {
    await queues.ping();
    const advice = warnings.map((text) => MACHINE.warning(`queue: ${text}`, 'see redis.conf'));
    return [MACHINE.ok('queue: Redis answers'), ...advice];
  } catch (error) {
    if (!(error instanceof QueueError)) throw error;
    return [MACHINE.failed(`queue: ${error.message}`, error.remedy)];
  } finally {
    await queues.close();
  }
}

/** Checks that `run` can listen on HEALTH_LISTEN. Without that setting, it takes any free port. */
async function checkHealth({ health }: Config, store: Store | null): Promise<readonly Check[]> {
  if (health === null || !health.chosen) return [];
  const server = createServer();
  try {
    await listen(server, health, silentLog);
    server.close();
    return [MACHINE.ok('health: HEALTH_LISTEN is free')];
  } catch (error) {
    if (!(error instanceof HealthListenError)) throw error;
    const processes = (await store?.processes.live(ALIVE_MS)) ?? [];
    const own = processes.find(
      (one) =>
        one.host === hostname() &&
        isAlive(one) &&
        one.roles.some((role) => /^(?:worker|scheduler)$/.test(role)),
    );
    return [
      own === undefined
        ? MACHINE.failed(`health: ${error.message}`, error.remedy)
        : MACHINE.ok(`health: HEALTH_LISTEN is in use while process ${own.pid} runs`),
    ];
  }
}

const MARKS = { ok: ['✓', 'green'], warning: ['!', 'yellow'], failed: ['✗', 'red'] } as const;

function linesOf({ seller, result, text, remedy }: Check): string {
  const look = stdoutLook();
  const [mark, colour] = MARKS[result];
  const who = seller === null ? '' : `${safeLine(seller)} · `;
  const head = `${paint(colour, mark, look)} ${who}${safeLine(text)}\n`;
  return remedy === null ? head : `${head}  → ${safeLine(remedy)}\n`;
}

function summary(checks: readonly Check[]): string {
  const number = (result: Check['result']): number =>
    checks.filter((check) => check.result === result).length;
  return `${plural(checks.length, 'check')}: ${number('ok')} in order, ${plural(number('warning'), 'warning')}, ${number('failed')} failed`;
}
