import { isUserError } from '../../domain/user-error.js';
import { createServer } from 'node:http';
import { hostname } from 'node:os';
import { Option, type Command } from 'commander';
import {
  databaseChecks,
  diskSpace,
  failed,
  ok,
  settingsChecks,
  settingsProblem,
  warning,
  type Check,
} from '../../service/checks.js';
import { ConfigError, type Config, type SellerConfig } from '../../config/index.js';
import { silentLog, type Log } from '../../domain/log.js';
import { readBoard } from '../../service/board.js';
import type { Need } from '../../service/needs.js';
import { testAlert } from '../../service/alerts/alerts.js';
import { MarketplaceOptionsError } from '../../marketplace/types.js';
import { assertCanBeMade, describeEmbedded, openEmbedded } from '../../db/embedded/index.js';
import { shownUrl } from '../../db/errors.js';
import { listLiveProcesses } from '../../service/processes-store.js';
import { HEALTH, listen } from '../../service/listen.js';
import { noteWait, print, printResult, stdoutLook } from '../console.js';
import { reportError } from '../errors.js';
import { action, readSettings, unlessAborted } from '../execute.js';
import { EXIT, type ExitCode } from '../exit-codes.js';
import { checkMarketplace, type OpenedAccount } from '../marketplace-checks.js';
import { markOf, safeLine } from '../output/text.js';
import { plural } from '../../domain/text.js';
import { openDb, type Db } from '../../db/db.js';
import { chosenSellers, describeCommand, type CommonOptions } from '../options.js';

/** `doctor`: checks everything that a run needs. */
export function add(program: Command): void {
  const alert = new Option('--alert', 'also send a test alert through each configured channel');
  const verbose = new Option('--verbose', 'list the differences of notation');
  describeCommand(program.command('doctor'), {
    about:
      'Checks everything that a run needs, and says how to solve each problem. It leaves nothing behind. It makes at most three requests to each seller’s marketplace: account, list, one item.',
    examples: ['seller-mirror doctor --seller main', 'seller-mirror doctor --alert'],
    more: 'Exit codes: 0 no check failed, 1 a check failed, 2 the configuration is invalid',
    options: ['json', 'seller', alert, verbose],
  }).action(action(doctor));
}

interface DoctorOptions extends CommonOptions {
  readonly alert?: boolean;
  readonly verbose?: boolean;
}

/** Takes the results of checks as they come. */
type Report = (checks: readonly Check[]) => Promise<void>;

async function doctor(signal: AbortSignal, options: DoctorOptions): Promise<ExitCode> {
  const checks: Check[] = [];
  const report: Report = async (found) => {
    for (const check of found) checks.push(check);
    if (options.json !== true)
      await print(found.map((check) => checkLines(check, options)).join(''));
  };
  let config: Config | null = null;
  try {
    config = readSettings('store');
  } catch (error) {
    if (!(error instanceof ConfigError)) throw error;
    await report(error.problems.map(settingsProblem));
  }
  const requests = config === null ? 0 : await checkAll(config, options, report, signal);
  const json = checks.map(({ seller, ...check }) => ({ sellerId: seller, ...check }));
  await printResult(
    options,
    { checks: json, requests },
    () => `\n${summary(checks)}; ${plural(requests, 'request')} to marketplaces\n`,
  );
  if (config === null) return EXIT.usage;
  return checks.some(({ result }) => result === 'failed') ? EXIT.failed : EXIT.done;
}

