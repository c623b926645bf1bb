import { Redactor } from '../domain/redact.js';
import { Secret } from '../domain/secret.js';

/** The text of a setting, and where it was set. */
export interface RawValue {
  /** The setting, or the position in the sellers file. */
  readonly where: string;
  readonly text: string;
  /** Messages must not show the text. */
  readonly isSecret?: boolean;
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

interface Finding {
  readonly kind: 'problem' | 'warning' | 'exposed';
  readonly about: RawValue | string;
  readonly message: string;
}

/** Longer values are cut in messages. */
const MAX_VALUE_LENGTH = 60;

/**
 * Collects problems and warnings while settings are read. The sentences are made at the end, when every
 * secret is known, because someone may have pasted a key into the wrong setting.
 */
export class Findings {
  readonly #findings: Finding[] = [];
  /** Texts that no message may show. */
  readonly secrets: Secret[] = [];

  problem(about: RawValue | string, message: string): void {
    this.#findings.push({ kind: 'problem', about, message });
  }

  warning(about: RawValue | string, message: string): void {
    this.#findings.push({ kind: 'warning', about, message });
  }

  /** Reports a secret that other users of this machine can read. */
  exposed(about: RawValue | string, message: string): void {
    this.#findings.push({ kind: 'exposed', about, message });
  }

  /** Masks these texts in every message. */
  hide(texts: readonly string[]): void {
    for (const text of texts) this.secrets.push(new Secret(text));
  }

  sentences(kind: Finding['kind']): readonly string[] {
    const redactor = new Redactor(this.secrets);
    return this.#findings
      .filter((finding) => finding.kind === kind)
      .map(({ about, message }) => {
        const isShown = typeof about !== 'string' && about.isSecret !== true;
        // Redact before cutting: half a secret is still a secret.
        const value = isShown ? ` ${quote(redactor.text(about.text))}` : '';
        return redactor.text(`${placeOf(about)}${value} ${message}`);
      });
  }

  /** @throws {ConfigError} if there are problems */
  throwIfAny(): void {
    const problems = this.sentences('problem');
    if (problems.length > 0) throw new ConfigError(problems);
  }

  /** The value of a setting without secrets; if it is wrong, also without anything that looks like one. */
  shownValue(name: string, value: string): string {
    const redacted = new Redactor(this.secrets).text(value);
    const isWrong = this.#findings.some(
      ({ kind, about }) => kind === 'problem' && placeOf(about) === name,
    );
    return isWrong ? withoutLikelySecrets(redacted) : redacted;
  }
}

function placeOf(about: RawValue | string): string {
  return typeof about === 'string' ? about : about.where;
}

function quote(value: string): string {
  const text = withoutLikelySecrets(value);
  const isLong = text.length > MAX_VALUE_LENGTH;
  return JSON.stringify(isLong ? `${text.slice(0, MAX_VALUE_LENGTH - 1)}…` : text);
}

/** Removes what may be a key or a password: people paste them into the wrong setting. */
function withoutLikelySecrets(value: string): string {
  if (value.length >= 20 && /\d/.test(value) && !/[./\s]/.test(value)) return '…';
  return value.replace(/^.*@/s, '…@').replace(/[?#].*$/s, '…');
}
