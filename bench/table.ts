import type { Measurement } from './children.js';

/** A line of the result. */
export interface Line {
  readonly what: string;
  readonly figure: string;
  /** The figure compared with a baseline; empty without one. */
  readonly ratio: string;
  /** The limit as text; empty if the line has no target. */
  readonly target: string;
  /** Null if the line has no target. */
  readonly met: boolean | null;
}

/** A line without a target. */
export function information(what: string, figure: string, ratio = ''): Line {
  return { what, figure, ratio, target: '', met: null };
}

type RatioLine = (what: string, figure: string, ratio: number, limit: number, base: string) => Line;

/** A line whose ratio must be at most `limit`. */
export const atMost: RatioLine = (what, figure, ratio, limit, base) => {
  const target = `<= ${limit} × ${base}`;
  return { what, figure, ratio: times(ratio), target, met: ratio <= limit };
};

/** A line whose ratio must be at least `limit`. */
export const atLeast: RatioLine = (what, figure, ratio, limit, base) => {
  const target = `>= ${limit} × ${base}`;
  return { what, figure, ratio: times(ratio), target, met: ratio >= limit };
};

/** A line with a limit for the figure itself. @param limit null for none */
export function bounded(
  what: string,
  value: number,
  limit: number | null,
  text: (value: number) => string = String,
): Line {
  if (limit === null) return information(what, text(value));
  const target = limit === 0 ? '0' : `<= ${text(limit)}`;
  return { what, figure: text(value), ratio: '', target, met: value <= limit };
}

/**
 * Lines of two measurements, of which `large` had `growth` times as many rows: processor time must grow with the
 * rows only, and memory must stay.
 */
export function growthLines(
  growth: number,
  row: string,
  [fewName, few]: readonly [string, Measurement],
  [manyName, many]: readonly [string, Measurement],
): Line[] {
  const slower = many.cpuMs / (growth * few.cpuMs);
  const base = 'the small one';
  return [
    information(fewName, usage(few)),
    atMost(manyName, usage(many), slower, 1.25, `the CPU time of ${row} of ${base}`),
    atMost(`${manyName}: peak memory`, megabytes(many.peak), many.peak / few.peak, 1.25, base),
  ];
}

const HEAD = ['', 'measured', 'compared', 'target', ''] as const;

function cells(line: Line): string[] {
  const verdict = line.met === null ? '' : line.met ? 'met' : 'MISSED';
  return [line.what, line.figure, line.ratio, line.target, verdict];
}

export function plainTable(lines: readonly Line[]): string {
  const rows = [[...HEAD], ...lines.map(cells)];
  const widths = HEAD.map((_, column) => Math.max(...rows.map((row) => row[column]?.length ?? 0)));
  const pad = (cell: string, column: number): string => cell.padEnd(widths[column] ?? 0);
  return rows.map((row) => row.map(pad).join('  ').trimEnd()).join('\n');
}

export function markdownTable(lines: readonly Line[]): string {
  const rows = [[...HEAD], HEAD.map(() => '---'), ...lines.map(cells)];
  return rows.map((row) => `| ${row.join(' | ')} |`).join('\n');
}

export function median(values: readonly number[]): number {
  const sorted = [...values].sort((a, b) => a - b);
  const middle = sorted.length >> 1;
  const upper = sorted[middle] ?? Number.NaN;
  return sorted.length % 2 === 1 ? upper : (upper + (sorted[middle - 1] ?? upper)) / 2;
}

export function seconds(ms: number): string {
  return `${(ms / 1000).toFixed(2)} s`;
}

export function milliseconds(ms: number): string {
  return `${ms.toFixed(1)} ms`;
}

export function megabytes(bytes: number): string {
  return `${Math.round(bytes / 1e6)} MB`;
}

export function times(factor: number): string {
  return `${factor.toFixed(2)} ×`;
}

export function perSecond(rate: number, unit: string): string {
  return `${count(Math.round(rate))} ${unit}/s`;
}

export function count(value: number): string {
  return value.toLocaleString('en-US');
}

/** Formats the time and memory of a process. */
export function usage({ ms, cpuMs, peak }: Measurement): string {
  return `${seconds(ms)}, CPU ${seconds(cpuMs)}, ${megabytes(peak)}`;
}

/** Prints a line of progress. */
export function progress(text: string): void {
  process.stderr.write(`  ${text}\n`);
}
