import type { Exported } from '../store/export-view.js';
import { csvChunks } from './csv.js';
import { ndjsonChunks } from './ndjson.js';
import { parquetChunks } from './parquet.js';

export const EXPORT_FORMATS = ['csv', 'ndjson', 'parquet'] as const;
export type ExportFormat = (typeof EXPORT_FORMATS)[number];

/**
 * An export as a file of a format, in chunks, in bounded memory whatever its size.
 * @param raw in CSV, leaves text as it is, for readers that are no spreadsheets
 */
export function exportChunks(
  { columns, batches }: Pick<Exported, 'columns' | 'batches'>,
  format: ExportFormat,
  options: { readonly raw: boolean },
): AsyncIterable<string | Uint8Array> {
  switch (format) {
    case 'csv':
      return csvChunks(columns, batches, options);
    case 'ndjson':
      return ndjsonChunks(columns, batches);
    case 'parquet':
      return parquetChunks(columns, batches);
  }
}
