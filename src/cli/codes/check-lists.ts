import { once } from 'node:events';
import { createInterface } from 'node:readline/promises';
import { setFlagsFromString } from 'node:v8';
import type { App } from '../../app.js';
import type { SellerConfig } from '../../config/index.js';
import { hostName } from '../../domain/address.js';
import { describeCodeFault, readCode } from '../../domain/codes/code.js';
import type { AuditCost } from '../../domain/codes/cost.js';
import { doubtOf, type Doubt, type IntakeRow } from '../../intake/index.js';
import { chunkSizeFor } from '../../jobs/codes/pace.js';
import type { AuditLoader, AuditRow, AuditSize, NewAudit } from '../../store/audits/types.js';
import { note, printJson } from '../console.js';
import { usageError } from '../errors.js';
import { EXIT, type ExitCode } from '../exit-codes.js';
import { Progress } from '../output/progress.js';
import { count, plural, safeLine } from '../output/text.js';
import { costOf, costText } from './audit-view.js';
import { layoutJson, type OpenList } from './lists.js';
import type { CheckOptions } from './options.js';
import type { OutPlace } from './result-file.js';
import { proveKey } from './prove-key.js';
import { runAudit } from './run-audit.js';

/** Makes an audit of the lists and runs it to its end; a dry run only prints what it would cost. */
export async function checkLists(
  app: App,
  seller: SellerConfig,
  lists: readonly OpenList[],
  options: CheckOptions & { readonly place: OutPlace | null },
  signal: AbortSignal,
): Promise<ExitCode> {
  const { dryRun, detach, json, place, maxAge, failOn } = options;
  noteLines(layoutLines(lists));
  if (options.yes !== true) await confirmDoubts(app, seller, lists, dryRun === true, signal);
  const prove = () => proveKey(app, seller, options.canary, signal);
  // Checks the key before a million lines are read. With --max-age, perhaps no code must be asked for.
  if (dryRun !== true && maxAge === undefined) await prove();
  if (options.canary === undefined) await warnOfWeakProof(app, seller);
  const loader = await app.store.audits.begin(newAudit(seller, lists, options));
  let auditId: bigint;
  try {
    const report = await load(lists, loader, signal);
    if (dryRun === true) {
      const size = await loader.measure();
      const cost = noteSize(seller, size);
      if (json === true) await printJson(dryRunJson(size, cost, report));
      return EXIT.done;
    }
    if (maxAge !== undefined && toAsk(await loader.measure()) > 0) await prove();
    await app.store.sellers.ensure(seller.name, hostName(seller.url));
    const entered = await loader.finish();
    noteSize(seller, entered);
    auditId = entered.auditId;
  } finally {
    // Does nothing after finish().
    await loader.abort();
  }
  const how = { json: json === true, detach: detach === true, place, failOn };
  return runAudit(app, auditId, how, signal);
}

/** Known codes read to learn what a seller's codes look like. */
const MOST_KNOWN = 200;

/**
 * Asks a person about lists that do not look like lists of codes. A dry run only warns.
 * @throws {CommandError} when the answer is no, or nobody can be asked
 */
async function confirmDoubts(
  { store }: App,
  { name: seller }: SellerConfig,
  lists: readonly OpenList[],
  dryRun: boolean,
  signal: AbortSignal,
): Promise<void> {
  const known = await store.audits.canariesOf(seller, MOST_KNOWN);
  const doubts = lists.flatMap(({ name, intake }) => {
    const doubt = doubtOf(intake, known);
    return doubt === null ? [] : doubtLines(name, doubt, seller);
  });
  if (doubts.length === 0) return;
  noteLines(doubts);
  if (dryRun || (canAsk(lists) && (await isConfirmed(signal)))) return;
  throw usageError(
    'this does not look like a list of purchase codes: nothing was asked for',
    'name the right file, or the right column with --column; --yes checks the list as it is',
  );
}

/** Says why a list does not look like one of codes, with a few of its lines. */
function doubtLines(name: string, doubt: Doubt, seller: string): readonly string[] {
  const { odd, of, known, samples } = doubt;
  const like =
    known === null
      ? 'purchase codes'
      : `the valid codes that are known of ${safeLine(seller)} (${safeLine(known)})`;
  return [
    `warning: ${safeLine(name)}: ${count(odd)} of the first ${plural(of, 'record')} do not look like ${like}:`,
    ...samples.map((sample) => `    ${safeLine(sample)}`),
  ];
}