/** @returns the number of requests to marketplaces */
async function checkAll(
  config: Config,
  { seller: name, alert: sendsAlert = false }: DoctorOptions,
  report: Report,
  signal: AbortSignal,
): Promise<number> {
  await report(settingsChecks(config));
  const sellers = chosenSellers(config, name);
  const database = await unlessAborted(checkStore(config, signal), signal);
  const db = database.url === null ? null : openDb(database.url, APPLICATION_NAME);
  let requests = 0;
  try {
    await db?.clock.measure();
    await report(database.checks);
    await report(await unlessAborted(checkQueue(config), signal));
    await report(await checkHealth(config, db));
    if (db !== null) await report(await checkNeeds(config, db, sellers));
    if (sendsAlert) await report(await checkAlerts(config, db, signal));
    const others: OpenedAccount[] = [];
    for (const seller of sellers) {
      signal.throwIfAborted();
      try {
        const onWait = noteWait(seller.name);
        const found = await checkMarketplace(config, seller, { db, others, onWait }, signal);
        requests += found.requests;
        if (found.account !== null) others.push(found.account);
        await report(found.checks);
      } catch (error) {
        if (!(error instanceof MarketplaceOptionsError)) throw error;
        const check = failed(`host: ${error.message}`, 'correct the setting');
        await report([{ ...check, seller: seller.name }]);
      }
    }
  } finally {
    await db?.close();
    await database.close();
  }
  return requests;
}

/** Of this command, in the list of database sessions. */
const APPLICATION_NAME = 'seller-mirror doctor';

/** What doctor found out about the store. */
interface StoreFound {
  readonly checks: readonly Check[];
  /** Null when the store can't be used as it is. */
  readonly url: string | null;
  close(): Promise<void>;
}

/** Checks the store. Does not create a missing database. */
async function checkStore(config: Config, signal: AbortSignal): Promise<StoreFound> {
  const { databaseUrl, dataDir } = config;
  let url = databaseUrl?.reveal() ?? null;
  const space = url === null ? [await diskSpace(dataDir)] : [];
  let close = (): Promise<void> => Promise.resolve();
  try {
    let shown = url === null ? '' : shownUrl(url);
    if (url === null) {
      if ((await describeEmbedded(dataDir)) === null) {
        await assertCanBeMade(dataDir);
        const none = ok(`store: no database in ${dataDir} yet; the first command creates it`);
        return { checks: [none, ...space], url, close };
      }
      const applicationName = APPLICATION_NAME;
      const database = await openEmbedded({ dataDir, applicationName, signal });
      ({ url } = database);
      shown = `embedded server in ${database.location}`;
      close = () => database.close();
    }
    const { checks, isUsable } = await databaseChecks(config, url, shown, signal);
    return { checks: [...checks, ...space], url: isUsable ? url : null, close };
  } catch (error) {
    if (signal.aborted) throw error;
    const [problem = '', remedy = ''] = reportError(error, url).lines;
    const check = failed(`store: ${problem}`, remedy.replace(/^→ /, '') || null);
    return { checks: [check, ...space], url: null, close };
  }
}

/** Checks that the queue takes writes, and its server’s settings. */
async function checkQueue(config: Config): Promise<readonly Check[]> {
  if (config.redis === null) return [ok('queue: in the database; REDIS_URL is not set')];
  const warnings: string[] = [];
  const log: Log = { ...silentLog, warn: (text) => warnings.push(text), child: () => log };
  const { openQueues } = await import('../../service/queue/queues.js'); // slow to load
  const queues = await openQueues({
    target: config.redis,
    databaseUrl: '',
    prefix: config.queuePrefix,
    keepJobsDays: config.keepJobsDays,
    applicationName: APPLICATION_NAME,
    log,
  });
  try {
    await queues.ping();
    const advice = warnings.map((text) => warning(`queue: ${text}`, 'see redis.conf'));
    return [ok('queue: Redis answers and takes writes'), ...advice];
  } catch (error) {
    if (!isUserError(error, 'QUEUE')) throw error;
    return [failed(`queue: ${error.message}`, error.remedy)];
  } finally {
    await queues.close();
  }
}

