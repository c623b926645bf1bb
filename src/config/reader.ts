import { homedir } from 'node:os';
import { join, resolve } from 'node:path';
import { parseEnv } from 'node:util';
import type { z } from 'zod';
import { cronFault } from '../domain/cron.js';
import { errorCode } from '../domain/error-code.js';
import { nearest } from './schemas.js';
import {
  isSecretName,
  SECRETS,
  SETTINGS,
  type SecretName,
  type SettingName,
  type ValueOf,
} from './settings.js';
import { Secret } from '../domain/secret.js';

/** The text of a setting, and where it was set. */
export interface RawValue {
  /** The setting, or the position in the sellers file. */
  readonly where: string;
  readonly text: string;
}

/** All problems of the configuration, one sentence each. No message contains a secret. */
export class ConfigError extends Error {
  override name = 'ConfigError';

  constructor(readonly problems: readonly string[]) {
    super(
      problems.length === 1
        ? (problems[0] ?? '')
        : `${problems.length} settings need attention:\n${problems.map((text) => `- ${text}`).join('\n')}`,
    );
  }
}

/**
 * Collects problems and warnings while settings are read. Sentences begin with the place of a setting and never quote its
 * value: people paste keys and passwords into wrong settings.
 */
export class Findings {
  readonly problems: string[] = [];
  readonly warnings: string[] = [];
  /** Secrets that other users of this machine can read. */
  readonly exposed: string[] = [];
  /** Keys, passwords, tokens, and addresses that contain them. */
  readonly secrets: Secret[] = [];
  /** Places with a problem. */
  readonly wrong = new Set<string>();

  problem(where: string, message: string): void {
    this.wrong.add(where);
    this.problems.push(`${where} ${message}`);
  }

  warning(where: string, message: string): void {
    this.warnings.push(`${where} ${message}`);
  }

  hide(texts: readonly string[]): void {
    for (const text of texts) this.secrets.push(new Secret(text));
  }
}

/** The files that a configuration is read from. */
export interface ConfigFiles {
  /** @throws {Error} with a code such as `ENOENT` */
  read(path: string): Buffer;
  /** Null if there is nothing. `isOpen`: every user of this machine can read the file. */
  find(path: string): { readonly isFolder: boolean; readonly isOpen: boolean } | null;
}

const NO_FILES: ConfigFiles = {
  read() {
    throw Object.assign(new Error('there is no such file'), { code: 'ENOENT' });
  },
  find: () => null,
};

export interface ConfigOptions {
  /** The folder of `.env`. Relative paths are relative to it. */
  readonly cwd: string;
  /** Absent: there are none, not even `.env`. */
  readonly files?: ConfigFiles;
  /** `sellers`: at least one seller must be configured. */
  readonly needs: 'store' | 'sellers';
}

export interface SecretSources {
  readonly direct: RawValue | null;
  readonly file: RawValue | null;
  /** A relative `file` is relative to this folder. */
  readonly base: string;
}

/** Reads settings from the environment and `.env`. Reports all problems to `findings`. */
export class Reader {
  readonly #environment: ReadonlyMap<string, string>;
  readonly #envFile: ReadonlyMap<string, string>;
  readonly #envPath: string;
  readonly #values = new Map<SettingName, unknown>();
  readonly files: ConfigFiles;

  /** @param environment wins over `.env`; an empty value there removes a setting */
  constructor(
    environment: NodeJS.ProcessEnv,
    readonly options: ConfigOptions,
    readonly findings: Findings,
  ) {
    this.files = options.files ?? NO_FILES;
    this.#environment = variablesOf(environment);
    this.#envPath = join(options.cwd, '.env');
    this.#envFile = variablesOf(this.#readEnvFile());
  }

