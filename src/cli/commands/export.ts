import { Option, type Command } from 'commander';
import { nearest } from '../../config/schemas.js';
import { EXPORT_FORMATS, exportChunks, type ExportFormat } from '../../reporting/export.js';
import { type ReportingView, type Snapshot, withSnapshot } from '../../reporting/views.js';
import { printJson, printResult, stdoutLook } from '../console.js';
import { usageError } from '../errors.js';
import { action, withApp } from '../execute.js';
import { describeCommand, unknownSeller } from '../options.js';
import {
  checkDestination,
  checkRowLimit,
  csvDialect,
  destinationOf,
  type Destination,
  outOption,
  type OutOptions,
} from '../out-file.js';
import { table } from '../output/table.js';
import { printWritten, writeRows } from '../rows.js';

const NOTES = `CSV is RFC 4180: NULL is an empty cell, an empty text "". Text that a spreadsheet would run as a
formula gets an apostrophe in front; --raw leaves it out, for databases. NDJSON and Parquet are always
exact. xlsx is for people: texts are typed as text, times are dates in UTC to the millisecond, numbers
of more than 15 digits are text, and a sheet has at most 1,048,575 rows. A file appears only when it is
complete.`;

export function add(program: Command): void {
  const format = new Option('--format <format>', 'by default the ending of the file, else csv');
  const command = program
    .command('export')
    .argument('[view]', 'the view, such as items')
    .addOption(format.choices(EXPORT_FORMATS))
    .option('--raw', 'in CSV, don’t mark text that looks like a formula');
  describeCommand(command, {
    about:
      'Writes all rows of a view of schema reporting, as of one moment. Without a view, lists the views.',
    notes: NOTES,
    examples: [
      'seller-mirror export',
      'seller-mirror export purchases -o purchases.parquet',
      'seller-mirror export items --format ndjson | gzip > "items-$(date +%F).ndjson.gz"',
    ],
    options: [
      ...outOption('the file; - is stdout (default: -)'),
      'decimalComma',
      'json',
      'quiet',
      'seller',
    ],
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
      {
        header: 'what it holds',
        value: ({ comment }) => comment?.split(/[.:,](?: |$)/, 1)[0] ?? '',
      },
    ],
    stdoutLook(),
  );
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
      'name a file with -o, or use --format ndjson for rows in JSON',
    );
  }
  return destination;
}

async function exportView(
  name: string,
  options: ExportOptions,
  signal: AbortSignal,
): Promise<void> {
  const { seller, json, raw = false } = options;
  const destination = readDestination(options);
  await checkDestination(destination);
  const { path: out, format } = destination;
  await withStore(signal, async (store) => {
    const view = await findView(store, name, seller);
    // Counting rows takes time: only a sheet, which has a limit, and a progress bar need it.
    const isCounted =
      format === 'xlsx' || (process.stderr.isTTY && (out !== null || !process.stdout.isTTY));
    const sellers = seller === undefined ? null : [seller];
    const written = await store.read(view, sellers, isCounted, ({ columns, batches, total }) => {
      checkRowLimit(format, total ?? 0, FEWER_ROWS);
      const work = { name: view.name, batches, total, path: out, signal };
      const style = { raw, dialect: csvDialect(destination, format) };
      return writeRows(work, (rows) => exportChunks({ columns, batches: rows }, format, style));
    });
    if (written === null) return; // the reader of stdout is gone
    if (json === true) {
      await printJson({ view: view.name, sellerId: seller ?? null, format, out, ...written });
    } else printWritten(written, out, `${view.name}: `);
  });
}

const FEWER_ROWS = 'select fewer rows, for example by --seller; CSV and Parquet have no limit';

/** @throws {UserError} when there is no such view, or the seller doesn't fit it */
async function findView(
  store: Snapshot,
  name: string,
  seller: string | undefined,
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
  if (seller === undefined) return view;
  if (!view.bySeller) throw usageError(`${view.name} has no sellers`, 'leave --seller out');
  const sellers = await store.sellers();
  if (!sellers.includes(seller)) throw unknownSeller(seller, sellers);
  return view;
}
