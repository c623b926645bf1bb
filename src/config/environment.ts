import { readFileSync, statSync } from 'node:fs';
import { join } from 'node:path';
import { parseEnv } from 'node:util';
import { nearest } from './nearest.js';
import type { Findings } from './problems.js';
import { isOpenToAll } from './secret-file.js';
import { SETTINGS, type SettingName } from './settings.js';

/** The environment of this process. All else of the product gets it from here. */
export function processEnvironment(): NodeJS.ProcessEnv {
  return process.env;
}

/** Environment and `.env` together. */
export class Environment {
  readonly #values: ReadonlyMap<string, string>;
  readonly #environment: ReadonlyMap<string, string>;
  readonly #inFile: ReadonlyMap<string, string>;

  /**
   * @param environment of the process: it wins
   * @param file what `.env` says
   */
  constructor(environment: ReadonlyMap<string, string>, file: ReadonlyMap<string, string>) {
    this.#values = new Map([...file, ...environment]);
    this.#environment = environment;
    this.#inFile = file;
  }

  /** The trimmed value; null when it is not set or empty, which mean the same. */
  get(name: SettingName): string | null {
    return this.variable(name);
  }

  /** Any variable, for keys that the sellers file names. */
  variable(name: string): string | null {
    const text = this.#values.get(name)?.trim();
    return text === undefined || text === '' ? null : text;
  }

  names(): string[] {
    return [...this.#values.keys()];
  }

  /** Where its value is from; null when it is not set, or set to nothing. */
  sourceOf(name: string): 'environment' | '.env' | null {
    if (this.variable(name) === null) return null;
    return this.#environment.has(name) ? 'environment' : '.env';
  }

  /** What `.env` has for it, also where the environment has another value; null when it has nothing. */
  inFile(name: string): string | null {
    return this.#inFile.get(name)?.trim() || null;
  }
}

/**
 * Reads `.env` of the folder when there is one. The real environment wins, also with an empty
 * value: so a setting of `.env` can be taken back for one command.
 */
export function readEnvironment(
  env: NodeJS.ProcessEnv,
  cwd: string,
  findings: Findings,
): Environment {
  return new Environment(given(env), given(readEnvFile(join(cwd, '.env'), findings)));
}

function given(values: NodeJS.Dict<string>): ReadonlyMap<string, string> {
  return new Map(
    Object.entries(values).flatMap(([name, value]) => (value === undefined ? [] : [[name, value]])),
  );
}

function readEnvFile(path: string, findings: Findings): NodeJS.Dict<string> {
  try {
    return parseEnv(readFileSync(path, 'utf8').replace(/^\uFEFF/, ''));
  } catch (error) {
    const code = (error as NodeJS.ErrnoException).code;
    if (code === 'ENOENT' || code === 'ENOTDIR') return {};
    findings.problem({
      where: '.env',
      value: path,
      what: `can't be read (${code ?? 'unknown reason'})`,
      remedy: 'make it a text file that this user may read, or remove it',
    });
    return {};
  }
}

const PREFIXES = ['MARKETPLACE_', 'REMOVAL_GUARD', 'ALERT_WEBHOOK'];

/**
 * Warns of variables that look like misspelt settings: a setting that silently does nothing is
 * worse than one that fails. `used` are variables the sellers file names.
 */
export function warnOfTypos(
  environment: Environment,
  used: ReadonlySet<string>,
  findings: Findings,
): void {
  const known: string[] = SETTINGS.map((setting) => setting.name);
  for (const name of environment.names()) {
    if (known.includes(name) || used.has(name)) continue;
    const meant = nearest(name, known);
    if (meant !== null) {
      findings.warn({
        where: name,
        what: 'is no setting and does nothing',
        remedy: `did you mean ${meant}?`,
      });
    } else if (PREFIXES.some((prefix) => name.startsWith(prefix))) {
      findings.warn({
        where: name,
        what: 'is no setting and does nothing',
        remedy: 'see .env.example for the settings there are',
      });
    }
  }
}

/**
 * Tells of secrets in a `.env` that every user of the machine may read. `used` are variables that the
 * sellers file takes keys from.
 */
export function warnOfOpenEnvFile(
  environment: Environment,
  cwd: string,
  used: ReadonlySet<string>,
  findings: Findings,
): void {
  const secrets = SETTINGS.filter((setting) => 'secret' in setting).map(({ name }) => name);
  const held = [...secrets, ...used].filter((name) => holdsSecret(environment.inFile(name)));
  const path = join(cwd, '.env');
  if (held.length === 0 || !isOpenToAll(statSync(path, { throwIfNoEntry: false }))) return;
  findings.exposed({
    where: '.env',
    what: `holds ${held.join(', ')} and can be read by every user of this machine`,
    remedy: `run chmod 600 ${path}`,
  });
}

/** An address is a secret only with a password in it. */
function holdsSecret(value: string | null): boolean {
  if (value === null) return false;
  return /^(?:postgres(?:ql)?|redis[\w-]*):/.test(value)
    ? /:\/\/[^/]*:[^/]*@|password=/i.test(value)
    : true;
}