  /** The trimmed text of a variable; null if it is not set or empty. */
  variable(name: string): string | null {
    return (this.#environment.get(name) ?? this.#envFile.get(name))?.trim() || null;
  }

  sourceOf(name: string): 'environment' | '.env' {
    return this.#environment.has(name) ? 'environment' : '.env';
  }

  raw(name: SettingName): RawValue | null {
    const text = this.variable(name);
    return text === null ? null : { where: name, text };
  }

  /** Whether a setting or its file is set, even if its value can't be read. */
  isSet(name: SettingName): boolean {
    const file = isSecretName(name) ? this.raw(`${name}_FILE`) : null;
    return (this.raw(name) ?? file) !== null;
  }

  /** The value of a setting. If it is not set, or wrong and reported, its default. */
  value<N extends SettingName>(name: N): ValueOf<N> {
    if (!this.#values.has(name)) {
      const raw = isSecretName(name) ? this.secret(name) : this.raw(name);
      const value = raw && this.parse(raw, name);
      const byDefault: unknown = SETTINGS[name].safeParse(undefined).data;
      this.#values.set(name, value ?? byDefault ?? null);
    }
    return this.#values.get(name) as ValueOf<N>;
  }

  /** Parses text as the value of a setting, from any source. Reports a wrong value, and returns null. */
  parse<N extends SettingName>(raw: RawValue, name: N): NonNullable<ValueOf<N>> | null {
    const schema: z.ZodType = SETTINGS[name];
    const { data, error } = schema.safeParse(raw.text);
    const faults = error?.issues.map(({ message }) => message) ?? cronFaults(name, data);
    for (const fault of faults) this.findings.problem(raw.where, fault);
    return faults.length === 0 ? (data as NonNullable<ValueOf<N>>) : null;
  }

  secret(name: SecretName): RawValue | null {
    const [direct, file] = [this.raw(name), this.raw(`${name}_FILE`)];
    return this.secretFrom({ direct, file, base: this.options.cwd }, name);
  }

  /** Reads a secret from either source, and masks it in all messages. Having both sources is a problem. */
  secretFrom({ direct, file, base }: SecretSources, name: SecretName): RawValue | null {
    const { findings } = this;
    const { what, parts } = SECRETS[name];
    if (direct !== null) findings.hide([direct.text]);
    if (file !== null && direct !== null) {
      findings.problem(file.where, `and ${direct.where} are both set: keep one of them`);
      return null;
    }
    const text =
      file === null
        ? direct?.text
        : this.secretFile(file.where, absolutePath(base, file.text), what);
    if (text === undefined || text === null) return null;
    findings.hide(parts(text));
    return { where: (direct ?? file)?.where ?? name, text };
  }

  /**
   * Warns about variables that look like misspelt settings, and about a `.env` with secrets that every user
   * may read.
   * @param used variables from which the sellers file takes keys
   */
  checkVariables(used: ReadonlySet<string>): void {
    const known = Object.keys(SETTINGS);
    for (const name of new Set([...this.#envFile.keys(), ...this.#environment.keys()])) {
      if (known.includes(name) || used.has(name)) continue;
      const similar = nearest(name, known);
      if (similar === null && !OWN_PREFIXES.test(name)) continue;
      const remedy = similar ? `did you mean ${similar}?` : 'see docs/settings.md for all settings';
      this.findings.warning(name, `is not a setting and does nothing: ${remedy}`);
    }
    const secrets = [...known.filter(isSecretName), ...used].filter((name) =>
      this.#envFile.get(name)?.trim(),
    );
    const path = this.#envPath;
    if (secrets.length === 0 || this.files.find(path)?.isOpen !== true) return;
    const what = `holds ${secrets.join(', ')} and can be read by every user of this machine`;
    this.findings.exposed.push(`.env ${what}: run chmod 600 ${path}`);
  }

  /**
   * The trimmed content of a file with one secret. Reports a problem and returns null if there is none. The mode does not
   * matter in /run/secrets, where container engines mount secrets: nobody else can read them.
   * @param what the secret, in words
   */
  secretFile(where: string, path: string, what: string): string | null {
    const { findings, files } = this;
    let text: string;
    try {
      text = files.read(path).toString();
      if (text.length > MOST_SECRET_CHARACTERS) throw new Error('too large for a secret');
    } catch (error) {
      const remedy = `name a file that holds ${what} and that this user may read`;
      findings.problem(where, `can’t be read (${errorCode(error) || 'too large'}): ${remedy}`);
      return null;
    }
    if (files.find(path)?.isOpen === true && !path.startsWith('/run/secrets/')) {
      const problem = 'can be read by every user of this machine';
      findings.exposed.push(`${where} ${problem}: run chmod 600 ${path}`);
    }
    findings.hide([text]);
    if (text.trim() !== '') return text.trim();
    findings.problem(where, `is an empty file: put ${what} into it`);
    return null;
  }

  #readEnvFile(): NodeJS.Dict<string> {
    const { findings } = this;
    try {
      const bytes = this.files.read(this.#envPath);
      // UTF-16 has zeros, or begins with a byte order mark.
      if (bytes.includes(0) || /^(?:fffe|feff)/.test(bytes.toString('hex', 0, 2))) {
        findings.problem('.env', 'is not UTF-8 text: save it as UTF-8');
        return {};
      }
      const text = bytes.toString('utf8').replace(/^\uFEFF/, '');
      const values = parseEnv(text);
      warnOfLines(text, values, findings);
      return values;
    } catch (error) {
      const code = errorCode(error) || 'unknown reason';
      if (code === 'ENOENT' || code === 'ENOTDIR') return {};
      const remedy = 'make it a text file that this user may read, or remove it';
      findings.problem('.env', `can’t be read (${code}): ${remedy}`);
      return {};
    }
  }
}

/** No other program uses variables with these prefixes. */
const OWN_PREFIXES = /^(?:MARKETPLACE_|REMOVAL_GUARD|ALERT_WEBHOOK|ALERT_EMAIL|SMTP_URL)/;

function variablesOf(values: NodeJS.Dict<string>): ReadonlyMap<string, string> {
  return new Map(
    Object.entries(values).flatMap(([name, value]) => (value === undefined ? [] : [[name, value]])),
  );
}

/** Matches a value without quotes that has a # in it, with its name and its text before the #. */
const CUT_VALUE = /^\s*(?:export\s+)?(\w+)\s*=(?!\s*["'`])([^#]*[^#\s])?#/;

/** Warns about lines of `.env` that mean something else than they seem to. */
function warnOfLines(text: string, values: NodeJS.Dict<string>, findings: Findings): void {
  for (const line of text.split('\n')) {
    const [, name = '', before = ''] = CUT_VALUE.exec(line) ?? [];
    if (name === '' || values[name] !== before.trim()) continue;
    findings.warning(name, 'is cut at a # in .env: put quotes around the value');
  }
  // Node's parser takes such a line for the beginning of the next name.
  if (Object.keys(values).some((name) => name.includes('\n'))) {
    findings.warning(
      '.env',
      'has a line without =, and the setting below it is not read: remove that line',
    );
  }
}

const MOST_SECRET_CHARACTERS = 64 * 1024;

/** Resolves a path relative to `base`. Expands `~/`, because no shell does in a file. */
export function absolutePath(base: string, path: string): string {
  const isInHome = path === '~' || path.startsWith('~/');
  return isInHome ? resolve(homedir(), path.slice(2)) : resolve(base, path);
}

function cronFaults(name: SettingName, value: unknown): readonly string[] {
  if (!name.endsWith('_CRON') || value === 'off') return [];
  const fault = cronFault(String(value));
  return fault === null
    ? []
    : [`${fault}: write minute, hour, day, month and weekday, such as 0 2 * * *, or off`];
}
