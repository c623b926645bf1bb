import { existsSync, realpathSync } from 'node:fs';
import type { App } from '../../app.js';
import { supportAt } from '../../domain/codes/purchase.js';
import { describeDenials, type Denials } from '../../domain/codes/second-look.js';
import type { Json, Purchase } from '../../domain/item.js';
import {
  IntakeError,
  RESULT_FORMATS,
  assertWritable,
  resultWriter,
  type ResultColumn,
  type ResultFormat,
  type ResultOptions,
  type ResultRow,
  writeWhole,
} from '../../intake/index.js';
import type { AuditProgress, AuditResult } from '../../store/audits/types.js';
import { CommandError, usageError } from '../errors.js';
import type { CommonOptions } from '../options.js';
import { writeAll } from '../output/write.js';
import { ownCommand } from '../own-command.js';
import type { OutOptions } from './options.js';
import { whyUnproven } from './audit-view.js';

/** Where a result is written, and in which format. */
export interface OutPlace {
  /** null: stdout. */
  readonly path: string | null;
  readonly format: ResultFormat;
}

export const STDOUT = '-';

/**
 * Place and format of a result: the format is the given one, or that of the file's ending; CSV on stdout.
 * @throws {CommandError} when the ending is of no format
 */
export function outPlace(out: string, asked: ResultFormat | undefined): OutPlace {
  if (out === STDOUT) return { path: null, format: asked ?? 'csv' };
  const format = asked ?? formatOf(out);
  if (format !== null) return { path: out, format };
  throw usageError(
    `the ending of ${JSON.stringify(out)} says no format`,
    `name a file ending in .csv, .json or .ndjson, or say --format ${RESULT_FORMATS.join('|')}`,
  );
}

/** The format of a file's ending; null for other endings. */
export function formatOf(path: string): ResultFormat | null {
  const ending = /\.([a-z]+)$/i.exec(path)?.[1]?.toLowerCase();
  if (ending === 'jsonl') return 'ndjson';
  return RESULT_FORMATS.find((format) => format === ending) ?? null;
}

/**
 * Reads `--out` and `--format`; null: no result is written.
 * @throws {CommandError} when the options contradict each other
 */
export function placeOf(options: OutOptions & Pick<CommonOptions, 'json'>): OutPlace | null {
  const { out, format, json } = options;
  if (out === undefined) {
    if (format === undefined) return null;
    throw usageError('--format goes with --out', 'say where the result goes: --out result.csv');
  }
  if (out === STDOUT && json === true) {
    throw usageError(
      '--json and --out - both write to stdout',
      'leave --json out, and say --format json for a result in JSON',
    );
  }
  return outPlace(out, format);
}

/**
 * The place that `--out` of an earlier command named; null when there is none, or the result is there
 * already.
 * @throws {CommandError} when it can't be written there
 */
export async function rememberedPlace({
  auditId,
  result,
}: AuditProgress): Promise<OutPlace | null> {
  if (result === null || result.writtenAt !== null) return null;
  try {
    await assertWritable(result.path);
    return result;
  } catch (error) {
    if (!(error instanceof IntakeError)) throw error;
    throw usageError(
      `the result of audit ${auditId} can’t go to ${error.message}`,
      'name another file with --out, or - for stdout',
    );
  }
}

/** Checks that the result can be written, before hours of work are spent. */
export async function checkOut(place: OutPlace | null): Promise<void> {
  if (place !== null && place.path !== null) await assertWritable(place.path);
}

/**
 * Refuses a result that would replace its list: a result lacks the list's encoding, blank lines and
 * nested fields.
 * @param lists files and `-`
 * @throws {CommandError} when the result would replace one of them
 */
export function keepLists(place: OutPlace | null, lists: readonly string[]): void {
  const path = place?.path ?? null;
  if (path === null || !existsSync(path)) return;
  const target = realpathSync(path);
  if (!lists.some((list) => existsSync(list) && realpathSync(list) === target)) return;
  throw usageError(
    `the result would replace the list ${JSON.stringify(path)}`,
    'name another file',
  );
}

/** The verdict about a code, from this audit or a fresh earlier one. */
export interface CodeFacts {
  readonly verdict: 'valid' | 'invalid' | 'unproven';
  /** One word, for programs. */
  readonly reason: string;
  /** `purchase`, `canary`, `account` or `none`. */
  readonly proof: string;
  /** The denials that prove an invalid code; null where they are not known. */
  readonly denials: Denials | null;
  /** The last known purchase; that of an invalid code is from when it was valid. */
  readonly purchase: Purchase | null;
  readonly checkedAt: Date | null;
}

/** The outcome of a record of a list. */
type RecordFacts =
  | CodeFacts
  /** It holds no code. */
  | { readonly verdict: 'rejected'; readonly why: string }
  /** It was not asked for yet. */
  | { readonly verdict: 'pending' };

/** Reads the outcome of a record from an audit's result. */
function factsOf(result: AuditResult): RecordFacts {
  const { code, rejected, verdict, reason, proof, denials, purchase, checkedAt } = result;
  if (code === null) return { verdict: 'rejected', why: rejected ?? 'it holds no code' };
  if (verdict === null) return { verdict: 'pending' };
  return { verdict, reason: reason ?? '', proof: proof ?? 'none', denials, purchase, checkedAt };
}

