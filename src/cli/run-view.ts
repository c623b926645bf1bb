import { heldRemedy, remedyFor } from '../jobs/problem.js';
import type { Run } from '../store/status.js';
import { moment } from '../domain/moment.js';
import {
  bytes,
  count,
  cut,
  duration,
  momentCell,
  paint,
  pairs,
  safeLine,
  table,
  type Look,
  type Style,
} from './output/index.js';
import { asTyped } from './own-command.js';

/** A record of a list that could not be read. */
export interface UnreadRecord {
  readonly itemId: bigint | null;
  readonly reason: string;
  readonly raw: string;
}

const STYLES: Readonly<Record<Run['state'], Style | null>> = {
  running: null,
  succeeded: 'green',
  held: 'yellow',
  failed: 'red',
  interrupted: 'yellow',
};

/** Runs as a table, one line each. */
export function runsTable(runs: readonly Run[], look: Look, vertical?: boolean): string {
  // On a terminal room is scarce.
  const isOfOne = look.columns !== null && new Set(runs.map((run) => run.sellerId)).size === 1;
  return table(
    runs,
    [
      { header: 'run', value: (run) => run.runId },
      ...(isOfOne ? [] : [{ header: 'seller', value: (run: Run) => run.sellerId }]),
      { header: 'kind', value: (run) => run.kind },
      { header: 'state', value: (run) => run.state, style: (run) => STYLES[run.state] },
      { header: 'started', value: ({ startedAt }) => momentCell(startedAt, new Date(), look) },
      { header: 'took', value: (run) => took(run), align: 'right' },
      { header: 'listed', value: (run) => run.listed },
      { header: 'added', value: (run) => run.added },
      { header: 'changed', value: (run) => run.changed + run.extraChanged },
      { header: 'removed', value: (run) => run.removed },
      {
        header: 'problem',
        value: (run) => asTyped(run.problem ?? run.warnings[0] ?? ''),
        isNote: true,
      },
    ],
    look,
    { vertical, isWhole: vertical === true },
  );
}

function took({ startedAt, finishedAt }: Run): string {
  return finishedAt === null ? '' : duration(finishedAt.getTime() - startedAt.getTime());
}

/** One run whole. */
export function runDetails(run: Run, unread: readonly UnreadRecord[], look: Look): string {
  const style = STYLES[run.state];
  const state = style === null ? run.state : paint(style, run.state, look);
  return [
    `${paint('bold', `run ${run.runId}`, look)} · ${safeLine(run.sellerId)} · ${run.kind} · ${state}\n`,
    pairs(figures(run), look),
    section('problem', problemLines(run), look),
    section('warnings', run.warnings, look),
    section('decision', decisionLines(run), look),
    section('tolerated notations', toleratedLines(run), look),
    section(
      'records that could not be read (all of them: select * from mirror.quarantine)',
      unread.map(recordLine),
      look,
    ),
  ].join('');
}

function figures(run: Run): (readonly [string, string])[] {
  const end = run.finishedAt;
  const numbers = [
    ['listed', run.listed],
    ['added', run.added],
    ['changed', run.changed],
    ['changed in unknown fields only', run.extraChanged],
    ['unchanged', run.unchanged],
    ['restored', run.restored],
    ['missing', run.missing],
    ['removed', run.removed],
    ['quarantined', run.quarantined],
    ['duplicates', run.duplicates],
    ['requests', run.apiCalls],
  ] as const;
  return [
    ['started', moment(run.startedAt)],
    ['finished', end === null ? '' : `${moment(end)} (${took(run)})`],
    ['by', run.holder],
    ...numbers.map(([name, number]) => [name, count(number)] as const),
    ['list', bytes(Number(run.bytes))],
  ];
}

function problemLines({ problem, problemCode, sellerId }: Run): string[] {
  return problem === null ? [] : [problem, `→ ${remedyFor(problemCode, sellerId)}`];
}

function decisionLines(run: Run): string[] {
  const { runId, state, decision, decidedAt, decidedBy, approvalRunId } = run;
  if (state !== 'held') return [];
  if (decision === null) return [`→ ${heldRemedy(runId)}`];
  const when = decidedAt === null ? '' : ` at ${moment(decidedAt)}`;
  const did =
    decision === 'approved' ? 'carried it out' : 'removed items before, when it was approved';
  const where = approvalRunId === null ? '' : `; run ${approvalRunId} ${did}`;
  return [`${decision}${when} by ${decidedBy ?? 'somebody'}${where}`];
}

function toleratedLines({ tolerated }: Run): string[] {
  if (typeof tolerated !== 'object' || tolerated === null) return [];
  return Object.entries(tolerated).map(([name, number]) => `${name}: ${JSON.stringify(number)}`);
}

const RAW_COLUMNS = 200;

function recordLine({ itemId, reason, raw }: UnreadRecord): string {
  const id = itemId === null ? 'no id' : `item ${itemId}`;
  return `${id}: ${safeLine(reason)}\n    ${cut(safeLine(shortened(raw)), RAW_COLUMNS)}`;
}

function section(title: string, lines: readonly string[], look: Look): string {
  if (lines.length === 0) return '';
  const shown = lines.map((line) => `  ${line.split('\n    ').map(safeLine).join('\n    ')}\n`);
  return `${paint('bold', title, look)}\n${shown.join('')}`;
}

const RAW_CHARACTERS = 2_000;

/** The beginning of a raw record, which may be a megabyte. */
export function shortened(raw: string): string {
  return raw.length > RAW_CHARACTERS ? `${raw.slice(0, RAW_CHARACTERS)}…` : raw;
}
