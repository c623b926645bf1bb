/** Child processes: measured jobs of the bench, and the built program. */
import { spawn, type ChildProcess } from 'node:child_process';
import { once } from 'node:events';
import { createInterface } from 'node:readline';
import type { Readable } from 'node:stream';
import { text } from 'node:stream/consumers';
import { fileURLToPath } from 'node:url';
import type { Jobs } from './jobs.js';

/** What a process reports about itself. */
export interface Measurement {
  /** Duration of the measured part (ms). */
  readonly ms: number;
  /** Peak resident memory (bytes). */
  readonly peak: number;
  /** Processor time of the whole process (ms). */
  readonly cpuMs: number;
}

/** Aborted on Ctrl-C: ends the child processes, so that the bench cleans up and exits. */
export const interruption = new AbortController();

/** Environment variables of a child besides `PATH`. */
export type Settings = Readonly<Record<string, string>>;

/** The built program, as users run it. */
const PROGRAM = fileURLToPath(new URL('../cli/main.js', import.meta.url));

/** Runs one of `jobs.ts` in a process of its own. */
export function measureJob<Name extends keyof Jobs>(
  name: Name,
  input: Parameters<Jobs[Name]>[0],
  settings: Settings = {},
): Promise<Measurement> {
  const script = fileURLToPath(new URL('./jobs.js', import.meta.url));
  return runToEnd([script, JSON.stringify({ name, input })], settings);
}

/** Runs the program from start to exit. */
export async function measureProgram(
  args: readonly string[],
  settings: Settings,
): Promise<Measurement> {
  const started = performance.now();
  const atExit = new URL('./at-exit.js', import.meta.url).href;
  const measured = await runToEnd(['--import', atExit, PROGRAM, ...args], settings);
  return { ...measured, ms: performance.now() - started };
}

/** Reads the result from file descriptor 3, because the program writes to stdout and stderr. */
async function runToEnd(args: readonly string[], settings: Settings): Promise<Measurement> {
  const child = spawn(process.execPath, args, {
    env: { PATH: process.env['PATH'], ...settings },
    stdio: ['ignore', 'pipe', 'pipe', 'pipe'],
    signal: interruption.signal,
  });
  const [result, , stderr, [code]] = (await Promise.all([
    text(child.stdio[3] as Readable),
    text(child.stdout as Readable),
    text(child.stderr as Readable),
    once(child, 'exit'),
  ])) as [string, string, string, [number | null]];
  if (code !== 0) throw new Error(`${args.join(' ')} ended with ${code}: ${stderr}`);
  return JSON.parse(result) as Measurement;
}

/** Starts the program. Calls `onLine` with each line of its output; without it, the output is discarded. */
export function startProgram(
  args: readonly string[],
  settings: Settings,
  onLine?: (line: string, stream: 'stdout' | 'stderr') => void,
): ChildProcess {
  const output = onLine === undefined ? 'ignore' : 'pipe';
  const child = spawn(process.execPath, [PROGRAM, ...args], {
    cwd: settings['HOME'],
    env: { PATH: process.env['PATH'], ...settings },
    stdio: ['ignore', output, output],
    signal: interruption.signal,
  });
  for (const name of ['stdout', 'stderr'] as const) {
    const stream = child[name];
    if (stream !== null) createInterface(stream).on('line', (line) => onLine?.(line, name));
  }
  return child;
}
