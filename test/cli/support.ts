import { type ChildProcessWithoutNullStreams, spawn } from 'node:child_process';
import { once, setMaxListeners } from 'node:events';
import { mkdtempSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { Readable, Writable } from 'node:stream';
import { expect, onTestFinished, vi } from 'vitest';
import { syncItems } from '../../src/catalogue/sync-items.js';
import {
  seededCatalogue,
  seededPurchases,
  type Simulator,
  type SimulatorOptions,
} from '../../src/simulator/index.js';
import { DIST } from '../support/built.js';
import { KEY, type Mirror, never } from '../support/mirror.js';
import { until } from '../support/until.js';

export const MAIN = join(DIST, 'cli/main.js');

let bin: string | null = null;

/** Returns the built program under its installed name, `seller-mirror`. */
function installed(): string {
  if (bin === null) {
    bin = mkdtempSync(join(tmpdir(), `seller-mirror-tests-${process.pid}-bin-`));
    symlinkSync(MAIN, join(bin, 'seller-mirror'));
  }
  return join(bin, 'seller-mirror');
}

export interface Ended {
  readonly code: number | null;
  readonly stdout: string;
  readonly stderr: string;
}

/** A command in a separate process. */
export interface Running {
  readonly process: ChildProcessWithoutNullStreams;
  readonly ended: Promise<Ended>;
  /** Returns the output so far. */
  stdout(): string;
  stderr(): string;
}

type Environment = Readonly<Record<string, string>>;

/** Starts the built program in a separate process, with these settings only. */
export function start(args: readonly string[], env: Environment, cwd = folder()): Running {
  const child = spawn(process.execPath, [installed(), ...confirmedSoon(args)], {
    cwd,
    env: { PATH: process.env['PATH'], HOME: process.env['HOME'], ...env },
  });
  onTestFinished(() => void child.kill('SIGKILL'));
  let stdout = '';
  let stderr = '';
  child.stdout.setEncoding('utf8').on('data', (text: string) => (stdout += text));
  child.stderr.setEncoding('utf8').on('data', (text: string) => (stderr += text));
  child.stdin.on('error', () => undefined);
  const ended = once(child, 'close').then(([code]) =>
    checked({ code: code as number | null, stdout, stderr }),
  );
  return { process: child, ended, stdout: () => stdout, stderr: () => stderr };
}

/** Commands that need a separate process: they run until a signal, or exit themselves. */
const SEPARATE = ['run', 'scheduler', 'worker', 'simulate', 'demo'];

interface RunOptions {
  readonly stdin?: string;
  readonly cwd?: string;
  /** Streams that pretend to be a terminal. */
  readonly terminal?: readonly ('stdin' | 'stdout' | 'stderr')[];
  /** Run in a separate process. */
  readonly spawned?: boolean;
  /** The path of the program in argv. */
  readonly script?: string;
}

/** Runs a command to its end. Within this process where possible, because starting one takes long. */
export async function run(
  args: readonly string[],
  env: Environment,
  options: RunOptions = {},
): Promise<Ended> {
  const { stdin = '', cwd = folder(), spawned = 'NODE_OPTIONS' in env } = options;
  if (!spawned && !SEPARATE.includes(args[0] ?? '')) {
    return checked(await oneAtATime(() => runHere(confirmedSoon(args), env, options)));
  }
  const running = start(args, env, cwd);
  running.process.stdin.end(stdin);
  return running.ended;
}

/** Confirms denied codes at once, not a minute later, unless the test has set --confirm-after. */
function confirmedSoon(args: readonly string[]): readonly string[] {
  const [first = '', second = ''] = args;
  const isCheck = ['codes check', 'codes recheck', 'audits resume'].includes(`${first} ${second}`);
  const isQuick = isCheck && !args.includes('--confirm-after');
  return isQuick ? [first, second, '--confirm-after', '0s', ...args.slice(2)] : args;
}

function checked(ended: Ended): Ended {
  const { stdout, stderr } = ended;
  expect(stdout + stderr, 'the key must not show').not.toContain(KEY);
  expect(stderr, 'no stack trace').not.toMatch(/^\s+at .*:\d+:\d+/m);
  return ended;
}

let last: Promise<unknown> = Promise.resolve();

/** Commands in this process share its environment and streams, so they must run one after the other. */
function oneAtATime<T>(work: () => Promise<T>): Promise<T> {
  const mine = last.then(work);
  last = mine.catch(() => undefined);
  return mine;
}

/** Thrown instead of ending the process. */
class Exit extends Error {
  constructor(readonly code: number) {
    super(`exit ${code}`);
  }
}

/** Runs a command like `main.ts`, with streams, environment and folder replaced. */
async function runHere(
  args: readonly string[],
  env: Environment,
  { stdin = '', cwd = folder(), terminal = [], script = installed() }: RunOptions,
): Promise<Ended> {
  // Many commands listen to the same interruption signal here.
  setMaxListeners(0);
  const { runProgram } = await import('../../src/cli/program.js');
  const stdout = new Sink();
  const stderr = new Sink();
  const { env: envBefore, argv } = process;
  const folderBefore = process.cwd();
  const exit = vi.spyOn(process, 'exit').mockImplementation((code): never => {
    throw new Exit(Number(code ?? exitCode()));
  });
  const streams = ['stdin', 'stdout', 'stderr'].map(
    (name) => [name, Object.getOwnPropertyDescriptor(process, name) ?? {}] as const,
  );
  const outer = { PATH: process.env['PATH'], HOME: process.env['HOME'] };
  try {
    Object.defineProperties(process, {
      stdin: { value: Readable.from([Buffer.from(stdin)]), configurable: true },
      stdout: { value: stdout, configurable: true },
      stderr: { value: stderr, configurable: true },
    });
    for (const name of terminal) process[name].isTTY = true;
    process.env = { ...outer, ...env };
    process.argv = [process.execPath, script, ...args];
    process.chdir(cwd);
    process.exitCode = undefined;
    await runProgram(process.argv);
    return { code: exitCode(), stdout: stdout.text, stderr: stderr.text };
  } catch (error) {
    if (!(error instanceof Exit)) throw error;
    return { code: error.code, stdout: stdout.text, stderr: stderr.text };
  } finally {
    process.exitCode = undefined;
    exit.mockRestore();
    Object.assign(process, { env: envBefore, argv });
    process.chdir(folderBefore);
    Object.defineProperties(process, Object.fromEntries(streams));
  }
}

const exitCode = (): number => Number(process.exitCode ?? 0);

/** Collects what is written to it. */
class Sink extends Writable {
  text = '';

  override _write(chunk: Buffer, _encoding: string, done: () => void): void {
    this.text += String(chunk);
    done();
  }
}

/** Runs a command that must exit with 0. @returns what it prints on stdout */
export async function printed(args: readonly string[], env: Environment): Promise<string> {
  const { code, stdout, stderr } = await run(args, env);
  expect(code, stderr).toBe(0);
  return stdout;
}

const folders = new Map<string, string>();

/** Returns a temporary folder for the tests of this file. */
export function folder(): string {
  const file = expect.getState().testPath ?? '';
  const known = folders.get(file);
  if (known !== undefined) return known;
  const path = mkdtempSync(join(tmpdir(), `seller-mirror-tests-${process.pid}-cli-`));
  folders.set(file, path);
  return path;
}

// Not afterAll, because this process may run another test file afterwards.
process.once('exit', () => {
  for (const path of [...folders.values(), bin ?? '']) {
    if (path !== '') rmSync(path, { recursive: true, force: true });
  }
});

/** Settings of one seller without a request limit. */
export function settings(databaseUrl: string, url: string, more: Environment = {}): Environment {
  return {
    DATABASE_URL: databaseUrl,
    MARKETPLACE_URL: url,
    MARKETPLACE_API_KEY: KEY,
    REQUESTS_PER_MINUTE: '0',
    ...more,
  };
}

/** The key of the second seller of `marketOf`. */
export const SECOND_KEY = 'another-key-0123456789';

/** Settings of two sellers of one marketplace, in a sellers file. */
export function twoSellers(databaseUrl: string, url: string, secondKey = SECOND_KEY): Environment {
  const file = join(folder(), 'sellers.json');
  const sellers = ['first', 'second'].map((name) => ({ name, url, keyEnv: `KEY_OF_${name}` }));
  writeFileSync(file, JSON.stringify({ sellers }));
  return {
    DATABASE_URL: databaseUrl,
    SELLERS_FILE: file,
    REQUESTS_PER_MINUTE: '0',
    KEY_OF_first: KEY,
    KEY_OF_second: secondKey,
  };
}

/** Starts a marketplace with one seller, and returns what mirrors it. */
export async function marketOf(
  mirror: Mirror,
  count = 12,
  { username = 'ada', ...options }: Partial<SimulatorOptions> & { readonly username?: string } = {},
) {
  const catalogue = seededCatalogue({ seed: 3, count });
  const other = {
    key: SECOND_KEY,
    username: 'bob',
    catalogue: seededCatalogue({ seed: 4, count }),
  };
  const sellers = [{ key: KEY, username, catalogue }, other];
  const sim = await mirror.simulate({ sellers, ...options });
  const deps = mirror.deps(sim.url);
  const sync = () => syncItems(deps, never);
  return { catalogue, sim, deps, sync, env: settings(mirror.databaseUrl, sim.url) };
}

/** Starts a sync whose list comes so slowly that it holds the seller's lock until it is killed. */
export async function startSync(
  { log, faults }: Simulator,
  env: Environment,
  ...options: readonly string[]
): Promise<Running> {
  faults.always('list', { kind: 'slow', chunkBytes: 100, pauseMs: 50 });
  const before = log.length;
  const running = start(['sync', 'items', ...options], env);
  await until(() =>
    log.slice(before).some(({ operation, bytesSent }) => operation === 'list' && bytesSent > 0),
  );
  return running;
}

/** Starts a marketplace with purchases, every tenth of them refunded. */
export async function codesMarket(
  mirror: Mirror,
  { purchases = 200, requestsPerMinute = 0 } = {},
): Promise<Simulator> {
  const simulator = await mirror.simulate({
    requestsPerMinute,
    sellers: [
      {
        key: KEY,
        username: 'ada',
        catalogue: seededCatalogue({ seed: 3, count: 20 }),
        purchases: seededPurchases({ seed: 5, count: purchases }),
      },
    ],
  });
  const own = simulator.seller(KEY).purchases;
  for (let n = 0; n < purchases; n += 10) own.setState(own.codeAt(n), 'refunded');
  return simulator;
}

/** Returns the first purchase codes of the marketplace. */
export function codesOf(simulator: Simulator, count: number): string[] {
  const { purchases } = simulator.seller(KEY);
  return Array.from({ length: count }, (_, n) => purchases.codeAt(n));
}

/** True if the marketplace has a valid purchase for the code. */
export function isValid(simulator: Simulator, code: string): boolean {
  const { purchases, catalogue } = simulator.seller(KEY);
  return purchases.find(code, catalogue)?.state === 'valid';
}

/** Returns the codes that were validated, with repetitions. */
export function validatedCodes(simulator: Simulator): string[] {
  return simulator.log
    .filter(({ operation }) => operation === 'validate')
    .map(({ parameters }) => parameters['purchase_code'] ?? '');
}

let files = 0;

/** Writes a new file in the folder of the test. */
export function fileWith(text: string, ending = 'csv'): string {
  const path = join(folder(), `list-${++files}.${ending}`);
  writeFileSync(path, text);
  return path;
}

/** Returns an unused path in the folder of the test. */
export function freePath(ending: string): string {
  return join(folder(), `result-${++files}.${ending}`);
}

/** Parses CSV without quotes. */
export function cellsOf(csv: string): string[][] {
  return csv
    .trimEnd()
    .split('\r\n')
    .map((line) => line.split(','));
}
