import type { Measured } from './children.js';
import type { Results } from './rounds.js';
import { median, megabytes, seconds, times, type Line } from './table.js';

const MB = 1e6;

/** The targets, and how the figures stand to them. */
export const TARGETS = {
  firstLoadToCopy: 2,
  firstLoadToUpserts: 40,
  nightToParse: 2,
  changedToNight: 1.3,
  peakBytes: 300 * MB,
  peakGrowth: 1.25,
} as const;

/** The table's lines for one size of catalogue. */
export function linesOf(results: Results, items: number): Line[] {
  const time = (runs: readonly Measured[]): number => median(runs.map(({ ms }) => ms));
  const fastest = time(results.copy.binary) <= time(results.copy.text) ? 'binary' : 'text';
  const copy = time(results.copy[fastest]);
  const first = time(results.firstLoad);
  const rate = (items / first) * 1000;
  const upserts = median(results.upsertRate);
  const parse = time(results.parse);
  const night = time(results.unchanged);
  const changed = time(results.changed);
  return [
    information('Baseline: download + COPY of the finished rows', seconds(copy), fastest),
    information('Baseline: Prisma upsert per row', perSecond(upserts)),
    information('Baseline: download + JSON.parse', seconds(parse)),
    atMost('First load', seconds(first), first / copy, TARGETS.firstLoadToCopy, 'download + COPY'),
    {
      what: 'First load, rate',
      figure: perSecond(rate),
      ratio: times(rate / upserts),
      target: `>= ${TARGETS.firstLoadToUpserts} × upsert per row`,
      met: rate / upserts >= TARGETS.firstLoadToUpserts,
    },
    atMost(
      'Unchanged night',
      seconds(night),
      night / parse,
      TARGETS.nightToParse,
      'download + JSON.parse',
    ),
    none('First load, rows of history written', results.historyOfLoads),
    none('Unchanged night, item rows written', results.rowsWritten),
    none('Unchanged night, rows of history written', results.historyOfNights),
    atMost(
      '1 % changed',
      seconds(changed),
      changed / night,
      TARGETS.changedToNight,
      'unchanged night',
    ),
    information('Everything changed', seconds(time(results.allChanged))),
    information(
      'Notation changed only',
      seconds(time(results.notation)),
      `${Math.max(...results.notationRowsWritten)} rows written`,
    ),
    information('Whole process, first load', seconds(time(results.programFirst))),
    information('Whole process, unchanged night', seconds(time(results.programNight))),
    ...peakLines(results, items),
  ];
}

/** What is not to be written at all. */
function none(what: string, rows: readonly number[]): Line {
  const most = Math.max(...rows);
  return { what, figure: String(most), ratio: '', target: '0', met: most === 0 };
}

/** Memory at the size that the target names. */
function peakLines(results: Results, items: number): Line[] {
  return peaksOf(results).map(({ what, peak }) => ({
    what: `Peak memory at ${count(items)} items, ${what}`,
    figure: megabytes(peak),
    ratio: '',
    target: `<= ${megabytes(TARGETS.peakBytes)}`,
    met: peak <= TARGETS.peakBytes,
  }));
}

/** Memory at a larger size, compared with that at the first. */
export function growthLines(small: Results, large: Results, items: number): Line[] {
  const base = peaksOf(small);
  return peaksOf(large).map(({ what, peak }, index) =>
    atMost(
      `Peak memory at ${count(items)} items, ${what}`,
      megabytes(peak),
      peak / (base[index]?.peak ?? Number.NaN),
      TARGETS.peakGrowth,
      'the smaller catalogue',
    ),
  );
}

/** The highest peak of all runs: memory has no good days. */
function peaksOf(results: Results): { readonly what: string; readonly peak: number }[] {
  const highest = (runs: readonly Measured[]): number => Math.max(...runs.map(({ peak }) => peak));
  return [
    { what: 'first load', peak: highest(results.programFirst) },
    { what: 'unchanged night', peak: highest(results.programNight) },
  ];
}

function information(what: string, figure: string, ratio = ''): Line {
  return { what, figure, ratio, target: '', met: null };
}

function atMost(what: string, figure: string, ratio: number, limit: number, of: string): Line {
  const target = `<= ${limit} × ${of}`;
  return { what, figure, ratio: times(ratio), target, met: ratio <= limit };
}

function perSecond(rate: number): string {
  return `${count(Math.round(rate))} rows/s`;
}

function count(value: number): string {
  return value.toLocaleString('en-US');
}
