import { UserError } from '../../domain/user-error.js';
import { createHash } from 'node:crypto';
import { once } from 'node:events';
import { InvalidArgumentError, Option, type Command } from 'commander';
import {
  profiles,
  seededCatalogue,
  seededPurchases,
  startSimulator,
  type Language,
  type LogEntry,
  type ProfileName,
  type SellerSpec,
  type Simulator,
} from '../../simulator/index.js';
import { csvLine } from '../../domain/csv.js';
import { writeWhole } from '../../listing/write-file.js';
import { listenFault } from '../../service/listen.js';
import { printResult } from '../console.js';
import { action } from '../execute.js';
import { bytes, count, plural } from '../../domain/text.js';
import { safeLine } from '../output/text.js';
import { describeCommand, positiveInteger } from '../options.js';
import { ownCommand } from '../own-command.js';

interface SimulateOptions {
  readonly port: number;
  readonly host: string;
  readonly profile: ProfileName;
  readonly items: number;
  readonly sellers: number;
  readonly purchases: number;
  readonly requestsPerMinute: number;
  readonly language: Language;
  readonly seed: number;
  readonly codes?: string;
  readonly json?: boolean;
}

const LANGUAGES: readonly Language[] = ['en', 'EN', 'de', 'ja'];

export function add(program: Command): void {
  const profile = new Option('--profile <name>', 'the documented API, or a dialect seen in use');
  const language = new Option(
    '--language <code>',
    'language of status, messages and licences; EN is upper case',
  );
  const command = program
    .command('simulate')
    .option('--port <n>', 'port; 0 picks a free one', upTo(65_535), 8080)
    .option('--host <address>', 'address to listen on', '127.0.0.1')
    .addOption(profile.choices(Object.keys(profiles)).default('documented'))
    .option('--items <n>', 'items of each seller', upTo(10_000_000), 200)
    .option('--sellers <n>', 'how many sellers', positiveInteger, 1)
    .option('--purchases <n>', 'purchase codes of each seller', upTo(1_000_000_000), 1000)
    .option('--requests-per-minute <n>', 'request limit; 0 means none', upTo(1_000_000), 60)
    .addOption(language.choices(LANGUAGES).default('en'))
    .option('--seed <n>', 'a different number makes a different marketplace', upTo(2 ** 32 - 1), 1)
    .option('--codes <file>', 'write all purchase codes to this file, as CSV')
    .option('--json', 'print address, keys and codes as JSON');
  describeCommand(command, {
    about:
      'Runs a simulated marketplace until Ctrl-C: the same API, with made-up sellers, items and purchases. The same seed makes the same keys, items and codes. Logs each request to stderr.',
    examples: [
      'seller-mirror simulate',
      'seller-mirror simulate --port 8081 --profile field-2 --items 50000 --language de',
      'seller-mirror simulate --purchases 500 --codes codes.csv',
    ],
  }).action(action(simulate));
}

function upTo(max: number): (text: string) => number {
  return (text) => {
    const number = Number(text);
    if (/^\d+$/.test(text) && number <= max) return number;
    throw new InvalidArgumentError(`"${text}" is not a whole number from 0 to ${max}.`);
  };
}

async function simulate(signal: AbortSignal, options: SimulateOptions): Promise<void> {
  const { port, host, profile, requestsPerMinute, language } = options;
  const simulator = await startSimulator({
    port,
    host,
    profile,
    requestsPerMinute,
    language,
    sellers: sellersOf(options),
    compression: 'auto',
    onAnswered: (entry) => process.stderr.write(logLine(entry)),
  }).catch((error: unknown) => {
    const fault = listenFault(error);
    if (fault === null) throw error;
    throw new UserError(
      `${host}:${port} ${fault.problem}`,
      `${fault.remedy} (--port, 0 picks a free one; --host)`,
      'FAILED',
    );
  });
  const url = ['0.0.0.0', '::'].includes(host)
    ? `http://127.0.0.1:${simulator.port}`
    : simulator.url;
  const sellers = simulator.sellers.map(({ username, key, purchases }) => {
    const shown = Math.min(SHOWN_CODES, purchases.size);
    const codes = Array.from({ length: shown }, (_, index) => purchases.codeAt(index));
    return { username, key, codes };
  });
  try {
    if (options.codes !== undefined) await writeWhole(options.codes, codeLines(simulator), signal);
    await printResult(options, { url, profile, sellers }, () =>
      introduction(url, sellers, options),
    );
    if (!signal.aborted) await once(signal, 'abort');
  } finally {
    await simulator.close();
  }
}

/** All codes with their sellers, as CSV. */
function* codeLines({ sellers }: Simulator): Generator<string, void, undefined> {
  yield csvLine(['seller', 'purchase_code'], ',');
  for (const { username, purchases } of sellers) {
    for (const code of purchases.codes()) yield csvLine([username, code], ',');
  }
}

const SHOWN_CODES = 3;
const USERNAMES = ['ada', 'grace', 'alan', 'barbara', 'edsger', 'frances', 'donald', 'radia'];

function sellersOf({ sellers, items, purchases, seed }: SimulateOptions): SellerSpec[] {
  return Array.from({ length: sellers }, (_, index) => ({
    key: createHash('sha256').update(`key ${index} of ${seed}`).digest('hex'),
    username: USERNAMES[index] ?? `seller-${index + 1}`,
    catalogue: seededCatalogue({
      seed: seed + index,
      count: items,
      // Item ids are unique in the marketplace, so no two sellers share one.
      firstId: 1001 + index * Math.max(items, 100_000),
    }),
    purchases: seededPurchases({ seed: seed + index, count: items === 0 ? 0 : purchases }),
  }));
}

function introduction(
  url: string,
  sellers: readonly { username: string; key: string; codes: readonly string[] }[],
  { profile, items, requestsPerMinute }: SimulateOptions,
): string {
  const limit =
    requestsPerMinute === 0 ? 'no limit' : `${count(requestsPerMinute)} requests a minute`;
  return [
    `A simulated marketplace runs at ${url} (${profile}, ${plural(items, 'item')} a seller, ${limit}). Ctrl-C ends it.\n`,
    ...sellers.map(
      ({ username, key, codes }) =>
        `\nseller ${username}\n  key    ${key}\n  codes  ${codes.join(' ') || 'none'}\n`,
    ),
    '\nMirror it from another terminal:\n',
    ...sellers.map(({ username, key }) => {
      const name = sellers.length === 1 ? '' : `SELLER_NAME=${username} `;
      return `  ${name}MARKETPLACE_URL=${url} MARKETPLACE_API_KEY=${key} ${ownCommand()} sync\n`;
    }),
    '\n',
  ].join('');
}

/** `02:00:12 GET /api/items/all ada 200 1.2 MB`. Made safe for a terminal: clients may send any path. */
function logLine(entry: LogEntry): string {
  const parameters = Object.entries(entry.parameters).map(([name, value]) => `${name}=${value}`);
  const parts = [
    new Date().toISOString().slice(11, 19),
    entry.method,
    entry.path,
    ...parameters,
    entry.sellerName ?? (entry.hasKey ? 'unknown key' : 'no key'),
    entry.status === 0 ? 'no answer' : String(entry.status),
    bytes(entry.bytesSent),
    ...(entry.finished ? [] : ['cut off']),
  ];
  return `${safeLine(parts.join(' '))}\n`;
}