function canAsk(lists: readonly OpenList[]): boolean {
  const isTerminal = process.stdin.isTTY && process.stderr.isTTY;
  return isTerminal && lists.every(({ isStdin }) => !isStdin);
}

async function isConfirmed(signal: AbortSignal): Promise<boolean> {
  // With terminal: true, readline would catch Ctrl-C.
  const asking = createInterface({ input: process.stdin, output: process.stderr, terminal: false });
  try {
    const ended = once(asking, 'close', { signal }).then(() => '');
    const answer = asking.question('Check it all the same? [y/N] ', { signal });
    return /^\s*y(?:es)?\s*$/i.test(await Promise.race([answer, ended]));
  } finally {
    asking.close();
  }
}

/** Warns when no valid code is known: account details alone prove the API key then. */
async function warnOfWeakProof({ store }: App, { name }: SellerConfig): Promise<void> {
  const known = await store.audits.canariesOf(name, 1);
  if (known.length === 0) noteLines([NO_VALID_CODE]);
}

const NO_VALID_CODE =
  'warning: no valid code of this seller is known yet; until one is found, "invalid" is proven by account details alone → give one with --canary CODE';

function newAudit(
  seller: SellerConfig,
  lists: readonly OpenList[],
  { maxAge, canary, confirm = 'auto' }: CheckOptions,
): NewAudit {
  return {
    sellerId: seller.name,
    source: lists.map(({ name }) => name).join(', '),
    layout: layoutJson(lists),
    columns: lists[0]?.intake.layout.columns ?? [],
    maxAgeSeconds: maxAge === undefined ? null : Math.floor(maxAge / 1000),
    canary: canary ?? null,
    confirm,
    chunkSize: chunkSizeFor(seller.requestsPerMinute),
  };
}

async function load(
  lists: readonly OpenList[],
  loader: AuditLoader,
  signal: AbortSignal,
): Promise<LoadReport> {
  const progress = new LoadProgress();
  try {
    const report = await loadLists(lists, loader, signal, {
      onRows: (list, rows) => progress.show(list, rows),
    });
    progress.finish();
    noteLines(reportLines(report, lists.length));
    return report;
  } finally {
    progress.finish();
  }
}

/** Shows the progress of reading on stderr: bytes and lines. */
class LoadProgress {
  #list: OpenList | null = null;
  #bar: Progress | null = null;

  show(list: OpenList, rows: number): void {
    if (this.#bar === null || this.#list !== list) {
      this.finish();
      const { name, size: total } = list;
      this.#list = list;
      this.#bar = new Progress({
        output: process.stderr,
        label: `reading ${name}`,
        unit: 'bytes',
        total,
      });
    }
    this.#bar.update(list.read(), { detail: plural(rows, 'line') });
  }

  finish(): void {
    this.#bar?.finish();
    this.#bar = null;
  }
}

/** A record that holds no code. */
interface RejectedLine {
  readonly list: string;
  /** `line 5`; `record 3` where several share a line. */
  readonly place: string;
  readonly why: string;
}

/** What the lists came to while they were read. */
interface LoadReport {
  readonly rows: number;
  readonly rejected: number;
  readonly blankLines: number;
  /** The first ones; all of them are in the result. */
  readonly firstRejected: readonly RejectedLine[];
  /** What had to be tolerated, as sentences. */
  readonly notes: readonly string[];
}

interface LoadEvents {
  /** Told after each batch. */
  readonly onRows?: (list: OpenList, rows: number) => void;
}

/** As many as a person reads. */
export const SHOWN_REJECTED = 20;

/**
 * Loads all lists into the store as one: the second list's line numbers continue the first's. Each
 * record has its own number, also where several share a line, as in JSON.
 * @throws {IntakeError} when a list breaks off or can't be read further
 */
