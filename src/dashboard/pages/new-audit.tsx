import { rm } from 'node:fs/promises';
import type { FC } from 'hono/jsx';
import { chunkEnqueuer } from '../../app/watches.js';
import type { SellerConfig } from '../../config/index.js';
import type { AuditCost } from '../../domain/codes/cost.js';
import { CONFIRM_MODES } from '../../domain/codes/second-look.js';
import { doubtOf, type Doubt } from '../../intake/columns.js';
import { readCodes } from '../../intake/read-codes.js';
import { openSource } from '../../intake/source.js';
import { IntakeError } from '../../intake/types.js';
import {
  costOf,
  enterLists,
  measureLists,
  countRepeated,
  codesToCheck,
  type AuditOptions,
  type LoadReport,
  type NamedList,
} from '../../jobs/codes/enter-list.js';
import { chunkSizeFor } from '../../jobs/codes/pace.js';
import { verifyKey, type KeyFault } from '../../jobs/account.js';
import { enqueueNext } from '../../jobs/codes/perform-chunk.js';
import type { AuditSize } from '../../store/audits/types.js';
import {
  act,
  isOperator,
  Problem,
  queuedNotice,
  type Dashboard,
  type DashboardContext,
  type DashboardParts,
} from '../context.js';
import { isFormToken } from '../doors.js';
import { Drafts, type Draft } from '../drafts.js';
import { message, page } from '../layout.js';
import {
  ActionButton,
  Bar,
  capital,
  count,
  duration,
  Facts,
  Figures,
  Foreign,
  Lines,
  Moment,
  plural,
  Section,
  SellerChoice,
  Sentence,
  Table,
  Token,
} from '../parts.js';
import { codeIn } from '../query.js';

/** A list that was sent, and how to read it. */
interface SavedList {
  readonly name: string;
  readonly seller: string;
  readonly column: string | null;
  readonly sheet: string | null;
}

/** What a list came to when it was read. */
interface ListFacts {
  /** How it was read, and why, as sentences. */
  readonly reasons: readonly string[];
  readonly report: LoadReport;
  readonly size: AuditSize;
  readonly cost: AuditCost;
  readonly requestsPerMinute: number;
  /** It does not look like a list of codes. */
  readonly doubt: Doubt | null;
  /** A valid code of the seller is known. */
  readonly hasValidCode: boolean;
}

type ListDraft = Draft<SavedList, ListFacts>;

/** Known codes read to learn what a seller's codes look like. */
const MOST_KNOWN = 200;

