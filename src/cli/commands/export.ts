import { InvalidArgumentError, Option, type Command } from 'commander';
import { editDistance } from '../../config/nearest.js';
import { cursorText, parseCursor, type FeedCursor } from '../../domain/feed-cursor.js';
import { EXPORT_FORMATS, exportChunks, type ExportFormat } from '../../export/index.js';
import { writeWhole } from '../../intake/index.js';
import {
  type Exported,
  type ExportableView,
  type Exports,
  withExports,
} from '../../store/exports.js';
import { FOLLOWED_VIEWS } from '../../store/feed-rules.js';
import { note, print, printJson, stdoutLook } from '../console.js';
import { usageError, type CommandError } from '../errors.js';
import { execute, withApp } from '../execute.js';
import { EXIT, type ExitCode } from '../exit-codes.js';
import {
  cursorOf,
  isFollowing,
  placeOf,
  prepareFiles,
  type ExportOptions,
  type Place,
  writeCursorFile,
} from '../export-options.js';
import { withCommonOptions } from '../options.js';
import { safeJson } from '../output/formats.js';
import { Progress } from '../output/progress.js';
import { table } from '../output/table.js';
import { bytes as bytesText, plural, safeLine, safeLines } from '../output/text.js';
import { writeAll } from '../output/write.js';

const HELP = `
CSV is RFC 4180: NULL is an empty cell, an empty text "". Text that a spreadsheet would take for a
formula gets an apostrophe in front; for databases, --raw leaves it as it is. NDJSON and Parquet are
always exact. A file is written whole or not at all.

Views with a key can be followed: with --since, or a cursor file, only rows written after the cursor
come, and a column _deleted marks deleted ones. No row is missed while others write; a row may come
again, so load rows by their key. A cursor file is read first, and written after the export.

Examples:
  $ seller-mirror export
  $ seller-mirror export purchases --out purchases.parquet
  $ seller-mirror export items --raw --since 4711 --out changed.csv
  $ seller-mirror export items --format ndjson --cursor-file items.cursor | gzip > "items-$(date +%F).ndjson.gz"`;

/** `export VIEW`: rows of a view for other databases and programs. */
export function addExport(program: Command): void {
  const command = program
    .command('export')
    .description(
      'Writes the rows of a view of schema reporting, all as of one moment. Without a view, lists the views.',
    )
    .argument('[view]', 'the view, such as items')
    .addOption(
      new Option('--format <format>', 'by default the ending of --out, else csv').choices(
        EXPORT_FORMATS,
      ),
    )
    .option('--out <file>', 'the file; - is stdout (default: -)')
    .addOption(
      new Option('--since <cursor>', 'only what was written after this cursor').argParser(
        cursorArgument,
      ),
    )
    .addOption(
      new Option(
        '--cursor-file <file>',
        'start after the cursor in this file, then write the next one into it',
      ).conflicts('since'),
    )
    .option('--next-cursor-file <file>', 'write the next cursor here instead')
    .option('--raw', 'in CSV, leave text that looks like a formula as it is')
    .addHelpText('after', HELP);
  withCommonOptions(command, { seller: true }).action(
    (view: string | undefined, options: ExportOptions) =>
      execute((signal) =>
        view === undefined ? listViews(options, signal) : exportView(view, options, signal),
      ),
  );
}

function cursorArgument(text: string): FeedCursor {
  const cursor = parseCursor(text);
  if (cursor !== null) return cursor;
  throw new InvalidArgumentError(
    `"${text}" is not a cursor: an earlier export printed one, such as 4711.`,
  );
}

function listViews({ json }: ExportOptions, signal: AbortSignal): Promise<ExitCode> {
  return withApp('export', 'store', signal, ({ database: { url } }) =>
    withExports(url, signal, async (exports) => {
      const views = await exports.views();
      if (json === true) {
        await printJson(views.map(({ name, comment, key }) => ({ view: name, key, comment })));
      } else {
        await print(
          viewsTable(views),
          '\n`seller-mirror export items --format ndjson` exports one. Those with a key can be followed with --since.\n',
        );
      }
      return EXIT.done;
    }),
  );
}

function viewsTable(views: readonly ExportableView[]): string {
  return table(
    views,
    [
      { header: 'view', value: ({ name }) => name },
      { header: 'followed by', value: ({ key }) => key?.join(', ') ?? 'whole only' },
      { header: 'what it holds', value: ({ comment }) => firstSentence(comment ?? '') },
    ],
    stdoutLook(),
  );
}

function firstSentence(text: string): string {
  return text.split(/(?<=[.:,]) /, 1)[0]?.replace(/[.:,]$/, '') ?? '';
}

/** Result of an export. */
interface Report {
  readonly view: string;
  readonly rows: number;
  readonly bytes: number;
  readonly since: FeedCursor | null;
  /** Where the next export starts; null for views that can't be followed. */
  readonly cursor: FeedCursor | null;
}

