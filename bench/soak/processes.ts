import type { ChildProcess } from 'node:child_process';
import { once } from 'node:events';
import { appendFileSync } from 'node:fs';
import { startProgram, type Settings } from '../children.js';

/** Schedulers and workers, which are restarted whenever they end. */
export class Fleet {
  readonly #children: ChildProcess[];
  #isStopping = false;
  kills = 0;
  /** Exits that the soak did not cause. */
  readonly crashes: string[] = [];
  readonly lines = { all: 0, warnings: 0 };
  /** Lines that contain a secret. */
  readonly leaks: string[] = [];

  constructor(
    readonly commands: readonly string[],
    readonly env: Settings,
    readonly logFile: string,
    readonly secrets: readonly string[],
  ) {
    this.#children = commands.map((command, index) => this.#start(command, index));
  }

  #start(command: string, index: number): ChildProcess {
    const child = startProgram([command], this.env, (line) => {
      this.lines.all++;
      if (/"level":"(?:warn|error)"/.test(line)) this.lines.warnings++;
      if (this.secrets.some((secret) => line.includes(secret))) this.leaks.push(line);
      appendFileSync(this.logFile, `${command} ${line}\n`);
    });
    child.once('exit', (code, signal) => {
      if (this.#isStopping) return;
      if (signal !== 'SIGKILL') this.crashes.push(`${command} ended with ${code ?? signal}`);
      setTimeout(() => {
        if (!this.#isStopping) this.#children[index] = this.#start(command, index);
      }, 200);
    });
    return child;
  }

  killOne(random: () => number): void {
    this.kills++;
    this.#children[Math.floor(random() * this.#children.length)]?.kill('SIGKILL');
  }

  /** Stops all processes. @returns their exit codes */
  async stop(): Promise<readonly (number | null)[]> {
    this.#isStopping = true;
    const exits = this.#children.map(async (child) => {
      if (child.exitCode === null && child.signalCode === null) {
        child.kill('SIGTERM');
        await once(child, 'exit');
      }
      return child.exitCode;
    });
    return Promise.all(exits);
  }
}

/** The result of a command. */
interface CommandResult {
  /** Null if it was killed. */
  readonly code: number | null;
  readonly stdout: string;
  readonly stderr: string;
}

/** Runs commands one at a time, as a person at a terminal does. */
export class Terminal {
  #child: ChildProcess | null = null;
  /** Number of runs by command and exit code. */
  readonly commands: Record<string, number> = {};
  kills = 0;

  constructor(
    readonly env: Settings,
    readonly logFile: string,
  ) {}

  /** Runs a command until it ends or is killed. */
  async run(args: readonly string[]): Promise<CommandResult> {
    const texts = { stdout: '', stderr: '' };
    this.#child = startProgram(args, this.env, (line, stream) => (texts[stream] += `${line}\n`));
    const [code, signal] = (await once(this.#child, 'close')) as [number | null, string | null];
    this.#child = null;
    const what = `${args.slice(0, 2).join(' ')}: ${code ?? signal}`;
    this.commands[what] = (this.commands[what] ?? 0) + 1;
    const heading = `$ ${args.join(' ')} (${code ?? signal})`;
    appendFileSync(this.logFile, `${heading}\n${texts.stdout}${texts.stderr}`);
    return { code, ...texts };
  }

  /** Kills the running command, if any. */
  kill(): void {
    if (this.#child?.kill('SIGKILL') === true) this.kills++;
  }

  /** Presses Ctrl-C. */
  interrupt(): void {
    this.#child?.kill('SIGINT');
  }
}
