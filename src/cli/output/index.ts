export { csv, csvLine, type CsvCell, type CsvOptions } from './csv.js';
export { age, bytes, count, duration, momentCell, plural } from './human.js';
export { json, ndjson, ndjsonLine, safeJson } from './json.js';
export { Progress, type ProgressOptions } from './progress.js';
export { pairs, table, type TableCell, type TableColumn } from './table.js';
export { lookOf, paint, type Look, type Output, type Style } from './terminal.js';
export { cut, pad, safeLine, safeLines, width } from './text.js';
export { guardStdout, writeAll } from './write.js';
