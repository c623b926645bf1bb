import type { FC } from 'hono/jsx';
import type { CheckCost } from '../../codes/progress.js';
import type { Doubt } from '../../codes/lists/columns.js';
import { countRepeated, codesToCheck, type LoadReport } from '../../codes/enter-list.js';
import type { AuditSize } from '../../codes/types.js';
import { type DashboardContext, Problem } from '../context.js';
import type { Draft } from '../drafts.js';
import { duration, count, plural } from '../../domain/text.js';
import { page } from '../layout.js';
import {
  ActionButton,
  Bar,
  Figures,
  HowListWasRead,
  Lines,
  Moment,
  SellerSelect,
  Sentence,
  TableSection,
  Token,
  Untrusted,
} from '../parts.js';

/** The fields of an uploaded list. */
interface ListFields {
  readonly name: string;
  readonly seller: string;
  readonly column: string | null;
  readonly sheet: string | null;
}

/** What reading a list found. */
export interface ListFacts {
  /** Sentences that explain how the list was read. */
  readonly reasons: readonly string[];
  readonly report: LoadReport;
  readonly size: AuditSize;
  readonly cost: CheckCost;
  /** 0: unlimited. */
  readonly requestsPerMinute: number;
  /** Set when the list does not look like purchase codes. */
  readonly doubt: Doubt | null;
  readonly isValidCodeKnown: boolean;
}

export type ListDraft = Draft<ListFields, ListFacts>;

export const NO_CODES =
  'No line of the list contains a code. Use another list, or name its column.';

/** Seconds until the waiting page reloads. */
const RELOAD_SECONDS = 2;

export function draftUrl({ id }: ListDraft): string {
  return `/audits/new?draft=${id}`;
}

/** The form that uploads a list. */
export const ListForm: FC<{ token: string; sellers: readonly string[] }> = ({ token, sellers }) => (
  <form class="form" method="post" action="/audits/new" enctype="multipart/form-data">
    <Token value={token} />
    <SellerSelect of={sellers} />
    <div class="columns">
      <label>
        Codes
        <textarea name="list" rows={3} spellcheck={false} placeholder="Paste codes, one per line" />
      </label>
      <label class="drop">
        Or drop a file: Excel (.xlsx), CSV or text
        <input type="file" name="file" />
      </label>
    </div>
    <details>
      <summary>Column and sheet</summary>
      <div class="columns">
        <label>
          Column (optional)
          <input name="column" maxlength={200} autocomplete="off" placeholder="Name or number" />
        </label>
        <label>
          Sheet (optional)
          <input name="sheet" maxlength={200} autocomplete="off" placeholder="Excel only" />
        </label>
      </div>
    </details>
    <progress data-upload hidden aria-label="Upload progress"></progress>
    <p class="notice bad" role="alert" data-upload-error hidden></p>
    <div class="actions">
      <button class="main">Read list</button>
    </div>
  </form>
);

/**
 * Shown while a list is read or its audit is started. Reloads itself through a header, so it needs neither
 * a script nor a connection that stays silent for minutes.
 */
export function waitingPage(c: DashboardContext, draft: ListDraft, lines: number): Response {
  const { list, facts } = draft;
  c.header('refresh', `${RELOAD_SECONDS};url=${draftUrl(draft)}`);
  const total = facts?.size.lines ?? null;
  const progress =
    total === null ? plural(lines, 'line') : `${count(lines)} of ${plural(total, 'line')}`;
  return page(
    c,
    {
      title: 'Check codes',
      lead: (
        <>
          <Untrusted text={list.name} /> for {list.seller}.{' '}
          {facts === null ? 'No code was checked yet.' : 'Starting the check.'}
        </>
      ),
      isStatic: true,
    },
    <>
      <Bar
        id="list"
        label={facts === null ? 'Lines read' : 'Lines saved'}
        done={lines}
        total={total}
        text={`${facts === null ? 'Reading the list' : 'Saving the list'}: ${progress}`}
      />
      <p class="muted">
        This continues in the background. <a href={draftUrl(draft)}>Refresh</a>
      </p>
    </>,
  );
}