/** Checks that `run` can listen on HEALTH_LISTEN. Without that setting, `run` takes any free port. */
async function checkHealth({ health }: Config, db: Db | null): Promise<Check[]> {
  if (health === null || !health.chosen) return [];
  const server = createServer();
  try {
    await listen(server, health, HEALTH, silentLog);
    server.close();
    return [ok('health: HEALTH_LISTEN is free')];
  } catch (error) {
    if (!isUserError(error, 'LISTEN')) throw error;
    const processes = db === null ? [] : await listLiveProcesses(db);
    const own = processes.find(
      (one) =>
        one.host === hostname() &&
        one.roles.some((role) => role === 'worker' || role === 'scheduler'),
    );
    return own === undefined
      ? [failed(`health: ${error.message}`, error.remedy)]
      : [ok(`health: HEALTH_LISTEN is in use, by process ${own.pid} of this program`)];
  }
}

/** Warns of what needs a person according to the store. */
async function checkNeeds(
  config: Config,
  db: Db,
  sellers: readonly SellerConfig[],
): Promise<Check[]> {
  const { needs } = await readBoard(db, config, new Date(db.clock.now()));
  const names = sellers.map(({ name }) => name);
  // A new seller is what people run `doctor` for before its first sync.
  const isNew = ({ kind, since }: Need): boolean => kind === 'stale' && since === null;
  return needs
    .filter((need) => !isNew(need) && (need.seller === null || names.includes(need.seller)))
    .map(({ seller, feed, text, remedy }) => {
      return { ...warning(`${feed === null ? 'copy' : `feed ${feed}`}: ${text}`, remedy), seller };
    });
}

/** Sends a test alert through each configured channel, and reports the answers. */
async function checkAlerts(config: Config, db: Db | null, signal: AbortSignal): Promise<Check[]> {
  const { alertWebhook, alertMail, dashboard } = config;
  const { openAlertChannels } = await import('../../service/service.js'); // slow to load: it brings the queue
  const { webhook, mail } = openAlertChannels(config, db?.clock ?? { now: Date.now });
  const message = testAlert(hostname(), dashboard.url);
  const channels = [
    {
      channel: webhook,
      delivered: `the webhook accepted it as ${alertWebhook?.format} (HTTP`,
      settings: 'ALERT_WEBHOOK_URL and ALERT_FORMAT',
    },
    {
      channel: mail,
      delivered: `the mail server accepted it for ${alertMail?.to.join(', ')} (SMTP`,
      settings: 'SMTP_URL and ALERT_EMAIL',
    },
  ];
  const checks: Check[] = [];
  for (const { channel, delivered, settings } of channels) {
    if (channel === null) continue;
    const reply = await channel.send(message, signal);
    checks.push(
      reply.kind === 'delivered'
        ? ok(`alert: ${delivered} ${reply.status})`)
        : failed(`alert: ${reply.problem}`, `check ${settings}`),
    );
  }
  if (checks.length === 0) {
    const remedy = 'set ALERT_WEBHOOK_URL, or ALERT_EMAIL and SMTP_URL';
    return [failed('alert: no channel for alerts is configured', remedy)];
  }
  if (dashboard.url === null) {
    checks.push(warning('alert: alerts hold no link to the dashboard', 'set DASHBOARD_URL'));
  }
  return checks;
}

const TONES = { ok: 'good', warning: 'warn', failed: 'bad' } as const;

function checkLines(
  { seller, result, text, remedy, details = [] }: Check,
  { verbose = false }: DoctorOptions,
): string {
  const look = stdoutLook();
  const about = seller === null ? '' : `${safeLine(seller)} · `;
  const head = `${markOf(TONES[result], look)} ${about}${safeLine(text)}\n`;
  const more = verbose ? details.map((line) => `  - ${safeLine(line)}\n`).join('') : '';
  return remedy === null ? head + more : `${head}${more}  → ${safeLine(remedy)}\n`;
}

function summary(checks: readonly Check[]): string {
  const number = (result: Check['result']): number =>
    checks.filter((check) => check.result === result).length;
  return `${plural(checks.length, 'check')}: ${number('ok')} passed, ${plural(number('warning'), 'warning')}, ${number('failed')} failed`;
}
