import { readFileSync } from 'node:fs';
import type { ChangeCursor } from '../../../src/reporting/change-cursor.js';
import { exportChunks, type ExportFormat } from '../../../src/reporting/export.js';
import {
  type ExportColumn,
  type ExportRequest,
  withExports,
} from '../../../src/reporting/exports.js';

const never = new AbortController().signal;

/** An export in memory. */
export interface Export {
  readonly columns: readonly ExportColumn[];
  readonly bytes: Buffer;
  readonly cursor: ChangeCursor | null;
}

/** Exports a view as the command does. */
export function exportView(
  url: string,
  view: string,
  since: ChangeCursor | null,
  format: ExportFormat = 'ndjson',
  options: Partial<ExportRequest> & { readonly raw?: boolean } = {},
): Promise<Export> {
  const { raw = true, ...rest } = options;
  return withExports(url, never, (exports) =>
    exports.read(
      { view, since, deletions: true, sellerIds: null, counted: false, ...rest },
      async (exported) => {
        const parts: Buffer[] = [];
        for await (const chunk of exportChunks(exported, format, { raw })) {
          parts.push(Buffer.from(chunk as string));
        }
        const { columns, cursor } = exported;
        return { columns, cursor, bytes: Buffer.concat(parts) };
      },
    ),
  );
}

/** Lines of an export in NDJSON. */
export function linesOf({ bytes }: Export): string[] {
  return bytes.toString('utf8').split('\n').slice(0, -1);
}

/** The SQL block of docs/feeds.md with this name. */
export function documented(name: string): string {
  const text = readFileSync(new URL('../../../docs/feeds.md', import.meta.url), 'utf8');
  const [, block] = new RegExp(`^\`\`\`sql ${name}\n(.*?)^\`\`\``, 'ms').exec(text) ?? [];
  if (block === undefined) throw new Error(`docs/feeds.md has no block ${name}`);
  return block;
}