/** Shows what was read, and the form that starts the audit. */
export function draftPage(
  c: DashboardContext,
  { id, list: { name, seller }, problem }: ListDraft,
  facts: ListFacts,
): Response {
  const { size, report, reasons, doubt } = facts;
  const codes = codesToCheck(size);
  const { blankLines, notes } = report;
  const skipped = blankLines === 0 ? [] : [`${plural(blankLines, 'blank line')} skipped.`];
  return page(
    c,
    {
      title: 'Check codes',
      lead: (
        <>
          <Untrusted text={name} /> for {seller}. No code was checked yet.
        </>
      ),
      actions: (
        <ActionButton action="/audits/discard" token={c.get('token')} fields={{ draft: id }}>
          Use another list
        </ActionButton>
      ),
      isStatic: true,
    },
    <>
      <Figures
        of={[
          { label: 'Codes to check', value: count(codes) },
          { label: 'Lines', value: count(size.lines) },
          { label: 'Repeated', value: count(countRepeated(size)) },
          { label: 'Rejected', value: count(size.rejected) },
          {
            label: 'Calls',
            value: count(facts.cost.calls),
            note:
              facts.requestsPerMinute === 0
                ? 'no rate limit'
                : `at ${count(facts.requestsPerMinute)} a minute`,
          },
        ]}
      />
      {problem === null ? null : (
        <p class="notice bad">
          The check was not started.{' '}
          <Sentence
            text={
              problem instanceof Problem
                ? `${problem.message}. ${problem.remedy}`
                : 'The database or the queue did not respond. Try again.'
            }
          />
        </p>
      )}
      {doubt === null ? null : <DoubtNotice doubt={doubt} />}
      {codes === 0 ? (
        <p class="notice warn">There is nothing to check. {NO_CODES}</p>
      ) : (
        <StartForm draftId={id} seller={seller} facts={facts} token={c.get('token')} />
      )}
      <HowListWasRead reasons={[...reasons, ...notes, ...skipped]} />
      <TableSection
        title="Rejected lines"
        note={
          report.rejected > report.firstRejected.length
            ? `first ${report.firstRejected.length} of ${count(report.rejected)}; the result lists all`
            : 'the result lists them as rejected'
        }
        flows
        rows={report.firstRejected}
        columns={[
          { name: 'Place', cell: ({ place }) => place },
          { name: 'Why', cell: ({ why }) => <Untrusted text={why} /> },
        ]}
      />
    </>,
  );
}

const StartForm: FC<{ draftId: string; seller: string; facts: ListFacts; token: string }> = ({
  draftId,
  seller,
  facts: { cost, doubt, isValidCodeKnown },
  token,
}) => (
  <form class="form" method="post" action="/audits/start">
    <Token value={token} />
    <input type="hidden" name="draft" value={draftId} />
    <p>
      <Finish leastMs={cost.leastMs} />
    </p>
    <label>
      A code you know is valid (optional)
      <input
        name="knownValid"
        autocomplete="off"
        spellcheck={false}
        maxlength={400}
        placeholder={isValidCodeKnown ? 'Not needed: valid codes are known' : 'Makes denials safer'}
      />
    </label>
    <label>
      Reuse verdicts that are at most so old
      <select name="maxAge">
        <option value="">none: check every code</option>
        <option value="1d">a day</option>
        <option value="7d">a week</option>
        <option value="30d">30 days</option>
      </select>
    </label>
    {isValidCodeKnown ? null : (
      <p class="muted">
        No valid code of {seller} is known yet. Until the check finds one, only account details
        prove that the API key works.
      </p>
    )}
    {doubt === null ? null : (
      <label class="check">
        <input type="checkbox" name="yes" value="yes" required /> Check these codes anyway
      </label>
    )}
    <div class="actions">
      <button class="main">Start check</button>
    </div>
  </form>
);

/** When the audit would finish. Without a rate limit that depends on the marketplace's speed. */
const Finish: FC<{ leastMs: number | null }> = ({ leastMs }) =>
  leastMs === null ? (
    <>
      Finishes as soon as the marketplace has answered every call, and a minute or more later if
      codes are denied.
    </>
  ) : (
    <>
      Finishes in about {duration(leastMs)}, at <Moment at={new Date(Date.now() + leastMs)} />, and
      a minute or more later if codes are denied.
    </>
  );

const DoubtNotice: FC<{ doubt: Doubt }> = ({ doubt: { odd, total, known, samples } }) => (
  <div class="notice warn">
    <p>
      {count(odd)} of the first {plural(total, 'record')} do not look like{' '}
      {known === null ? 'purchase codes' : `known valid codes (${known})`}:
    </p>
    <Lines of={samples} />
  </div>
);