/** `/audits/new`: a list comes in, what was read is shown, and the audit is started. */
export function addNewAudit(app: Dashboard, parts: DashboardParts): void {
  const { store, config, queues } = parts;
  const drafts = new Drafts<SavedList, ListFacts>(parts.uploads);

  app.get('/audits/new', (c) => {
    const token = c.get('token');
    if (!isOperator(c)) {
      return page(c, { title: 'New audit' }, <p class="empty">An operator starts audits.</p>);
    }
    const id = c.req.query('draft');
    if (id !== undefined) {
      const draft = drafts.get(token, id);
      const { work, facts, startedAs, problem } = draft;
      if (startedAs !== null) return c.redirect(startedAs, 303);
      if (work !== null) return waitingPage(c, draft, work.lines);
      if (facts === null) throw problem ?? new Error('the list was not read');
      return draftPage(c, draft, facts);
    }
    return page(
      c,
      {
        title: 'New audit',
        lead: 'Finds out which codes of a list are valid. Nothing is asked before you start it.',
        isStill: true,
      },
      config.sellers.length === 0 ? (
        <p class="empty">
          No seller is configured for this dashboard: see <code>seller-mirror config</code>.
        </p>
      ) : (
        <ListForm token={token} sellers={config.sellers.map(({ name }) => name)} />
      ),
    );
  });

  app.post('/audits/new', async (c) => {
    const contentType = c.req.header('content-type') ?? '';
    if (!contentType.startsWith('multipart/form-data')) {
      throw new Problem('There is no list', 'Send it with the form of this page.');
    }
    const token = c.get('token');
    const sent = await drafts.receive(contentType, c.req.raw.body, (fields) =>
      isFormToken(c, fields.get('token')),
    );
    if (sent === null) return tooOld(c);
    const { fields, name, path } = sent;
    const draft = drafts.add(token, path, {
      name,
      seller: fields.get('seller') ?? '',
      column: fields.get('column')?.trim() || null,
      sheet: fields.get('sheet')?.trim() || null,
    });
    await drafts.work(draft, async (signal, onLines) => {
      try {
        draft.facts = await read(draft, signal, onLines);
      } catch (error) {
        await rm(path, { force: true });
        throw problemOf(error);
      }
    });
    if (draft.problem !== null) throw draft.problem;
    return c.redirect(addressOf(draft), 303);
  });

  app.post('/audits/start', async (c) => {
    const form = await c.req.parseBody();
    const draft = drafts.get(c.get('token'), form['draft']);
    const { list, facts } = draft;
    // Who presses twice gets the same audit.
    if (draft.startedAs !== null) return c.redirect(draft.startedAs, 303);
    if (draft.work !== null) return c.redirect(addressOf(draft), 303);
    if (facts === null) throw draft.problem ?? new Error('the list was not read');
    const canary = canaryIn(form['canary']);
    const confirm = CONFIRM_MODES.find((mode) => mode === form['confirm']) ?? 'auto';
    const what = { action: 'start audit', target: `${list.seller}: ${list.name}` };
    await drafts.work(draft, (signal, onLines) =>
      act(c, parts, what, async () => {
        if (facts.doubt !== null && form['yes'] !== 'yes') {
          throw new Problem(
            'This does not look like a list of purchase codes',
            'Go back and tick that you want it checked all the same, or send the right list.',
          );
        }
        if (codesToCheck(facts.size) === 0) throw new Problem('There is nothing to ask', NO_CODES);
        const options = { confirm, ...(canary === null ? {} : { canary }) };
        try {
          const isTried = await proveKeyOf(sellerOf(list), canary, signal);
          const auditId = await start(draft, options, signal, onLines);
          const queued = await queuedNotice(store);
          const notice = queued === 'queued' && !isTried ? 'key-untried' : queued;
          draft.startedAs = `/audits/${auditId}?notice=${notice}`;
          await rm(draft.path, { force: true });
        } catch (error) {
          throw problemOf(error);
        }
      }),
    );
    if (draft.problem !== null) throw draft.problem;
    return c.redirect(draft.startedAs ?? addressOf(draft), 303);
  });

  app.post('/audits/discard', async (c) => {
    const { draft } = await c.req.parseBody();
    await drafts.drop(drafts.get(c.get('token'), draft));
    return c.redirect('/audits/new', 303);
  });

  function sellerOf(list: SavedList): SellerConfig {
    const seller = config.sellers.find(({ name }) => name === list.seller);
    if (seller !== undefined) return seller;
    throw new Problem('Nothing was read', 'Choose the seller whose codes these are.');
  }

  function canaryIn(given: unknown): string | null {
    if (typeof given !== 'string' || given.trim() === '') return null;
    return codeIn(given, config, 'The code that you know is valid');
  }

  /**
   * Tries the key and the given canary, as `codes check` does before it takes a list. Where the marketplace
   * is out of order, or can't be reached from this machine, the worker tries them.
   * @returns whether they were tried
   * @throws {Problem} when the key opens no account, or the canary is denied
   */
  async function proveKeyOf(
    seller: SellerConfig,
    canary: string | null,
    ended: AbortSignal,
  ): Promise<boolean> {
    const signal = AbortSignal.any([ended, AbortSignal.timeout(PROVING_MS)]);
    const fault = await parts
      .withJobs(seller, {}, ({ marketplace }) =>
        verifyKey(marketplace, canary ?? undefined, signal),
      )
      .catch((error: unknown) => {
        ended.throwIfAborted();
        if (signal.aborted) return NO_ANSWER;
        throw error;
      });
    if (fault === null) return true;
    if (fault.isOutage) return false;
    throw new Problem(capital(fault.message), `${capital(fault.remedy)}.`);
  }

  async function withList<T>(
    { path, list: { name, column, sheet } }: ListDraft,
    work: (list: NamedList) => Promise<T>,
  ): Promise<T> {
    const keys = config.sellers.map(({ key }) => key);
    const options = {
      name,
      keys,
      ...(column === null ? {} : { column }),
      ...(sheet === null ? {} : { sheet }),
    };
    const intake = await readCodes(await openSource(path), options);
    try {
      return await work({ name, intake });
    } finally {
      await intake.close();
    }
  }

  /** Reads a list as `codes check --dry-run` does. */
  async function read(
    draft: ListDraft,
    ended: AbortSignal,
    onLines: (lines: number) => void,
  ): Promise<ListFacts> {
    const seller = sellerOf(draft.list);
    return withList(draft, async (list) => {
      const known = await store.audits.canariesOf(seller.name, MOST_KNOWN);
      const { requestsPerMinute } = seller;
      const { report, size } = await measureLists(
        store,
        seller,
        [list],
        {},
        {
          signal: AbortSignal.any([ended, AbortSignal.timeout(READING_MS)]),
          onRead: ({ intake }) => onLines(intake.tally.rows),
        },
      );
      return {
        reasons: list.intake.layout.reasons,
        report,
        size,
        requestsPerMinute,
        cost: costOf(seller, codesToCheck(size), chunkSizeFor(requestsPerMinute)),
        doubt: doubtOf(list.intake, known),
        hasValidCode: known.length > 0,
      };
    });
  }

  function start(
    draft: ListDraft,
    options: AuditOptions,
    ended: AbortSignal,
    onLines: (lines: number) => void,
  ): Promise<bigint> {
    const seller = sellerOf(draft.list);
    return withList(draft, async (list) => {
      const { auditId } = await enterLists(store, seller, [list], options, {
        signal: AbortSignal.any([ended, AbortSignal.timeout(READING_MS)]),
        onRead: ({ intake }) => onLines(intake.tally.rows),
      });
      await enqueueNext(store, auditId, chunkEnqueuer(queues, seller.name));
      return auditId;
    });
  }
}

