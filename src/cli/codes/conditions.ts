import { InvalidArgumentError, Option } from 'commander';
import { type KnownPurchase, supportAt } from '../../codes/known-code.js';
import { usageError } from '../errors.js';

/** What a script may refuse, besides a failed command. */
const CONDITIONS = ['invalid', 'unproven', 'expired', 'other-item'] as const;
type Condition = (typeof CONDITIONS)[number];

/** `--fail-on` and `--item`. */
export interface FailOptions {
  readonly failOn?: readonly Condition[] | undefined;
  /** The id of the item that the codes must be for. */
  readonly item?: string | undefined;
}

export const FAIL_OPTIONS: readonly Option[] = [
  new Option(
    '--fail-on <conditions>',
    'end with exit code 5 when any code is invalid, unproven, valid with expired support, or valid for another item than --item; separate several with commas: invalid,unproven,expired,other-item',
  )
    .argParser(parseConditions)
    .conflicts(['detach', 'dryRun']),
  new Option('--item <id>', 'the item that the codes must be for').argParser(parseItem),
];

function parseConditions(text: string): readonly Condition[] {
  return text.split(',').map((part) => {
    const found = CONDITIONS.find((condition) => condition === part.trim());
    if (found !== undefined) return found;
    throw new InvalidArgumentError(
      `"${part.trim()}" is no condition. The conditions are ${CONDITIONS.join(', ')}.`,
    );
  });
}

function parseItem(text: string): string {
  if (/^\d+$/.test(text.trim())) return text.trim();
  throw new InvalidArgumentError('Items are numbered; `seller-mirror items` shows them.');
}

/** @throws {CommandError} when a condition lacks what it compares with */
export function checkConditions({ failOn = [], item }: FailOptions): void {
  if (!failOn.includes('other-item') || item !== undefined) return;
  throw usageError('--fail-on other-item needs --item', 'name the item: --item 4711');
}

interface Found {
  /** Null: not checked. */
  readonly verdict: 'valid' | 'invalid' | 'unproven' | null;
  readonly purchase: KnownPurchase | null;
}

/** True if the code is what the command must fail on. @param now for the support, milliseconds since 1970 */
export function failsOn({ failOn = [], item }: FailOptions, found: Found, now: number): boolean {
  const { verdict, purchase } = found;
  return failOn.some((condition) => {
    if (condition === 'invalid') return verdict === 'invalid';
    if (condition === 'unproven') return verdict === 'unproven' || verdict === null;
    if (verdict !== 'valid') return false;
    return condition === 'expired'
      ? purchase !== null && supportAt(purchase, now) === 'expired'
      : isForItem(purchase, item) !== true;
  });
}

/** Whether a purchase is of the item that `--item` names. Null if none is named, or the purchase names none. */
export function isForItem(
  purchase: KnownPurchase | null,
  item: string | undefined,
): boolean | null {
  const id = purchase?.item?.id ?? null;
  return item === undefined || id === null ? null : String(id) === item;
}
