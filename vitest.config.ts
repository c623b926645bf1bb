import { configDefaults, defineConfig } from 'vitest/config';
import type { ProjectConfig } from 'vitest/node';
import { pureTests } from './test/support/pure-tests.js';

/** Suites that kill, cut off, wait or repeat for long: `npm run test:long`. */
const LONG = 'test/**/*.long.test.ts';

export default defineConfig({
  test: {
    // One PostgreSQL for both projects.
    globalSetup: ['test/support/global-setup.ts'],
    // Processes, not threads: tests change users' environments, send signals, and start servers.
    pool: 'forks',
    // Twice the cores of a small machine, since tests also wait: with 3 there, they take a quarter longer.
    maxWorkers: 4,
    projects: [
      project({
        name: 'quick',
        include: ['test/**/*.test.ts'],
        exclude: [...configDefaults.exclude, LONG],
        // Loading the program for each of 190 files took a fifth of the time.
        isolate: false,
        testTimeout: 60_000,
      }),
      // Some of the quick ones again, for `npm run check`.
      project({ name: 'pure', include: pureTests(), isolate: false, testTimeout: 60_000 }),
      project({ name: 'long', include: [LONG], testTimeout: 240_000 }),
      // No tests: makes the pictures of the docs. `npm run pictures`
      project({ name: 'pictures', include: ['test/dashboard/pictures.ts'], testTimeout: 600_000 }),
    ],
    coverage: { include: ['src/**/*.ts'], exclude: ['src/db/generated/**'] },
  },
});

function project(options: ProjectConfig): { test: ProjectConfig } {
  // Generous, since no test is about time; a hang still ends.
  return { test: { ...options, hookTimeout: 120_000 } };
}
