/** How the lists of an audit were read, as the audit keeps it. Pure. */

import { PLAIN_CSV, type CsvDialect } from '../domain/csv.js';
import type { Json } from '../domain/item.js';
import { isObject } from '../domain/values.js';
import type { List } from './lists/types.js';

/** The layouts of lists, in the form that the audit stores. */
export function layoutJson(lists: readonly List[]): Json {
  return {
    lists: lists.map(({ name, layout: { columns, codeColumn, reasons, ...layout } }) => {
      return { name, ...layout, column: columns[codeColumn] ?? null, reasons: [...reasons] };
    }),
  };
}

/** The name of a result’s file, without an ending: that of the list, such as `customers checked`. */
export function resultName(layout: Json, auditId: bigint): string {
  const { name } = listsIn(layout)[0] ?? {};
  const base = typeof name === 'string' ? name.replace(/\.\w{1,5}$/, '').trim() : '';
  const isFile = base !== '' && !['arguments', 'stdin', 'pasted list'].includes(base);
  return isFile ? `${base} checked` : `check-${auditId}`;
}

/**
 * The CSV dialect of a result: the delimiter of the first list, and a byte order mark if any list had one,
 * was not UTF-8 or is a workbook. Such lists come from spreadsheets, and Excel reads UTF-8 only with the
 * mark.
 */
export function dialectOf(layout: Json): CsvDialect {
  const lists = listsIn(layout);
  const delimiter = lists[0]?.['delimiter'];
  return {
    ...PLAIN_CSV,
    ...(typeof delimiter === 'string' ? { delimiter } : {}),
    bom: lists.some(
      ({ bom, encoding, format }) =>
        bom === true || format === 'xlsx' || (typeof encoding === 'string' && encoding !== 'utf-8'),
    ),
  };
}

/** True if the first list is an Excel workbook. */
export function isWorkbookList(layout: Json): boolean {
  return listsIn(layout)[0]?.['format'] === 'xlsx';
}

/** Describes how the lists of an audit were read: one sentence for each decision. */
export function describeReading(layout: Json): readonly string[] {
  const lists = listsIn(layout);
  return lists.flatMap(({ name, reasons }) => {
    const texts = Array.isArray(reasons) ? reasons.filter((text) => typeof text === 'string') : [];
    return lists.length === 1 ? texts : texts.map((text) => `${JSON.stringify(name)}: ${text}`);
  });
}

function listsIn(layout: Json): readonly { readonly [key: string]: Json }[] {
  if (!isObject(layout) || !Array.isArray(layout['lists'])) return [];
  return layout['lists'].filter(isObject);
}
