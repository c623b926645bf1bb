export { csv, type CsvCell, type CsvOptions } from './formats.js';
export { json, ndjson, ndjsonLine, safeJson, withColumnNames } from './formats.js';
export { Progress, type ProgressOptions } from './progress.js';
export {
  fits,
  pairs,
  RECORD_CHARACTERS,
  table,
  type TableCell,
  type TableColumn,
  type TableOptions,
} from './table.js';
export {
  age,
  bytes,
  count,
  cut,
  duration,
  lookOf,
  momentCell,
  pad,
  paint,
  plural,
  safeLine,
  safeLines,
  width,
  wrap,
  type Look,
  type Output,
  type Style,
} from './text.js';
export { guardStdout, writeAll } from './write.js';