/** Makes the rows of a result. @param now for the state of support, milliseconds since 1970 */
async function* resultRows(
  results: AsyncIterable<AuditResult>,
  now: number,
): AsyncGenerator<ResultRow, void, undefined> {
  for await (const one of results) {
    yield { columns: one.columns, result: resultOf(factsOf(one), now) };
  }
}

export type Result = Readonly<Record<ResultColumn, string | number | null>>;

const NOTHING: Omit<Result, 'verdict'> = {
  license_type: null,
  item_id: null,
  item_name: null,
  price: null,
  currency: null,
  purchased_at: null,
  supported_until: null,
  support: null,
  checked_at: null,
  proof: null,
};

/**
 * Makes the result columns of a record. Without a verdict, `proof` is `none: ` and the reason, and the
 * purchase is empty. For an invalid code, `proof` also says how often and when it was denied; the
 * purchase is the one of before, without support.
 * @param now for the state of support, milliseconds since 1970
 */
export function resultOf(facts: RecordFacts, now: number): Result {
  switch (facts.verdict) {
    case 'pending':
      return { verdict: 'pending', ...NOTHING };
    case 'rejected':
      return { verdict: 'rejected', ...NOTHING, proof: `none: ${facts.why}` };
    case 'unproven':
      return {
        verdict: 'unproven',
        ...NOTHING,
        checked_at: stamp(facts.checkedAt),
        proof: `none: ${whyUnproven(facts.reason)}`,
      };
    default:
      return provenResult(facts, now);
  }
}

function provenResult(facts: CodeFacts, now: number): Result {
  const { verdict, purchase, checkedAt, denials } = facts;
  const proof = denials === null ? facts.proof : `${facts.proof}: ${describeDenials(denials)}`;
  const proven = { verdict, ...NOTHING, checked_at: stamp(checkedAt), proof };
  if (purchase === null) return proven;
  return {
    ...proven,
    license_type: purchase.licenseType,
    item_id: purchase.item?.id ?? null,
    item_name: purchase.item?.name ?? null,
    price: purchase.price,
    currency: purchase.currency,
    purchased_at: purchase.purchasedAt,
    supported_until: purchase.supportedUntil,
    support: verdict === 'valid' ? supportAt(purchase, now) : null,
  };
}

function stamp(at: Date | null): string | null {
  return at === null ? null : at.toISOString();
}

/**
 * Writes the result of an audit as it is now: to a file, whole or not at all, or to stdout.
 * @throws {CommandError} when the file can't be written
 */
export async function writeResult(
  { store }: App,
  auditId: bigint,
  place: OutPlace,
  signal: AbortSignal,
): Promise<void> {
  const program = ownCommand();
  const { columns, layout, prunedAt } = (await store.audits.listOf(auditId)) ?? NO_LIST;
  if (prunedAt !== null) {
    throw new CommandError(
      `the list of audit ${auditId} is no longer kept`,
      `KEEP_AUDITS_DAYS limits how long lists are kept; the verdict of each code stays: \`${program} codes show CODE\``,
    );
  }
  const writer = resultWriter(place.format, columns, resultOptions(layout));
  const text = writer.text(resultRows(store.audits.results(auditId), Date.now()));
  if (place.path === null) await writeAll(process.stdout, text);
  else await writeFile(place.path, text, `${program} audits export ${auditId}`, signal);
}

/** Writes the result to a file. @param again the command that repeats it */
async function writeFile(
  path: string,
  text: AsyncIterable<string>,
  again: string,
  signal: AbortSignal,
): Promise<void> {
  try {
    await writeWhole(path, text, { signal });
  } catch (error) {
    if (!(error instanceof IntakeError)) throw error;
    throw new CommandError(
      error.message,
      `${error.remedy} Nothing is lost: \`${again}\` writes it again`,
    );
  }
}

const NO_LIST = { columns: [], layout: null, prunedAt: null };

/**
 * The CSV dialect of a result: the delimiter of the first list, and a byte order mark when one of the
 * lists had one or was not UTF-8. Such lists come from spreadsheets, and Excel needs the mark to read
 * UTF-8.
 */
export function resultOptions(layout: Json): ResultOptions {
  const lists = listsIn(layout);
  const delimiter = lists[0]?.['delimiter'];
  return {
    ...(typeof delimiter === 'string' ? { delimiter } : {}),
    bom: lists.some(
      ({ bom, encoding }) => bom === true || (typeof encoding === 'string' && encoding !== 'utf-8'),
    ),
  };
}

/** How each list of an audit was read; see `layoutJson`. */
function listsIn(layout: Json): readonly { readonly [key: string]: Json }[] {
  if (typeof layout !== 'object' || layout === null || Array.isArray(layout)) return [];
  const { lists } = layout;
  if (!Array.isArray(lists)) return [];
  return lists.filter(
    (one): one is { [key: string]: Json } =>
      typeof one === 'object' && one !== null && !Array.isArray(one),
  );
}

/** Says how the lists of an audit were read. */
export function readingOf(layout: Json): readonly string[] {
  const lists = listsIn(layout);
  return lists.flatMap(({ name, reasons }) => {
    const said = Array.isArray(reasons) ? reasons.filter((one) => typeof one === 'string') : [];
    return lists.length === 1 ? said : said.map((one) => `${JSON.stringify(name)}: ${one}`);
  });
}
