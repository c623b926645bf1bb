import { Redactor } from '../domain/redact.js';
import { Secret } from '../domain/secret.js';

/** One thing that is wrong with the configuration. */
export interface Problem {
  /** The setting, or the place in the sellers file. */
  readonly where: string;
  /** What is wrong, continuing the sentence that `where` and `value` begin. */
  readonly what: string;
  /** The bad value; never given for a secret. */
  readonly value?: string;
  /** What to do about it. */
  readonly remedy: string;
}

/**
 * The configuration can't be used: every problem at once, one sentence each. The command line ends
 * with exit code 2. No message contains a secret.
 */
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

const LONGEST_VALUE = 60;

/**
 * Collects problems and warnings while settings are read. Texts are put together only at the end,
 * when every secret is known: a key pasted into the wrong setting must not show either.
 */
export class Findings {
  readonly #problems: Problem[] = [];
  readonly #warnings: Problem[] = [];
  readonly #exposed: Problem[] = [];
  readonly #secrets: Secret[] = [];

  problem(problem: Problem): void {
    this.#problems.push(problem);
  }

  warn(warning: Problem): void {
    this.#warnings.push(warning);
  }

  /** A secret that other users of this machine can read. */
  exposed(warning: Problem): void {
    this.#exposed.push(warning);
  }

  /** Makes sure that this text shows in no problem and no warning. */
  hide(text: string): void {
    this.#secrets.push(new Secret(text));
  }

  warnings(): string[] {
    return this.#sentences(this.#warnings);
  }

  exposedSecrets(): string[] {
    return this.#sentences(this.#exposed);
  }

  problems(): string[] {
    return this.#sentences(this.#problems);
  }

  /** @throws ConfigError when there is any problem */
  throwIfAny(): void {
    if (this.#problems.length === 0) return;
    throw new ConfigError(this.problems());
  }

  /** The value of a setting without any secret; of a wrong one also without what looks like a secret. */
  shownValue(name: string, value: string): string {
    const redacted = new Redactor(this.#secrets).text(value);
    const isWrong = this.#problems.some(({ where }) => where === name);
    return isWrong ? withoutLikelySecrets(redacted) : redacted;
  }

  #sentences(problems: readonly Problem[]): string[] {
    const redactor = new Redactor(this.#secrets);
    return problems.map(({ where, value, what, remedy }) => {
      // Redacted before it is cut: half a secret is one still.
      const given = value === undefined ? '' : ` ${shown(redactor.text(value))}`;
      return redactor.text(`${where}${given} ${what}: ${remedy}`);
    });
  }
}

function shown(value: string): string {
  const text = withoutLikelySecrets(value);
  return JSON.stringify(
    text.length > LONGEST_VALUE ? `${text.slice(0, LONGEST_VALUE - 1)}…` : text,
  );
}

/**
 * People paste keys and database addresses into the wrong setting: user names, passwords, queries
 * and long words with digits are left out of every value shown.
 */
function withoutLikelySecrets(value: string): string {
  if (value.length >= 20 && /\d/.test(value) && !/[./\s]/.test(value)) return '…';
  return value.replace(/^.*@/s, '…@').replace(/[?#].*$/s, '…');
}
