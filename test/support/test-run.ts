import { existsSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { inject } from 'vitest';

declare module 'vitest' {
  interface ProvidedContext {
    /** The folder through which tests ask `global-setup.ts` for what they need. */
    testRun: string;
  }
}

/** The PostgreSQL of this test run. */
export interface TestServer {
  /** Address with a user who may create databases. */
  readonly adminUrl: string;
  /** Address for the product. */
  readonly userUrl: string;
  /** Name of the migrated, empty database. */
  readonly template: string;
  /** Option of CREATE DATABASE for copying it. */
  readonly strategy: string;
}

/** What a test can ask for. It is made once in a run, when the first test needs it. */
export type Wanted = 'build' | 'server';

/** The answer to a request: a value, or the reason why there is none. */
export type Answer = { readonly value: unknown } | { readonly error: string };

export const requestIn = (folder: string, what: Wanted): string => join(folder, `${what}.wanted`);
export const answerIn = (folder: string, what: Wanted): string => join(folder, `${what}.json`);

/** Asks for something, and waits for it. */
async function ask(what: Wanted): Promise<unknown> {
  const folder = inject('testRun');
  const file = answerIn(folder, what);
  if (!existsSync(file)) writeFileSync(requestIn(folder, what), '');
  while (!existsSync(file)) await sleep(10);
  const answer = JSON.parse(readFileSync(file, 'utf8')) as Answer;
  if ('error' in answer) throw new Error(`no ${what} for tests: ${answer.error}`);
  return answer.value;
}

/** Waits until `dist` is as new as `src`. @returns its path */
export async function builtFolder(): Promise<string> {
  return String(await ask('build'));
}

/** Waits for the test run's PostgreSQL, which needs `dist`. */
export async function startedServer(): Promise<TestServer> {
  return (await ask('server')) as TestServer;
}
