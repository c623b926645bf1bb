import { spawn, type ChildProcess } from 'node:child_process';
import { once } from 'node:events';
import type { Readable } from 'node:stream';
import { text } from 'node:stream/consumers';
import { fileURLToPath } from 'node:url';
import type { Baselines } from './baselines.js';
import type { FeedJob } from './feed-job.js';
import type { MarketplaceInput, MarketplaceOrder, MarketplaceState } from './marketplace.js';

/** What every measured process tells. */
export interface Measured {
  /** The measured part, milliseconds. */
  readonly ms: number;
  /** Peak resident memory of the process, bytes. */
  readonly peak: number;
  /** Processor time of the whole process, milliseconds. */
  readonly cpuMs: number;
}

/** Aborted, it ends the measured process, and so the measuring. */
export const interruption = new AbortController();

/** Settings given to a child besides `PATH`. */
export type Settings = Readonly<Record<string, string>>;

/** The built program: what is measured and tormented is what users run. */
export const PROGRAM = pathOf('../cli/main.js');

function pathOf(script: string): string {
  return fileURLToPath(new URL(script, import.meta.url));
}

export function measureBaseline<Name extends keyof Baselines>(
  name: Name,
  input: Parameters<Baselines[Name]>[0],
): Promise<Measured> {
  return runToEnd([pathOf('baselines.js'), JSON.stringify({ name, input })]);
}

export function measureJob(settings: Settings): Promise<Measured> {
  return runToEnd([pathOf('mirror-job.js')], settings);
}

/** What came of a feed's nights besides. */
export function measureFeed(
  job: FeedJob,
  settings: Settings,
): Promise<Measured & { readonly unchanged?: readonly number[] }> {
  return runToEnd([pathOf('feed-job.js'), JSON.stringify(job)], settings);
}

/** Runs the program itself, from start to exit. */
export async function measureProgram(
  args: readonly string[],
  settings: Settings,
): Promise<Measured> {
  const started = performance.now();
  const atExit = new URL('./at-exit.js', import.meta.url).href;
  const measured = await runToEnd(['--import', atExit, PROGRAM, ...args], settings);
  return { ...measured, ms: performance.now() - started };
}

/** The result comes through file descriptor 3, since the program writes to the others. */
async function runToEnd(args: readonly string[], settings: Settings = {}): Promise<Measured> {
  const child = spawn(process.execPath, args, {
    env: { PATH: process.env['PATH'], ...settings },
    stdio: ['ignore', 'pipe', 'pipe', 'pipe'],
    signal: interruption.signal,
  });
  const [result, , said, [code]] = (await Promise.all([
    text(child.stdio[3] as Readable),
    text(child.stdout as Readable),
    text(child.stderr as Readable),
    once(child, 'exit'),
  ])) as [string, string, string, [number | null]];
  if (code !== 0) throw new Error(`${args.join(' ')} ended with ${code}: ${said}`);
  return JSON.parse(result) as Measured;
}

/** Starts the program itself, without output. */
export function startProgram(args: readonly string[], settings: Settings): ChildProcess {
  return spawn(process.execPath, [PROGRAM, ...args], {
    env: { PATH: process.env['PATH'], ...settings },
    stdio: 'ignore',
    signal: interruption.signal,
  });
}

export const KEY = 'bench-0123456789abcdef0123456789abcdef';

/** The marketplace process, as the bench sees it. */
export interface Marketplace {
  /** As it was when it had started. */
  readonly state: MarketplaceState;
  /** Returns when the order is done and its list is rendered. */
  readonly tell: (order: MarketplaceOrder) => Promise<MarketplaceState>;
}

/** Runs `work` with a marketplace of its own. */
export async function withMarketplace<T>(
  input: Omit<MarketplaceInput, 'key'>,
  work: (marketplace: Marketplace) => Promise<T>,
): Promise<T> {
  const child = spawn(
    process.execPath,
    [pathOf('marketplace.js'), JSON.stringify({ ...input, key: KEY })],
    { stdio: ['ignore', 'inherit', 'inherit', 'ipc'] },
  );
  const gone = once(child, 'exit');
  const answer = async (): Promise<MarketplaceState> => {
    const ended = gone.then(() => Promise.reject(new Error('the simulated marketplace ended')));
    const [state] = (await Promise.race([once(child, 'message'), ended])) as [MarketplaceState];
    return state;
  };
  try {
    const state = await answer();
    const tell = (order: MarketplaceOrder): Promise<MarketplaceState> => {
      child.send(order);
      return answer();
    };
    return await work({ state, tell });
  } finally {
    if (child.connected) child.disconnect();
    await gone;
  }
}
