import { chmodSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach } from 'vitest';
import {
  ConfigError,
  readConfig,
  readConfigReport,
  rereadSellers,
  type Config,
  type ConfigOptions,
  type ConfigReport,
} from '../../src/config/index.js';

/** A new folder for every test of the file, with `.env` and the files of a configuration. */
export function useFolder(): {
  path: () => string;
  write: (name: string, text: string, mode?: number) => string;
  read: (env: NodeJS.ProcessEnv, needs?: ConfigOptions['needs']) => Config;
  problems: (env: NodeJS.ProcessEnv, needs?: ConfigOptions['needs']) => readonly string[];
  report: (env: NodeJS.ProcessEnv) => ConfigReport;
  reread: (config: Config, env: NodeJS.ProcessEnv) => ReturnType<typeof rereadSellers>;
} {
  let folder = '';
  beforeEach(() => {
    folder = mkdtempSync(join(tmpdir(), 'config-'));
  });
  afterEach(() => {
    rmSync(folder, { recursive: true, force: true });
  });
  const read = (env: NodeJS.ProcessEnv, needs: ConfigOptions['needs'] = 'sellers'): Config =>
    readConfig(env, { cwd: folder, needs, cronFault });
  return {
    path: () => folder,
    write(name, text, mode = 0o600) {
      const path = join(folder, name);
      writeFileSync(path, text);
      chmodSync(path, mode);
      return path;
    },
    read,
    reread: (config, env) =>
      rereadSellers(config, env, { cwd: folder, needs: 'sellers', cronFault }),
    report: (env) => readConfigReport(env, { cwd: folder, needs: 'store', cronFault }),
    problems(env, needs) {
      try {
        read(env, needs);
      } catch (error) {
        if (error instanceof ConfigError) return error.problems;
        throw error;
      }
      return [];
    },
  };
}

/** A simple check in place of the real one: an expression has five fields. */
export function cronFault(expression: string): string | null {
  const { length } = expression.split(/ +/);
  return length === 5 ? null : `has ${length} fields instead of five`;
}

/** The required settings. */
export const ONE_SELLER = {
  MARKETPLACE_URL: 'https://market.example',
  MARKETPLACE_API_KEY: 'key-0123456789abcdef',
};
