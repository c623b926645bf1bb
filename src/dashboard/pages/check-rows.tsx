import type { Child, FC } from 'hono/jsx';
import type { CheckRow, Group } from '../../codes/check-rows-store.js';
import { readCodeChecks } from '../../codes/codes-store.js';
import { unprovenOnPage, whyUnproven } from '../../codes/evidence.js';
import { customerOf, type Customer } from '../../codes/lists/buyer.js';
import type { AuditProgress, UnprovenCount } from '../../codes/types.js';
import { dayText, proofOf, replyText, verdictSentence } from '../../codes/words.js';
import type { Config } from '../../config/index.js';
import { maskCode, maskLikelyCodes } from '../../domain/secret.js';
import { count, plural } from '../../domain/text.js';
import { CopyButton, customerFacts, Reply, Steps } from '../answer.js';
import { type DashboardContext, type DashboardParts, isOperator } from '../context.js';
import { looksLikeCode } from '../../marketplace/code.js';
import { capital } from '../format.js';
import { ActionButton, Facts, Icon, Untrusted } from '../parts.js';

/*
 * The rows of a check's page: what each says of its customer, what one can do about it, and its proof.
 */

export const TABS = ['needs', 'valid', 'all'] as const;
export type Tab = (typeof TABS)[number];

/** The name of each group, its colour, and what all its rows share. */
export const WORDS: Readonly<
  Record<Group, readonly [label: string, tone: string, meaning: string]>
> = {
  no_longer_valid: [
    'No longer valid',
    'gone',
    'Valid before. Refunded, reversed, or the account is closed.',
  ],
  invalid: ['Invalid', 'bad', 'Denied twice, some time apart, while your key worked.'],
  unproven: ['Unproven', 'warn', 'No clear answer yet. Nothing to tell the customer.'],
  not_a_code: ['Not a code', 'quiet', 'The cell does not hold one code. Ask the customer for it.'],
  waiting: ['Waiting', 'open', 'Not asked yet, or the answer is not proven yet.'],
  valid: ['Valid', 'good', 'The marketplace answered with the purchase.'],
};

/** What the URL of a check chooses. */
export interface View {
  readonly auditId: bigint;
  readonly tab: Tab;
  readonly search: string | null;
  /** From 1. */
  readonly pageNo: number;
  readonly row: { readonly codeId: bigint } | { readonly entry: bigint } | null;
}

/** The URL of a view. */
export function hrefOf({ auditId, tab, search, pageNo, row }: View): string {
  const query = new URLSearchParams({ show: tab });
  if (search !== null) query.set('search', search);
  if (pageNo > 1) query.set('page', String(pageNo));
  if (row !== null) {
    const [name, id] = 'codeId' in row ? ['code', row.codeId] : ['line', row.entry];
    query.set(name, String(id));
  }
  return `/audits/${auditId}?${query.toString()}`;
}

/** The rows of one group, under a head that says once what they share. */
export const GroupOf: FC<{
  group: Group;
  total: number;
  /** Different codes in these lines; null: unknown. */
  codes: number | null;
  rows: readonly CheckRow[];
  reasons: readonly UnprovenCount[];
  row: (row: CheckRow) => Child;
}> = ({ group, total, codes, rows, reasons, row }) => {
  if (rows.length === 0) return null;
  const id = `group-${group}`;
  return (
    <section class="group" aria-labelledby={id}>
      <div class="section-head">
        <h2 id={id} class={`state ${WORDS[group][1]}`}>
          {WORDS[group][0]} {count(total)}
        </h2>
        <p class="muted">
          {WORDS[group][2]}
          {codes === null || codes >= total
            ? null
            : ` ${plural(total, 'line')} with ${plural(codes, 'code')}.`}
        </p>
      </div>
      {reasons.length === 0 ? null : (
        <ul class="lines muted">
          {reasons.map(({ reason, codes }) => (
            <li>
              {plural(codes, 'code')}: <Untrusted text={whyUnproven(reason)} />.{' '}
              {`${capital(unprovenOnPage(reason))}.`}
            </li>
          ))}
        </ul>
      )}
      <ol class="rows">{rows.map(row)}</ol>
    </section>
  );
};

/** The row of the list, the customer, and what one may see of the code. */
function told({ cells, names, cell, code }: CheckRow, c: DashboardContext) {
  const isShown = isOperator(c);
  return {
    customer: isShown && cells !== null ? customerOf(names, cells, cell ?? code) : null,
    code: code === null ? null : isShown ? code : maskCode(code),
  };
}

/** `line 25 · the same code stands in 4 other lines`. */
function placeOf({ line, listed }: CheckRow): string {
  const others = listed - 1;
  const same = `the same code stands in ${others === 1 ? 'another line' : `${count(others)} other lines`}`;
  return [`line ${line}`, ...(others > 0 ? [same] : [])].join(' · ');
}

/** `3f9a41c7…b2e0`: enough to tell codes apart. */
function shortCode(code: string): string {
  return code.length <= 16 ? code : `${code.slice(0, 8)}…${code.slice(-4)}`;
}

