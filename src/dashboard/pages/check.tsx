import type { Child, FC } from 'hono/jsx';
import { ANSWERED, unprovenRemedy, whyUnproven } from '../../codes/evidence.js';
import { auditResult, describeReading, isWorkbookList } from '../../codes/audit-result.js';
import { countRepeated } from '../../codes/enter-list.js';
import { CODES, OUTCOMES, type Outcome, type OutcomeRow } from '../../codes/codes-listing.js';
import type { Db } from '../../db/db.js';
import type { AuditProgress, UnprovenCount } from '../../codes/types.js';
import {
  type Dashboard,
  type DashboardParts,
  isOperator,
  listName,
  Problem,
  queueNotice,
  runAction,
} from '../context.js';
import { stateWord, toneOf, type Value } from '../../listing/listing.js';
import { checkRoom, csvDialectOf, Downloads, sendFile } from '../downloads.js';
import { ListingTable, shownTo, addListing } from '../listing.js';
import { message, page } from '../layout.js';
import { capital } from '../format.js';
import { count, duration } from '../../domain/text.js';
import {
  ActionButton,
  Ago,
  Bar,
  type Fact,
  Facts,
  Figures,
  HowListWasRead,
  Moment,
  Pages,
  Section,
  SellerLink,
  Sentence,
  splitPage,
  State,
  TableSection,
  Untrusted,
} from '../parts.js';
import { readRunning } from '../../catalogue/overview-store.js';
import { readAuditList, cancelAudit, resumeAudit, getAudit } from '../../codes/audits-store.js';
import { countUnproven } from '../../codes/results-store.js';
import { oneOf, parseId, parseNumber } from '../query.js';
import { AUDITS } from '../../codes/audits-listing.js';

