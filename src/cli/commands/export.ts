import { rm } from 'node:fs/promises';
import { resolve } from 'node:path';
import { InvalidArgumentError, Option, type Command } from 'commander';
import { nearest } from '../../config/nearest.js';
import { cursorText, parseCursor, type FeedCursor } from '../../domain/feeds.js';
import { readCursorFile, writeCursorFile } from '../../export/cursor-file.js';
import { EXPORT_FORMATS, exportChunks, type ExportFormat } from '../../export/index.js';
import { assertWritable, writeWhole } from '../../intake/write-whole.js';
import {
  type Exported,
  type ExportableView,
  type Exports,
  withExports,
} from '../../store/exports.js';
import { FOLLOWED_VIEWS } from '../../store/feed-rules.js';
import { note, print, printJson, printResult, stdoutLook } from '../console.js';
import { usageError, type CommandError } from '../errors.js';
import { action, withApp } from '../execute.js';
import { described, unknownSeller } from '../options.js';
import {
  checkOut,
  checkRoom,
  csvDialect,
  outPlace,
  type OutOptions,
  type OutPlace,
} from '../out-file.js';
import { safeJson } from '../output/formats.js';
import { Progress } from '../output/progress.js';
import { table } from '../output/table.js';
import { bytes as bytesText } from '../../domain/units.js';
import { plural, safeLine, safeLines } from '../output/text.js';
import { writeAll } from '../output/write.js';

const NOTES = `CSV is RFC 4180: NULL is an empty cell, an empty text "". Text that a spreadsheet would take for a
formula gets an apostrophe in front; for databases, --raw leaves it as it is. NDJSON and Parquet are
always exact. xlsx is for people: texts are typed as such, times are dates in UTC to the millisecond,
numbers of more than 15 digits are text, and a sheet has at most 1,048,575 rows. A file is written whole
or not at all.

Views with a key can be followed: with --since, or a cursor file, only rows written after the cursor
come, and a column _deleted marks deleted ones. No row is missed while others write; a row may come
again, so load rows by their key. A cursor file is read first, and written after the export.`;

