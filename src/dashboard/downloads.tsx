import type { FC } from 'hono/jsx';
import { COMMA_CSV, type CsvDialect } from '../domain/csv.js';
import { roomFault } from '../listing/file-error.js';
import { type DashboardContext, Problem } from './context.js';
import { capital } from './format.js';
import { oneOf } from './query.js';

const TYPES = {
  csv: 'text/csv; charset=utf-8',
  xlsx: 'application/vnd.openxmlformats-officedocument.spreadsheetml.sheet',
  parquet: 'application/vnd.apache.parquet',
} as const;

type DownloadFormat = keyof typeof TYPES;

/** Name, URL suffix and query of each kind of download. */
const LINKS = {
  xlsx: { name: 'Excel (.xlsx)', end: '.xlsx', query: {} },
  csv: { name: 'CSV, decimal point', end: '.csv', query: {} },
  'csv-comma': { name: 'CSV, decimal comma', end: '.csv', query: { decimal: 'comma' } },
  parquet: { name: 'Parquet', end: '.parquet', query: {} },
} as const;

type Download = keyof typeof LINKS;

/**
 * A button that opens the kinds of files to download the same rows in.
 * @param of what the files contain, for screen readers
 * @param path URL path without the file extension
 * @param rows how many, in words
 * @param as default: all
 */
export const Downloads: FC<{
  of: string;
  path: string;
  query?: Readonly<Record<string, string>> | URLSearchParams;
  rows?: string;
  as?: readonly Download[];
}> = ({ of, path, query = {}, rows, as = Object.keys(LINKS) as Download[] }) => (
  <details class="menu">
    <summary class="button" title={of}>
      Download
    </summary>
    <div>
      {rows === undefined ? null : (
        <p class="muted">
          {rows} {of}
        </p>
      )}
      {as.map((one) => {
        const { name, end, query: more } = LINKS[one];
        const all = new URLSearchParams(query);
        for (const [key, value] of Object.entries(more)) all.set(key, value);
        return (
          <a
            href={`${path}${end}${all.size === 0 ? '' : `?${all.toString()}`}`}
            aria-label={`${name}: ${of}`}
          >
            {name}
          </a>
        );
      })}
    </div>
  </details>
);

/** The format with this file extension. */
export function formatOf(extension: string | undefined): DownloadFormat | undefined {
  return oneOf(Object.keys(TYPES) as DownloadFormat[], extension);
}

/** CSV with decimal commas, if the query requests it. */
export function csvDialectOf(c: DashboardContext): CsvDialect | undefined {
  return c.req.query('decimal') === 'comma' ? COMMA_CSV : undefined;
}

/** @throws {Problem} when the rows don't fit into a sheet of a workbook */
export async function checkRoom(
  format: DownloadFormat,
  rows: () => number | Promise<number>,
): Promise<void> {
  const fault = format === 'xlsx' ? roomFault(format, await rows()) : null;
  if (fault === null) return;
  throw new Problem(capital(fault), 'Download CSV instead, or filter the rows.', 409);
}

/** Names a file for the browser, also by characters that a header can't have (RFC 6266). */
function attachment(name: string): string {
  const plain = name.replaceAll(/[^ -~]|["\\%]/g, '_');
  const whole = encodeURIComponent(name.toWellFormed()).replaceAll(/['()*]/g, '_');
  return `attachment; filename="${plain}"${plain === name ? '' : `; filename*=UTF-8''${whole}`}`;
}

/**
 * Streams a file while `make` produces it. If `make` fails, the download breaks off, so that a partial
 * file does not look complete.
 * @param make writes the file; starts when the client reads. `gone` aborts when the client disconnects.
 */
export function sendFile(
  c: DashboardContext,
  name: string,
  format: DownloadFormat,
  make: (write: (part: string | Uint8Array) => Promise<void>, gone: AbortSignal) => Promise<void>,
): Response {
  const { readable, writable } = new TransformStream<Uint8Array, Uint8Array>();
  const [reader, writer] = [readable.getReader(), writable.getWriter()];
  const gone = new AbortController();
  writer.closed.catch(() => gone.abort());
  const start = (): void => {
    make((part) => writer.write(Buffer.from(part)), gone.signal)
      .then(() => writer.close())
      .catch((error: unknown) => writer.abort(error))
      .catch(() => undefined);
  };
  let isStarted = false;
  // A HEAD request never reads. Starting anyway would block a database connection.
  const body = new ReadableStream<Uint8Array>(
    {
      async pull(controller) {
        if (!isStarted) start();
        isStarted = true;
        const { done, value } = await reader.read();
        if (done) controller.close();
        else controller.enqueue(value);
      },
      cancel: (reason) => reader.cancel(reason),
    },
    { highWaterMark: 0 },
  );
  return c.body(body, 200, {
    'content-type': TYPES[format],
    'content-disposition': attachment(`${name}.${format}`),
  });
}
