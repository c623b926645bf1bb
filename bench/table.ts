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

/** A line whose ratio must be at most `limit`. */
export function atMost(
  what: string,
  figure: string,
  ratio: number,
  limit: number,
  base: string,
): Line {
  const target = `<= ${limit} × ${base}`;
  return { what, figure, ratio: times(ratio), target, met: ratio <= limit };
}

/** A line whose ratio must be at least `limit`. */
export function atLeast(
  what: string,
  figure: string,
  ratio: number,
  limit: number,
  base: string,
): Line {
  const target = `>= ${limit} × ${base}`;
  return { what, figure, ratio: times(ratio), target, met: ratio >= limit };
}

/** A line with a limit for the figure itself. */
export function bounded(
  what: string,
  value: number,
  limit: number,
  text: (value: number) => string = String,
): Line {
  const target = limit === 0 ? '0' : `<= ${text(limit)}`;
  return { what, figure: text(value), ratio: '', target, met: value <= limit };
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
