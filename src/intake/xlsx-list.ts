import { isShortenedNumber, kindOf, nameRank } from './columns.js';
import { isEmpty, planTable } from './csv-list.js';
import { IntakeError, TO_CSV, shown } from './types.js';
import type { IntakeRow, Reading, Sample, Tally } from './types.js';
import {
  WORKBOOK_BOUNDS,
  openWorkbook,
  type Sheet,
  type SheetCell,
  type SheetRow,
} from './workbook.js';

/** The rest of `Sample` is for text. */
type Wanted = Pick<Sample, 'column' | 'maxLength' | 'mask'> & {
  readonly sheet: string | undefined;
  readonly maxBytes: number | undefined;
};

/**
 * Reads one sheet of an Excel workbook as a list: the one asked for, or the first that shows a column of
 * codes, or the first.
 * @throws IntakeError when it is no sound workbook, has no such sheet, or the column of codes is not clear
 */
export async function readXlsx(
  source: AsyncIterable<Uint8Array>,
  wanted: Wanted,
): Promise<Reading> {
  const maxBytes = Math.min(wanted.maxBytes ?? Infinity, WORKBOOK_BOUNDS.file);
  const sheets = await openWorkbook(await wholeOf(source, maxBytes), wanted.maxLength);
  const { plan, reason } = await chooseSheet(sheets, wanted);
  const { sheet, table, first } = plan;
  return {
    ...table,
    format: 'xlsx',
    encoding: 'utf-8',
    bom: false,
    delimiter: null,
    reasons: [reason, ...table.reasons],
    first: first.map((row) => rowOf(row, plan)),
    rows: (tally) => rowsOf(sheet, plan, tally),
  };
}

async function wholeOf(source: AsyncIterable<Uint8Array>, maxBytes: number): Promise<Buffer> {
  const parts: Uint8Array[] = [];
  let size = 0;
  for await (const bytes of source) {
    parts.push(bytes);
    if ((size += bytes.length) <= maxBytes) continue;
    const most = `${Math.round(maxBytes / 1024 ** 2)} MiB`;
    throw new IntakeError(`a workbook may not be larger than ${most}`, TO_CSV);
  }
  return Buffer.concat(parts);
}

interface SheetPlan {
  readonly sheet: Sheet;
  readonly table: ReturnType<typeof planTable>;
  /** The first rows without the header. */
  readonly first: readonly SheetRow[];
  /** The row of the header; 0 without one. */
  readonly headerRow: number;
}

/** Sheets among which the one with the codes is looked for. */
const MOST_SHEETS = 20;

async function chooseSheet(sheets: readonly Sheet[], wanted: Wanted) {
  const visible = sheets.filter(({ hidden }) => !hidden);
  const [first, second] = visible;
  if (wanted.sheet !== undefined) {
    const plan = await planSheet(sheetNamed(sheets, wanted, wanted.sheet), wanted);
    return { plan, reason: `The list is ${placeOf(plan.sheet, wanted)}, as asked for.` };
  }
  if (first === undefined) {
    const problem = sheets.length === 0 ? 'has no sheet with cells' : 'has only hidden sheets';
    throw new IntakeError(`the workbook ${problem}`, namesOf(sheets, wanted));
  }
  let fault: unknown = null;
  let other: SheetPlan | null = null;
  for (const sheet of visible.slice(0, MOST_SHEETS)) {
    try {
      const plan = await planSheet(sheet, wanted);
      if (!showsCodes(plan)) {
        other ??= plan;
        continue;
      }
      const why =
        second === undefined
          ? 'the only one there is'
          : sheet === first
            ? 'the first'
            : 'the first that has a column of codes';
      return { plan, reason: `The list is ${placeOf(sheet, wanted)}, ${why}.` };
    } catch (error) {
      if (!(error instanceof IntakeError)) throw error;
      fault ??= error;
    }
  }
  if (other !== null) {
    const why = second === undefined ? 'the only one there is' : 'the first that may be a list';
    return { plan: other, reason: `The list is ${placeOf(other.sheet, wanted)}, ${why}.` };
  }
  if (second === undefined || !(fault instanceof IntakeError)) throw fault;
  const problem = `${placeOf(first, wanted)}: ${fault.message}`;
  throw new IntakeError(problem, `${fault.remedy} ${namesOf(sheets, wanted)}`);
}

/** False where codes are expected in the only column there is, as that of a cover sheet with a title. */
function showsCodes({ table: { header, columns, codeColumn }, first }: SheetPlan): boolean {
  if (columns.length > 1 || (header && nameRank(columns[0] ?? '') !== null)) return true;
  return first.some(({ cells }) =>
    cells.some(({ column, text }) => column === codeColumn && kindOf(text) === 'code'),
  );
}

function placeOf({ name }: Sheet, { mask }: Wanted): string {
  return `sheet ${shown(mask(name))}`;
}

