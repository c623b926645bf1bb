import type { FC } from 'hono/jsx';
import { COMMA_CSV, type CsvDialect } from '../domain/csv.js';
import { roomFault } from '../intake/types.js';
import { Problem, type DashboardContext } from './context.js';
import { capital } from './parts.js';

const TYPES = {
  csv: 'text/csv; charset=utf-8',
  xlsx: 'application/vnd.openxmlformats-officedocument.spreadsheetml.sheet',
  parquet: 'application/vnd.apache.parquet',
} as const;

export type DownloadFormat = keyof typeof TYPES;

/** What a download is called, and the end of its address. */
const LINKS = {
  csv: { label: 'CSV', name: 'CSV', end: '.csv', query: {} },
  'csv-comma': {
    label: 'CSV 0,5',
    name: 'CSV 0,5, with decimal commas',
    end: '.csv',
    query: { decimal: 'comma' },
  },
  xlsx: { label: 'Excel', name: 'Excel', end: '.xlsx', query: {} },
  parquet: { label: 'Parquet', name: 'Parquet', end: '.parquet', query: {} },
} as const;

/**
 * Links to files of the same rows.
 * @param of what these are, for people who hear the page
 * @param path of the files, without their ending
 */
export const Downloads: FC<{
  of: string;
  path: string;
  query?: Readonly<Record<string, string>> | URLSearchParams;
  as: readonly (keyof typeof LINKS)[];
}> = ({ of, path, query = {}, as }) => (
  <>
    {as.map((one) => {
      const { label, name, end, query: more } = LINKS[one];
      const all = new URLSearchParams(query);
      for (const [key, value] of Object.entries(more)) all.set(key, value);
      return (
        <a
          class="button small"
          href={`${path}${end}${all.size === 0 ? '' : `?${all.toString()}`}`}
          aria-label={`${name}: ${of}`}
          title={name}
        >
          {label}
        </a>
      );
    })}
  </>
);

/** The format that a file's name asks for; undefined for other names. */
export function formatIn(ending: string | undefined): DownloadFormat | undefined {
  return ending !== undefined && Object.hasOwn(TYPES, ending)
    ? (ending as DownloadFormat)
    : undefined;
}

/** CSV with decimal commas, where the query asks for it. */
export function dialectIn(c: DashboardContext): CsvDialect | undefined {
  return c.req.query('decimal') === 'comma' ? COMMA_CSV : undefined;
}

/** @throws {Problem} when it is a workbook, and a sheet has no room for its rows */
export async function checkRoom(
  format: DownloadFormat,
  rows: () => number | Promise<number>,
): Promise<void> {
  const fault = format === 'xlsx' ? roomFault(format, await rows()) : null;
  if (fault === null) return;
  throw new Problem(capital(fault), 'CSV takes them all. A filter leaves fewer.', 409);
}

/**
 * Sends a file while it is made. When `make` fails the download breaks off, so that nobody takes a part
 * for the whole.
 * @param make hands over the parts, one after the other, and is called once somebody reads; `gone` is
 *   aborted when nobody does any more
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
  const begin = (): void => {
    make((part) => writer.write(Buffer.from(part)), gone.signal)
      .then(() => writer.close())
      .catch((error: unknown) => writer.abort(error))
      .catch(() => undefined);
  };
  let isBegun = false;
  // Who asks with HEAD never reads: a connection to the database would wait for it.
  const body = new ReadableStream<Uint8Array>(
    {
      async pull(controller) {
        if (!isBegun) begin();
        isBegun = true;
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
    'content-disposition': `attachment; filename="${name}.${format}"`,
  });
}
