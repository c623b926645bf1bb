import { spawn, type ChildProcess } from 'node:child_process';
import { once } from 'node:events';
import { fileURLToPath } from 'node:url';

const MAIN = fileURLToPath(new URL('../../../cli/main.js', import.meta.url));

/** How a command ended. */
export interface Ended {
  /** Null when it was killed. */
  readonly code: number | null;
  readonly stdout: string;
  readonly stderr: string;
}

/** Who types commands: one at a time. */
export class Person {
  readonly #env: NodeJS.ProcessEnv;
  readonly #cwd: string;
  readonly #onText: (text: string) => void;
  #child: ChildProcess | null = null;
  /** Commands by what they were and how they ended. */
  readonly commands: Record<string, number> = {};
  kills = 0;

  constructor(env: NodeJS.ProcessEnv, cwd: string, onText: (text: string) => void) {
    this.#env = env;
    this.#cwd = cwd;
    this.#onText = onText;
  }

  /** Runs a command to its end, whatever that is. */
  async type(args: readonly string[]): Promise<Ended> {
    const child = spawn(process.execPath, [MAIN, ...args], {
      cwd: this.#cwd,
      env: this.#env,
      stdio: ['ignore', 'pipe', 'pipe'],
    });
    this.#child = child;
    const texts = { stdout: '', stderr: '' };
    for (const name of ['stdout', 'stderr'] as const) {
      child[name].setEncoding('utf8').on('data', (text: string) => {
        texts[name] += text;
      });
    }
    const [code, signal] = (await once(child, 'close')) as [number | null, string | null];
    this.#child = null;
    const what = `${args.slice(0, 2).join(' ')}: ${code ?? signal}`;
    this.commands[what] = (this.commands[what] ?? 0) + 1;
    this.#onText(`$ ${args.join(' ')} (${code ?? signal})\n${texts.stdout}${texts.stderr}`);
    return { code, ...texts };
  }

  /** Runs a command whose answer is JSON. @throws when it fails */
  async ask<T>(args: readonly string[]): Promise<T> {
    const { code, stdout, stderr } = await this.type([...args, '--json']);
    if (code !== 0) throw new Error(`${args.join(' ')} ended with ${code}: ${stderr}`);
    return JSON.parse(stdout) as T;
  }

  /** Kills the command that runs, if one does. */
  kill(): void {
    if (this.#child?.kill('SIGKILL') === true) this.kills++;
  }

  /** Ctrl-C. */
  interrupt(): void {
    this.#child?.kill('SIGINT');
  }
}