export async function loadLists(
  lists: readonly OpenList[],
  loader: Pick<AuditLoader, 'add'>,
  signal: AbortSignal,
  events: LoadEvents = {},
): Promise<LoadReport> {
  // V8 would allocate rows in the old generation once some have lived long; there they wait for a full
  // collection: 70 MB of rows that are not needed any more.
  setFlagsFromString('--no-allocation-site-pretenuring');
  const firstRejected: RejectedLine[] = [];
  let [rows, last] = [0, 0];
  for (const list of lists) {
    const before = last;
    for await (const batch of list.intake.rows) {
      signal.throwIfAborted();
      const taken: AuditRow[] = [];
      for (const row of batch) {
        last = Math.max(last + 1, before + row.line);
        taken.push(auditRow(row, last));
        if ('rejected' in row && firstRejected.length < SHOWN_REJECTED) {
          const number = last - before;
          const place = number === row.line ? `line ${number}` : `record ${number}`;
          firstRejected.push({ list: list.name, place, why: row.rejected });
        }
      }
      await loader.add(taken);
      rows += taken.length;
      events.onRows?.(list, rows);
    }
  }
  const tallies = lists.map(({ intake }) => intake.tally);
  return {
    rows,
    rejected: tallies.reduce((sum, tally) => sum + tally.rejected, 0),
    blankLines: tallies.reduce((sum, tally) => sum + tally.blankLines, 0),
    firstRejected,
    notes: lists.flatMap(({ name, intake }) =>
      intake.tally.notes.map((note) => (lists.length === 1 ? note : `${name}: ${note}`)),
    ),
  };
}

function auditRow(row: IntakeRow, line: number): AuditRow {
  const { columns } = row;
  if ('rejected' in row) return { line, rejected: row.rejected, columns };
  const read = readCode(row.text);
  if ('code' in read) return { line, code: read.code, columns };
  return { line, rejected: `the code ${describeCodeFault(read.reason)}`, columns };
}

/** Says how each list is read, and why. */
export function layoutLines(lists: readonly OpenList[]): readonly string[] {
  return lists.flatMap(({ name, intake }) => {
    const reasons = intake.layout.reasons.map((reason) => `  ${safeLine(reason)}`);
    return reasons.length === 0 ? [] : [`${safeLine(name)}:`, ...reasons];
  });
}

/** Reports what was tolerated or left out while reading, and the lines without a code. */
export function reportLines(report: LoadReport, lists: number): readonly string[] {
  const { firstRejected, rejected, blankLines, notes } = report;
  const shown = firstRejected.map(
    ({ list, place, why }) =>
      `  ${lists === 1 ? '' : `${safeLine(list)}, `}${place}: ${safeLine(why)}`,
  );
  const more = rejected - firstRejected.length;
  return [
    ...notes.map((note) => `  ${safeLine(note)}`),
    ...(blankLines === 0 ? [] : [`  ${plural(blankLines, 'blank line')} left out`]),
    ...(rejected === 0 ? [] : [`  ${plural(rejected, 'line')} can't be asked for:`]),
    ...shown.map((line) => `  ${line}`),
    ...(more > 0
      ? [`    and ${count(more)} more; all of them are in the result as "rejected"`]
      : []),
  ];
}

function noteSize(seller: SellerConfig, size: AuditSize): AuditCost {
  const chunkSize = chunkSizeFor(seller.requestsPerMinute);
  const cost = costOf(seller, toAsk(size), chunkSize, Date.now());
  noteLines([sizeLine(size), costText(cost, seller.requestsPerMinute, size.codes)]);
  return cost;
}

/** `10,012 lines: 10,000 codes to ask, 8 more than once, 1 known already, 3 rejected`. */
export function sizeLine(size: AuditSize): string {
  const { lines, rejected, codes, reused } = size;
  const repeated = lines - rejected - codes;
  const parts = [
    `${plural(codes - reused, 'code')} to ask`,
    ...(repeated > 0 ? [`${count(repeated)} listed again`] : []),
    ...(reused > 0 ? [`${count(reused)} checked lately enough`] : []),
    ...(rejected > 0 ? [`${count(rejected)} rejected`] : []),
  ];
  return `${plural(lines, 'line')}: ${parts.join(', ')}`;
}

/** Formats the result of a dry run for `--json`. */
function dryRunJson(size: AuditSize, cost: AuditCost, { firstRejected }: LoadReport): object {
  const finishAt = new Date(cost.finishAt);
  return { dryRun: true, size, cost: { ...cost, finishAt }, rejected: firstRejected };
}

/** The number of codes without a fresh verdict. */
function toAsk({ codes, reused }: AuditSize): number {
  return codes - reused;
}

/** Prints lines to stderr, so that results on stdout can be piped. */
function noteLines(lines: readonly string[]): void {
  note(lines.map((line) => `${line}\n`).join(''));
}
