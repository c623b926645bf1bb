import { InvalidArgumentError, Option } from 'commander';
import type { App } from '../../app.js';
import type { Config, SellerConfig } from '../../config/index.js';
import { parseDuration } from '../../domain/moment.js';
import { RESULT_FORMATS, type ResultFormat } from '../../codes/lists/write-result.js';
import type { RecordFacts } from '../../codes/evidence.js';
import type { Format } from '../../codes/lists/types.js';
import type { AuditProgress } from '../../codes/types.js';
import { usageError } from '../errors.js';
import { assertSeller, chosenSellers, type CommonOptions, idParser } from '../options.js';
import { DECIMAL_COMMA, outOption, type OutOptions } from '../out-file.js';
import { getAudit } from '../../codes/audits-store.js';
import { ownCommand } from '../own-command.js';
import { type KnownPurchase, supportAt } from '../../codes/known-code.js';
import { isInvalid } from '../../codes/rules.js';

/** What a script may refuse, besides a failed command. */
const CONDITIONS = ['invalid', 'unproven', 'expired', 'other-item'] as const;
type Condition = (typeof CONDITIONS)[number];

/** `--fail-on` and `--item`. */
export interface FailOptions {
  readonly failOn?: readonly Condition[] | undefined;
  /** The id of the item that the codes must be for. */
  readonly item?: string | undefined;
}

const FAIL_OPTIONS: readonly Option[] = [
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

/** @throws {UserError} when a condition lacks what it compares with */
export function checkConditions({ failOn = [], item }: FailOptions): void {
  if (!failOn.includes('other-item') || item !== undefined) return;
  throw usageError('--fail-on other-item needs --item', 'name the item: --item 4711');
}

/** True if the code is what the command must fail on. @param now for the support, milliseconds since 1970 */
export function failsOn(
  { failOn = [], item }: FailOptions,
  { verdict, purchase }: Pick<RecordFacts, 'verdict' | 'purchase'>,
  now: number,
): boolean {
  return failOn.some((condition) => {
    if (condition === 'invalid') return isInvalid(verdict);
    if (condition === 'unproven') return verdict === 'unproven' || verdict === 'pending';
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

export const RESULT_HELP = `A result is the list in its order, with its own columns and these:
  verdict          valid, invalid, no_longer_valid (valid before), unproven; pending: not checked yet; rejected: the line has no code
  reason           why, in at most 60 characters
  license_type, item_id, item_name, price, currency, purchased_at, supported_until
                   of the purchase; for a code that is no longer valid, from the time when it was
  support          active, expired or none, at the time of writing
  checked_at       when the code was checked
  listed           how often the list has the code
  proof            purchase, known-valid or account; none without a verdict
  evidence         the whole reason, with the times of denials and proofs
CSV has the delimiter of the list, and an apostrophe before cells that a spreadsheet would run as
formulas. It starts with a byte order mark if the list did, or was not UTF-8: Excel needs it. The result of
an Excel workbook is the workbook as it came, with these columns added; prices are numbers, times are
dates in UTC.`;

export type ResultOptions = OutOptions<ResultFormat>;

/** Exit codes of commands that wait for verdicts. */
export const VERDICT_EXIT_CODES =
  'Exit codes: 0 all codes have a verdict, 1 failed, 2 usage, 4 some are unproven, or no line has a code (with --fail-on: some lines have none), 5 a condition of --fail-on holds for some, 130 interrupted';

/** How long to wait before denied codes are checked again. Hidden: a shorter time proves less. */
export interface ConfirmOptions {
  /** Milliseconds. */
  readonly confirmAfter?: number | undefined;
}

export interface CheckOptions extends CommonOptions, ResultOptions, FailOptions, ConfirmOptions {
  readonly column?: string;
  readonly sheet?: string;
  readonly inputFormat?: Format;
  /** Milliseconds. */
  readonly maxAge?: number;
  /** A code that the user knows is valid: proofs of the key ask for it. */
  readonly knownValid?: string;
  readonly dryRun?: true;
  readonly yes?: true;
  readonly detach?: true;
}

/** Options of commands that wait for verdicts. */
export const VERDICT_OPTIONS: readonly (Option | 'quiet')[] = [
  'quiet',
  ...FAIL_OPTIONS,
  new Option('--confirm-after <time>').argParser(parseWait).hideHelp(),
  ...outOption('write the result to this file at the end; - is stdout'),
  new Option(
    '--format <format>',
    'format of the result (default: by the ending of the file, else csv)',
  ).choices(RESULT_FORMATS),
  DECIMAL_COMMA,
];

/** Returns the seller whose codes are checked. @throws {UserError} when it is not clear which */
export function oneSeller(config: Config, name: string | undefined): SellerConfig {
  const sellers = chosenSellers(config, name);
  const [seller] = sellers;
  if (seller !== undefined && sellers.length === 1) return seller;
  if (seller === undefined) throw usageError('no seller is configured', null);
  throw usageError(
    'a purchase code belongs to one seller, and several are configured',
    `choose one with --seller: ${sellers.map((one) => one.name).join(', ')}`,
  );
}

export function parseAge(text: string): number {
  const read = parseDuration(text);
  if ('ms' in read) return read.ms;
  throw new InvalidArgumentError(`"${text}" ${read.fault}.`);
}

/** Parses a wait, which tests give in milliseconds. */
function parseWait(text: string): number {
  return /^\d{1,6}ms$/.test(text) ? Number(text.slice(0, -'ms'.length)) : parseAge(text);
}

export const parseAuditId = idParser(
  'Checks are numbered 1, 2, 3 and so on; `seller-mirror audits list` shows them.',
);

/** Returns the audit. @throws {UserError} when it or the seller is unknown, or it is another seller's */
export async function findAudit(
  app: App,
  auditId: bigint,
  seller: string | undefined,
): Promise<AuditProgress> {
  const { db } = app;
  await assertSeller(app, seller);
  const audit = await getAudit(db, auditId);
  if (audit !== null && (seller === undefined || audit.sellerId === seller)) return audit;
  throw usageError(
    `there is no check ${auditId}${seller === undefined ? '' : ' of this seller'}`,
    `\`${ownCommand()} audits list\` lists them`,
  );
}
