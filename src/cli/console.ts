import { processEnvironment } from '../config/index.js';
import { json, lookOf, type Look } from './output/index.js';

/** Where commands write: results to stdout, all else to stderr. */
export const stdoutLook = (): Look => lookOf(process.stdout, processEnvironment());
export const stderrLook = (): Look => lookOf(process.stderr, processEnvironment());

/** Writes finished lines to stdout; returns when they have been taken. */
export async function print(...texts: readonly string[]): Promise<void> {
  await new Promise<void>((resolve) => {
    // A reader that went away is dealt with where stdout is guarded.
    process.stdout.write(texts.join(''), () => resolve());
  });
}

export async function printJson(value: unknown): Promise<void> {
  await print(json(value));
}
