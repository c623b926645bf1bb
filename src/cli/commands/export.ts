import { rm } from 'node:fs/promises';
import { resolve } from 'node:path';
import { InvalidArgumentError, Option, type Command } from 'commander';
import { nearest } from '../../config/schemas.js';
import {
  cursorText,
  parseCursor,
  type ChangeCursor,
  readCursorFile,
  writeCursorFile,
} from '../../reporting/change-cursor.js';
import { bytes as bytesText, plural } from '../../domain/text.js';
import { EXPORT_FORMATS, exportChunks, type ExportFormat } from '../../reporting/export.js';
import { assertWritable, writeWhole } from '../../listing/write-file.js';
import {
  type Exported,
  type ExportableView,
  type Exports,
  withExports,
} from '../../reporting/exports.js';
import { FOLLOWED_VIEWS } from '../../reporting/followed-views.js';
import { printNote, print, printJson, printResult, stdoutLook } from '../console.js';
import { usageError, writtenOrFailed } from '../errors.js';
import { action, withApp } from '../execute.js';
import { describeCommand, unknownSeller } from '../options.js';
import {
  checkDestination,
  checkRowLimit,
  csvDialect,
  destinationOf,
  type OutOptions,
  type Destination,
} from '../out-file.js';
import { safeJson } from '../output/formats.js';
import { withProgress } from '../output/progress.js';
import { table } from '../output/table.js';
import { safeLine, safeLines } from '../output/text.js';
import { writeAll } from '../output/write.js';

const NOTES = `CSV is RFC 4180: NULL is an empty cell, an empty text "". Text that a spreadsheet would run as a
formula gets an apostrophe in front; --raw leaves it out, for databases. NDJSON and Parquet are always
exact. xlsx is for people: texts are typed as text, times are dates in UTC to the millisecond, numbers
of more than 15 digits are text, and a sheet has at most 1,048,575 rows. A file appears only when it is
complete.

Views with a key can be followed: with --since, or a cursor file, an export holds only the rows written
after the cursor, and a column _deleted marks deleted ones. No row is missed while others write, but a
row may come twice, so load rows by their key. A cursor file is read first, and written after the
export.`;

