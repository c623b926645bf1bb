import { setFlagsFromString } from 'node:v8';
import { describeCodeFault, readCode } from '../../domain/codes/code.js';
import type { IntakeRow } from '../../intake/index.js';
import type { AuditLoader, AuditRow } from '../../store/audits/types.js';
import type { OpenList } from './lists.js';

/** A record that holds no code. */
export interface RejectedLine {
  readonly list: string;
  /** `line 5`; `record 3` where several share a line. */
  readonly place: string;
  readonly why: string;
}

/** What the lists came to while they were read. */
export interface LoadReport {
  readonly rows: number;
  readonly rejected: number;
  readonly blankLines: number;
  /** The first ones; all of them are in the result. */
  readonly firstRejected: readonly RejectedLine[];
  /** What had to be tolerated, as sentences. */
  readonly notes: readonly string[];
}

export interface LoadEvents {
  /** Told after each batch. */
  readonly onRows?: (list: OpenList, rows: number) => void;
}

/** As many as a person reads. */
export const SHOWN_REJECTED = 20;

/**
 * Takes all lists into the store as if they were one: the lines of the second are numbered on from
 * the last one of the first. Each record has a number of its own, also where several share a line,
 * as they may in JSON.
 * @throws {IntakeError} when a list breaks off or can't be read further
 */
export async function loadLists(
  lists: readonly OpenList[],
  loader: Pick<AuditLoader, 'add'>,
  signal: AbortSignal,
  events: LoadEvents = {},
): Promise<LoadReport> {
  // V8 learns that places whose objects once lived for long make such, and puts all further ones from
  // there among the old, where they wait for a full collection: 70 MB of lines that were done with.
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
