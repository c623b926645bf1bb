import { readFileSync, statSync } from 'node:fs';
import { type Config, type ConfigOptions, processEnvironment, readConfig } from './index.js';
import type { ConfigFiles } from './reader.js';

/** The files of this machine. */
export const disk: ConfigFiles = {
  read: (path) => readFileSync(path),
  find(path) {
    try {
      const found = statSync(path);
      // Windows has no such modes.
      const isOpen = process.platform !== 'win32' && found.isFile() && (found.mode & 0o004) !== 0;
      return { isFolder: found.isDirectory(), isOpen };
    } catch {
      return null;
    }
  },
};

/** The configuration of this process. @throws {ConfigError} with all problems */
export function loadConfig(needs: ConfigOptions['needs']): Config {
  return readConfig(processEnvironment(), { cwd: process.cwd(), files: disk, needs });
}
