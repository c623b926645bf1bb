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
import type { Findings, Given } from './findings.js';
import type { ConfigOptions } from './index.js';
import { nearest } from './nearest.js';
import { cron } from './schemas.js';
import {
  SETTINGS,
  type SecretName,
  type Setting,
  type SettingName,
  type ValueOf,
} from './settings.js';

/** The environment of this process. All else of the product gets it from here. */
export function processEnvironment(): NodeJS.ProcessEnv {
  return process.env;
}

/** Where a secret may be given; one of them at most. */
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

  /** Where the value of a variable is from; null when it is not set. */
  sourceOf(name: string): 'environment' | '.env' | null {
    if (this.variable(name) === null) return null;
    return this.#environment.has(name) ? 'environment' : '.env';
  }

  /** What is given for a setting itself. */
  given(name: SettingName): Given | null {
    const text = this.variable(name);
    return text === null ? null : { where: name, text };
  }

  /** The value of a setting; its default when it is not set, or wrong, which has been reported. */
  value<N extends SettingName>(name: N): ValueOf<N> {
    if (!this.#values.has(name)) {
      const { default: usual, schema }: Setting = SETTINGS[name];
      const given = isSecretName(name) ? this.secret(name) : this.given(name);
      const value = given && this.parse(given, name);
      this.#values.set(name, value ?? (usual === null ? null : schema.parse(usual)));
    }
    return this.#values.get(name) as ValueOf<N>;
  }

  /** A text as the value of a setting, wherever it was given; null when it is wrong, which has been reported. */
  parse<N extends SettingName>(given: Given, name: N): NonNullable<ValueOf<N>> | null {
    const { schema }: Setting = SETTINGS[name];
    const { data, error } = schema.safeParse(given.text);
    const faults = error?.issues.map(({ message }) => message) ?? this.#cronFaults(schema, data);
    for (const fault of faults) this.findings.add('problem', given, fault);
    return faults.length === 0 ? (data as NonNullable<ValueOf<N>>) : null;
  }

  /** Only those who run schedules know which expressions can be run. */
  #cronFaults(schema: Setting['schema'], value: unknown): readonly string[] {
    const fault = schema === cron && value !== 'off' ? this.options.cronFault(String(value)) : null;
    return fault === null
      ? []
      : [`${fault}: write minute, hour, day, month and day of the week, such as 0 2 * * *, or off`];
  }

  /** What is given for a secret itself or in a file; null when there is nothing to be had. */
  secret(name: SecretName): Given | null {
    const [direct, file] = [this.given(name), this.given(`${name}_FILE`)];
    return this.secretFrom({ direct, file, base: this.options.cwd }, name);
  }

  /** A secret wherever it was given; from now on it shows in no message. Giving it twice is a problem. */
  secretFrom({ direct, file, base }: SecretPlaces, name: SecretName): Given | null {
    const { findings } = this;
    let text = direct?.text ?? null;
    if (text !== null) findings.hide([text]);
    if (file !== null && direct !== null) {
      findings.add('problem', file.where, `and ${direct.where} are both given: keep one of them`);
      return null;
    }
    if (file !== null) {
      text = readSecretFile(
        file,
        absolutePath(base, file.text),
        SETTINGS[`${name}_FILE`].holds,
        findings,
      );
    }
    if (text === null) return null;
    findings.hide(SETTINGS[name].secret(text));
    return { where: (direct ?? file)?.where ?? name, text, isSecret: true };
  }

  /**
   * Warns of variables that look like misspelt settings, since a setting that silently does nothing is
   * worse than one that fails; and of secrets in a `.env` that every user of the machine may read.
   * @param used variables that the sellers file takes keys from
   */
  checkVariables(used: ReadonlySet<string>): void {
    const known = Object.keys(SETTINGS);
    for (const name of new Set([...this.#envFile.keys(), ...this.#environment.keys()])) {
      if (known.includes(name) || used.has(name)) continue;
      const meant = nearest(name, known);
      const remedy =
        meant === null
          ? 'see docs/settings.md for the settings there are'
          : `did you mean ${meant}?`;
      if (meant !== null || PREFIXES.test(name)) {
        this.findings.add('warning', name, `is no setting and does nothing: ${remedy}`);
      }
    }
    const held = [...known.filter(isSecretName), ...used].filter((name) =>
      holdsSecret(this.#envFile.get(name)?.trim() ?? ''),
    );
    const path = this.#envPath;
    if (held.length === 0 || !isOpenToAll(statSync(path, { throwIfNoEntry: false }))) return;
    const what = `holds ${held.join(', ')} and can be read by every user of this machine`;
    this.findings.add('exposed', '.env', `${what}: run chmod 600 ${path}`);
  }
}

/** Variables that begin like this are nobody else's. */
const PREFIXES = /^(?:MARKETPLACE_|REMOVAL_GUARD|ALERT_WEBHOOK)/;

function isSecretName(name: string): name is SecretName {
  return 'secret' in SETTINGS[name as SettingName];
}

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
    const code = codeOf(error) ?? 'unknown reason';
    if (code === 'ENOENT' || code === 'ENOTDIR') return {};
    const remedy = 'make it a text file that this user may read, or remove it';
    findings.add('problem', { where: '.env', text: path }, `can't be read (${code}): ${remedy}`);
    return {};
  }
}

const MOST_SECRET_BYTES = 64 * 1024;

/**
 * The trimmed content of a file that holds one secret; null, and a problem, when there is none. A
 * file that everybody may read is a warning, except where container engines mount secrets: there the
 * engine sets the mode and nobody else lives in the container.
 */
function readSecretFile(
  given: Given,
  path: string,
  what: string,
  findings: Findings,
): string | null {
  let text: string;
  try {
    text = readBounded(path, () => {
      if (path.startsWith('/run/secrets/')) return;
      findings.add(
        'exposed',
        given,
        `can be read by every user of this machine: run chmod 600 ${path}`,
      );
    });
  } catch (error) {
    const remedy = `name a file that holds ${what} and that this user may read`;
    findings.add('problem', given, `can't be read (${codeOf(error) ?? 'too large'}): ${remedy}`);
    return null;
  }
  findings.hide([text]);
  if (text.trim() !== '') return text.trim();
  findings.add('problem', given, `is an empty file: put ${what} into it`);
  return null;
}

/** Reads pipes as well as files, so that a password manager's output can be named. */
function readBounded(path: string, onOpenToAll: () => void): string {
  const file = openSync(path, 'r');
  try {
    if (isOpenToAll(fstatSync(file))) onOpenToAll();
    const buffer = Buffer.alloc(MOST_SECRET_BYTES + 1);
    let length = 0;
    for (let read = -1; read !== 0 && length < buffer.length; length += read) {
      read = readSync(file, buffer, length, buffer.length - length, null);
    }
    if (length > MOST_SECRET_BYTES) throw new Error('larger than any secret');
    return buffer.toString('utf8', 0, length);
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

/** The code of an error of the operating system. */
export function codeOf(error: unknown): string | undefined {
  return (error as NodeJS.ErrnoException).code;
}