function namesOf(sheets: readonly Sheet[], { mask }: Wanted): string {
  if (sheets.length === 0) return TO_CSV;
  const names = sheets.slice(0, MOST_SHEETS).map(({ name }) => shown(mask(name)));
  const more = sheets.length > MOST_SHEETS ? ` and ${sheets.length - MOST_SHEETS} more` : '';
  return `The sheets are ${names.join(', ')}${more}: say which with --sheet.`;
}

/** An exact name beats one in another letter case, and that a number. */
function sheetNamed(sheets: readonly Sheet[], wanted: Wanted, name: string): Sheet {
  const lower = name.trim().toLowerCase();
  const found =
    sheets.find((sheet) => sheet.name === name) ??
    sheets.find((sheet) => sheet.name.trim().toLowerCase() === lower) ??
    (/^\d+$/.test(lower) ? sheets[Number(lower) - 1] : undefined);
  if (found !== undefined) return found;
  throw new IntakeError(`there is no sheet ${shown(wanted.mask(name))}`, namesOf(sheets, wanted));
}

/** What is read of a sheet to find header and columns. */
const SAMPLE_ROWS = 1000;
const SAMPLE_CHARACTERS = 256 * 1024;
const SAMPLE_BATCHES = 64;

/** Cells of a row: more are not a list, and each row would have all of them. */
const MOST_COLUMNS = 1000;

async function planSheet(sheet: Sheet, { column, mask }: Wanted): Promise<SheetPlan> {
  const rows: SheetRow[] = [];
  let characters = 0;
  let batches = 0;
  let whole = true;
  sampling: for await (const batch of sheet.rows()) {
    for (const row of batch) {
      if (row.cells.every(({ text }) => text.trim() === '')) continue;
      rows.push(row);
      characters += row.cells.reduce((sum, { text }) => sum + text.length, 0);
      whole = rows.length < SAMPLE_ROWS && characters < SAMPLE_CHARACTERS;
      if (!whole) break sampling;
    }
    whole = ++batches < SAMPLE_BATCHES;
    if (!whole) break;
  }
  const width = rows.reduce((most, { cells }) => Math.max(most, widthOf(cells)), 0);
  if (width > MOST_COLUMNS) {
    throw new IntakeError(`a list may have ${MOST_COLUMNS} columns, and this has ${width}`, TO_CSV);
  }
  const cells = rows.map((row) => cellsOf(row, width).map(mask));
  const table = planTable(cells, whole, column);
  const [header] = rows;
  return table.header && header !== undefined
    ? { sheet, table, first: rows.slice(1), headerRow: header.number }
    : { sheet, table, first: rows, headerRow: 0 };
}

function widthOf(cells: readonly SheetCell[]): number {
  return (cells.findLast(({ text }) => text.trim() !== '')?.column ?? -1) + 1;
}

function cellsOf({ cells }: SheetRow, width: number): string[] {
  const all = Array.from({ length: width }, () => '');
  for (const { column, text } of cells) if (column < width) all[column] = text;
  return all;
}

async function* rowsOf(
  sheet: Sheet,
  plan: SheetPlan,
  tally: Tally,
): AsyncGenerator<readonly IntakeRow[], void, undefined> {
  const width = plan.table.columns.length;
  let wide = 0;
  for await (const batch of sheet.rows()) {
    const rows: IntakeRow[] = [];
    for (const row of batch) {
      if (row.number <= plan.headerRow) continue;
      const found = rowOf(row, plan);
      const surplus = widthOf(row.cells) > width;
      if (isEmpty(found.columns) && !surplus && !row.tooLong) {
        tally.blankLines++;
        continue;
      }
      if (surplus) wide++;
      rows.push(found);
    }
    yield rows;
  }
  if (wide > 0) {
    tally.notes.push(
      `${wide} of the rows have cells to the right of the table: these are left out.`,
    );
  }
}

function rowOf(row: SheetRow, { table }: Pick<SheetPlan, 'table'>): IntakeRow {
  const { number: line, cells } = row;
  const columns = cellsOf(row, table.columns.length);
  if (row.tooLong) return { line, rejected: 'is longer than a record may be', columns };
  const cell = cells.find(({ column }) => column === table.codeColumn);
  const rejected = cell === undefined ? null : faultOf(cell);
  return rejected === null
    ? { line, text: cell?.text ?? '', columns }
    : { line, rejected, columns };
}

/** Why a cell can't hold a code as it was given; null when it can. */
function faultOf({ kind, text }: SheetCell): string | null {
  switch (kind) {
    case 'text':
      return null;
    case 'number':
      // Excel keeps 15 digits.
      return isShortenedNumber(text) || text.replace(/\D/g, '').length >= 15
        ? 'Excel has shortened this number'
        : 'Excel has made a number of this code, which loses leading zeros and digits: format the cell as text, and enter the code again';
    case 'date':
      return 'Excel has made a date of this code: format the cell as text, and enter the code again';
    case 'boolean':
      return 'the cell holds TRUE or FALSE in place of a code';
    case 'error':
      return 'the cell holds an error of Excel in place of a code';
    case 'unsolved':
      return 'the cell holds a formula without its result: open the workbook in Excel and save it';
  }
}
