import { Readable } from 'node:stream';
import { setFlagsFromString } from 'node:v8';
import { hostName } from '../../domain/address.js';
import { normalizeCode } from '../../domain/codes/code.js';
import type { Confirm } from '../../domain/codes/second-look.js';
import type { Json } from '../../domain/item.js';
import type { Intake } from '../../intake/types.js';
import { type AuditLoader, beginAudit } from '../../store/audits/loader.js';
import type { AuditRow, AuditSize, EnteredAudit, NewAudit } from '../../store/audits/types.js';
import type { Db } from '../../store/db.js';
import { ensureSeller } from '../../store/sellers.js';
import { chunkSizeFor } from './pace.js';

export interface NamedList {
  readonly name: string;
  readonly intake: Intake;
}

export interface AuditOptions {
  /** Milliseconds. */
  readonly maxAge?: number;
  readonly canary?: string;
  readonly confirm?: Confirm;
}

interface AuditSeller {
  readonly name: string;
  readonly url: URL;
  readonly requestsPerMinute: number;
}

function newAudit(
  { name, requestsPerMinute }: AuditSeller,
  lists: readonly NamedList[],
  { maxAge, canary, confirm = 'auto' }: AuditOptions,
): NewAudit {
  return {
    sellerId: name,
    source: lists.map((list) => list.name).join(', '),
    layout: layoutJson(lists),
    columns: lists[0]?.intake.layout.columns ?? [],
    chunkSize: chunkSizeFor(requestsPerMinute),
    maxAgeSeconds: maxAge === undefined ? null : Math.floor(maxAge / 1000),
    canary: canary ?? null,
    confirm,
  };
}

interface ReadEvents<List> {
  readonly signal: AbortSignal;
  /** Called after each batch of rows. */
  readonly onRead?: (list: List) => void;
}

interface EnterEvents<List> extends ReadEvents<List> {
  /** Called when all lists are read. If it throws, nothing is kept. */
  readonly onLoaded?: (report: LoadReport, loader: AuditLoader) => Promise<void> | void;
}

/**
 * Creates an audit of lists, which are read as one. Does not start it.
 * @throws {FileError} when a list breaks off or can't be read further
 */
export async function enterLists<List extends NamedList>(
  db: Db,
  seller: AuditSeller,
  lists: readonly List[],
  options: AuditOptions,
  { signal, onRead, onLoaded }: EnterEvents<List>,
): Promise<EnteredAudit> {
  const loader = await beginAudit(db, newAudit(seller, lists, options));
  try {
    const report = await loadLists(lists, loader, signal, onRead);
    await onLoaded?.(report, loader);
    await ensureSeller(db, seller.name, hostName(seller.url));
    return await loader.finish();
  } finally {
    // A no-op after finish().
    await loader.abort();
  }
}

/**
 * Reads lists as `enterLists` does, and keeps nothing.
 * @throws {FileError} when a list breaks off or can't be read further
 */
export async function measureLists<List extends NamedList>(
  db: Db,
  seller: AuditSeller,
  lists: readonly List[],
  options: AuditOptions,
  { signal, onRead }: ReadEvents<List>,
): Promise<{ readonly report: LoadReport; readonly size: AuditSize }> {
  const loader = await beginAudit(db, newAudit(seller, lists, options));
  try {
    return {
      report: await loadLists(lists, loader, signal, onRead),
      size: await loader.measure(),
    };
  } finally {
    await loader.abort();
  }
}

/** Makes a list of codes given as arguments. */
export function listOfCodes(codes: readonly string[]): NamedList {
  const rows = codes.map((text, index) => {
    return { line: index + 1, code: normalizeCode(text), columns: [text] };
  });
  const intake: Intake = {
    layout: {
      format: 'json',
      encoding: 'utf-8',
      bom: false,
      compressed: false,
      delimiter: null,
      header: false,
      columns: ['code'],
      codeColumn: 0,
      reasons: [],
    },
    first: [],
    rows: Readable.from([rows]),
    tally: { rows: rows.length, rejected: 0, blankLines: 0, notes: [] },
    close: () => Promise.resolve(),
  };
  return { name: 'arguments', intake };
}

/** The layouts of the lists, in the form that the audit stores. */
export function layoutJson(lists: readonly NamedList[]): Json {
  return {
    lists: lists.map(({ name, intake }) => {
      const { columns, codeColumn, reasons, ...layout } = intake.layout;
      return { name, ...layout, column: columns[codeColumn] ?? null, reasons: [...reasons] };
    }),
  };
}

interface RejectedLine {
  readonly list: string;
  /** `line 5`; in a workbook `row 5`; `record 3` where several share a line. */
  readonly place: string;
  readonly why: string;
}

export interface LoadReport {
  readonly rejected: number;
  readonly blankLines: number;
  /** The first `SHOWN_REJECTED`; the result has all of them. */
  readonly firstRejected: readonly RejectedLine[];
  /** Oddities that were tolerated, as sentences. */
  readonly notes: readonly string[];
}

/** Rejected lines shown to a person. */
export const SHOWN_REJECTED = 20;

/**
 * Loads all lists into the store as one: the second list's line numbers continue the first's. Each
 * record gets its own number, even if several share a line, as in JSON.
 * @param onRead called after each batch of rows
 * @throws {FileError} when a list breaks off or can't be read further
 */
export async function loadLists<List extends NamedList>(
  lists: readonly List[],
  loader: Pick<AuditLoader, 'add'>,
  signal: AbortSignal,
  onRead: (list: List) => void = () => undefined,
): Promise<LoadReport> {
  // Without this, V8 starts to allocate rows in the old generation, where 70 MB of dead rows wait for
  // a full collection.
  setFlagsFromString('--no-allocation-site-pretenuring');
  const firstRejected: RejectedLine[] = [];
  let last = 0;
  for (const list of lists) {
    const before = last;
    for await (const batch of list.intake.rows) {
      signal.throwIfAborted();
      const rows: AuditRow[] = [];
      for (const row of batch) {
        last = Math.max(last + 1, before + row.line);
        rows.push(row.line === last ? row : { ...row, line: last });
        if ('rejected' in row && firstRejected.length < SHOWN_REJECTED) {
          const number = last - before;
          const line = list.intake.layout.format === 'xlsx' ? 'row' : 'line';
          const place = number === row.line ? `${line} ${number}` : `record ${number}`;
          firstRejected.push({ list: list.name, place, why: row.rejected });
        }
      }
      await loader.add(rows);
      onRead(list);
    }
  }
  const tallies = lists.map(({ intake }) => intake.tally);
  return {
    rejected: tallies.reduce((sum, tally) => sum + tally.rejected, 0),
    blankLines: tallies.reduce((sum, tally) => sum + tally.blankLines, 0),
    firstRejected,
    notes: lists.flatMap(({ name, intake }) =>
      intake.tally.notes.map((note) => (lists.length === 1 ? note : `${name}: ${note}`)),
    ),
  };
}

/** Counts codes without a fresh verdict. */
export function codesToCheck({ codes, reused }: Pick<AuditSize, 'codes' | 'reused'>): number {
  return codes - reused;
}

/** Counts records that repeat the code of an earlier record. */
export function countRepeated({
  lines,
  rejected,
  codes,
}: Pick<AuditSize, 'lines' | 'rejected' | 'codes'>): number {
  return lines - rejected - codes;
}
