import { isExact } from '../domain/exact-number.js';
import { isoMoment } from '../export/values.js';
import { textsOf, type QueryColumn } from '../store/read-only.js';
import { safeJson } from './output/index.js';

/**
 * Writes rows of a query as JSON objects, one line each. Decimals are text with all their digits,
 * since money is no double; other numbers are numbers where every reader gets their exact value, else
 * text. Columns of one name get `_2`, `_3` and so on.
 */
export class RowJson {
  readonly #columns: readonly QueryColumn[];
  readonly #names: readonly string[];

  constructor(columns: readonly QueryColumn[]) {
    this.#columns = columns;
    this.#names = distinct(columns.map(({ name }) => name)).map((name) => JSON.stringify(name));
  }

  object(row: readonly (string | null)[]): string {
    const members = this.#columns.map(
      ({ type }, index) => `${this.#names[index]}:${valueOf(row[index] ?? null, type)}`,
    );
    return safeJson(`{${members.join(',')}}`);
  }
}

function valueOf(text: string | null, type: QueryColumn['type']): string {
  if (text === null) return 'null';
  switch (type) {
    case 'boolean':
      return text === 't' ? 'true' : 'false';
    case 'number':
      return isExact(text) ? text : JSON.stringify(text);
    case 'json':
      // As it is, since reading it would round its numbers. Within its texts line ends are escaped.
      return text.replaceAll(/[\t\r\n]/g, ' ');
    case 'texts':
      return JSON.stringify(textsOf(text));
    case 'moment':
      return JSON.stringify(isoMoment(text));
    case 'decimal':
    case 'text':
      return JSON.stringify(text);
  }
}

function distinct(names: readonly string[]): string[] {
  const taken = new Set<string>();
  return names.map((name) => {
    let free = name;
    for (let number = 2; taken.has(free); number++) free = `${name}_${number}`;
    taken.add(free);
    return free;
  });
}
