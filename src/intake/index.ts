export { IntakeError } from './types.js';
export { doubtOf, type Doubt } from './columns.js';
export { readCodes } from './read-codes.js';
export {
  RESULT_COLUMNS,
  RESULT_FORMATS,
  resultWriter,
  type ResultColumn,
  type ResultFormat,
  type ResultOptions,
  type ResultRow,
  type ResultWriter,
} from './results.js';
export { openSource } from './source.js';
export {
  FORMATS,
  type Encoding,
  type Format,
  type Intake,
  type IntakeOptions,
  type IntakeRow,
  type Layout,
  type RejectedRow,
  type TakenRow,
  type Tally,
} from './types.js';
export { assertWritable, writeWhole, type WriteOptions } from './write-whole.js';
