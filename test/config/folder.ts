import { join } from 'node:path';
import { beforeEach } from 'vitest';
import {
  ConfigError,
  readConfig,
  readConfigReport,
  rereadSellers,
  type Config,
  type ConfigOptions,
  type ConfigReport,
} from '../../src/config/index.js';

const FOLDER = '/srv/shop';

/** A folder in memory, empty for every test of the file, with `.env` and the files of a configuration. */
export function useFolder(): {
  /** @param isOpen every user of the machine can read it */
  write: (name: string, text: string | Buffer, isOpen?: boolean) => void;
  makeFolder: (name: string) => void;
  read: (env: NodeJS.ProcessEnv, needs?: ConfigOptions['needs']) => Config;
  problems: (env: NodeJS.ProcessEnv, needs?: ConfigOptions['needs']) => readonly string[];
  report: (env: NodeJS.ProcessEnv) => ConfigReport;
  reread: (config: Config, env: NodeJS.ProcessEnv) => ReturnType<typeof rereadSellers>;
} {
  const found = new Map<string, { readonly content: Buffer | null; readonly isOpen: boolean }>();
  beforeEach(() => found.clear());
  const options = (needs: ConfigOptions['needs']): ConfigOptions => ({
    cwd: FOLDER,
    needs,
    files: {
      read(path) {
        const content = found.get(path)?.content;
        if (content !== undefined && content !== null) return content;
        const code = content === null ? 'EISDIR' : 'ENOENT';
        throw Object.assign(new Error(`${code}: ${path}`), { code });
      },
      find(path) {
        const one = found.get(path);
        return one === undefined ? null : { isFolder: one.content === null, isOpen: one.isOpen };
      },
    },
  });
  const read = (env: NodeJS.ProcessEnv, needs: ConfigOptions['needs'] = 'sellers'): Config =>
    readConfig(env, options(needs));
  return {
    write: (name, text, isOpen = false) =>
      void found.set(join(FOLDER, name), { content: Buffer.from(text), isOpen }),
    makeFolder: (name) => void found.set(join(FOLDER, name), { content: null, isOpen: false }),
    read,
    reread: (config, env) => rereadSellers(config, env, options('sellers')),
    report: (env) => readConfigReport(env, options('store')),
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

/** The required settings. */
export const ONE_SELLER = {
  MARKETPLACE_URL: 'https://market.example',
  MARKETPLACE_API_KEY: 'key-0123456789abcdef',
};
