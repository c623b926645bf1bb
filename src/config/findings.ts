import { Redactor } from '../domain/redact.js';
import { Secret } from '../domain/secret.js';

export interface Given {
  /** The setting, or the place in the sellers file. */
  readonly where: string;
  readonly text: string;
  /** Messages must not show the text. */
  readonly isSecret?: boolean;
}

/** Every problem of the configuration at once, one sentence each. No message contains a secret. */
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

interface Finding {
  readonly kind: 'problem' | 'warning' | 'exposed';
  readonly about: Given | string;
  readonly message: string;
}

const LONGEST_VALUE = 60;

/**
 * Collects problems and warnings while settings are read. Sentences are made at the end, when every
 * secret is known: a key pasted into the wrong setting must not show either.
 */
export class Findings {
  readonly #findings: Finding[] = [];
  /** All that may show nowhere. */
  readonly secrets: Secret[] = [];

  problem(about: Given | string, message: string): void {
    this.#findings.push({ kind: 'problem', about, message });
  }

  warning(about: Given | string, message: string): void {
    this.#findings.push({ kind: 'warning', about, message });
  }

  /** A secret that other users of this machine can read. */
  exposed(about: Given | string, message: string): void {
    this.#findings.push({ kind: 'exposed', about, message });
  }

  /** Makes sure that these texts show in no problem and no warning. */
  hide(texts: readonly string[]): void {
    for (const text of texts) this.secrets.push(new Secret(text));
  }

  sentences(kind: Finding['kind']): readonly string[] {
    const redactor = new Redactor(this.secrets);
    return this.#findings
      .filter((finding) => finding.kind === kind)
      .map(({ about, message }) => {
        const isShown = typeof about !== 'string' && about.isSecret !== true;
        // Redacted before it is cut: half a secret is still one.
        const value = isShown ? ` ${shown(redactor.text(about.text))}` : '';
        return redactor.text(`${placeOf(about)}${value} ${message}`);
      });
  }

  /** @throws {ConfigError} when there is any problem */
  throwIfAny(): void {
    const problems = this.sentences('problem');
    if (problems.length > 0) throw new ConfigError(problems);
  }

  /** The value of a setting without any secret; of a wrong one also without what looks like a secret. */
  shownValue(name: string, value: string): string {
    const redacted = new Redactor(this.secrets).text(value);
    const isWrong = this.#findings.some(
      ({ kind, about }) => kind === 'problem' && placeOf(about) === name,
    );
    return isWrong ? withoutLikelySecrets(redacted) : redacted;
  }
}

function placeOf(about: Given | string): string {
  return typeof about === 'string' ? about : about.where;
}

function shown(value: string): string {
  const text = withoutLikelySecrets(value);
  return JSON.stringify(
    text.length > LONGEST_VALUE ? `${text.slice(0, LONGEST_VALUE - 1)}…` : text,
  );
}

/** People paste keys and addresses into the wrong setting: what may be one of them is left out. */
function withoutLikelySecrets(value: string): string {
  if (value.length >= 20 && /\d/.test(value) && !/[./\s]/.test(value)) return '…';
  return value.replace(/^.*@/s, '…@').replace(/[?#].*$/s, '…');
}
