import { spawn, type ChildProcess } from 'node:child_process';
import { once } from 'node:events';
import { appendFileSync } from 'node:fs';
import { createInterface } from 'node:readline';
import { PROGRAM } from '../children.js';

/** Starts a command of the product; `onLine` is given each line of its output. */
export function startProcess(
  args: readonly string[],
  env: NodeJS.ProcessEnv,
  onLine: (line: string, stream: 'stdout' | 'stderr') => void,
): ChildProcess {
  const child = spawn(process.execPath, [PROGRAM, ...args], {
    cwd: env['HOME'],
    env,
    stdio: ['ignore', 'pipe', 'pipe'],
  });
  for (const name of ['stdout', 'stderr'] as const) {
    createInterface(child[name]).on('line', (line) => onLine(line, name));
  }
  return child;
}

/** A process of the product that is started again whenever it ends. */
class Member {
  #child: ChildProcess;
  #stopping = false;
  kills = 0;
  /** Ends that nobody asked for. */
  readonly crashes: string[] = [];

  constructor(
    readonly command: string,
    readonly env: NodeJS.ProcessEnv,
    readonly onLine: (line: string) => void,
  ) {
    this.#child = this.#start();
  }

  #start(): ChildProcess {
    const child = startProcess([this.command], this.env, this.onLine);
    child.once('exit', (code, signal) => {
      if (this.#stopping) return;
      if (signal !== 'SIGKILL') this.crashes.push(`${this.command} ended with ${code ?? signal}`);
      setTimeout(() => {
        if (!this.#stopping) this.#child = this.#start();
      }, 200);
    });
    return child;
  }

  kill(): void {
    this.kills++;
    this.#child.kill('SIGKILL');
  }

  /** Ends it in order. @returns its exit code */
  async stop(): Promise<number | null> {
    this.#stopping = true;
    const child = this.#child;
    if (child.exitCode !== null || child.signalCode !== null) return child.exitCode;
    child.kill('SIGTERM');
    const [code] = (await once(child, 'exit')) as [number | null];
    return code;
  }
}

/** Schedulers and workers, killed at random. */
export class Fleet {
  readonly #members: readonly Member[];
  readonly lines = { all: 0, warnings: 0 };
  /** Lines with a secret in them. */
  readonly leaks: string[] = [];

  constructor(
    commands: readonly string[],
    env: NodeJS.ProcessEnv,
    logFile: string,
    secrets: readonly string[],
  ) {
    this.#members = commands.map(
      (command) =>
        new Member(command, env, (line) => {
          this.lines.all++;
          if (/"level":"(?:warn|error)"/.test(line)) this.lines.warnings++;
          if (secrets.some((secret) => line.includes(secret))) this.leaks.push(line);
          appendFileSync(logFile, `${command} ${line}\n`);
        }),
    );
  }

  get kills(): number {
    return this.#members.reduce((sum, member) => sum + member.kills, 0);
  }

  get crashes(): readonly string[] {
    return this.#members.flatMap((member) => member.crashes);
  }

  killOne(random: () => number): void {
    this.#members[Math.floor(random() * this.#members.length)]?.kill();
  }

  /** Ends all in order. @returns their exit codes */
  async stop(): Promise<readonly (number | null)[]> {
    return await Promise.all(this.#members.map((member) => member.stop()));
  }
}

/** How a command ended. */
interface Ended {
  /** Null when it was killed. */
  readonly code: number | null;
  readonly stdout: string;
  readonly stderr: string;
}

/** A person who types commands, one at a time. */
export class Person {
  #child: ChildProcess | null = null;
  /** Commands by what they were and how they ended. */
  readonly commands: Record<string, number> = {};
  kills = 0;

  constructor(
    readonly env: NodeJS.ProcessEnv,
    readonly logFile: string,
  ) {}

  /** Runs a command to its end, whatever that is. */
  async type(args: readonly string[]): Promise<Ended> {
    const texts = { stdout: '', stderr: '' };
    this.#child = startProcess(args, this.env, (line, stream) => (texts[stream] += `${line}\n`));
    const [code, signal] = (await once(this.#child, 'close')) as [number | null, string | null];
    this.#child = null;
    const what = `${args.slice(0, 2).join(' ')}: ${code ?? signal}`;
    this.commands[what] = (this.commands[what] ?? 0) + 1;
    const said = `$ ${args.join(' ')} (${code ?? signal})\n${texts.stdout}${texts.stderr}`;
    appendFileSync(this.logFile, said);
    return { code, ...texts };
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
