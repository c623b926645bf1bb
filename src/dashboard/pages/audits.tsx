import type { FC } from 'hono/jsx';
import { chunkEnqueuer } from '../../app/watches.js';
import { unprovenRemedy, whyUnproven } from '../../domain/codes/outcome.js';
import {
  auditResultChunks,
  describeReading,
  isWorkbookList,
} from '../../jobs/codes/audit-result.js';
import { countRepeated } from '../../jobs/codes/enter-list.js';
import { enqueueNext } from '../../jobs/codes/perform-chunk.js';
import type { AuditProgress, UnprovenCount } from '../../store/audits/types.js';
import {
  act,
  isOperator,
  Problem,
  queuedNotice,
  type Dashboard,
  type DashboardParts,
} from '../context.js';
import { checkRoom, dialectIn, Downloads, sendFile } from '../downloads.js';
import { message, page } from '../layout.js';
import {
  ActionButton,
  Ago,
  Bar,
  Choice,
  count,
  Count,
  duration,
  Facts,
  Figures,
  Filter,
  Foreign,
  Moment,
  onePage,
  Pages,
  Section,
  SellerField,
  SellerLink,
  Sentence,
  State,
  Table,
} from '../parts.js';
import { idIn, numberIn, oneOf } from '../query.js';
import { Reading } from './new-audit.js';

const PAGE_AUDITS = 50;
const STATES = ['running', 'finished', 'cancelled', 'failed'] as const;

