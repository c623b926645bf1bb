// Text that spreadsheets run as a formula. Some accept full-width signs or skip leading white space. Leading
// apostrophes match too, so that `unescapeFormula` also restores text that already looks escaped.
const FORMULA = /^'*(?:[\t\r\n]|\s*[=+\-@＝＋－＠])/;
const NUMBER = /^[+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?$/;
const AMOUNT = /^[+-]?[.,]?\d[\d.,]*(?:[eE][+-]?\d+)?$/;
const DECIMAL_COMMA = /^[+-]?\d+,\d+$/;

export interface CsvDialect {
  /** One character. */
  readonly delimiter: string;
  /** Decimal separator of our own number columns. */
  readonly decimal: '.' | ',';
  /** Begin with a byte order mark: Excel needs it to recognise UTF-8. */
  readonly bom: boolean;
}

export const PLAIN_CSV: CsvDialect = { delimiter: ',', decimal: '.', bom: false };

/** For Excel in countries with decimal commas, where it expects semicolons between cells. */
export const COMMA_CSV: CsvDialect = { delimiter: ';', decimal: ',', bom: true };

/** The header line of a CSV file. */
export function csvHead(names: readonly (string | null)[], dialect: CsvDialect): string {
  return (dialect.bom ? '\uFEFF' : '') + csvLine(names, dialect.delimiter);
}

/** A number in the dialect's notation. Other text is returned unchanged. */
export function csvNumber(text: string, { decimal }: CsvDialect): string {
  return decimal === ',' && NUMBER.test(text) ? text.replace('.', ',') : text;
}

/** True for a plain number: not even a negative one is a formula. */
export function isNumberText(text: string): boolean {
  return NUMBER.test(text);
}

/** True for a number as people of any country write it, such as `-1.234,50`. No spreadsheet runs one. */
export function isAmount(text: string): boolean {
  return AMOUNT.test(text);
}

/**
 * Keeps spreadsheets from running text as a formula, by an apostrophe in front. `unescapeFormula` removes
 * the apostrophe.
 */
export function escapeFormula(text: string): string {
  return FORMULA.test(text) ? `'${text}` : text;
}

export function unescapeFormula(cell: string): string {
  return cell.startsWith("'") && FORMULA.test(cell) ? cell.slice(1) : cell;
}

/**
 * One line of CSV (RFC 4180). Null becomes an empty cell, empty text a quoted one. csv-stringify takes four
 * times as long, and writes no line for a single null.
 */
export function csvLine(cells: readonly (string | null)[], delimiter = ','): string {
  const line = cells.map((cell) => (cell === null ? '' : quoted(cell, delimiter))).join(delimiter);
  return `${cells.length === 1 && line === '' ? '""' : line}\r\n`;
}

/**
 * Cells with a comma, semicolon or tab are quoted whatever the delimiter, because spreadsheets split there
 * in some countries. `\.` is quoted because it ends the data in PostgreSQL's COPY. A number with a decimal
 * comma is not quoted: where such a file is read, commas separate nothing.
 */
const NEEDS_QUOTES = /^$|[",;\t\r\n]|^\s|\s$|^\\\.$/;

function quoted(text: string, delimiter: string): string {
  return text.includes(delimiter) || (NEEDS_QUOTES.test(text) && !DECIMAL_COMMA.test(text))
    ? `"${text.replaceAll('"', '""')}"`
    : text;
}

/**
 * Makes column names unique: the second `note` becomes `note_2`, an empty name becomes `column_3`.
 * @param taken names that other columns already have
 */
export function uniqueNames(names: readonly string[], taken: readonly string[] = []): string[] {
  // A column that is already called `note_2` keeps its name.
  const used = new Set([...taken, ...names]);
  const seen = new Set(taken);
  // The next number for each name. Starting at 2 each time would take hours in a wide table.
  const next = new Map<string, number>();
  return names.map((given, index) => {
    const name = given.trim() === '' ? `column_${index + 1}` : given;
    let unique = name;
    let n = next.get(name) ?? 2;
    for (; seen.has(unique) || (unique !== given && used.has(unique)); n++) unique = `${name}_${n}`;
    next.set(name, n);
    seen.add(unique);
    return unique;
  });
}
