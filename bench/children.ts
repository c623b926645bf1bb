import { spawn, type ChildProcess } from 'node:child_process';
import { once } from 'node:events';
import type { Readable } from 'node:stream';
import { text } from 'node:stream/consumers';
import { fileURLToPath } from 'node:url';

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

/** Settings given to a child besides `PATH` and the like. */
export type Settings = Readonly<Record<string, string>>;

const PROGRAM = fileURLToPath(new URL('../cli/main.js', import.meta.url));

export function scriptPath(name: string): string {
  return fileURLToPath(new URL(`./${name}.js`, import.meta.url));
}

/** Starts a script of the bench with an IPC channel. */
export function startScript(name: string, input: unknown): ChildProcess {
  return spawn(process.execPath, [scriptPath(name), JSON.stringify(input)], {
    stdio: ['ignore', 'inherit', 'inherit', 'ipc'],
  });
}

/** Runs a script of the bench to its end in a process of its own; returns what it measured. */
export async function measure<T extends Measured>(
  name: string,
  input: unknown,
  settings: Settings = {},
): Promise<T> {
  return runToEnd<T>([scriptPath(name), JSON.stringify(input)], settings);
}

/** Starts the program itself, without output. */
export function startProgram(args: readonly string[], settings: Settings): ChildProcess {
  return spawn(process.execPath, [PROGRAM, ...args], {
    env: { PATH: process.env['PATH'], ...settings },
    stdio: 'ignore',
    signal: interruption.signal,
  });
}

/** Runs the program itself, from start to exit. */
export async function measureProgram(
  args: readonly string[],
  settings: Settings,
): Promise<Measured> {
  const started = performance.now();
  const measured = await runToEnd<Measured>(
    ['--import', new URL('./at-exit.js', import.meta.url).href, PROGRAM, ...args],
    settings,
  );
  return { ...measured, ms: performance.now() - started };
}

/** The result comes through file descriptor 3, since the program writes to the others. */
async function runToEnd<T>(args: readonly string[], settings: Settings): Promise<T> {
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
  return JSON.parse(result) as T;
}
