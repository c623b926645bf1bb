// Text that spreadsheets run as a formula: with wide forms of the signs, with or without spaces before
// it; also text that begins with a tab or a line end, which some of them skip. Apostrophes count as
// well, so that `unescapeFormula` also restores text that already looks escaped.
const FORMULA = /^'*(?:[\t\r\n]|\s*[=+\-@＝＋－＠])/;
const NUMBER = /^[+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?$/;
const AMOUNT = /^[+-]?[.,]?\d[\d.,]*(?:[eE][+-]?\d+)?$/;
const DECIMAL_COMMA = /^[+-]?\d+,\d+$/;

/** How CSV is written for whoever reads it. */
export interface CsvDialect {
  /** One character between cells. */
  readonly delimiter: string;
  /** What decimals of our own number columns come after. */
  readonly decimal: '.' | ',';
  /** Begin with a byte order mark, without which Excel reads UTF-8 wrongly. */
  readonly bom: boolean;
}

export const PLAIN_CSV: CsvDialect = { delimiter: ',', decimal: '.', bom: false };

/** For an Excel of a country with decimal commas: it expects semicolons between cells. */
export const COMMA_CSV: CsvDialect = { delimiter: ';', decimal: ',', bom: true };

/** The beginning of a file of CSV: the names of its columns. */
export function csvHead(names: readonly (string | null)[], dialect: CsvDialect): string {
  return (dialect.bom ? '\uFEFF' : '') + csvLine(names, dialect.delimiter);
}

/** Writes a number, such as PostgreSQL's text of one; text that is none stays as it is. */
export function csvNumber(text: string, { decimal }: CsvDialect): string {
  return decimal === ',' && NUMBER.test(text) ? text.replace('.', ',') : text;
}

/** True for a plain number, also a negative one, which no spreadsheet runs as a formula. */
export function isNumberText(text: string): boolean {
  return NUMBER.test(text);
}

/** True for a number as people of any country write it, such as `-1.234,50`. No spreadsheet runs one. */
export function isAmount(text: string): boolean {
  return AMOUNT.test(text);
}

/**
 * Text as a CSV cell that no spreadsheet runs: a formula gets an apostrophe in front, which marks text
 * in spreadsheets. `unescapeFormula` takes it off again.
 */
export function escapeFormula(text: string): string {
  return FORMULA.test(text) ? `'${text}` : text;
}

export function unescapeFormula(cell: string): string {
  return cell.startsWith("'") && FORMULA.test(cell) ? cell.slice(1) : cell;
}

/**
 * One line of CSV (RFC 4180). Null is an empty cell, an empty text a quoted one. Not by a library: that takes
 * four times as long and writes a single null as no line at all.
 */
export function csvLine(cells: readonly (string | null)[], delimiter = ','): string {
  const line = cells.map((cell) => (cell === null ? '' : quoted(cell, delimiter))).join(delimiter);
  return `${cells.length === 1 && line === '' ? '""' : line}\r\n`;
}

/**
 * Cells with a comma, semicolon or tab are quoted whatever the delimiter: spreadsheets of many
 * countries split there. So is `\.`, which ends the data for PostgreSQL's COPY. A number with a decimal
 * comma is not: a file of them is for countries where commas separate nothing.
 */
const NEEDS_QUOTES = /^$|[",;\t\r\n]|^\s|\s$|^\\\.$/;

function quoted(text: string, delimiter: string): string {
  return text.includes(delimiter) || (NEEDS_QUOTES.test(text) && !DECIMAL_COMMA.test(text))
    ? `"${text.replaceAll('"', '""')}"`
    : text;
}

/**
 * Makes the names of columns unique: the second `note` becomes `note_2`, an empty name `column_3`.
 * @param taken names that other columns have already
 */
export function uniqueNames(names: readonly string[], taken: readonly string[] = []): string[] {
  // Given names come first: a `note_2` of the list keeps its name.
  const used = new Set([...taken, ...names]);
  const seen = new Set(taken);
  // The next number for each name: to begin at 2 again would take hours in a wide table.
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
