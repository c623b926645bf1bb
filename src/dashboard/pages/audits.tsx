import type { FC } from 'hono/jsx';
import { unprovenRemedy, whyUnproven } from '../../codes/reasons.js';
import { auditResultPieces, describeReading, isWorkbookList } from '../../codes/audit-result.js';
import { countRepeated } from '../../codes/enter-list.js';
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
import { checkRoom, csvDialectOf, Downloads, sendFile } from '../downloads.js';
import { message, page } from '../layout.js';
import { count, duration } from '../format.js';
import {
  ActionButton,
  Ago,
  Bar,
  type Fact,
  Facts,
  Figures,
  HowListWasRead,
  Moment,
  Section,
  SellerLink,
  Sentence,
  State,
  TableSection,
  Untrusted,
} from '../parts.js';
import { readRunning } from '../../catalogue/overview-store.js';
import { AUDITS } from '../../codes/audits-listing.js';
import { readAuditList, cancelAudit, resumeAudit, getAudit } from '../../codes/audits-store.js';
import { countUnproven } from '../../codes/results-store.js';
import { addListing } from '../listing.js';
import { parseId } from '../query.js';

/** `/audits`, `/audits/ID`. */
export function addAudits(app: Dashboard, parts: DashboardParts): void {
  const { db, queues, live } = parts;

  addListing(app, parts, AUDITS, {
    actions: (c) =>
      isOperator(c) ? (
        <a class="button main" href="/audits/new">
          New audit
        </a>
      ) : null,
  });

  app.get('/audits/:id', async (c) => {
    const audit = await auditIn(c.req.param('id'));
    const { auditId, state, pending, unproven } = audit;
    const isRunning = state === 'running';
    const [running, list, reasons] = await Promise.all([
      isRunning ? readRunning(db) : null,
      readAuditList(db, auditId),
      unproven > 0 || (!isRunning && pending > 0) ? countUnproven(db, auditId) : [],
    ]);
    const isWorkbook = isWorkbookList(list?.layout ?? null);
    const bar =
      running === null
        ? undefined
        : live.barsOf(running).find(({ id }) => id === `audit ${auditId}`);
    const token = c.get('token');
    return page(
      c,
      {
        title: `Audit ${auditId}`,
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
            {list?.prunedAt === null ? (
              <>
                <a
                  class={`button${state === 'finished' ? ' main' : ''}`}
                  href={`/audits/${auditId}/result.${isWorkbook ? 'xlsx' : 'csv'}`}
                >
                  Download result
                </a>
                <Downloads
                  of={`result of audit ${auditId}`}
                  path={`/audits/${auditId}/result`}
                  as={isWorkbook ? ['csv', 'csv-comma'] : ['csv-comma', 'xlsx']}
                />
              </>
            ) : null}
          </>
        ) : undefined,
      },
      <>
        {bar === undefined ? null : <Bar {...bar} label={`Audit ${auditId}`} />}
        {audit.problem === null || bar !== undefined ? null : (
          <p class={`notice ${state === 'failed' ? 'bad' : 'warn'}`}>
            <Untrusted text={audit.problem} isWhole />
          </p>
        )}
        {bar === undefined ? (
          <Figures
            of={[
              { label: 'Valid', value: count(audit.valid) },
              { label: 'Invalid', value: count(audit.invalid) },
              { label: 'Unproven', value: count(unproven) },
              {
                label: 'Waiting',
                value: count(pending),
                note:
                  audit.denied > 0 ? `${count(audit.denied)} denied, to be confirmed` : undefined,
              },
              { label: 'Calls', value: count(audit.apiCalls) },
            ]}
          />
        ) : null}
        <NoVerdict reasons={reasons} />
        <Section title="List">
          <Facts
            of={[
              ['Lines', count(audit.lines)],
              ['Codes', count(audit.codes)],
              ['Repeated', count(countRepeated(audit))],
              ['Rejected', count(audit.rejected)],
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
    const action = { action: 'cancel audit', target: targetOf(auditId, sellerId) };
    await runAction(c, parts, action, async () => {
      if ((await cancelAudit(db, auditId)) !== 'finished') return;
      throw new Problem(`Audit ${auditId} has already finished`, 'Download its result.', 409);
    });
    return c.redirect(`/audits/${auditId}?notice=cancelled`, 303);
  });

  app.post('/audits/:id/resume', async (c) => {
    const { auditId, sellerId, state } = await auditIn(c.req.param('id'));
    const action = { action: 'resume audit', target: targetOf(auditId, sellerId) };
    await runAction(c, parts, action, async () => {
      if (state === 'finished') {
        const remedy = 'To check its codes again, start a new audit.';
        throw new Problem(`Audit ${auditId} has already finished`, remedy, 409);
      }
      if (state !== 'running') await resumeAudit(db, auditId);
      await queues.addAudit(sellerId, auditId, { force: true });
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
    const pieces = await runAction(c, parts, action, async () => {
      await checkRoom(format, () => lines);
      const found = await auditResultPieces(db, auditId, format, csvDialectOf(c) ?? null);
      if (found !== null) return found;
      throw new Problem(
        `The list of audit ${auditId} was deleted`,
        'KEEP_AUDITS_DAYS limits how long lists are kept. Verdicts are never deleted.',
        409,
      );
    });
    return sendFile(c, `audit-${auditId}`, format, async (write) => {
      for await (const piece of pieces) await write(piece);
    });
  });

  /** @throws {Problem} (404) when the audit does not exist */
  async function auditIn(text: string): Promise<AuditProgress> {
    const audit = await getAudit(db, parseId(text));
    if (audit !== null) return audit;
    throw new Problem('Audit not found', 'The Audits page lists all audits.', 404);
  }
}

function targetOf(auditId: bigint, sellerId: string): string {
  return `audit ${auditId} of ${sellerId}`;
}

function finishedOf({ createdAt, finishedAt }: AuditProgress) {
  if (finishedAt === null) return '–';
  return (
    <>
      <Moment at={finishedAt} />, after {duration(finishedAt.getTime() - createdAt.getTime())}
    </>
  );
}

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
