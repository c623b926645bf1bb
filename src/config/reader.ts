import {
  closeSync,
  fstatSync,
  openSync,
  readFileSync,
  readSync,
  statSync,
  type Stats,
} from 'node:fs';
import { homedir } from 'node:os';
import { join, resolve } from 'node:path';
import { parseEnv } from 'node:util';
import type { z } from 'zod';
import { errorCode } from '../domain/error-code.js';
import type { Findings, Given } from './findings.js';
import { nearest } from './nearest.js';
import {
  isSecretName,
  SECRETS,
  SETTINGS,
  type SecretName,
  type SettingName,
  type ValueOf,
} from './settings.js';

export interface ConfigOptions {
  /** Folder of `.env`, and the one that relative paths are relative to. */
  readonly cwd: string;
  /** `sellers`: at least one must be configured. `store`: there may be none. */
  readonly needs: 'store' | 'sellers';
  /** What is wrong with a cron expression, continuing a sentence that begins with it; null: nothing. */
  readonly cronFault: (expression: string) => string | null;
}

export interface SecretPlaces {
  readonly direct: Given | null;
  readonly file: Given | null;
  /** Folder that a relative file is relative to. */
  readonly base: string;
}

/** Reads settings one by one from the environment and `.env`; all that is wrong goes to the findings. */
export class Reader {
  readonly #environment: ReadonlyMap<string, string>;
  readonly #envFile: ReadonlyMap<string, string>;
  readonly #envPath: string;
  readonly #values = new Map<SettingName, unknown>();

  /** @param environment of the process: it wins over `.env`, also with an empty value, which takes a setting back */
  constructor(
    environment: NodeJS.ProcessEnv,
    readonly options: ConfigOptions,
    readonly findings: Findings,
  ) {
    this.#environment = variablesOf(environment);
    this.#envPath = join(options.cwd, '.env');
    this.#envFile = variablesOf(readEnvFile(this.#envPath, findings));
  }

  /** The trimmed text of a variable; null when it is not set or empty, which mean the same. */
  variable(name: string): string | null {
    return (this.#environment.get(name) ?? this.#envFile.get(name))?.trim() || null;
  }

  sourceOf(name: string): 'environment' | '.env' {
    return this.#environment.has(name) ? 'environment' : '.env';
  }

  given(name: SettingName): Given | null {
    const text = this.variable(name);
    return text === null ? null : { where: name, text };
  }

  /** The value of a setting; its default when it is not set, or wrong, which has been reported. */
  value<N extends SettingName>(name: N): ValueOf<N> {
    if (!this.#values.has(name)) {
      const given = isSecretName(name) ? this.secret(name) : this.given(name);
      const value = given && this.parse(given, name);
      const usual: unknown = SETTINGS[name].safeParse(undefined).data;
      this.#values.set(name, value ?? usual ?? null);
    }
    return this.#values.get(name) as ValueOf<N>;
  }

  /** A text as the value of a setting, wherever it was given; null when it is wrong, which has been reported. */
  parse<N extends SettingName>(given: Given, name: N): NonNullable<ValueOf<N>> | null {
    const schema: z.ZodType = SETTINGS[name];
    const { data, error } = schema.safeParse(given.text);
    const faults = error?.issues.map(({ message }) => message) ?? this.#cronFaults(name, data);
    for (const fault of faults) this.findings.problem(given, fault);
    return faults.length === 0 ? (data as NonNullable<ValueOf<N>>) : null;
  }

  #cronFaults(name: SettingName, value: unknown): readonly string[] {
    if (!name.endsWith('_CRON') || value === 'off') return [];
    const fault = this.options.cronFault(String(value));
    return fault === null
      ? []
      : [`${fault}: write minute, hour, day, month and day of the week, such as 0 2 * * *, or off`];
  }

  secret(name: SecretName): Given | null {
    const [direct, file] = [this.given(name), this.given(`${name}_FILE`)];
    return this.secretFrom({ direct, file, base: this.options.cwd }, name);
  }

  /** A secret wherever it was given; from now on it shows in no message. Giving it twice is a problem. */
  secretFrom({ direct, file, base }: SecretPlaces, name: SecretName): Given | null {
    const { findings } = this;
    const { what, parts } = SECRETS[name];
    if (direct !== null) findings.hide([direct.text]);
    if (file !== null && direct !== null) {
      findings.problem(file.where, `and ${direct.where} are both given: keep one of them`);
      return null;
    }
    const text =
      file === null
        ? direct?.text
        : readSecretFile(file, absolutePath(base, file.text), what, findings);
    if (text === undefined || text === null) return null;
    findings.hide(parts(text));
    return { where: (direct ?? file)?.where ?? name, text, isSecret: true };
  }

