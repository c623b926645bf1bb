import { nameRank } from './column-names.js';
import { findDelimiter, firstLines, firstRecords } from './csv-layout.js';
import { decodeJson } from './json-value.js';
import type { Sample } from './row.js';
import { shown } from './shown.js';
import type { Format } from './types.js';

export interface FormatFound {
  readonly format: Format;
  readonly reason: string;
}

const BY_ENDING: Readonly<Record<string, Format>> = {
  ...{ csv: 'csv', tsv: 'csv', tab: 'csv', psv: 'csv' },
  ...{ json: 'json', ndjson: 'ndjson', jsonl: 'ndjson', jsonlines: 'ndjson' },
};

/**
 * Share of the first records that a separator must cut for them to be CSV. Low, since a table that
 * is read as lines would have every line asked as a code; the other mistake is found at once.
 */
const SOME_CUT = 0.5;

/**
 * The format of a list: the one asked for, or what its content can only be, or what its name says.
 * A `.txt` may be anything, since Excel saves tables under that name.
 * @param name of the file, or `stdin`
 */
export function findFormat(sample: Sample, name: string, asked: Format | undefined): FormatFound {
  if (asked !== undefined) return { format: asked, reason: `Read as ${asked}, as asked for.` };
  const ending = /\.([a-z]+)$/i.exec(name.replace(/\.gz$/i, ''))?.[1]?.toLowerCase() ?? '';
  const named = BY_ENDING[ending] ?? null;
  const json = jsonKind(sample, named);
  if (json !== null && json !== named) {
    return { format: json, reason: `Read as ${json}, because that is what its beginning is.` };
  }
  if (named !== null) {
    return {
      format: named,
      reason: `Read as ${named}, because its name ends in ${shown(ending)}.`,
    };
  }
  return hasCells(sample)
    ? { format: 'csv', reason: 'Read as csv, because its lines have several cells.' }
    : { format: 'txt', reason: 'Read as txt, because its lines have a single value.' };
}

function hasCells(sample: Sample): boolean {
  const lines = firstLines(sample);
  const { delimiter, cutting, line } = findDelimiter(lines, sample.most);
  if (cutting >= SOME_CUT) return true;
  const [first] = firstRecords(lines.slice(line), delimiter, sample.most, sample.whole);
  const cells = first?.cells ?? [];
  return cells.length > 1 && cells.some((cell) => nameRank(cell) !== null);
}

/** Whether the text is one JSON document or one value a line; null when it isn't JSON at all. */
function jsonKind({ text }: Sample, named: Format | null): 'json' | 'ndjson' | null {
  const start = text.trimStart();
  if (/^\[\s*(?:["{[\]\d-]|true|false|null)/.test(start)) return 'json';
  if (!/^\{\s*["}]/.test(start)) return null;
  if (named === 'ndjson') return 'ndjson';
  const end = start.search(/[\r\n]/);
  const first = decodeJson(end < 0 ? start : start.slice(0, end));
  if (first.kind !== 'object') return 'json';
  const isAlone = end < 0 || start.slice(end).trim() === '';
  const hasList = [...first.fields.values()].some((field) => /^\[(?:"|\{)/.test(field.text));
  return isAlone && hasList ? 'json' : 'ndjson';
}
