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
} from '../../app/checks.js';
import { ConfigError, type Config } from '../../config/index.js';
import { silentLog, type Log } from '../../domain/log.js';
import { testAlert } from '../../jobs/alerts.js';
import { MarketplaceOptionsError } from '../../marketplace/types.js';
import { QueueError } from '../../queue/errors.js';
import { assertCanBeMade, describeEmbedded, openEmbedded } from '../../store/embedded/index.js';
import { shownUrl } from '../../store/errors.js';
import { ALIVE_MS, isAlive } from '../../store/processes.js';
import { openStore, type Store } from '../../store/store.js';
import { HEALTH, listen, ListenError } from '../../web/listen.js';
import { print, printResult, stdoutLook } from '../console.js';
import { reportError } from '../errors.js';
import { action, readSettings, unlessAborted } from '../execute.js';
import { EXIT, type ExitCode } from '../exit-codes.js';
import { checkMarketplace, type OpenedAccount } from '../marketplace-checks.js';
import { paint, plural, safeLine } from '../output/text.js';
import { chosenSellers, described, type CommonOptions } from '../options.js';

/** `doctor`: checks everything that a run needs. */
export function add(program: Command): void {
  const alert = new Option('--alert', 'also send a test alert, by each way that is configured');
  described(program.command('doctor'), {
    about:
      'Checks everything that a run needs, and says what to do about each problem. It changes nothing, and makes at most three requests to each seller’s marketplace: account, beginning of the list, one item.',
    examples: ['seller-mirror doctor --seller main', 'seller-mirror doctor --alert'],
    more: 'Exit codes: 0 nothing failed, 1 a check failed, 2 the configuration can’t be used',
    options: ['json', 'seller', alert],
  }).action(action(doctor));
}

interface DoctorOptions extends CommonOptions {
  readonly alert?: boolean;
}

async function doctor(signal: AbortSignal, options: DoctorOptions): Promise<ExitCode> {
  const checks: Check[] = [];
  const seen = { requests: 0, isConfigured: true };
  for await (const check of allChecks(options, seen, signal)) {
    checks.push(check);
    if (options.json !== true) await print(linesOf(check));
  }
  const json = checks.map(({ seller, ...check }) => ({ sellerId: seller, ...check }));
  const { requests } = seen;
  await printResult(
    options,
    { checks: json, requests },
    () => `\n${summary(checks)}; ${plural(requests, 'request')} to marketplaces\n`,
  );
  if (!seen.isConfigured) return EXIT.usage;
  return checks.some(({ result }) => result === 'failed') ? EXIT.failed : EXIT.done;
}

