import { describeWide } from '../../domain/changes.js';
import { age, count, paint, pairs, safeLine, type Look, type TableCell } from '../output/index.js';
import type { SellerReport, Verdict } from './report.js';

const MARKS: Readonly<Record<Verdict, readonly [string, 'green' | 'yellow' | 'red']>> = {
  current: ['✓', 'green'],
  running: ['…', 'green'],
  stale: ['!', 'yellow'],
  never: ['!', 'yellow'],
  failing: ['✗', 'red'],
  parked: ['✗', 'red'],
};

/** The copy is current, and a run waits for a person all the same. */
const HELD = ['!', 'yellow'] as const;

/** One seller's state as lines for a person. */
export function reportLines(report: SellerReport, now: Date, look: Look): string {
  const awaitsDecision = report.verdict === 'current' && report.lastProblem?.state === 'held';
  const [mark, colour] = awaitsDecision ? HELD : MARKS[report.verdict];
  const known = report.configured ? '' : ' (in the store, not configured)';
  const head = `${paint(colour, mark, look)} ${safeLine(report.name)} · ${verdictText(report, now)}${known}\n`;
  // Not cut to the terminal: half a remedy is none.
  const details = pairs(
    detailsOf(report, now).filter(([, value]) => value !== null),
    { ...look, columns: null },
  );
  return head + details.replaceAll(/^(?=.)/gm, '  ');
}

function verdictText(report: SellerReport, now: Date): string {
  const { running, lastCatalogueSuccess: success } = report;
  const last = success === null ? 'never mirrored' : `items mirrored ${age(success, now)}`;
  switch (report.verdict) {
    case 'never':
      return 'never mirrored';
    case 'running':
      return running === null
        ? 'running'
        : `running (${running.kind}, begun ${age(running.startedAt, now)} by ${safeLine(running.holder)}), ${last}`;
    default:
      return `${report.verdict}, ${last}`;
  }
}

function detailsOf(report: SellerReport, now: Date): (readonly [string, TableCell])[] {
  const {
    account,
    items,
    lastProblem: problem,
    marketplace,
    lastAccountSuccess,
    parked,
    lastWide,
  } = report;
  const money = [account?.balance, account?.currency]
    .filter((text) => typeof text === 'string')
    .join(' ');
  const seen = lastAccountSuccess === null ? '' : `, mirrored ${age(lastAccountSuccess, now)}`;
  const quarantined =
    report.quarantined === 0 ? '' : ` · ${count(report.quarantined)} unreadable, in quarantine`;
  const remedy = report.verdict === 'never' && problem === null && report.configured;
  return [
    ['marketplace', marketplace],
    ['account', account === null ? null : `${account.username}, balance ${money || '–'}${seen}`],
    [
      'items',
      marketplace === null
        ? null
        : `${count(items.live)} live · ${count(items.missing)} missing · ${count(items.removed)} removed${quarantined}`,
    ],
    [
      'changed',
      lastWide === null
        ? null
        : `${age(lastWide.at, now)}, run ${lastWide.runId}: ${lastWide.changes.map(describeWide).join(', ')}`,
    ],
    [
      problem?.state === 'held' ? 'held' : 'problem',
      problem === null || problem.runId === parked?.runId
        ? null
        : `${age(problem.at, now)}, run ${problem.runId} (${problem.kind}, ${problem.state}): ${problem.message}`,
    ],
    [
      'parked',
      parked === null
        ? null
        : `${age(parked.since, now)}, by run ${parked.runId}: ${parked.reason}; schedules leave the seller alone`,
    ],
    ...report.schedules.map((schedule): [string, TableCell] => [
      schedule.kind === 'account' ? 'account only' : 'schedule',
      scheduleText(schedule),
    ]),
    ['remedy', parked?.remedy ?? problem?.remedy ?? (remedy ? 'run `seller-mirror sync`' : null)],
  ];
}

/** `0 2 * * * (Europe/Berlin): Sun 22 Nov 02:00, Mon 23 Nov 02:00, Tue 24 Nov 02:00`. */
function scheduleText({ cron, timeZone, next }: SellerReport['schedules'][number]): string {
  const format = new Intl.DateTimeFormat('en-GB', {
    timeZone,
    ...({ weekday: 'short', day: 'numeric', month: 'short' } as const),
    ...({ hour: '2-digit', minute: '2-digit' } as const),
  });
  const times = next.map((at) => format.format(at).replaceAll(',', ''));
  return `${cron} (${timeZone}): ${times.length === 0 ? 'never' : times.join(', ')}`;
}
