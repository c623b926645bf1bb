import { InvalidArgumentError } from 'commander';
import { CHANGE_CLASSES, type ChangeClass } from '../../domain/changes.js';
import { readMoment } from '../../domain/moment.js';

/** From where on changes are told: after a number of the feed, or from a moment on. */
export type Since = { readonly after: bigint } | { readonly from: Date };

const MOST_NUMBER = 2n ** 63n - 1n;

/** Reads `--since`: a number of the feed, with or without `#`, or a moment. */
export function since(text: string): Since {
  const [, number] = /^#?(\d+)$/.exec(text.trim()) ?? [];
  if (number !== undefined) {
    if (BigInt(number) <= MOST_NUMBER) return { after: BigInt(number) };
    throw new InvalidArgumentError(`"${text}" is no number of a change.`);
  }
  return { from: momentOf(text) };
}

/** Reads a moment given on the command line. */
export function momentOf(text: string): Date {
  const reading = readMoment(text, new Date());
  if ('at' in reading) return reading.at;
  throw new InvalidArgumentError(`${reading.fault}.`);
}

/** Reads `--class`, classes with commas between, and given again: more of them. */
export function changeClasses(text: string, before: readonly ChangeClass[] = []): ChangeClass[] {
  const given = text.split(',').map((one) => one.trim().toLowerCase());
  return [...new Set([...before, ...given.map(changeClass)])];
}

function changeClass(text: string): ChangeClass {
  const found = CHANGE_CLASSES.find((one) => one === text);
  if (found !== undefined) return found;
  throw new InvalidArgumentError(`"${text}" is no class; there is ${CHANGE_CLASSES.join(', ')}.`);
}