/** Exports a view, then writes the cursor for the next export, if there is a file for it. */
function exportView(name: string, options: ExportOptions, signal: AbortSignal): Promise<ExitCode> {
  const place = placeOf(options, process.stdout.isTTY);
  return withApp('export', 'store', signal, ({ database: { url } }) =>
    withExports(url, signal, async (exports) => {
      const view = await findView(exports, name, options);
      const scope = { view: view.name, seller: options.seller ?? null };
      const since = await cursorOf(options, scope);
      await prepareFiles(place, options);
      // Counting rows takes time: only a progress bar needs it, and only a terminal shows one.
      const isShown = process.stderr.isTTY && (place.path !== null || !process.stdout.isTTY);
      const request = {
        ...{ view: view.name, since, sellerId: scope.seller },
        ...{ deletions: isFollowing(options), counted: isShown },
      };
      const report = await exports.read(request, (exported) =>
        writeRows(view.name, since, exported, place, options, signal),
      );
      if (report === null) return EXIT.done; // the reader of stdout is gone
      const cursorFile = options.nextCursorFile ?? options.cursorFile;
      if (cursorFile !== undefined && report.cursor !== null) {
        await writeCursorFile(cursorFile, scope, report.cursor);
      }
      await printReport(report, place, options);
      return EXIT.done;
    }),
  );
}

/**
 * Finds the view of this name, with or without `reporting.` before it.
 * @throws {CommandError} when there is none, or the options don't fit it
 */
async function findView(
  exports: Exports,
  name: string,
  options: ExportOptions,
): Promise<ExportableView> {
  const views = await exports.views();
  const plain = name.replace(/^reporting\./, '');
  const view = views.find((one) => one.name === plain);
  if (view === undefined) throw unknownView(plain, views);
  if (view.key === null && isFollowing(options)) {
    throw usageError(
      `${view.name} can't be followed; it is small, and exported whole each time`,
      `those that can are ${FOLLOWED_VIEWS.join(', ')}`,
    );
  }
  if (options.seller !== undefined) await checkSeller(exports, view, options.seller);
  return view;
}

function unknownView(name: string, views: readonly ExportableView[]): CommandError {
  const names = views.map((view) => view.name);
  const near = nearestOf(name.toLowerCase(), names);
  const meant = near === null ? '' : `did you mean ${near}? `;
  return usageError(
    `there is no view ${JSON.stringify(name)}`,
    `${meant}views: ${names.join(', ')}`,
  );
}

/** The nearest name in which at most one letter in three differs. */
function nearestOf(name: string, names: readonly string[]): string | null {
  const distances = names.map((one) => ({ one, distance: editDistance(name, one) }));
  const [best] = distances.toSorted((a, b) => a.distance - b.distance);
  return best !== undefined && best.distance * 3 <= best.one.length ? best.one : null;
}

async function checkSeller(exports: Exports, view: ExportableView, seller: string): Promise<void> {
  if (!view.bySeller) {
    throw usageError(`${view.name} is not about single sellers`, 'leave --seller out');
  }
  const sellers = await exports.sellers();
  if (sellers.includes(seller)) return;
  throw usageError(
    `the store holds no seller "${seller}"`,
    `sellers: ${sellers.join(', ') || 'none'}`,
  );
}

async function writeRows(
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
    const bytes = await writeTo(place, chunks, signal);
    return bytes === null ? null : { view, rows, bytes, since, cursor };
  } finally {
    progress.finish();
  }
}

type Chunks = AsyncIterable<string | Uint8Array>;

/**
 * Writes chunks to a file, whole or not at all, or to stdout as they come.
 * @returns the number of bytes; null when the reader of stdout went away before the end
 */
async function writeTo(
  { path, format }: Place,
  chunks: Chunks,
  signal: AbortSignal,
): Promise<number | null> {
  let bytes = 0;
  const counted = async function* (): Chunks {
    for await (const chunk of chunks) {
      bytes += Buffer.byteLength(chunk);
      yield chunk;
    }
  };
  if (path !== null) {
    await writeWhole(path, counted(), { signal });
    return bytes;
  }
  const isTaken = await writeAll(process.stdout, forTerminal(counted(), format));
  // Waits until the last chunk has been taken.
  if (isTaken) await print('');
  return isTaken ? bytes : null;
}

/** Escapes control characters for a terminal: the marketplace's text must not act on it. */
async function* forTerminal(chunks: Chunks, format: ExportFormat): Chunks {
  for await (const chunk of chunks) {
    if (typeof chunk !== 'string' || !process.stdout.isTTY) yield chunk;
    else yield format === 'ndjson' ? safeJson(chunk) : safeLines(chunk);
  }
}

async function printReport(report: Report, place: Place, options: ExportOptions): Promise<void> {
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
