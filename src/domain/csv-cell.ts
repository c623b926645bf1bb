// What spreadsheets take for a formula, their wide forms included, with or without spaces before
// it; and cells that begin with a tab or a line end, behind which some of them look for one.
// Apostrophes count as well: text that looks guarded already must not be mistaken for ours.
const FORMULA = /^'*(?:[\t\r\n]|\s*[=+\-@＝＋－＠])/;
const NUMBER = /^[+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?$/;

/** True for what a spreadsheet reads as a plain number, a negative one too: never a formula. */
export function isNumberText(text: string): boolean {
  return NUMBER.test(text);
}

/**
 * Text as a CSV cell that no spreadsheet runs: what looks like a formula gets an apostrophe in
 * front, the mark with which spreadsheets themselves write text. `unguarded` takes it off again.
 */
export function guarded(text: string): string {
  return FORMULA.test(text) ? `'${text}` : text;
}

/** What `guarded` was given. */
export function unguarded(cell: string): string {
  return cell.startsWith("'") && FORMULA.test(cell) ? cell.slice(1) : cell;
}