/** Checks one thing after the other. @param seen counts requests */
async function* allChecks(
  { seller: name, alert: sendsAlert = false }: DoctorOptions,
  seen: { requests: number; isConfigured: boolean },
  signal: AbortSignal,
): AsyncGenerator<Check, void, undefined> {
  let config: Config;
  try {
    config = readSettings('store');
  } catch (error) {
    if (!(error instanceof ConfigError)) throw error;
    seen.isConfigured = false;
    yield* error.problems.map(settingsProblem);
    return;
  }
  yield* settingsChecks(config);
  const sellers = chosenSellers(config, name);
  const found = await unlessAborted(checkStore(config, signal), signal);
  const store = found.url === null ? null : openStore(found.url, 'seller-mirror doctor');
  try {
    yield* found.checks;
    yield* await unlessAborted(checkQueue(config), signal);
    yield* await checkHealth(config, store);
    if (sendsAlert) yield* await checkAlerts(config, signal);
    const others: OpenedAccount[] = [];
    for (const seller of sellers) {
      signal.throwIfAborted();
      try {
        const asked = await checkMarketplace(config, seller, { store, others }, signal);
        seen.requests += asked.requests;
        if (asked.account !== null) others.push(asked.account);
        yield* asked.checks;
      } catch (error) {
        if (!(error instanceof MarketplaceOptionsError)) throw error;
        yield { ...failed(`host: ${error.message}`, 'correct the setting'), seller: seller.name };
      }
    }
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
  const close = (): Promise<void> => Promise.resolve();
  if (databaseUrl !== null) {
    const url = databaseUrl.reveal();
    return { ...(await lookAt(config, url, shownUrl(url), signal)), close };
  }
  const space = await diskSpace(dataDir);
  try {
    if ((await describeEmbedded(dataDir)) === null) {
      await assertCanBeMade(dataDir);
      const none = ok(`store: no database in ${dataDir} yet; the first command makes it`);
      return { checks: [none, space], url: null, close };
    }
    const applicationName = 'seller-mirror doctor';
    const database = await openEmbedded({ dataDir, applicationName, signal });
    const shown = `embedded server in ${database.location}`;
    const { checks, url } = await lookAt(config, database.url, shown, signal);
    return { checks: [...checks, space], url, close: () => database.close() };
  } catch (error) {
    if (signal.aborted) throw error;
    return { checks: [unusable(error, null), space], url: null, close };
  }
}

async function lookAt(
  config: Config,
  url: string,
  shown: string,
  signal: AbortSignal,
): Promise<Omit<StoreFound, 'close'>> {
  try {
    const { checks, isUsable } = await databaseChecks(config, url, shown, signal);
    return { checks, url: isUsable ? url : null };
  } catch (error) {
    if (signal.aborted) throw error;
    return { checks: [unusable(error, url)], url: null };
  }
}

function unusable(error: unknown, url: string | null): Check {
  const [problem = '', remedy = ''] = reportError(error, url).lines;
  return failed(`store: ${problem}`, remedy.replace(/^→ /, '') || null);
}

/** Checks the queue and the settings of its server. Writes a key that expires in a minute. */
async function checkQueue(config: Config): Promise<readonly Check[]> {
  if (config.redis === null) return [ok('queue: in the database; REDIS_URL is not set')];
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
    const advice = warnings.map((text) => warning(`queue: ${text}`, 'see redis.conf'));
    return [ok('queue: Redis answers'), ...advice];
  } catch (error) {
    if (!(error instanceof QueueError)) throw error;
    return [failed(`queue: ${error.message}`, error.remedy)];
  } finally {
    await queues.close();
  }
}

/** Checks that `run` can listen on HEALTH_LISTEN. Without that setting, it takes any free port. */
async function checkHealth({ health }: Config, store: Store | null): Promise<Check[]> {
  if (health === null || !health.chosen) return [];
  const server = createServer();
  try {
    await listen(server, health, HEALTH, silentLog);
    server.close();
    return [ok('health: HEALTH_LISTEN is free')];
  } catch (error) {
    if (!(error instanceof ListenError)) throw error;
    const processes = (await store?.processes.live(ALIVE_MS)) ?? [];
    const own = processes.find(
      (one) =>
        one.host === hostname() &&
        isAlive(one) &&
        one.roles.some((role) => role === 'worker' || role === 'scheduler'),
    );
    return own === undefined
      ? [failed(`health: ${error.message}`, error.remedy)]
      : [ok(`health: HEALTH_LISTEN is in use while process ${own.pid} runs`)];
  }
}

/** Sends a test alert by each way that is configured, and says what came back. */
async function checkAlerts(config: Config, signal: AbortSignal): Promise<Check[]> {
  const { alertWebhook, alertMail, dashboard } = config;
  const { openAlertChannels } = await import('../../app/service.js'); // slow to load: it brings the queue
  const { webhook, mail } = openAlertChannels(config);
  const message = testAlert(hostname(), dashboard.url);
  const ways = [
    {
      channel: webhook,
      took: `the webhook took it as ${alertWebhook?.format} (HTTP`,
      settings: 'ALERT_WEBHOOK_URL and ALERT_FORMAT',
    },
    {
      channel: mail,
      took: `the mail server took it for ${alertMail?.to.join(', ')} (SMTP`,
      settings: 'SMTP_URL and ALERT_EMAIL',
    },
  ];
  const checks: Check[] = [];
  for (const { channel, took, settings } of ways) {
    if (channel === null) continue;
    const reply = await channel.send(message, signal);
    checks.push(
      reply.kind === 'delivered'
        ? ok(`alert: ${took} ${reply.status})`)
        : failed(`alert: ${reply.problem}`, `check ${settings}`),
    );
  }
  if (checks.length > 0) {
    return dashboard.url === null
      ? [...checks, warning('alert: it carries no link', 'set DASHBOARD_URL')]
      : checks;
  }
  const remedy = 'set ALERT_WEBHOOK_URL, or ALERT_EMAIL and SMTP_URL';
  return [failed('alert: no way to send alerts is configured', remedy)];
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
