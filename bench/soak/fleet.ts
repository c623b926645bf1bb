import { spawn, type ChildProcess } from 'node:child_process';
import { once } from 'node:events';
import { appendFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';

const MAIN = fileURLToPath(new URL('../../cli/main.js', import.meta.url));

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
    readonly cwd: string,
    readonly onLine: (line: string) => void,
  ) {
    this.#child = this.#start();
  }

  #start(): ChildProcess {
    const child = spawn(process.execPath, [MAIN, this.command], {
      cwd: this.cwd,
      env: this.env,
      stdio: ['ignore', 'pipe', 'pipe'],
    });
    let rest = '';
    const take = (chunk: Buffer): void => {
      const lines = (rest + chunk.toString()).split('\n');
      rest = lines.pop() ?? '';
      for (const line of lines) this.onLine(line);
    };
    child.stdout.on('data', take);
    child.stderr.on('data', take);
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

  abandon(): void {
    this.#stopping = true;
    this.#child.kill('SIGKILL');
  }
}

/** Schedulers and workers, killed at random. */
export class Fleet {
  readonly #members: Member[] = [];
  #lines = 0;
  #warnings = 0;
  readonly leaks: string[] = [];

  constructor(
    commands: readonly string[],
    env: NodeJS.ProcessEnv,
    cwd: string,
    logFile: string,
    secrets: readonly string[],
  ) {
    for (const command of commands) {
      this.#members.push(
        new Member(command, env, cwd, (line) => {
          this.#lines++;
          if (/"level":"(?:warn|error)"/.test(line)) this.#warnings++;
          if (secrets.some((secret) => line.includes(secret))) this.leaks.push(line);
          appendFileSync(logFile, `${command} ${line}\n`);
        }),
      );
    }
  }

  get kills(): number {
    return this.#members.reduce((sum, member) => sum + member.kills, 0);
  }

  get crashes(): readonly string[] {
    return this.#members.flatMap((member) => member.crashes);
  }

  get lines(): { readonly all: number; readonly warnings: number } {
    return { all: this.#lines, warnings: this.#warnings };
  }

  killOne(random: () => number): void {
    this.#members[Math.floor(random() * this.#members.length)]?.kill();
  }

  /** Ends all in order. @returns their exit codes */
  async stop(): Promise<readonly (number | null)[]> {
    return await Promise.all(this.#members.map((member) => member.stop()));
  }

  abandon(): void {
    for (const member of this.#members) member.abandon();
  }
}
