import { spawn, type ChildProcess } from 'node:child_process';
import { once } from 'node:events';
import { setTimeout as sleep } from 'node:timers/promises';
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

/** What it took to have a verdict on each code. */
export interface Pursued {
  readonly done: boolean;
  /** The list was checked so often, the first time included. */
  readonly checks: number;
  /** Times that an audit had failed and was resumed. */
  readonly failures: number;
}

const MOST_CHECKS = 5;
const MOST_FAILURES = 12;

/**
 * Sees a list to its end as a person would: watches its audit, resumes it when the command was killed
 * or the audit failed, and checks the list again when codes are left without a verdict.
 */
export async function pursue(
  person: Person,
  list: string,
  result: string,
  patience: AbortSignal,
): Promise<Pursued> {
  let [checks, failures] = [1, 0];
  let audit = await enter(person, list, []);
  while (!patience.aborted && checks <= MOST_CHECKS && failures <= MOST_FAILURES) {
    const { code, stderr } = await person.type(['audits', 'resume', audit, '--out', result]);
    switch (code) {
      case 0:
        return { done: true, checks, failures };
      case 4:
        checks++;
        audit = await enter(person, list, ['--max-age', '1d']);
        break;
      case 1:
        failures++;
        await sleep(5_000);
        break;
      case null:
      case 130:
        break;
      default:
        throw new Error(`audits resume ended with ${code}: ${stderr}`);
    }
  }
  return { done: false, checks, failures };
}

/** Begins an audit of the list; killed or refused, begins again unless the audit is there. */
async function enter(person: Person, list: string, more: readonly string[]): Promise<string> {
  const before = await newest(person);
  for (let tries = 0; tries < MOST_FAILURES; tries++) {
    const args = ['codes', 'check', list, '--column', 'code', '--detach', ...more];
    await person.type(args);
    const now = await newest(person);
    if (now !== null && now !== before) return now;
    await sleep(2_000);
  }
  throw new Error('the list could not be entered');
}

async function newest(person: Person): Promise<string | null> {
  // A list that is asked for just as the person is killed is asked for again.
  for (;;) {
    const { code, stdout } = await person.type(['audits', 'list', '--limit', '1', '--json']);
    if (code !== 0) continue;
    const [audit] = JSON.parse(stdout) as { audit_id: number | string }[];
    return audit === undefined ? null : String(audit.audit_id);
  }
}