/** `/audits`, `/audits/ID`. */
export function addAudits(app: Dashboard, parts: DashboardParts): void {
  const { store, mirror, queues, live } = parts;

  app.get('/audits', async (c) => {
    const state = oneOf(STATES, c.req.query('state'));
    const seller = c.req.query('seller') || undefined;
    const before = numberIn(c.req.query('before'));
    const audits = await mirror.audit.findMany({
      where: {
        ...(state === undefined ? {} : { state }),
        ...(seller === undefined ? {} : { sellerId: seller }),
        ...(before === null ? {} : { auditId: { lt: before } }),
      },
      orderBy: { auditId: 'desc' },
      take: PAGE_AUDITS + 1,
    });
    const { shown, last } = onePage(audits, PAGE_AUDITS);
    const isFiltered = state !== undefined || seller !== undefined || before !== null;
    return page(
      c,
      {
        title: 'Audits',
        lead: 'Lists of purchase codes that were checked, or are being checked.',
        actions: isOperator(c) ? (
          <a class="button main" href="/audits/new">
            New audit
          </a>
        ) : undefined,
      },
      <>
        <Filter>
          <Choice name="state" label="State" of={STATES} chosen={state} />
          <SellerField of={seller} />
        </Filter>
        <AuditTable audits={shown} isFiltered={isFiltered} />
        <Pages url={c.req.url} by="before" next={last?.auditId ?? null} />
      </>,
    );
  });

  app.get('/audits/:id', async (c) => {
    const audit = await auditIn(c.req.param('id'));
    const { auditId, state, pending, unproven } = audit;
    const isRunning = state === 'running';
    const [running, list, reasons] = await Promise.all([
      isRunning ? store.overview.running() : null,
      store.audits.listOf(auditId),
      unproven > 0 || (!isRunning && pending > 0) ? store.audits.unprovenCounts(auditId) : [],
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
            <State of={state} /> <Foreign text={audit.source} /> for{' '}
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
            <Foreign text={audit.problem} isWhole />
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
                  audit.denied > 0 ? `${count(audit.denied)} denied once, asked again` : undefined,
              },
              { label: 'Calls', value: count(audit.apiCalls) },
            ]}
          />
        ) : null}
        <Reasons reasons={reasons} />
        <Section title="The list">
          <Facts
            of={[
              ['Lines', count(audit.lines)],
              ['Codes', count(audit.codes)],
              ['Listed again', count(countRepeated(audit))],
              ['Rejected', count(audit.rejected)],
              ...(audit.reused === 0
                ? []
                : [['Checked recently enough', count(audit.reused)] as const]),
              ['Begun', <Moment at={audit.createdAt} />],
              ['Finished', finishedOf(audit)],
              ...resultFacts(audit),
            ]}
          />
        </Section>
        <Reading reasons={describeReading(list?.layout ?? null)} />
      </>,
    );
  });

  app.post('/audits/:id/cancel', async (c) => {
    const { auditId, sellerId } = await auditIn(c.req.param('id'));
    await act(
      c,
      parts,
      { action: 'cancel audit', target: targetOf(auditId, sellerId) },
      async () => {
        if ((await store.audits.cancel(auditId)) === 'finished') {
          throw new Problem(
            `Audit ${auditId} is finished: there is nothing to cancel`,
            'Its result can be downloaded.',
            409,
          );
        }
      },
    );
    return c.redirect(`/audits/${auditId}?notice=cancelled`, 303);
  });

  app.post('/audits/:id/resume', async (c) => {
    const { auditId, sellerId, state } = await auditIn(c.req.param('id'));
    await act(
      c,
      parts,
      { action: 'resume audit', target: targetOf(auditId, sellerId) },
      async () => {
        if (state === 'finished') {
          throw new Problem(
            `Audit ${auditId} is finished: there is nothing to resume`,
            'To ask again for its codes, start a new audit of the list.',
            409,
          );
        }
        if (state !== 'running') await store.audits.resume(auditId);
        await enqueueNext(store, auditId, chunkEnqueuer(queues, sellerId, { afresh: true }));
      },
    );
    return c.redirect(`/audits/${auditId}?notice=${await queuedNotice(store)}`, 303);
  });

  app.get('/audits/:id/:file{result\\.(?:csv|xlsx)}', async (c) => {
    if (!isOperator(c)) {
      return message(c, 403, 'Your account may not read codes', 'An operator can download it.');
    }
    const { auditId, sellerId, lines } = await auditIn(c.req.param('id'));
    const what = { action: 'download result', target: targetOf(auditId, sellerId) };
    const format = c.req.param('file') === 'result.xlsx' ? 'xlsx' : 'csv';
    const chunks = await act(c, parts, what, async () => {
      await checkRoom(format, () => lines);
      const found = await auditResultChunks(store, auditId, format, dialectIn(c) ?? null);
      if (found !== null) return found;
      throw new Problem(
        `The list of audit ${auditId} is no longer kept`,
        'KEEP_AUDITS_DAYS limits how long lists are kept. The verdict of each code stays.',
        409,
      );
    });
    return sendFile(c, `audit-${auditId}`, format, async (write) => {
      for await (const chunk of chunks) await write(chunk);
    });
  });

  /** @throws {Problem} when there is no such audit */
  async function auditIn(text: string): Promise<AuditProgress> {
    const audit = await store.audits.get(idIn(text));
    if (audit !== null) return audit;
    throw new Problem('There is no such audit', '/audits lists the audits there are.', 404);
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

function resultFacts({ result }: AuditProgress) {
  if (result === null) return [];
  const { path, writtenAt } = result;
  const words = (
    <>
      <Foreign text={path} /> {writtenAt === null ? 'when it is resumed there' : 'written '}
      {writtenAt === null ? null : <Ago at={writtenAt} />}
    </>
  );
  return [['Result file', words] as const];
}

const Reasons: FC<{ reasons: readonly UnprovenCount[] }> = ({ reasons }) =>
  reasons.length === 0 ? null : (
    <Section title="Why there is no verdict">
      <Table
        caption="Why there is no verdict"
        rows={reasons}
        empty=""
        columns={[
          { figure: 'Codes', cell: ({ codes }) => count(codes) },
          { name: 'Why', cell: ({ reason }) => <Foreign text={whyUnproven(reason)} /> },
          { name: 'What to do', cell: ({ reason }) => <Sentence text={unprovenRemedy(reason)} /> },
        ]}
      />
    </Section>
  );

type AuditRow = Pick<
  AuditProgress,
  | 'auditId'
  | 'sellerId'
  | 'source'
  | 'state'
  | 'createdAt'
  | 'codes'
  | 'valid'
  | 'invalid'
  | 'unproven'
  | 'pending'
>;

const AuditTable: FC<{ audits: readonly AuditRow[]; isFiltered: boolean }> = ({
  audits,
  isFiltered,
}) => (
  <Table
    caption="Audits"
    flows
    rows={audits}
    empty={
      isFiltered ? (
        'No audit matches.'
      ) : (
        <>
          No audit yet: press New audit, or run <code>seller-mirror codes check LIST</code>.
        </>
      )
    }
    columns={[
      {
        name: 'Audit',
        cell: ({ auditId }) => <a href={`/audits/${auditId}`}>{String(auditId)}</a>,
      },
      { name: 'List', cell: ({ source }) => <Foreign text={source} /> },
      { name: 'Seller', cell: ({ sellerId }) => <SellerLink name={sellerId} /> },
      { name: 'State', cell: ({ state }) => <State of={state} /> },
      { name: 'Begun', cell: ({ createdAt }) => <Ago at={createdAt} /> },
      { figure: 'Codes', cell: ({ codes }) => <Count of={codes} /> },
      { figure: 'Valid', cell: ({ valid }) => <Count of={valid} /> },
      { figure: 'Invalid', cell: ({ invalid }) => <Count of={invalid} /> },
      { figure: 'Unproven', cell: ({ unproven }) => <Count of={unproven} /> },
      { figure: 'Waiting', cell: ({ pending }) => <Count of={pending} /> },
    ]}
  />
);
