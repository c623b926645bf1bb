/** One line of the result. */
export interface Line {
  readonly what: string;
  readonly figure: string;
  /** The bound, in words; empty when the figure is for information. */
  readonly target: string;
  /** What the target is compared with; empty when that is the figure. */
  readonly ratio: string;
  readonly met: boolean | null;
}

const HEAD = ['', 'measured', 'compared', 'target', ''] as const;

function cells(line: Line): string[] {
  const verdict = line.met === null ? '' : line.met ? 'met' : 'MISSED';
  return [line.what, line.figure, line.ratio, line.target, verdict];
}

export function plainTable(lines: readonly Line[]): string {
  const rows = [[...HEAD], ...lines.map(cells)];
  const widths = HEAD.map((_, column) => Math.max(...rows.map((row) => row[column]?.length ?? 0)));
  return rows
    .map((row) =>
      row
        .map((cell, column) => cell.padEnd(widths[column] ?? 0))
        .join('  ')
        .trimEnd(),
    )
    .join('\n');
}

export function markdownTable(lines: readonly Line[]): string {
  const rows = [[...HEAD], HEAD.map(() => '---'), ...lines.map(cells)];
  return rows.map((row) => `| ${row.join(' | ')} |`).join('\n');
}

/** The middle one, or the mean of the two in the middle. */
export function median(values: readonly number[]): number {
  const sorted = [...values].sort((a, b) => a - b);
  const middle = sorted.length >> 1;
  const upper = sorted[middle] ?? Number.NaN;
  return sorted.length % 2 === 1 ? upper : (upper + (sorted[middle - 1] ?? upper)) / 2;
}

export function seconds(ms: number): string {
  return `${(ms / 1000).toFixed(2)} s`;
}

export function megabytes(bytes: number): string {
  return `${Math.round(bytes / 1e6)} MB`;
}

export function times(factor: number): string {
  return `${factor.toFixed(2)} ×`;
}