  /**
   * Warns of variables that look like misspelt settings, since one that silently does nothing is worse than
   * one that fails; and of a `.env` with secrets that every user may read.
   * @param used variables that the sellers file takes keys from
   */
  checkVariables(used: ReadonlySet<string>): void {
    const known = Object.keys(SETTINGS);
    for (const name of new Set([...this.#envFile.keys(), ...this.#environment.keys()])) {
      if (known.includes(name) || used.has(name)) continue;
      const meant = nearest(name, known);
      if (meant === null && !PREFIXES.test(name)) continue;
      const remedy = meant
        ? `did you mean ${meant}?`
        : 'see docs/settings.md for the settings there are';
      this.findings.warning(name, `is not a setting and does nothing: ${remedy}`);
    }
    const held = [...known.filter(isSecretName), ...used].filter((name) =>
      holdsSecret(this.#envFile.get(name)?.trim() ?? ''),
    );
    const path = this.#envPath;
    if (held.length === 0 || !isOpenToAll(statSync(path, { throwIfNoEntry: false }))) return;
    const what = `holds ${held.join(', ')} and can be read by every user of this machine`;
    this.findings.exposed('.env', `${what}: run chmod 600 ${path}`);
  }
}

/** Variables that begin like this are nobody else's. */
const PREFIXES = /^(?:MARKETPLACE_|REMOVAL_GUARD|ALERT_WEBHOOK|ALERT_EMAIL|SMTP_URL)/;

/** An address is a secret only with a password in it. */
function holdsSecret(value: string): boolean {
  const isAddress = /^(?:postgres(?:ql)?|redis[\w-]*):/.test(value);
  return isAddress ? /:\/\/[^/]*:[^/]*@|password=/i.test(value) : value !== '';
}

function variablesOf(values: NodeJS.Dict<string>): ReadonlyMap<string, string> {
  return new Map(
    Object.entries(values).flatMap(([name, value]) => (value === undefined ? [] : [[name, value]])),
  );
}

function readEnvFile(path: string, findings: Findings): NodeJS.Dict<string> {
  try {
    return parseEnv(readFileSync(path, 'utf8').replace(/^\uFEFF/, ''));
  } catch (error) {
    const code = errorCode(error) || 'unknown reason';
    if (code === 'ENOENT' || code === 'ENOTDIR') return {};
    const remedy = 'make it a text file that this user may read, or remove it';
    findings.problem({ where: '.env', text: path }, `can't be read (${code}): ${remedy}`);
    return {};
  }
}

const MOST_SECRET_BYTES = 64 * 1024;

/**
 * The trimmed content of a file with one secret; null, and a problem, when there is none. Where container
 * engines mount secrets, nobody else can read them, whatever the mode.
 */
export function readSecretFile(
  given: Given,
  path: string,
  what: string,
  findings: Findings,
): string | null {
  let text: string;
  try {
    const file = readBounded(path);
    text = file.text;
    if (isOpenToAll(file.stats) && !path.startsWith('/run/secrets/')) {
      const problem = 'can be read by every user of this machine';
      findings.exposed(given, `${problem}: run chmod 600 ${path}`);
    }
  } catch (error) {
    const remedy = `name a file that holds ${what} and that this user may read`;
    findings.problem(given, `can't be read (${errorCode(error) || 'too large'}): ${remedy}`);
    return null;
  }
  findings.hide([text]);
  if (text.trim() !== '') return text.trim();
  findings.problem(given, `is an empty file: put ${what} into it`);
  return null;
}

/** Reads pipes as well as files, so that a password manager's output can be named. */
function readBounded(path: string): { readonly text: string; readonly stats: Stats } {
  const file = openSync(path, 'r');
  try {
    const buffer = Buffer.alloc(MOST_SECRET_BYTES + 1);
    let length = 0;
    for (let read = -1; read !== 0 && length < buffer.length; length += read) {
      read = readSync(file, buffer, length, buffer.length - length, null);
    }
    if (length > MOST_SECRET_BYTES) throw new Error('larger than any secret');
    return { text: buffer.toString('utf8', 0, length), stats: fstatSync(file) };
  } finally {
    closeSync(file);
  }
}

/** Whether every user of this machine may read the file; Windows has no such modes. */
function isOpenToAll(file: Stats | undefined): boolean {
  return process.platform !== 'win32' && file?.isFile() === true && (file.mode & 0o004) !== 0;
}

/** An absolute path: relative to `base`, and `~/` is the home folder, which no shell expands in a file. */
export function absolutePath(base: string, path: string): string {
  const isInHome = path === '~' || path.startsWith('~/');
  return isInHome ? resolve(homedir(), path.slice(2)) : resolve(base, path);
}
