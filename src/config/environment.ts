import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { parseEnv } from 'node:util';
import { nearest } from './nearest.js';
import type { Findings } from './problems.js';
import { SETTINGS, type SettingName } from './settings.js';

/** The environment of this process. All else of the product gets it from here. */
export function processEnvironment(): NodeJS.ProcessEnv {
  return process.env;
}

/** Environment and `.env` together. */
export class Environment {
  readonly #values: ReadonlyMap<string, string>;

  constructor(values: ReadonlyMap<string, string>) {
    this.#values = values;
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
  const values = new Map<string, string>();
  for (const source of [readEnvFile(join(cwd, '.env'), findings), env]) {
    for (const [name, value] of Object.entries(source)) {
      if (value !== undefined) values.set(name, value);
    }
  }
  return new Environment(values);
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
