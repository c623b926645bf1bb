import type { FC } from 'hono/jsx';
import type { Draft, DraftReading } from '../../codes/drafts-store.js';
import { codesToCheck, countRepeated } from '../../codes/enter-list.js';
import type { Doubt } from '../../codes/lists/doubt.js';
import { count, duration, plural } from '../../domain/text.js';
import type { DashboardContext } from '../context.js';
import { page } from '../layout.js';
import {
  Bar,
  Figures,
  Lines,
  Section,
  SellerSelect,
  Sentence,
  TableSection,
  Token,
  Untrusted,
  When,
} from '../parts.js';

/** Seconds until the waiting page reloads. */
const RELOAD_SECONDS = 2;

/** One line to paste codes into, or to drop a list on. The next page asks about column and sheet. */
export const ListForm: FC<{ token: string; sellers: readonly string[] }> = ({ token, sellers }) => (
  <form class="dropbar" method="post" action="/audits/new" enctype="multipart/form-data">
    <Token value={token} />
    {sellers.length === 1 ? (
      <input type="hidden" name="seller" value={sellers[0]} />
    ) : (
      <SellerSelect of={sellers} />
    )}
    <textarea
      name="list"
      rows={1}
      spellcheck={false}
      aria-label="Codes"
      placeholder="Paste codes, or drop a list here"
    />
    <input type="file" name="file" aria-label="List: Excel (.xlsx), CSV or text" />
    <button>Read list</button>
    <progress data-upload hidden aria-label="Upload progress"></progress>
    <p class="notice bad" role="alert" data-upload-error hidden></p>
  </form>
);

/**
 * Shows what was read, or why it could not be read; starts the check, or reads the list again. While that goes on, the
 * page reloads itself through a header: it needs neither a script nor a connection that stays silent for minutes.
 * @param lines handled so far; null when nothing goes on
 */
export function draftPage(c: DashboardContext, draft: Draft, lines: number | null): Response {
  const { auditId, name, sellerId, reading, problem } = draft;
  const token = c.get('token');
  const failed = reading === null ? 'The list was not read.' : 'The check was not started.';
  if (lines !== null) c.header('refresh', `${RELOAD_SECONDS};url=/audits/${auditId}`);
  return page(
    c,
    {
      title: 'Check codes',
      lead: (
        <>
          <Untrusted text={name} /> for {sellerId}. No code was checked yet.
        </>
      ),
      actions: (
        <a class="button" href="/audits/new">
          Use another list
        </a>
      ),
      isStatic: true,
    },
    lines === null ? (
      <>
        {reading === null ? null : <ReadingFigures {...reading} />}
        {problem === null ? null : (
          <p class="notice bad">
            {failed} <Sentence text={`${problem.message}. ${problem.remedy}`} />
          </p>
        )}
        {reading === null ? null : <StartForm draft={draft} reading={reading} token={token} />}
        <ReadAgain draft={draft} token={token} />
        {reading === null ? null : <ReadingReport {...reading} />}
      </>
    ) : (
      <WorkBar lines={lines} total={reading?.size.lines ?? null} />
    ),
  );
}

/** @param total lines to save; null while the list is read */
const WorkBar: FC<{ lines: number; total: number | null }> = ({ lines, total }) => (
  <>
    <Bar
      id="list"
      label={total === null ? 'Lines read' : 'Lines saved'}
      done={lines}
      total={total}
      text={
        total === null
          ? `Reading the list: ${plural(lines, 'line')}`
          : `Starting the check: ${count(lines)} of ${plural(total, 'line')}`
      }
    />
    <p class="muted">
      This continues in the background. <a href="">Refresh</a>
    </p>
  </>
);

const ReadingFigures: FC<DraftReading> = ({ size, cost, requestsPerMinute }) => (
  <Figures
    of={[
      { label: 'Codes to check', value: count(codesToCheck(size)) },
      { label: 'Lines', value: count(size.lines) },
      { label: 'Repeated', value: count(countRepeated(size)) },
      { label: 'Rejected', value: count(size.rejected) },
      {
        label: 'Calls',
        value: count(cost.calls),
        note: requestsPerMinute === 0 ? 'no rate limit' : `at ${count(requestsPerMinute)} a minute`,
      },
    ]}
  />
);