/** `/audits/ID`: one check of a list. */
export function addCheck(app: Dashboard, parts: DashboardParts): void {
  const { db, queues, live } = parts;

  app.get('/audits/:id', async (c) => {
    const audit = await auditIn(c.req.param('id'));
    const { auditId, state, pending, unproven } = audit;
    const isRunning = state === 'running';
    const [running, list, reasons] = await Promise.all([
      isRunning ? readRunning(db) : null,
      readAuditList(db, auditId),
      unproven > 0 || (!isRunning && pending > 0) ? countUnproven(db, auditId) : [],
    ]);
    const hasList = list?.prunedAt === null;
    const show = oneOf(OUTCOMES, c.req.query('show'));
    const after = parseNumber(c.req.query('from'));
    const groups = hasList && !isRunning ? await readGroups(db, audit, show, after) : [];
    const listing = shownTo(c, CODES);
    const sectionsOf = (some: readonly Group[]) =>
      some.map((group) => (
        <OutcomeSection
          {...group}
          path={`/audits/${auditId}`}
          url={show === undefined ? null : c.req.url}
          listing={listing}
        />
      ));
    const countOf = (outcome: Outcome, codes: number): Child =>
      hasList && !isRunning && codes > 0 ? (
        <a href={`/audits/${auditId}?show=${outcome}`}>{count(codes)}</a>
      ) : (
        count(codes)
      );
    const isWorkbook = isWorkbookList(list?.layout ?? null);
    const bar =
      running === null
        ? undefined
        : live.barsOf(running).find(({ id }) => id === `audit ${auditId}`);
    const token = c.get('token');
    return page(
      c,
      {
        title: `Check ${auditId}`,
        lead: (
          <>
            <State of={state} /> <Untrusted text={listName(c, audit.source)} /> for{' '}
            <SellerLink name={audit.sellerId} />, <Ago at={audit.createdAt} />
          </>
        ),
        actions: isOperator(c) ? (
          <>
            {state === 'running' || state === 'failed' ? (
              <ActionButton action={`/audits/${auditId}/cancel`} token={token}>
                Cancel
              </ActionButton>
            ) : null}
            {state === 'cancelled' || state === 'failed' ? (
              <ActionButton action={`/audits/${auditId}/resume`} token={token} isMain>
                Resume
              </ActionButton>
            ) : null}
          </>
        ) : undefined,
      },
      <>
        {bar === undefined ? null : <Bar {...bar} label={`Check ${auditId}`} />}
        {audit.problem === null || bar !== undefined ? null : (
          <p class={`notice ${state === 'failed' ? 'bad' : 'warn'}`}>
            <Untrusted text={audit.problem} isWhole />
          </p>
        )}
        {bar === undefined ? (
          <Figures
            of={[
              { label: 'Valid', value: countOf('valid', audit.valid) },
              { label: 'Invalid', value: countOf('invalid', audit.invalid) },
              { label: 'No longer valid', value: countOf('no_longer_valid', audit.noLongerValid) },
              { label: 'Unproven', value: countOf('unproven', unproven) },
              {
                label: 'Waiting',
                value: countOf('waiting', pending),
                note:
                  audit.denied > 0 ? `${count(audit.denied)} denied, to be confirmed` : undefined,
              },
              { label: 'Calls', value: count(audit.apiCalls) },
            ]}
          />
        ) : null}
        {hasList && isOperator(c) ? (
          <div class="actions">
            <a
              class={`button${state === 'finished' ? ' main' : ''}`}
              href={`/audits/${auditId}/result.${isWorkbook ? 'xlsx' : 'csv'}`}
            >
              Download result
            </a>
            <Downloads
              of={`result of check ${auditId}`}
              path={`/audits/${auditId}/result`}
              as={isWorkbook ? ['csv', 'csv-comma'] : ['csv-comma', 'xlsx']}
            />
          </div>
        ) : null}
        {show === undefined ? null : (
          <p>
            <a href={`/audits/${auditId}`}>Show all results</a>
          </p>
        )}
        {sectionsOf(groups.filter(({ outcome }) => outcome !== 'valid'))}
        <NoVerdict reasons={reasons} />
        {sectionsOf(groups.filter(({ outcome }) => outcome === 'valid'))}
        <Section title="List">
          <Facts
            of={[
              ['Lines', count(audit.lines)],
              ['Codes', count(audit.codes)],
              ['Repeated', count(countRepeated(audit))],
              ['Rejected', countOf('rejected', audit.rejected)],
              audit.reused === 0 ? null : ['Already checked recently', count(audit.reused)],
              ['Started', <Moment at={audit.createdAt} />],
              ['Finished', finishedOf(audit)],
              isOperator(c) ? resultFact(audit) : null,
            ]}
          />
        </Section>
        {/* The reasons quote the list. */}
        <HowListWasRead reasons={isOperator(c) ? describeReading(list?.layout ?? null) : []} />
      </>,
    );
  });

  app.post('/audits/:id/cancel', async (c) => {
    const { auditId, sellerId } = await auditIn(c.req.param('id'));
    const action = { action: 'cancel check', target: targetOf(auditId, sellerId) };
    await runAction(c, parts, action, async () => {
      if ((await cancelAudit(db, auditId)) !== 'finished') return;
      throw new Problem(`Check ${auditId} has already finished`, 'Download its result.', 409);
    });
    return c.redirect(`/audits/${auditId}?notice=cancelled`, 303);
  });

  app.post('/audits/:id/resume', async (c) => {
    const { auditId, sellerId, state } = await auditIn(c.req.param('id'));
    const action = { action: 'resume check', target: targetOf(auditId, sellerId) };
    await runAction(c, parts, action, async () => {
      if (state === 'finished') {
        const remedy = 'To check its codes again, start a new check.';
        throw new Problem(`Check ${auditId} has already finished`, remedy, 409);
      }
      if (state !== 'running') await resumeAudit(db, auditId);
      await queues.addAudit(sellerId, auditId, { promote: true });
    });
    return c.redirect(`/audits/${auditId}?notice=${await queueNotice(db)}`, 303);
  });

  app.get('/audits/:id/:file{result\\.(?:csv|xlsx)}', async (c) => {
    if (!isOperator(c)) {
      return message(c, 403, 'Viewers can’t download codes', 'Ask an operator for the result.');
    }
    const { auditId, sellerId, lines } = await auditIn(c.req.param('id'));
    const action = { action: 'download result', target: targetOf(auditId, sellerId) };
    const format = c.req.param('file') === 'result.xlsx' ? 'xlsx' : 'csv';
    const { name, pieces } = await runAction(c, parts, action, async () => {
      await checkRoom(format, () => lines);
      const found = await auditResult(db, [{ auditId, sellerId }], format, csvDialectOf(c) ?? null);
      if (found !== null) return found;
      throw new Problem(
        `The list of check ${auditId} was deleted`,
        'KEEP_AUDITS_DAYS limits how long lists are kept. Verdicts are never deleted.',
        409,
      );
    });
    return sendFile(c, name, format, async (write) => {
      for await (const piece of pieces) await write(piece);
    });
  });

  /** @throws {Problem} (404) when the audit does not exist */
  async function auditIn(text: string): Promise<AuditProgress> {
    const audit = await getAudit(db, parseId(text));
    if (audit !== null) return audit;
    throw new Problem(
      'Check not found',
      'The Checks page lists all checks. A list whose check was not started is deleted after an hour.',
      404,
    );
  }
}

