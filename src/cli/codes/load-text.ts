import type { Doubt } from '../../intake/index.js';
import type { AuditSize } from '../../store/audits/types.js';
import { count, plural, safeLine } from '../output/index.js';
import type { OpenList } from './lists.js';
import type { LoadReport } from './load.js';

/** How the lists are read, and why so: known before the first row. */
export function layoutLines(lists: readonly OpenList[]): readonly string[] {
  return lists.flatMap(({ name, intake }) => {
    const reasons = intake.layout.reasons.map((reason) => `  ${safeLine(reason)}`);
    return reasons.length === 0 ? [] : [`${safeLine(name)}:`, ...reasons];
  });
}

/** Why a list is likely not one of codes, with a few of its lines. */
export function doubtLines(name: string, doubt: Doubt, seller: string): readonly string[] {
  const { odd, of, known, samples } = doubt;
  const like =
    known === null
      ? 'purchase codes'
      : `the valid codes that are known of ${safeLine(seller)} (${safeLine(known)})`;
  return [
    `warning: ${safeLine(name)}: ${count(odd)} of the first ${plural(of, 'record')} do not look like ${like}:`,
    ...samples.map((sample) => `    ${safeLine(sample)}`),
  ];
}

/** What was met while reading: what had to be tolerated, what was left out, and the lines that hold no code. */
export function reportLines(report: LoadReport, lists: number): readonly string[] {
  const { firstRejected, rejected, blankLines, notes } = report;
  const shown = firstRejected.map(
    ({ list, place, why }) =>
      `  ${lists === 1 ? '' : `${safeLine(list)}, `}${place}: ${safeLine(why)}`,
  );
  const more = rejected - firstRejected.length;
  return [
    ...notes.map((note) => `  ${safeLine(note)}`),
    ...(blankLines === 0 ? [] : [`  ${plural(blankLines, 'blank line')} left out`]),
    ...(rejected === 0 ? [] : [`  ${plural(rejected, 'line')} can't be asked for:`]),
    ...shown.map((line) => `  ${line}`),
    ...(more > 0
      ? [`    and ${count(more)} more; all of them are in the result as "rejected"`]
      : []),
  ];
}

/** `10,012 lines: 10,000 codes to ask, 8 more than once, 1 known already, 3 rejected`. */
export function sizeLine(size: AuditSize): string {
  const { lines, rejected, codes, reused } = size;
  const repeated = lines - rejected - codes;
  const parts = [
    `${plural(codes - reused, 'code')} to ask`,
    ...(repeated > 0 ? [`${count(repeated)} listed again`] : []),
    ...(reused > 0 ? [`${count(reused)} checked lately enough`] : []),
    ...(rejected > 0 ? [`${count(rejected)} rejected`] : []),
  ];
  return `${plural(lines, 'line')}: ${parts.join(', ')}`;
}