export function add(program: Command): void {
  const format = new Option('--format <format>', 'by default the ending of --out, else csv');
  const since = new Option('--since <cursor>', 'only what was written after this cursor');
  const cursorFile = new Option(
    '--cursor-file <file>',
    'start after the cursor in this file, then write the next one into it',
  );
  const command = program
    .command('export')
    .argument('[view]', 'the view, such as items')
    .addOption(format.choices(EXPORT_FORMATS))
    .option('--out <file>', 'the file; - is stdout (default: -)')
    .addOption(since.argParser(cursorArgument))
    .addOption(cursorFile.conflicts('since'))
    .option('--next-cursor-file <file>', 'write the next cursor here instead')
    .option('--raw', 'in CSV, leave text that looks like a formula as it is');
  described(command, {
    about:
      'Writes the rows of a view of schema reporting, all as of one moment. Without a view, lists the views.',
    notes: NOTES,
    examples: [
      'seller-mirror export',
      'seller-mirror export purchases --out purchases.parquet',
      'seller-mirror export items --raw --since 4711 --out changed.csv',
      'seller-mirror export items --format ndjson --cursor-file items.cursor | gzip > "items-$(date +%F).ndjson.gz"',
    ],
    options: ['decimalComma', 'json', 'seller'],
  }).action(
    action((signal, view: string | undefined, options: ExportOptions) =>
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

function withViews(signal: AbortSignal, work: (exports: Exports) => Promise<void>): Promise<void> {
  return withApp('export', 'store', signal, ({ database: { url } }) =>
    withExports(url, signal, work),
  );
}

function listViews(options: ExportOptions, signal: AbortSignal): Promise<void> {
  return withViews(signal, async (exports) => {
    const views = await exports.views();
    const json = views.map(({ name, comment, key }) => ({ view: name, key, comment }));
    const hint =
      '\n`seller-mirror export items --format ndjson` exports one. Those with a key can be followed with --since.\n';
    await printResult(options, json, () => viewsTable(views) + hint);
  });
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

interface ExportOptions extends OutOptions<ExportFormat> {
  readonly since?: FeedCursor;
  readonly cursorFile?: string;
  readonly nextCursorFile?: string;
  readonly seller?: string;
  readonly raw?: boolean;
  readonly json?: boolean;
}

type Place = OutPlace<ExportFormat>;

/** @throws {CommandError} when options contradict each other, or the format is unknown */
function placeOf(options: ExportOptions): Place {
  const { raw, json, cursorFile, nextCursorFile } = options;
  const place = outPlace(options, EXPORT_FORMATS);
  const { path, format } = place;
  const files = [path, cursorFile, nextCursorFile].flatMap((one) => (one ? [resolve(one)] : []));
  if (new Set(files).size < files.length) {
    throw usageError(
      'the export and its cursors would overwrite each other',
      'give --out, --cursor-file and --next-cursor-file a file each',
    );
  }
  if (raw === true && format !== 'csv') {
    throw usageError('--raw goes with --format csv', `leave it out: ${format} is always exact`);
  }
  if (path === null && json === true) {
    throw usageError(
      '--json and the export both write to stdout',
      'name a file with --out, or say --format ndjson for rows in JSON',
    );
  }
  return place;
}

/** Whether this export continues an earlier one, or a later one will continue it. */
function isFollowing({ since, cursorFile, nextCursorFile }: ExportOptions): boolean {
  return [since, cursorFile, nextCursorFile].some((one) => one !== undefined);
}

interface Report {
  readonly view: string;
  readonly rows: number;
  readonly bytes: number;
  readonly since: FeedCursor | null;
  /** Where the next export starts; null for views that can't be followed. */
  readonly cursor: FeedCursor | null;
}

/** Exports a view, then writes the cursor for the next export, if there is a file for it. */
async function exportView(
  name: string,
  options: ExportOptions,
  signal: AbortSignal,
): Promise<void> {
  const { cursorFile, nextCursorFile = cursorFile } = options;
  const place = placeOf(options);
  await checkOut(place);
  await withViews(signal, async (exports) => {
    const view = await findView(exports, name, options);
    const scope = { view: view.name, seller: options.seller ?? null };
    const start =
      options.since ?? (cursorFile === undefined ? null : await readCursorFile(cursorFile, scope));
    // The cursor of an empty store: all rows, without the deleted ones.
    const since = start?.seq === 0n ? null : start;
    if (nextCursorFile !== undefined) await assertWritable(nextCursorFile);
    // The next cursor of an earlier export can't be mistaken for the one of an export that fails.
    if (options.nextCursorFile !== undefined) await rm(options.nextCursorFile, { force: true });
    const request = {
      view: view.name,
      since,
      sellerIds: scope.seller === null ? null : [scope.seller],
      deletions: isFollowing(options),
      // Counting rows takes time: only a sheet, which has an end, and a progress bar need it.
      counted:
        place.format === 'xlsx' ||
        (process.stderr.isTTY && (place.path !== null || !process.stdout.isTTY)),
    };
    const report = await exports.read(request, (exported) =>
      writeRows(view.name, since, exported, place, options, signal),
    );
    if (report === null) return; // the reader of stdout is gone
    if (nextCursorFile !== undefined && report.cursor !== null) {
      await writeCursorFile(nextCursorFile, scope, report.cursor);
    }
    await printReport(report, place, options);
  });
}

/** @throws {CommandError} when there is no such view, or the options don't fit it */
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
  const near = nearest(name, names, 1 / 3);
  const meant = near === null ? '' : `did you mean ${near}? `;
  return usageError(
    `there is no view ${JSON.stringify(name)}`,
    `${meant}views: ${names.join(', ')}`,
  );
}

async function checkSeller(exports: Exports, view: ExportableView, seller: string): Promise<void> {
  if (!view.bySeller) {
    throw usageError(`${view.name} is not about single sellers`, 'leave --seller out');
  }
  const sellers = await exports.sellers();
  if (!sellers.includes(seller)) throw unknownSeller(seller, sellers);
}

type Chunks = AsyncIterable<string | Uint8Array>;

/** @returns null when the reader of stdout went away before the end */
async function writeRows(
  view: string,
  since: FeedCursor | null,
  { columns, batches, total, cursor }: Exported,
  { path, format, decimalComma }: Place,
  { raw = false }: ExportOptions,
  signal: AbortSignal,
): Promise<Report | null> {
  checkRoom(
    format,
    total ?? 0,
    'a filter, such as --seller or --since, leaves fewer rows; CSV and Parquet take all',
  );
  const progress = new Progress(view, { total });
  let rows = 0;
  let bytes = 0;
  const counted = async function* (): Exported['batches'] {
    for await (const batch of batches) {
      progress.update((rows += batch.length));
      yield batch;
    }
  };
  const chunks = async function* (): Chunks {
    const exported = { columns, batches: counted() };
    const dialect = csvDialect({ decimalComma }, format);
    for await (const chunk of exportChunks(exported, format, { raw, dialect })) {
      bytes += Buffer.byteLength(chunk);
      // The marketplace's text must not act on a terminal.
      if (typeof chunk !== 'string' || path !== null || !process.stdout.isTTY) yield chunk;
      else yield format === 'ndjson' ? safeJson(chunk) : safeLines(chunk);
    }
  };
  try {
    if (path !== null) await writeWhole(path, chunks(), signal);
    else if (!(await writeAll(process.stdout, chunks()))) return null;
    // Waits until the last chunk has been taken.
    else await print('');
    return { view, rows, bytes, since, cursor };
  } finally {
    progress.finish();
  }
}

async function printReport(report: Report, place: Place, options: ExportOptions): Promise<void> {
  const { view, rows, bytes } = report;
  const since = report.since && cursorText(report.since);
  const cursor = report.cursor && cursorText(report.cursor);
  if (options.json === true) {
    const { path: out, format } = place;
    const sellerId = options.seller ?? null;
    await printJson({ view, sellerId, format, out, rows, bytes, since, cursor });
    return;
  }
  const what = since === null ? '' : ` since ${since}`;
  const where = place.path === null ? '' : ` → ${safeLine(place.path)}`;
  const file = options.nextCursorFile ?? options.cursorFile;
  const next =
    file === undefined ? `next time: --since ${cursor}` : `cursor ${cursor} → ${safeLine(file)}`;
  const then = cursor === null ? '' : `; ${next}`;
  note(`${view}: ${plural(rows, 'row')}${what}${where} (${bytesText(bytes)})${then}\n`);
}
