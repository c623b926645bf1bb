import { configDefaults, defineConfig } from 'vitest/config';

/** Suites that kill, cut off, wait or repeat for long: `npm run test:long`. */
const LONG = 'test/**/*.long.test.ts';

export default defineConfig({
  test: {
    // One PostgreSQL for both projects.
    globalSetup: ['test/support/global-setup.ts'],
    // Processes, not threads: tests change users' environments, send signals, and start servers.
    pool: 'forks',
    maxWorkers: 2,
    projects: [
      project('quick', {
        include: ['test/**/*.test.ts'],
        exclude: [...configDefaults.exclude, LONG],
      }),
      project('long', { include: [LONG] }),
    ],
    coverage: { include: ['src/**/*.ts'], exclude: ['src/store/generated/**'] },
  },
});

function project(name: string, files: { include: string[]; exclude?: string[] }) {
  // Generous, since no test is about time; a hang still ends.
  return { test: { name, ...files, testTimeout: 60_000, hookTimeout: 120_000 } };
}
