import { homedir } from 'node:os';
import { resolve } from 'node:path';
import { headerNameFault } from '../domain/address.js';
import type { Findings } from './problems.js';

/** A text and where it was given, for messages. */
export interface Given {
  readonly where: string;
  readonly text: string;
}

/** A whole number within bounds; `least` is returned for a bad one, which has been reported. */
export function readInteger(given: Given, least: number, most: number, findings: Findings): number {
  const number = /^\d{1,15}$/.test(given.text) ? Number(given.text) : NaN;
  if (number >= least && number <= most) return number;
  findings.problem({
    where: given.where,
    value: given.text,
    what: 'is no whole number in range',
    remedy: `give a number from ${least} to ${most}`,
  });
  return least;
}

/** One of several words; the first of them for a bad one, which has been reported. */
export function readChoice<T extends string>(
  given: Given,
  choices: readonly [T, ...T[]],
  findings: Findings,
): T {
  const choice = choices.find((word) => word === given.text.toLowerCase());
  if (choice !== undefined) return choice;
  findings.problem({
    where: given.where,
    value: given.text,
    what: 'is not known',
    remedy: `choose one of ${choices.join(', ')}`,
  });
  return choices[0];
}

const YES = new Set(['true', '1', 'yes', 'on']);
const NO = new Set(['false', '0', 'no', 'off']);

export function readBoolean(given: Given, findings: Findings): boolean {
  const word = given.text.toLowerCase();
  if (YES.has(word)) return true;
  if (!NO.has(word)) {
    findings.problem({
      where: given.where,
      value: given.text,
      what: 'is neither true nor false',
      remedy: 'give true or false',
    });
  }
  return false;
}

/** Seller names are used in commands, lock names and every table. */
export function checkSellerName(given: Given, findings: Findings): void {
  if (/^[A-Za-z0-9._-]{1,63}$/.test(given.text)) return;
  findings.problem({
    where: given.where,
    value: given.text,
    what: 'is no seller name',
    remedy: 'use 1 to 63 letters, digits, dots, underscores and hyphens',
  });
}

/** The header that is to carry the key: any name HTTP allows and no request needs for itself. */
export function checkHeaderName(given: Given, findings: Findings): void {
  const fault = headerNameFault(given.text);
  if (fault === null) return;
  findings.problem({
    where: given.where,
    value: given.text,
    what:
      fault === 'taken' ? 'is a header that every request uses already' : 'is no name of a header',
    remedy: 'give a name such as X-Api-Key',
  });
}

/** An absolute path: relative to `base`, and `~/` is the home folder, which no shell expands in a file. */
export function absolutePath(base: string, path: string): string {
  return path === '~' || path.startsWith('~/')
    ? resolve(homedir(), path.slice(2))
    : resolve(base, path);
}