function targetOf(auditId: bigint, sellerId: string): string {
  return `check ${auditId} of ${sellerId}`;
}

function finishedOf({ createdAt, finishedAt }: AuditProgress) {
  if (finishedAt === null) return '–';
  return (
    <>
      <Moment at={finishedAt} />, after {duration(finishedAt.getTime() - createdAt.getTime())}
    </>
  );
}

/** The codes with one outcome that a page shows. */
interface Group {
  readonly outcome: Outcome;
  readonly total: number;
  readonly rows: readonly OutcomeRow[];
  /** Where the next page starts; null on the last one. */
  readonly next: number | null;
}

/** Codes of each outcome on the page of a check; more are one click away. */
const FEW = 20;
const PAGE_SIZE = 100;

/** Reads one outcome, or the first codes of each that occurs, those that need somebody first. */
async function readGroups(
  db: Db,
  audit: AuditProgress,
  show: Outcome | undefined,
  after: bigint | null,
): Promise<Group[]> {
  const { auditId } = audit;
  const totals: Readonly<Record<Outcome, number>> = {
    no_longer_valid: audit.noLongerValid,
    invalid: audit.invalid,
    unproven: audit.unproven,
    rejected: audit.rejected,
    waiting: audit.pending,
    valid: audit.valid,
  };
  const limit = show === undefined ? FEW : PAGE_SIZE;
  const wanted = OUTCOMES.filter((one) => (show ?? one) === one && totals[one] > 0);
  return Promise.all(
    wanted.map(async (outcome) => {
      const filters = { audit: String(auditId), outcome };
      const page = { from: after, limit: limit + 1, face: 'tables' } as const;
      const found = await CODES.read(db, filters, page);
      const { shown, last } = splitPage(found, limit);
      return { outcome, total: totals[outcome], rows: shown, next: last?.position ?? null };
    }),
  );
}

const MEANINGS: Readonly<Record<Outcome, string>> = {
  no_longer_valid: 'valid before: refunded, reversed, or the buyer’s account is closed',
  invalid: 'the marketplace does not know these codes',
  unproven: 'no verdict: check them again later',
  rejected: 'no single code could be read from these lines',
  waiting: 'not checked yet',
  valid: ANSWERED,
};

/** Whether a value is missing, or repeats what the note of its section says. */
function saysNothing(value: Value, outcome: Outcome): boolean {
  return value === null || value === MEANINGS[outcome];
}

const OutcomeSection: FC<
  Group & {
    path: string;
    /** Of this page, if it shows one outcome only. */
    url: string | null;
    listing: typeof CODES;
  }
> = ({ outcome, total, rows, next, path, url, listing }) => (
  <>
    <Section
      title={capital(stateWord(outcome))}
      note={
        <>
          <State of={count(total)} tone={toneOf(outcome)} /> {MEANINGS[outcome]}
        </>
      }
    >
      <ListingTable
        listing={{ ...listing, name: outcome }}
        rows={rows}
        hide={listing.columns
          .filter((column) => rows.every((row) => saysNothing(column.value(row), outcome)))
          .map(({ name }) => name)}
      />
    </Section>
    {url === null ? (
      next === null ? null : (
        <p>
          <a href={`${path}?show=${outcome}`}>
            Show all {count(total)} {stateWord(outcome)}
          </a>
        </p>
      )
    ) : (
      <Pages url={url} next={next} />
    )}
  </>
);

/** Where `codes check --out` writes the result. */
function resultFact({ result }: AuditProgress): Fact | null {
  if (result === null) return null;
  const { path, writtenAt } = result;
  const status =
    writtenAt === null ? (
      'not written yet'
    ) : (
      <>
        written <Ago at={writtenAt} />
      </>
    );
  return [
    'Result file',
    <>
      <Untrusted text={path} />, {status}
    </>,
  ];
}

/** Why codes got no verdict, and what to do. */
const NoVerdict: FC<{ reasons: readonly UnprovenCount[] }> = ({ reasons }) => (
  <TableSection
    title="Codes without a verdict"
    rows={reasons}
    columns={[
      { name: 'Codes', count: ({ codes }) => codes },
      { name: 'Why', cell: ({ reason }) => <Untrusted text={whyUnproven(reason)} /> },
      { name: 'What to do', cell: ({ reason }) => <Sentence text={unprovenRemedy(reason)} /> },
    ]}
  />
);

/** `/audits`: past checks. */
export function addAudits(app: Dashboard, parts: DashboardParts): void {
  addListing(app, parts, AUDITS, {
    title: 'Checks',
    actions: (c) =>
      isOperator(c) ? (
        <a class="button main" href="/audits/new">
          Check codes
        </a>
      ) : null,
  });
}