export function add(program: Command): void {
  const format = new Option('--format <format>', 'by default the ending of --out, else csv');
  const since = new Option('--since <cursor>', 'only rows written after this cursor');
  const cursorFile = new Option(
    '--cursor-file <file>',
    'start after the cursor in this file, then write the next cursor into it',
  );
  const command = program
    .command('export')
    .argument('[view]', 'the view, such as items')
    .addOption(format.choices(EXPORT_FORMATS))
    .option('--out <file>', 'the file; - is stdout (default: -)')
    .addOption(since.argParser(cursorArgument))
    .addOption(cursorFile.conflicts('since'))
    .option('--next-cursor-file <file>', 'write the next cursor to this file instead')
    .option('--raw', 'in CSV, don’t mark text that looks like a formula');
  describeCommand(command, {
    about:
      'Writes all rows of a view of schema reporting, as of one moment. Without a view, lists the views.',
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

function cursorArgument(text: string): ChangeCursor {
  const cursor = parseCursor(text);
  if (cursor !== null) return cursor;
  throw new InvalidArgumentError(
    `"${text}" is not a cursor; use one that an earlier export printed, such as 4711.`,
  );
}

function withViews(signal: AbortSignal, work: (exports: Exports) => Promise<void>): Promise<void> {
  return withApp('export', 'store', signal, ({ database: { url } }) =>
    withExports(url, signal, work),
  );
}

/** @throws {CommandError} when there are options of an export, but no view */
async function listViews({ json, ...options }: ExportOptions, signal: AbortSignal): Promise<void> {
  if (Object.keys(options).length > 0) {
    throw usageError(
      'which view? its name is missing',
      'for example: `seller-mirror export items`; without options, export lists the views',
    );
  }
  return withViews(signal, async (exports) => {
    const views = await exports.views();
    const rows = views.map(({ name, comment, key }) => ({ view: name, key, comment }));
    const hint =
      '\n`seller-mirror export items --format ndjson` exports one. Views with a key can be followed with --since.\n';
    await printResult({ json: json === true }, rows, () => viewsTable(views) + hint);
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
  readonly since?: ChangeCursor;
  readonly cursorFile?: string;
  readonly nextCursorFile?: string;
  readonly seller?: string;
  readonly raw?: boolean;
  readonly json?: boolean;
}

/** @throws {CommandError} when options contradict each other, or the format is unknown */
function readDestination(options: ExportOptions): Destination<ExportFormat> {
  const { raw, json, cursorFile, nextCursorFile } = options;
  const destination = destinationOf(options, EXPORT_FORMATS);
  const { path, format } = destination;
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
      'name a file with --out, or use --format ndjson for rows in JSON',
    );
  }
  return destination;
}

/** Whether this export continues an earlier one, or a later one will continue it. */
function isFollowing({ since, cursorFile, nextCursorFile }: ExportOptions): boolean {
  return [since, cursorFile, nextCursorFile].some((one) => one !== undefined);
}

/** Exports a view, then writes the cursor for the next export to its file, if one is named. */
async function exportView(
  name: string,
  options: ExportOptions,
  signal: AbortSignal,
): Promise<void> {
  const { cursorFile, nextCursorFile = cursorFile } = options;
  const destination = readDestination(options);
  await checkDestination(destination);
  await withViews(signal, async (exports) => {
    const view = await findView(exports, name, options);
    const scope = { view: view.name, seller: options.seller ?? null };
    const start =
      options.since ?? (cursorFile === undefined ? null : await readCursorFile(cursorFile, scope));
    // Cursor 0 is that of an empty store: export all rows, without deleted ones.
    const since = start?.seq === 0n ? null : start;
    if (nextCursorFile !== undefined) await assertWritable(nextCursorFile);
    // Removed first, so that after a failed export nobody reads the cursor of an earlier one.
    if (options.nextCursorFile !== undefined) await rm(options.nextCursorFile, { force: true });
    const request = {
      view: view.name,
      since,
      sellerIds: scope.seller === null ? null : [scope.seller],
      deletions: isFollowing(options),
      // Counting rows takes time: only a sheet, which has a limit, and a progress bar need it.
      counted:
        destination.format === 'xlsx' ||
        (process.stderr.isTTY && (destination.path !== null || !process.stdout.isTTY)),
    };
    const report = await exports.read(request, async (exported) => {
      const written = await writeRows(view.name, exported, destination, options, signal);
      return written && { view: view.name, ...written, since, cursor: exported.cursor };
    });
    if (report === null) return; // the reader of stdout is gone
    if (nextCursorFile !== undefined && report.cursor !== null) {
      await writtenOrFailed(writeCursorFile(nextCursorFile, scope, report.cursor));
    }
    await printReport(report, destination, options);
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
  if (view === undefined) {
    const names = views.map((one) => one.name);
    const near = nearest(plain, names);
    const hint = near === null ? '' : `did you mean ${near}? `;
    throw usageError(
      `there is no view ${JSON.stringify(plain)}`,
      `${hint}views: ${names.join(', ')}`,
    );
  }
  if (view.key === null && isFollowing(options)) {
    throw usageError(
      `${view.name} can’t be followed; it is small, so each export holds all of it`,
      `views that can be followed: ${FOLLOWED_VIEWS.join(', ')}`,
    );
  }
  const { seller } = options;
  if (seller === undefined) return view;
  if (!view.bySeller) throw usageError(`${view.name} has no sellers`, 'leave --seller out');
  const sellers = await exports.sellers();
  if (!sellers.includes(seller)) throw unknownSeller(seller, sellers);
  return view;
}

/** @returns null when the reader of stdout went away before the end */
function writeRows(
  view: string,
  { columns, batches, total }: Exported,
  { path, format, decimalComma }: Destination<ExportFormat>,
  { raw = false }: ExportOptions,
  signal: AbortSignal,
): Promise<{ readonly rows: number; readonly bytes: number } | null> {
  checkRowLimit(
    format,
    total ?? 0,
    'select fewer rows, for example by --seller or --since; CSV and Parquet have no limit',
  );
  return withProgress(
    view,
    async (progress) => {
      let rows = 0;
      let bytes = 0;
      const counted = async function* (): Exported['batches'] {
        for await (const batch of batches) {
          progress.update((rows += batch.length));
          yield batch;
        }
      };
      const chunks = async function* (): AsyncIterable<string | Uint8Array> {
        const dialect = csvDialect({ decimalComma }, format);
        const exported = { columns, batches: counted() };
        for await (const chunk of exportChunks(exported, format, { raw, dialect })) {
          bytes += Buffer.byteLength(chunk);
          // On a terminal, the marketplace's text must not act as control characters.
          if (typeof chunk !== 'string' || path !== null || !process.stdout.isTTY) yield chunk;
          else yield format === 'ndjson' ? safeJson(chunk) : safeLines(chunk);
        }
      };
      if (path !== null) await writtenOrFailed(writeWhole(path, chunks(), signal));
      else if (!(await writeAll(process.stdout, chunks()))) return null;
      // Waits until the reader has taken the last chunk.
      else await print('');
      return { rows, bytes };
    },
    { total },
  );
}

interface Report {
  readonly view: string;
  readonly rows: number;
  readonly bytes: number;
  readonly since: ChangeCursor | null;
  /** Where the next export starts; null for views that can't be followed. */
  readonly cursor: ChangeCursor | null;
}

async function printReport(
  report: Report,
  { path: out, format }: Destination<ExportFormat>,
  { json, seller, cursorFile, nextCursorFile = cursorFile }: ExportOptions,
): Promise<void> {
  const { view, rows, bytes } = report;
  const since = report.since && cursorText(report.since);
  const cursor = report.cursor && cursorText(report.cursor);
  if (json === true) {
    await printJson({ view, sellerId: seller ?? null, format, out, rows, bytes, since, cursor });
    return;
  }
  const start = since === null ? '' : ` since ${since}`;
  const target = out === null ? '' : ` → ${safeLine(out)}`;
  const next =
    nextCursorFile === undefined
      ? `next time: --since ${cursor}`
      : `cursor ${cursor} → ${safeLine(nextCursorFile)}`;
  const hint = cursor === null ? '' : `; ${next}`;
  printNote(`${view}: ${plural(rows, 'row')}${start}${target} (${bytesText(bytes)})${hint}\n`);
}
