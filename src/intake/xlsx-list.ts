import { isShortenedNumber, kindOf, nameRank, SHORTENED_NUMBER } from './columns.js';
import { isEmpty, planTable } from './csv-list.js';
import { FileError, TO_CSV, quoted } from './types.js';
import type { UncheckedRow, Reading, Sample, Tally } from './types.js';
import {
  WORKBOOK_BOUNDS,
  openWorkbook,
  type Sheet,
  type SheetCell,
  type SheetRow,
} from './workbook.js';

type XlsxOptions = Pick<Sample, 'column' | 'maxLength' | 'mask'> & {
  /** The requested sheet: name or number. */
  readonly sheet: string | undefined;
  readonly maxBytes: number | undefined;
};

/**
 * Reads one sheet of an Excel workbook as a list: the requested one, the first with a column of codes, or the first.
 * @throws FileError when the workbook is damaged or has no such sheet, or the column of codes is unclear
 */
export async function readXlsx(
  source: AsyncIterable<Uint8Array>,
  options: XlsxOptions,
): Promise<Reading> {
  const maxBytes = Math.min(options.maxBytes ?? Infinity, WORKBOOK_BOUNDS.file);
  const sheets = await openWorkbook(await readWhole(source, maxBytes), options.maxLength);
  const { plan, reason } = await chooseSheet(sheets, options);
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

async function readWhole(source: AsyncIterable<Uint8Array>, maxBytes: number): Promise<Buffer> {
  const parts: Uint8Array[] = [];
  let size = 0;
  for await (const bytes of source) {
    parts.push(bytes);
    if ((size += bytes.length) <= maxBytes) continue;
    const most = `${Math.round(maxBytes / 1024 ** 2)} MiB`;
    throw new FileError(`a workbook may not be larger than ${most}`, TO_CSV);
  }
  return Buffer.concat(parts);
}

interface SheetPlan {
  readonly sheet: Sheet;
  readonly table: ReturnType<typeof planTable>;
  /** The first rows, without the header. */
  readonly first: readonly SheetRow[];
  /** Number of the header's row, or 0 without a header. */
  readonly headerRow: number;
}

/** Sheets that are searched for codes, and named in messages. */
const MOST_SHEETS = 20;

async function chooseSheet(sheets: readonly Sheet[], options: XlsxOptions) {
  const visible = sheets.filter(({ hidden }) => !hidden);
  const [first, second] = visible;
  if (options.sheet !== undefined) {
    const plan = await planSheet(sheetNamed(sheets, options, options.sheet), options);
    return { plan, reason: `The list is ${sheetName(plan.sheet, options)}, as requested.` };
  }
  if (first === undefined) {
    const problem = sheets.length === 0 ? 'has no sheet with cells' : 'has only hidden sheets';
    throw new FileError(`the workbook ${problem}`, listSheets(sheets, options));
  }
  let firstError: FileError | null = null;
  let fallback: SheetPlan | null = null;
  const chosen = (plan: SheetPlan, why: string) => {
    const reason = second === undefined ? 'the only sheet' : why;
    return { plan, reason: `The list is ${sheetName(plan.sheet, options)}, ${reason}.` };
  };
  for (const sheet of visible.slice(0, MOST_SHEETS)) {
    try {
      const plan = await planSheet(sheet, options);
      if (hasCodes(plan)) {
        return chosen(plan, sheet === first ? 'the first' : 'the first with a column of codes');
      }
      fallback ??= plan;
    } catch (error) {
      if (!(error instanceof FileError)) throw error;
      firstError ??= error;
    }
  }
  if (fallback !== null) return chosen(fallback, 'the first that may be a list');
  if (firstError === null) throw new Error('no sheet was read');
  if (second === undefined) throw firstError;
  const problem = `${sheetName(first, options)}: ${firstError.message}`;
  throw new FileError(problem, `${firstError.remedy} ${listSheets(sheets, options)}`);
}

/** False for a single column without a code or a name of one, such as a cover sheet with a title. */
function hasCodes({ table: { header, columns, codeColumn }, first }: SheetPlan): boolean {
  if (columns.length > 1 || (header && nameRank(columns[0] ?? '') !== null)) return true;
  return first.some(({ cells }) =>
    cells.some(({ column, text }) => column === codeColumn && kindOf(text) === 'code'),
  );
}

function sheetName({ name }: Sheet, { mask }: XlsxOptions): string {
  return `sheet ${quoted(mask(name))}`;
}

function listSheets(sheets: readonly Sheet[], { mask }: XlsxOptions): string {
  if (sheets.length === 0) return TO_CSV;
  const names = sheets.slice(0, MOST_SHEETS).map(({ name }) => quoted(mask(name)));
  const more = sheets.length > MOST_SHEETS ? ` and ${sheets.length - MOST_SHEETS} more` : '';
  return `The sheets are ${names.join(', ')}${more}. Choose one with --sheet.`;
}

/** Finds a sheet by its exact name, else by its name in another letter case, else by its number. */
function sheetNamed(sheets: readonly Sheet[], options: XlsxOptions, name: string): Sheet {
  const lower = name.trim().toLowerCase();
  const found =
    sheets.find((sheet) => sheet.name === name) ??
    sheets.find((sheet) => sheet.name.trim().toLowerCase() === lower) ??
    (/^\d+$/.test(lower) ? sheets[Number(lower) - 1] : undefined);
  if (found !== undefined) return found;
  const problem = `there is no sheet ${quoted(options.mask(name))}`;
  throw new FileError(problem, listSheets(sheets, options));
}

/** How much of a sheet is read to find header and columns. */
const SAMPLE_ROWS = 1000;
const SAMPLE_CHARACTERS = 256 * 1024;
const SAMPLE_BATCHES = 64;

/** Most columns of a list. Each row has a cell for every column, so more would cost too much memory. */
const MOST_COLUMNS = 1000;

async function planSheet(sheet: Sheet, { column, mask }: XlsxOptions): Promise<SheetPlan> {
  const rows: SheetRow[] = [];
  let characters = 0;
  let batches = 0;
  let whole = true;
  sampling: for await (const batch of sheet.rows()) {
    for (const row of batch) {
      if (row.cells.every(isBlank)) continue;
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
    const problem = `a list may have at most ${MOST_COLUMNS} columns, and this one has ${width}`;
    throw new FileError(problem, TO_CSV);
  }
  const cells = rows.map((row) => cellsOf(row, width).map(mask));
  const table = planTable(cells, whole, column);
  const [header] = rows;
  return table.header && header !== undefined
    ? { sheet, table, first: rows.slice(1), headerRow: header.number }
    : { sheet, table, first: rows, headerRow: 0 };
}

function widthOf(cells: readonly SheetCell[]): number {
  return (cells.findLast((cell) => !isBlank(cell))?.column ?? -1) + 1;
}

/** A formula without its result has an empty text, but may be a code. */
function isBlank({ kind, text }: SheetCell): boolean {
  return kind !== 'unsolved' && text.trim() === '';
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
): AsyncGenerator<readonly UncheckedRow[], void, undefined> {
  const width = plan.table.columns.length;
  let wide = 0;
  for await (const batch of sheet.rows()) {
    const rows: UncheckedRow[] = [];
    for (const row of batch) {
      if (row.number <= plan.headerRow) continue;
      const found = rowOf(row, plan);
      const surplus = widthOf(row.cells) > width;
      if (isEmpty(found.columns) && !surplus && !('rejected' in found)) {
        tally.blankLines++;
        continue;
      }
      if (surplus) wide++;
      rows.push(found);
    }
    yield rows;
  }
  if (wide > 0) {
    tally.notes.push(`${wide} of the rows have cells right of the table: they are left out.`);
  }
}

function rowOf(row: SheetRow, { table }: Pick<SheetPlan, 'table'>): UncheckedRow {
  const { number: line, cells } = row;
  const columns = cellsOf(row, table.columns.length);
  if (row.tooLong) return { line, rejected: 'is longer than a record may be', columns };
  const cell = cells.find(({ column }) => column === table.codeColumn);
  const rejected = cell === undefined ? null : faultOf(cell);
  if (rejected !== null) return { line, rejected, columns };
  return { line, text: cell?.text ?? '', columns };
}

/** Why the cell's value can't be the original code, or null if it can. */
function faultOf({ kind, text }: SheetCell): string | null {
  switch (kind) {
    case 'text':
      return null;
    case 'number':
      // Excel keeps 15 digits.
      return isShortenedNumber(text) || text.replace(/\D/g, '').length >= 15
        ? SHORTENED_NUMBER
        : 'Excel has converted this code to a number, which loses leading zeros and digits: format the cell as text and enter the code again';
    case 'date':
      return 'Excel has converted this code to a date: format the cell as text and enter the code again';
    case 'boolean':
      return 'the cell has TRUE or FALSE instead of a code';
    case 'error':
      return 'the cell has an Excel error instead of a code';
    case 'unsolved':
      return 'the cell has a formula without its result: open the workbook in Excel and save it';
  }
}
