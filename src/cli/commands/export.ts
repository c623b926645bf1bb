import { Option, type Command } from 'commander';
import { nearest } from '../../config/schemas.js';
import { bytes as bytesText, plural } from '../../domain/text.js';
import { EXPORT_FORMATS, exportChunks, type ExportFormat } from '../../reporting/export.js';
import { writeWhole } from '../../listing/write-file.js';
import {
  type ReadView,
  type ReportingView,
  type Snapshot,
  withSnapshot,
} from '../../reporting/views.js';
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
complete.`;

export function add(program: Command): void {
  const format = new Option('--format <format>', 'by default the ending of --out, else csv');
  const command = program
    .command('export')
    .argument('[view]', 'the view, such as items')
    .addOption(format.choices(EXPORT_FORMATS))
    .option('--out <file>', 'the file; - is stdout (default: -)')
    .option('--raw', 'in CSV, don’t mark text that looks like a formula');
  describeCommand(command, {
    about:
      'Writes all rows of a view of schema reporting, as of one moment. Without a view, lists the views.',
    notes: NOTES,
    examples: [
      'seller-mirror export',
      'seller-mirror export purchases --out purchases.parquet',
      'seller-mirror export items --format ndjson | gzip > "items-$(date +%F).ndjson.gz"',
    ],
    options: ['decimalComma', 'json', 'seller'],
  }).action(
    action((signal, view: string | undefined, options: ExportOptions) =>
      view === undefined ? listViews(options, signal) : exportView(view, options, signal),
    ),
  );
}

function withStore(signal: AbortSignal, work: (store: Snapshot) => Promise<void>): Promise<void> {
  return withApp('export', 'store', signal, ({ database: { url } }) =>
    withSnapshot(url, signal, null, work),
  );
}

/** @throws {UserError} when there are options of an export, but no view */
async function listViews({ json, ...options }: ExportOptions, signal: AbortSignal): Promise<void> {
  if (Object.keys(options).length > 0) {
    throw usageError(
      'which view? its name is missing',
      'for example: `seller-mirror export items`; without options, export lists the views',
    );
  }
  return withStore(signal, async (store) => {
    const views = await store.views();
    const rows = views.map(({ name, comment, key }) => ({ view: name, key, comment }));
    const hint = '\n`seller-mirror export items --format ndjson` exports one.\n';
    await printResult({ json: json === true }, rows, () => viewsTable(views) + hint);
  });
}

function viewsTable(views: readonly ReportingView[]): string {
  return table(
    views,
    [
      { header: 'view', value: ({ name }) => name },
      { header: 'key', value: ({ key }) => key?.join(', ') ?? '' },
      { header: 'what it holds', value: ({ comment }) => firstSentence(comment ?? '') },
    ],
    stdoutLook(),
  );
}

function firstSentence(text: string): string {
  return text.split(/(?<=[.:,]) /, 1)[0]?.replace(/[.:,]$/, '') ?? '';
}

interface ExportOptions extends OutOptions<ExportFormat> {
  readonly seller?: string;
  readonly raw?: boolean;
  readonly json?: boolean;
}

/** @throws {UserError} when options contradict each other, or the format is unknown */
function readDestination(options: ExportOptions): Destination<ExportFormat> {
  const { raw, json } = options;
  const destination = destinationOf(options, EXPORT_FORMATS);
  const { path, format } = destination;
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

async function exportView(
  name: string,
  options: ExportOptions,
  signal: AbortSignal,
): Promise<void> {
  const destination = readDestination(options);
  await checkDestination(destination);
  await withStore(signal, async (store) => {
    const view = await findView(store, name, options);
    const sellers = options.seller === undefined ? null : [options.seller];
    // Counting rows takes time: only a sheet, which has a limit, and a progress bar need it.
    const isCounted =
      destination.format === 'xlsx' ||
      (process.stderr.isTTY && (destination.path !== null || !process.stdout.isTTY));
    const report = await store.read(view, sellers, isCounted, async (read) => {
      const written = await writeRows(view.name, read, destination, options, signal);
      return written && { view: view.name, ...written };
    });
    if (report === null) return; // the reader of stdout is gone
    await printReport(report, destination, options);
  });
}

/** @throws {UserError} when there is no such view, or the options don't fit it */
async function findView(
  store: Snapshot,
  name: string,
  options: ExportOptions,
): Promise<ReportingView> {
  const views = await store.views();
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
  const { seller } = options;
  if (seller === undefined) return view;
  if (!view.bySeller) throw usageError(`${view.name} has no sellers`, 'leave --seller out');
  const sellers = await store.sellers();
  if (!sellers.includes(seller)) throw unknownSeller(seller, sellers);
  return view;
}

/** @returns null when the reader of stdout went away before the end */
function writeRows(
  view: string,
  { columns, batches, total }: ReadView,
  { path, format, decimalComma }: Destination<ExportFormat>,
  { raw = false }: ExportOptions,
  signal: AbortSignal,
): Promise<{ readonly rows: number; readonly bytes: number } | null> {
  checkRowLimit(
    format,
    total ?? 0,
    'select fewer rows, for example by --seller; CSV and Parquet have no limit',
  );
  return withProgress(
    view,
    async (progress) => {
      let rows = 0;
      let bytes = 0;
      const counted = async function* (): ReadView['batches'] {
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
}

async function printReport(
  { view, rows, bytes }: Report,
  { path: out, format }: Destination<ExportFormat>,
  { json, seller }: ExportOptions,
): Promise<void> {
  if (json === true) {
    await printJson({ view, sellerId: seller ?? null, format, out, rows, bytes });
    return;
  }
  const target = out === null ? '' : ` → ${safeLine(out)}`;
  printNote(`${view}: ${plural(rows, 'row')}${target} (${bytesText(bytes)})\n`);
}
