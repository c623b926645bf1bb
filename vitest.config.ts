import { defineConfig } from 'vitest/config';

export default defineConfig({
  test: {
    include: ['test/**/*.test.ts'],
    globalSetup: ['test/support/global-setup.ts'],
    // Processes, not threads: tests change users' environments, send signals, and start servers.
    pool: 'forks',
    maxWorkers: 2,
    // Generous, since no test is about time; a hang still ends.
    testTimeout: 60_000,
    hookTimeout: 120_000,
    coverage: { include: ['src/**/*.ts'], exclude: ['src/store/generated/**'] },
  },
});