/** Longest time that a person waits for the key to be tried (ms). */
const PROVING_MS = 15_000;
const NO_ANSWER: KeyFault = { message: '', remedy: '', isOutage: true };

/** Longest time for reading a list into the store (ms). */
const READING_MS = 10 * 60_000;

/** Seconds between two looks of the page that waits for a list. */
const LOOK_SECONDS = 2;

function addressOf({ id }: ListDraft): string {
  return `/audits/new?draft=${id}`;
}

/**
 * What is shown while a list is read or its audit is started. It is loaded again by a header, which works
 * with a script and without, so no connection stays silent for as long as that takes.
 */
function waitingPage(c: DashboardContext, draft: ListDraft, lines: number): Response {
  const { list, facts } = draft;
  c.header('refresh', `${LOOK_SECONDS};url=${addressOf(draft)}`);
  const total = facts?.size.lines ?? null;
  const text =
    total === null ? plural(lines, 'line') : `${count(lines)} of ${plural(total, 'line')}`;
  return page(
    c,
    {
      title: 'New audit',
      lead: (
        <>
          <Foreign text={list.name} /> for {list.seller}.{' '}
          {facts === null ? 'Nothing was asked yet.' : 'The audit is being started.'}
        </>
      ),
      isStill: true,
    },
    <>
      <Bar
        id="list"
        label={facts === null ? 'Lines read' : 'Lines entered'}
        done={lines}
        total={total}
        text={facts === null ? `The list is being read: ${text}` : `Entered: ${text}`}
      />
      <p class="muted">
        You may leave this page: the work goes on. <a href={addressOf(draft)}>Look again</a>
      </p>
    </>,
  );
}

const NO_CODES = 'No line of the list holds a code. Send another list, or name its column.';

function tooOld(c: DashboardContext): Response {
  return message(
    c,
    403,
    'Nothing was read',
    'The form was too old. Go back, reload the page and try again.',
  );
}

/** What a person can do about a list that can't be read; other errors stay as they are. */
function problemOf(error: unknown): unknown {
  if (!(error instanceof IntakeError)) return error;
  return new Problem(capital(error.message), inForm(error.remedy));
}

function inForm(remedy: string): string {
  return remedy
    .replaceAll('--column', 'the field Column')
    .replaceAll('Leave --sheet out', 'Leave the field Sheet empty')
    .replaceAll('--sheet', 'the field Sheet');
}

const ListForm: FC<{ token: string; sellers: readonly string[] }> = ({ token, sellers }) => (
  <form class="form" method="post" action="/audits/new" enctype="multipart/form-data">
    <Token value={token} />
    <SellerChoice of={sellers} />
    <label>
      Column
      <input
        name="column"
        maxlength={200}
        autocomplete="off"
        placeholder="name or number; empty: found by itself"
      />
    </label>
    <label>
      Sheet
      <input
        name="sheet"
        maxlength={200}
        autocomplete="off"
        placeholder="of a workbook; empty: the first with codes"
      />
    </label>
    <label>
      Codes
      <textarea name="list" rows={8} spellcheck={false} placeholder="paste them here, one a line" />
    </label>
    <label class="drop">
      Or drop a file: Excel (.xlsx), text, CSV, JSON or NDJSON, also compressed with gzip
      <input type="file" name="file" />
    </label>
    <progress data-upload hidden aria-label="Sent so far"></progress>
    <p class="notice bad" data-upload-error hidden>
      The list did not arrive. Check the connection and send it again.
    </p>
    <div class="actions">
      <button class="main">Read list</button>
    </div>
  </form>
);

