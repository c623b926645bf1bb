import { cursorText, type FeedCursor } from '../../domain/feed-cursor.js';
import { exportChunks } from '../../export/index.js';
import type { Exported } from '../../store/export-view.js';
import type { ExportableView, Exports } from '../../store/exports.js';
import { printJson, note } from '../console.js';
import { EXIT, type ExitCode } from '../exit-codes.js';
import { bytes as bytesText, plural, Progress, safeLine } from '../output/index.js';
import { writeCursorFile } from './cursor-file.js';
import { cursorOf, isFollowing, prepare, type ExportOptions, type Place } from './request.js';
import { writeOut } from './write-out.js';

/** What an export did. */
interface Report {
  readonly view: string;
  readonly rows: number;
  readonly bytes: number;
  readonly since: FeedCursor | null;
  /** Where to go on from; null for views that are not followed. */
  readonly cursor: FeedCursor | null;
}

/** Exports a view, then writes the cursor to go on from, if there is a file for it. */
export async function runExport(
  exports: Exports,
  view: ExportableView,
  place: Place,
  options: ExportOptions,
  signal: AbortSignal,
): Promise<ExitCode> {
  const scope = { view: view.name, seller: options.seller ?? null };
  const since = await cursorOf(options, scope);
  await prepare(place, options);
  // Only a bar needs to know how much there is, and only a terminal has one.
  const isShown = process.stderr.isTTY && (place.path !== null || !process.stdout.isTTY);
  const request = {
    ...{ view: view.name, since, sellerId: scope.seller },
    ...{ deletions: isFollowing(options), counted: isShown },
  };
  const report = await exports.read(request, (exported) =>
    write(view.name, since, exported, place, options, signal),
  );
  if (report === null) return EXIT.done; // nobody reads any more
  const cursorFile = options.nextCursorFile ?? options.cursorFile;
  if (cursorFile !== undefined && report.cursor !== null) {
    await writeCursorFile(cursorFile, scope, report.cursor);
  }
  await tell(report, place, options);
  return EXIT.done;
}

async function write(
  view: string,
  since: FeedCursor | null,
  { columns, batches, total, cursor }: Exported,
  place: Place,
  options: ExportOptions,
  signal: AbortSignal,
): Promise<Report | null> {
  const progress = new Progress({ output: process.stderr, label: view, total });
  let rows = 0;
  const counted = async function* (): Exported['batches'] {
    for await (const batch of batches) {
      progress.update((rows += batch.length));
      yield batch;
    }
  };
  try {
    const chunks = exportChunks({ columns, batches: counted() }, place.format, {
      raw: options.raw === true,
    });
    const bytes = await writeOut(chunks, place, signal);
    return bytes === null ? null : { view, rows, bytes, since, cursor };
  } finally {
    progress.finish();
  }
}

async function tell(report: Report, place: Place, options: ExportOptions): Promise<void> {
  const { view, rows, bytes, since, cursor } = report;
  if (options.json === true) {
    const text = (one: FeedCursor | null): string | null => (one === null ? null : cursorText(one));
    await printJson({
      ...{ view, sellerId: options.seller ?? null, format: place.format, out: place.path },
      ...{ rows, bytes, since: text(since), cursor: text(cursor) },
    });
    return;
  }
  const what = since === null ? '' : ` since ${cursorText(since)}`;
  const where = place.path === null ? '' : ` → ${safeLine(place.path)}`;
  note(
    `${view}: ${plural(rows, 'row')}${what}${where} (${bytesText(bytes)})${nextText(cursor, options)}\n`,
  );
}

function nextText(cursor: FeedCursor | null, options: ExportOptions): string {
  if (cursor === null) return '';
  const file = options.nextCursorFile ?? options.cursorFile;
  return file === undefined
    ? `; next time: --since ${cursorText(cursor)}`
    : `; cursor ${cursorText(cursor)} → ${safeLine(file)}`;
}