export const Row: FC<{ row: CheckRow; view: View; c: DashboardContext; config: Config }> = ({
  row,
  view,
  c,
  config,
}) => {
  const { codeId, entry } = row;
  const { customer, code } = told(row, c);
  const of = entry === null && codeId !== null ? { codeId } : { entry: BigInt(entry ?? 0) };
  const isOpen =
    view.row !== null &&
    ('codeId' in view.row ? view.row.codeId === codeId : view.row.entry === BigInt(entry ?? -1));
  const [who, second] = whoText(customer, code === null ? null : shortCode(code));
  const place = row.entry === null ? '' : placeOf(row);
  const isShown = code !== null && !holdsNoCode(row) && who !== shortCode(code);
  const shownCode = isShown ? shortCode(code) : null;
  return (
    <li class={isOpen ? 'row open' : 'row'}>
      <a class="who" href={hrefOf({ ...view, row: of })} aria-current={isOpen ? 'true' : undefined}>
        <b>
          <Untrusted text={who} none={place} isCut />
        </b>
        {second === null ? null : (
          <small>
            <Untrusted text={second} isCut />
          </small>
        )}
      </a>
      <span class="what">
        <Untrusted text={specialOf(row, isOperator(c))} none="" isCut />
        <small>
          {shownCode === null ? null : (
            <>
              <span class="code">
                <Untrusted text={shownCode} />
              </span>{' '}
              ·{' '}
            </>
          )}
          {place}
        </small>
      </span>
      {isOperator(c) ? <RowAction row={row} customer={customer} c={c} config={config} /> : null}
    </li>
  );
};

/** The two lines that say who has the code; without any customer, the code. */
function whoText(customer: Customer | null, code: string | null): readonly [string, string | null] {
  const more = customer?.more.map(({ text }) => text) ?? [];
  const lines = [customer?.name, customer?.email, ...more].filter(
    (text) => typeof text === 'string',
  );
  return [lines[0] ?? code ?? '', lines[1] ?? null];
}

/** Whether the customer has to be asked for the code: the line holds none, or `n/a`, which was asked about and is invalid. */
function holdsNoCode({ group, code }: CheckRow): boolean {
  return group === 'not_a_code' || (group === 'invalid' && !looksLikeCode(code ?? ''));
}

/** What is special about a row, beyond what its group shares. @param isWhole whether its text may be shown */
function specialOf(row: CheckRow, isWhole: boolean): string | null {
  const { purchase, group, cell, code, reason } = row;
  const item = purchase?.item?.name ?? null;
  switch (group) {
    case 'valid':
      return verdictSentence(row, Date.now()).rest;
    case 'no_longer_valid': {
      const month = purchase?.purchasedAt ?? null;
      const bought = month === null ? '' : dayText(month).replace(/^\d+ /, '');
      return [item, bought].filter(Boolean).join(', ');
    }
    case 'unproven':
      return capital(whyUnproven(reason));
    case 'not_a_code':
      return `${capital(reason)}.`;
    case 'invalid':
      if (!holdsNoCode(row)) return null;
      return isWhole ? `The cell says “${cell ?? code}”` : 'The cell does not look like a code';
    case 'waiting':
      return null;
  }
}

/** The one thing to do about a row. */
const RowAction: FC<{
  row: CheckRow;
  customer: Customer | null;
  c: DashboardContext;
  config: Config;
}> = ({ row, customer, c, config }) => {
  if (row.group === 'waiting') return null;
  if (row.group === 'unproven' && row.codeId !== null) {
    return (
      <ActionButton action={`/codes/${row.codeId}/check`} token={c.get('token')}>
        Check now
      </ActionButton>
    );
  }
  const reply = replyTo(row, customer, config);
  const about = customer?.name ?? customer?.email ?? `line ${row.line}`;
  return reply === null ? null : <CopyButton text={reply} done="Reply copied" about={about} />;
};

/** The reply to a customer; null while there is nothing to tell. */
function replyTo(row: CheckRow, customer: Customer | null, { replies }: Config): string | null {
  const { group, code, purchase, lastValidAt } = row;
  if (group === 'waiting') return null;
  const facts = { firstName: customer?.firstName ?? null, code, purchase, lastValidAt };
  return replyText(replies[holdsNoCode(row) ? 'not_a_code' : group], facts, Date.now());
}

/** The proof of one row, beside the list; on narrow screens in its place. */
export async function proofPanel(
  c: DashboardContext,
  { db, config }: DashboardParts,
  { auditId }: AuditProgress,
  row: CheckRow,
  view: View,
) {
  const { customer, code } = told(row, c);
  const { group, codeId } = row;
  const mask = (text: string): string => (isOperator(c) ? text : maskLikelyCodes(text));
  const checks = codeId === null ? [] : await readCodeChecks(db, codeId, MAX_CHECKS);
  const back = hrefOf({ ...view, row: null });
  const reply = isOperator(c) ? replyTo(row, customer, config) : null;
  return (
    <aside class="proof-panel" id="proof" aria-label="Proof">
      <div class="section-head">
        <a class="back" href={back}>
          <Icon name="back" /> All rows
        </a>
        <span class={`state ${WORDS[group][1]}`}>{WORDS[group][0]}</span>
        <a class="close button plain" href={back} aria-label="Close the proof">
          <Icon name="close" />
        </a>
      </div>
      <p class="sentence">
        {holdsNoCode(row) ? (
          <Untrusted text={specialOf(row, isOperator(c))} isWhole />
        ) : (
          <Untrusted text={verdictSentence(row, Date.now()).rest} none={WORDS[group][2]} isWhole />
        )}
      </p>
      <Facts
        of={[
          ...customerFacts(customer),
          code === null || codeId === null
            ? null
            : [
                'Code',
                <a class="code" href={`/codes/${codeId}`}>
                  <Untrusted text={code} isWhole />
                </a>,
              ],
          row.entry === null ? null : ['In the list', placeOf(row)],
        ]}
      />
      <Steps of={proofOf(checks, auditId, mask)} form="second" />
      {reply === null ? null : (
        <>
          <Reply text={reply} />
          <div class="actions">
            <CopyButton text={reply} done="Reply copied" isMain />
            {codeId === null ? null : (
              <ActionButton action={`/codes/${codeId}/check`} token={c.get('token')}>
                Check now
              </ActionButton>
            )}
          </div>
        </>
      )}
    </aside>
  );
}

const MAX_CHECKS = 50;