function draftPage(
  c: DashboardContext,
  { id, list: { name, seller }, problem }: ListDraft,
  facts: ListFacts,
): Response {
  const { size, report, reasons, doubt, hasValidCode } = facts;
  const token = c.get('token');
  const asks = codesToCheck(size);
  return page(
    c,
    {
      title: 'New audit',
      lead: (
        <>
          <Foreign text={name} /> for {seller}. Nothing was asked yet.
        </>
      ),
      actions: (
        <ActionButton action="/audits/discard" token={token} fields={{ draft: id }}>
          Use another list
        </ActionButton>
      ),
      isStill: true,
    },
    <>
      <Figures
        of={[
          { label: 'Codes to ask', value: count(asks) },
          { label: 'Lines', value: count(size.lines) },
          { label: 'Listed again', value: count(countRepeated(size)) },
          { label: 'Rejected', value: count(size.rejected) },
          { label: 'Calls', value: count(facts.cost.calls), note: callsNote(facts) },
        ]}
      />
      {problem === null ? null : (
        <p class="notice bad">
          It was not started.{' '}
          <Sentence
            text={
              problem instanceof Problem
                ? `${problem.message}. ${problem.remedy}`
                : 'The database or the queue did not answer: try again.'
            }
          />
        </p>
      )}
      {doubt === null ? null : <DoubtNotice doubt={doubt} />}
      {asks === 0 ? (
        <p class="notice warn">There is nothing to ask. {NO_CODES}</p>
      ) : (
        <form class="form" method="post" action="/audits/start">
          <Token value={token} />
          <input type="hidden" name="draft" value={id} />
          <Facts of={[['Finished', finishOf(facts)]]} />
          <label>
            Denied codes that are asked for again before they are called invalid
            <select name="confirm">
              <option value="auto">auto: all of a few, a sample of many</option>
              <option value="all">all: surest, up to twice the calls</option>
              <option value="none">none: one denial is enough</option>
            </select>
          </label>
          <label>
            A code that you know is valid
            <input
              name="canary"
              autocomplete="off"
              spellcheck={false}
              maxlength={400}
              placeholder={hasValidCode ? 'not needed: some are known' : 'proves more'}
            />
          </label>
          {hasValidCode ? null : (
            <p class="muted">
              No valid code of {seller} is known yet. Until one is found, account details alone
              prove a denial.
            </p>
          )}
          {doubt === null ? null : (
            <label class="check">
              <input type="checkbox" name="yes" value="yes" required /> Check it all the same
            </label>
          )}
          <div class="actions">
            <button class="main">Start audit</button>
          </div>
        </form>
      )}
      <Reading reasons={[...reasons, ...report.notes, ...blank(report)]} />
      {report.rejected === 0 ? null : (
        <Section
          title="Rejected lines"
          note={
            report.rejected > report.firstRejected.length
              ? `the first ${report.firstRejected.length} of ${count(report.rejected)}; the result has all`
              : 'they stay in the result, as rejected'
          }
        >
          <Table
            caption="Rejected lines"
            flows
            rows={report.firstRejected}
            empty=""
            columns={[
              { name: 'Place', cell: ({ place }) => place },
              { name: 'Why', cell: ({ why }) => <Foreign text={why} /> },
            ]}
          />
        </Section>
      )}
    </>,
  );
}

/** How a list was read, and why; nothing where there was nothing to find out. */
export const Reading: FC<{ reasons: readonly string[] }> = ({ reasons }) =>
  reasons.length === 0 ? null : (
    <Section title="How it was read">
      <Lines of={reasons} />
    </Section>
  );

const DoubtNotice: FC<{ doubt: Doubt }> = ({ doubt: { odd, of, known, samples } }) => (
  <div class="notice warn">
    <p>
      {count(odd)} of the first {plural(of, 'record')} do not look like{' '}
      {known === null ? 'purchase codes' : `the valid codes that are known (${known})`}:
    </p>
    <Lines of={samples} />
  </div>
);

function callsNote({ requestsPerMinute }: ListFacts): string {
  return requestsPerMinute === 0 ? 'without a limit' : `at ${count(requestsPerMinute)} a minute`;
}

function finishOf({ cost: { leastMs } }: ListFacts) {
  // Without a limit the time depends on the marketplace's speed, which is not known yet.
  if (leastMs === null) return 'as soon as the marketplace has answered';
  return (
    <>
      in about {duration(leastMs)}, at <Moment at={new Date(Date.now() + leastMs)} />, if few codes
      are denied
    </>
  );
}

function blank({ blankLines }: LoadReport): string[] {
  return blankLines === 0 ? [] : [`${plural(blankLines, 'blank line')} left out.`];
}
