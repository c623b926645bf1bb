import type { Environment } from './environment.js';
import type { Findings } from './problems.js';
import { defaultOf, type SettingName } from './settings.js';
import type { ConfigOptions } from './types.js';
import { readBoolean, readInteger, type Given } from './values.js';

/** What every part of the configuration is read with; what is wrong goes to the findings. */
export class Reader {
  /** Checked once, because several addresses depend on it. */
  readonly allowPlainHttp: boolean;

  constructor(
    readonly environment: Environment,
    readonly options: ConfigOptions,
    readonly findings: Findings,
  ) {
    this.allowPlainHttp = this.boolean('ALLOW_PLAIN_HTTP');
  }

  /** A setting that has a default. */
  given(name: SettingName): Given {
    return { where: name, text: this.environment.get(name) ?? defaultOf(name) };
  }

  /** A setting that may be left out. */
  optional(name: SettingName): Given | null {
    const text = this.environment.get(name);
    return text === null ? null : { where: name, text };
  }

  integer(name: SettingName, least: number, most: number): number {
    return readInteger(this.given(name), least, most, this.findings);
  }

  boolean(name: SettingName): boolean {
    return readBoolean(this.given(name), this.findings);
  }
}
