import { isUserError, type UserError } from '../../domain/user-error.js';
import type { Secret } from '../../domain/secret.js';
import { quoted } from '../../listing/file-error.js';
import { kindOf, nameRank } from './kinds.js';
import { listed, placesOf, planTable, type TableOptions, type TablePlan } from './table.js';
import { masked, refused, TO_CSV, type Mask, type Reading, type Row } from './types.js';
import { mentions, openWorkbook, type Sheet } from './workbook.js';

interface XlsxOptions extends Pick<TableOptions, 'column'> {
  readonly mask: Mask;
  /** The requested sheet: name or number. */
  readonly sheet: string | undefined;
  readonly keys: readonly Secret[];
}

/**
 * Reads one sheet of an Excel workbook as a list: the requested one, the first with a column of codes, or the first.
 * @throws UserError when the workbook is damaged or has no such sheet, or the column of codes is unclear
 */
export async function readXlsx(bytes: Buffer, options: XlsxOptions): Promise<Reading> {
  const sheets = await openWorkbook(bytes);
  const { sheet, rows, plan, why } = await chooseSheet(sheets, options);
  const { start, ...table } = plan;
  const headerRow = start === 0 ? null : (rows[start - 1]?.line ?? null);
  const holdsKey = await mentions(bytes, options.keys);
  const reason = `The list is ${nameOf(sheet, options)}, ${why}.`;
  return {
    layout: {
      ...table,
      format: 'xlsx',
      encoding: 'utf-8',
      bom: false,
      delimiter: null,
      reasons: [reason, ...table.reasons],
    },
    start,
    rows,
    notes: () => (holdsKey ? [HOLDS_KEY] : []),
    workbook: holdsKey ? null : { sheet: sheet.path, headerRow },
  };
}

const HOLDS_KEY =
  'The workbook holds an API key: its result is a new workbook, with the key masked, not a copy of this one.';

interface PlannedSheet {
  readonly sheet: Sheet;
  readonly rows: readonly Row[];
  readonly plan: TablePlan;
}

/** Sheets that are searched for codes. */
const MOST_SHEETS = 20;

async function chooseSheet(
  sheets: readonly Sheet[],
  options: XlsxOptions,
): Promise<PlannedSheet & { readonly why: string }> {
  if (options.sheet !== undefined) {
    const found = await planSheet(sheetNamed(sheets, options, options.sheet), options);
    return { ...found, why: 'as requested' };
  }
  const visible = sheets.filter(({ hidden }) => !hidden);
  const [first, second] = visible;
  if (first === undefined) {
    const problem = sheets.length === 0 ? 'has no sheet with cells' : 'has only hidden sheets';
    throw refused(`the workbook ${problem}`, listSheets(sheets, options));
  }
  let firstError: UserError | null = null;
  let fallback: PlannedSheet | null = null;
  const reason = (why: string): string => (second === undefined ? 'the only sheet' : why);
  for (const sheet of visible.slice(0, MOST_SHEETS)) {
    try {
      const found = await planSheet(sheet, options);
      const why = sheet === first ? 'the first' : 'the first with a column of codes';
      if (hasCodes(found)) return { ...found, why: reason(why) };
      fallback ??= found;
    } catch (error) {
      if (!isUserError(error, 'FILE')) throw error;
      firstError ??= error;
    }
  }
  if (fallback !== null) return { ...fallback, why: reason('the first that may be a list') };
  if (firstError === null) throw new Error('no sheet was read');
  if (second === undefined) throw firstError;
  const remedy = `${firstError.remedy} ${listSheets(sheets, options)}`;
  throw refused(`${nameOf(first, options)}: ${firstError.message}`, remedy);
}

async function planSheet(sheet: Sheet, { column, mask }: XlsxOptions): Promise<PlannedSheet> {
  const rows = [...masked(await sheet.rows(), mask)];
  const width = rows.reduce((most, { cells }) => Math.max(most, cells.length), 0);
  return { sheet, rows, plan: planTable(rows, { column, width }) };
}

/** False for a single column without a code or a name of one, such as a cover sheet with a title. */
function hasCodes({ plan, rows }: PlannedSheet): boolean {
  const { header, columns, codeColumn, start } = plan;
  if (columns.length > 1 || (header && nameRank(columns[0] ?? '') !== null)) return true;
  return rows.slice(start).some(({ cells }) => kindOf(cells[codeColumn] ?? '') === 'code');
}

function nameOf({ name }: Sheet, { mask }: XlsxOptions): string {
  return `sheet ${quoted(mask(name))}`;
}

function listSheets(sheets: readonly Sheet[], { mask }: XlsxOptions): string {
  if (sheets.length === 0) return TO_CSV;
  return `The sheets are ${listed(sheets.map(({ name }) => mask(name)))}. Choose one with --sheet.`;
}

/** Finds a sheet by its name, else by its number. */
function sheetNamed(sheets: readonly Sheet[], options: XlsxOptions, name: string): Sheet {
  const names = sheets.map((sheet) => sheet.name);
  const [place = Number(name) - 1] = placesOf(names, name);
  const found = sheets[place];
  if (found !== undefined) return found;
  const problem = `there is no sheet ${quoted(options.mask(name))}`;
  throw refused(problem, listSheets(sheets, options));
}
