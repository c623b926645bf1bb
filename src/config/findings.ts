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