/** The form that names the column of codes, and the sheet. */
const ReadAgain: FC<{ draft: Draft; token: string }> = ({ draft, token }) => (
  <details open={draft.reading === null}>
    <summary>Column and sheet</summary>
    <form class="form" method="post" action={`/audits/${draft.auditId}/read`}>
      <Token value={token} />
      <div class="columns">
        <label>
          Column
          <input
            name="column"
            list="columns"
            maxlength={200}
            autocomplete="off"
            placeholder="Name or number"
            value={draft.column}
          />
        </label>
        <label>
          Sheet
          <input
            name="sheet"
            maxlength={200}
            autocomplete="off"
            placeholder="Excel only"
            value={draft.sheet}
          />
        </label>
      </div>
      <datalist id="columns">
        {draft.reading?.columns.map((name) => (
          <option value={name} />
        ))}
      </datalist>
      <div class="actions">
        <button>Read again</button>
      </div>
    </form>
  </details>
);

/** How the list was read, and its first lines without a code. */
const ReadingReport: FC<DraftReading> = ({ sentences, rejected, size }) => (
  <>
    {sentences.length === 0 ? null : (
      <Section title="How the list was read">
        <Lines of={sentences} />
      </Section>
    )}
    <TableSection
      title="Rejected lines"
      note={
        size.rejected > rejected.length
          ? `first ${rejected.length} of ${count(size.rejected)}; the result lists all`
          : 'the result lists them as rejected'
      }
      flows
      rows={rejected}
      columns={[
        { name: 'Place', cell: ({ place }) => place },
        { name: 'Why', cell: ({ why }) => <Untrusted text={why} /> },
      ]}
    />
  </>
);

const StartForm: FC<{ draft: Draft; reading: DraftReading; token: string }> = ({
  draft: { auditId, sellerId },
  reading: { size, cost, doubt, isValidCodeKnown },
  token,
}) =>
  codesToCheck(size) === 0 ? (
    <p class="notice warn">
      There is nothing to check. No line of the list contains a code. Use another list, or name its
      column.
    </p>
  ) : (
    <form class="form" method="post" action={`/audits/${auditId}/start`}>
      <Token value={token} />
      {doubt === null ? null : <DoubtNotice doubt={doubt} />}
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
          placeholder={
            isValidCodeKnown ? 'Not needed: valid codes are known' : 'Makes denials safer'
          }
        />
      </label>
      <label>
        Reuse verdicts that are not older than
        <select name="maxAge">
          <option value="">none: check every code</option>
          <option value="1d">a day</option>
          <option value="7d">a week</option>
          <option value="30d">30 days</option>
        </select>
      </label>
      {isValidCodeKnown ? null : (
        <p class="muted">
          No valid code of {sellerId} is known yet. Until the check finds one, only account details
          prove that the API key works.
        </p>
      )}
      <div class="actions">
        <button class="main">Start check</button>
      </div>
    </form>
  );

/** When the check would finish. Without a rate limit that depends on the marketplace's speed. */
const Finish: FC<{ leastMs: number | null }> = ({ leastMs }) =>
  leastMs === null ? (
    <>
      Finishes as soon as the marketplace has answered every call, and a minute or more later if
      codes are denied.
    </>
  ) : (
    <>
      Finishes in about {duration(leastMs)} (<When at={new Date(Date.now() + leastMs)} />
      ), and a minute or more later if codes are denied.
    </>
  );

const DoubtNotice: FC<{ doubt: Doubt }> = ({ doubt: { odd, total, known, samples } }) => (
  <div class="notice warn">
    <p>
      {count(odd)} of the first {plural(total, 'record')} do not look like{' '}
      {known === null ? 'purchase codes' : `known valid codes (${known})`}:
    </p>
    <Lines of={samples} />
    <label class="check">
      <input type="checkbox" name="yes" value="yes" required /> Check these codes anyway
    </label>
  </div>
);
