import type { FC } from 'hono/jsx';
import { bytes } from '../../domain/units.js';
import { decideRemovals, DecisionRefused } from '../../jobs/decide-removals.js';
import { SellerBusyError } from '../../store/locks.js';
import type { Mirror, Prisma } from '../../store/mirror.js';
import type { Run } from '../../store/runs.js';
import {
  act,
  isOperator,
  queuedNotice,
  type Dashboard,
  type DashboardParts,
  Problem,
} from '../context.js';
import { page } from '../layout.js';
import {
  ActionButton,
  Ago,
  capital,
  Choice,
  Count,
  count,
  duration,
  Facts,
  Figures,
  Filter,
  Foreign,
  ItemLink,
  Lines,
  Moment,
  onePage,
  Pages,
  plural,
  printable,
  Section,
  SellerField,
  SellerLink,
  State,
  Table,
  Token,
} from '../parts.js';
import { idIn, numberIn, oneOf } from '../query.js';
import { ChangeTable } from './changes.js';

const PAGE_RUNS = 50;
/** Items, records and changes shown of one run. */
const PAGE_ROWS = 200;
/** Characters shown of a record that could not be read. */
const MOST_RAW = 2_000;

const STATES = ['running', 'succeeded', 'held', 'failed', 'interrupted'] as const;
const KINDS = ['items', 'account', 'item', 'approval'] as const;

/** `/runs`, `/runs/ID`, `/runs/ID/decide`. */
export function addRuns(app: Dashboard, parts: DashboardParts): void {
  const { store, mirror, queues } = parts;

  app.get('/runs', async (c) => {
    const state = oneOf(STATES, c.req.query('state'));
    const kind = oneOf(KINDS, c.req.query('kind'));
    const seller = c.req.query('seller') || undefined;
    const before = numberIn(c.req.query('before'));
    const runs = await newestRuns(
      mirror,
      {
        ...(state === undefined ? {} : { state }),
        ...(kind === undefined ? {} : { kind }),
        ...(seller === undefined ? {} : { sellerId: seller }),
        ...(before === null ? {} : { runId: { lt: before } }),
      },
      PAGE_RUNS + 1,
    );
    const { shown, last } = onePage(runs, PAGE_RUNS);
    return page(
      c,
      { title: 'Runs', lead: 'Each time the account or the items of a seller were mirrored.' },
      <>
        <Filter>
          <Choice name="state" label="State" of={STATES} chosen={state} />
          <Choice name="kind" label="Kind" of={KINDS} chosen={kind} />
          <SellerField of={seller} />
        </Filter>
        <RunTable runs={shown} />
        <Pages url={c.req.url} by="before" next={last?.runId ?? null} />
      </>,
    );
  });

  app.get('/runs/:id', async (c) => {
    const found = await store.runs.get(idIn(c.req.param('id')));
    if (found === null) throw noRun();
    const { run, quarantine, held } = found;
    const changes = await store.items.changes({
      sellerIds: [run.sellerId],
      runId: run.runId,
      limit: PAGE_ROWS,
    });
    const isOfItems = run.kind !== 'account';
    const canRepeat = isOperator(c) && (run.kind === 'items' || run.kind === 'account');
    return page(
      c,
      {
        title: `Run ${run.runId}`,
        lead: (
          <>
            <State of={run.state} /> {run.kind} of <SellerLink name={run.sellerId} />,{' '}
            <Ago at={run.startedAt} />
          </>
        ),
        actions: (
          <>
            {held !== null && run.decision === null ? (
              <a class="button main" href={`/runs/${run.runId}/decide`}>
                Decide
              </a>
            ) : null}
            {canRepeat ? (
              <ActionButton action={`/runs/${run.runId}/again`} token={c.get('token')}>
                Run again
              </ActionButton>
            ) : null}
          </>
        ),
      },
      <>
        {run.problem === null ? null : (
          <p class={`notice ${run.state === 'held' ? 'warn' : 'bad'}`}>
            <Foreign text={run.problem} isWhole />
          </p>
        )}
        {isOfItems ? (
          <Figures
            of={[
              { label: 'Listed', value: count(run.listed) },
              { label: 'New', value: count(run.added) },
              { label: 'Changed', value: count(run.changed) },
              { label: 'Unchanged', value: count(run.unchanged) },
              { label: 'Missing', value: count(run.missing) },
              { label: 'Removed', value: count(run.removed) },
              { label: 'Quarantined', value: count(run.quarantined) },
            ]}
          />
        ) : null}
        <Facts
          of={[
            ['Started', <Moment at={run.startedAt} />],
            ['Took', tookOf(run)],
            ...(isOfItems ? [] : [['Account', accountOf(run)] as const]),
            ['Calls', count(run.apiCalls)],
            ['Downloaded', bytes(Number(run.bytes))],
            ['Worked on by', run.holder],
            ...(run.decision === null
              ? []
              : [
                  [
                    'Decided',
                    <>
                      {run.decision} by {run.decidedBy}, <Ago at={run.decidedAt} />
                    </>,
                  ] as const,
                ]),
          ]}
        />
        {run.warnings.length === 0 ? null : (
          <Section title="Warnings">
            <Lines of={run.warnings} />
          </Section>
        )}
        {quarantine.length === 0 ? null : (
          <Section
            title="Quarantined records"
            note="They could not be read, so the copy keeps what it had."
          >
            <Table
              caption="Quarantined records"
              rows={quarantine}
              empty=""
              columns={[
                { name: 'Item', cell: ({ itemId }) => (itemId === null ? '–' : String(itemId)) },
                { name: 'Why', cell: ({ reason }) => <Foreign text={reason} /> },
                {
                  name: 'Record',
                  cell: ({ raw }) => (
                    <details>
                      <summary>show</summary>
                      <pre>{printable(raw.slice(0, MOST_RAW))}</pre>
                    </details>
                  ),
                },
              ]}
            />
          </Section>
        )}
        {isOfItems ? (
          <Section
            title="Changes"
            note={changes.length === PAGE_ROWS ? `the first ${PAGE_ROWS}` : undefined}
            actions={<a href={`/changes?run=${run.runId}`}>All changes of this run</a>}
          >
            <ChangeTable changes={changes} hasTime={false} empty="This run changed nothing." />
          </Section>
        ) : null}
      </>,
    );
  });

  app.post('/runs/:id/again', async (c) => {
    const found = await store.runs.get(idIn(c.req.param('id')));
    if (found === null) throw noRun();
    const { sellerId, kind } = found.run;
    if (kind !== 'items' && kind !== 'account') {
      throw new Problem('Only runs of items and of the account can be repeated', 'Use Sync now.');
    }
    await act(c, parts, { action: 'run again', target: sellerId }, () =>
      queues.add('mirror', {
        kind,
        seller: sellerId,
        tick: null,
        askedAt: new Date().toISOString(),
      }),
    );
    return c.redirect(`/?notice=${await queuedNotice(store)}`, 303);
  });

  app.get('/runs/:id/decide', async (c) => {
    const runId = idIn(c.req.param('id'));
    const [found, items] = await Promise.all([
      store.runs.get(runId),
      mirror.heldItem.findMany({
        where: { runId },
        orderBy: [{ confirmed: 'desc' }, { itemId: 'asc' }],
        take: PAGE_ROWS,
      }),
    ]);
    if (found === null || found.held === null) throw noRun();
    const { run, held } = found;
    const named = await mirror.item.findMany({
      where: { sellerId: run.sellerId, itemId: { in: items.map(({ itemId }) => itemId) } },
      select: { itemId: true, name: true, state: true, syncedRunId: true },
    });
    const byId = new Map(named.map((item) => [item.itemId, item]));
    const isOpen = run.decision === null;
    const percent = Math.round((100 * held.items) / Math.max(1, held.present));
    return page(
      c,
      {
        title: `Decide about run ${runId}`,
        lead: (
          <>
            {run.sellerId}, <Ago at={run.startedAt} />
          </>
        ),
        isStill: true,
      },
      <>
        <p class={`notice ${isOpen ? 'warn' : ''}`}>
          The list of this run lacked {plural(held.items, 'item')} of {count(held.present)} (
          {percent} %), more than the removal guard allows. {plural(held.confirmed, 'item')} of them{' '}
          {held.confirmed === 1 ? 'was' : 'were'} also denied when looked up.
          {isOpen ? ' Nothing was removed: they are marked as missing until you decide.' : null}
        </p>
        {isOpen && isOperator(c) ? (
          <DecisionForm runId={runId} items={held.items} token={c.get('token')} />
        ) : (
          <p class="notice">
            {isOpen ? 'An operator decides.' : `${run.decision} by ${run.decidedBy ?? 'somebody'}`}
          </p>
        )}
        <Table
          caption="Items held back"
          flows
          rows={items}
          empty="Which items were held back is not recorded."
          columns={[
            { figure: 'Item', cell: ({ itemId }) => String(itemId) },
            {
              name: 'Name',
              cell: ({ itemId }) => (
                <ItemLink
                  seller={run.sellerId}
                  item={itemId}
                  name={byId.get(itemId)?.name ?? null}
                />
              ),
            },
            {
              name: 'Evidence',
              cell: ({ confirmed }) =>
                confirmed ? 'not listed, denied when looked up' : 'not listed, not looked up',
            },
            {
              name: 'Now',
              cell: ({ itemId }) => <State of={byId.get(itemId)?.state ?? 'unknown'} />,
            },
          ]}
        />
        {held.items > items.length ? (
          <p class="muted">and {count(held.items - items.length)} more</p>
        ) : null}
      </>,
    );
  });

  app.post('/runs/:id/decide', async (c) => {
    const runId = idIn(c.req.param('id'));
    const { decision, items, note } = await c.req.parseBody();
    if (decision !== 'approved' && decision !== 'rejected') {
      throw new Problem('Nothing was decided', 'Choose Approve removals or Reject.');
    }
    const held = (await store.runs.get(runId))?.held ?? null;
    if (held === null) throw noRun();
    if (numberTyped(items) !== String(held.items)) {
      throw new Problem(
        'Nothing was decided: the number of items does not match',
        `Go back and type ${held.items}, the number of items of this run.`,
      );
    }
    const { who } = c.get('session');
    const by = typeof note === 'string' && note.trim() !== '' ? `${who}: ${note.trim()}` : who;
    const action = decision === 'approved' ? 'approve removals' : 'reject removals';
    await act(c, parts, { action, target: `run ${runId}` }, async () => {
      try {
        const holder = `dashboard (${who})`;
        await decideRemovals({ store, holder, by: by.slice(0, 500) }, runId, decision);
      } catch (error) {
        if (error instanceof DecisionRefused)
          throw new Problem(capital(error.message), error.remedy, 409);
        if (error instanceof SellerBusyError) {
          throw new Problem(capital(error.message), 'Try again when that run has ended.', 409);
        }
        throw error;
      }
    });
    return c.redirect(`/runs/${runId}?notice=${decision}`, 303);
  });
}

/**
 * The newest runs, newest first. Those of one seller are read kind by kind, as its index has them: a
 * search from the newest run of all might pass hundreds of thousands.
 */
export async function newestRuns(
  mirror: Mirror,
  where: Prisma.RunWhereInput,
  take: number,
): Promise<Run[]> {
  const newest = (of: Prisma.RunWhereInput): Promise<Run[]> =>
    mirror.run.findMany({ where: of, orderBy: { runId: 'desc' }, take });
  if (where.sellerId === undefined || where.kind !== undefined) return newest(where);
  const ofKinds = await Promise.all(KINDS.map((kind) => newest({ ...where, kind })));
  return ofKinds
    .flat()
    .sort((a, b) => Number(b.runId - a.runId))
    .slice(0, take);
}

const DecisionForm: FC<{ runId: bigint; items: number; token: string }> = ({
  runId,
  items,
  token,
}) => (
  <form class="form" method="post" action={`/runs/${runId}/decide`}>
    <Token value={token} />
    <p>
      <strong>Approve removals</strong> removes those that were denied and are still missing.{' '}
      <strong>Reject</strong> keeps all of them.
    </p>
    <label>
      {`Type the number of items, ${items}, to confirm`}
      <input name="items" inputmode="numeric" autocomplete="off" required />
    </label>
    <label>
      Note
      <input name="note" maxlength={300} placeholder="why, for the others" />
    </label>
    <div class="actions">
      <button class="danger" name="decision" value="approved">
        Approve removals
      </button>
      <button name="decision" value="rejected">
        Reject
      </button>
    </div>
  </form>
);

/** Runs, one line each. */
export const RunTable: FC<{ runs: readonly Run[] }> = ({ runs }) => (
  <Table
    caption="Runs"
    flows
    rows={runs}
    empty={
      <>
        No run yet: press Sync now, or run <code>seller-mirror sync</code>.
      </>
    }
    columns={[
      { name: 'Run', cell: ({ runId }) => <a href={`/runs/${runId}`}>{String(runId)}</a> },
      { name: 'Seller', cell: ({ sellerId }) => <SellerLink name={sellerId} /> },
      { name: 'Kind', cell: ({ kind }) => kind },
      { name: 'State', cell: ({ state }) => <State of={state} /> },
      { name: 'Started', cell: ({ startedAt }) => <Ago at={startedAt} /> },
      { figure: 'Took', cell: tookOf },
      { figure: 'New', cell: ({ added }) => <Count of={added} /> },
      { figure: 'Changed', cell: ({ changed }) => <Count of={changed} /> },
      { figure: 'Removed', cell: ({ removed }) => <Count of={removed} /> },
      { figure: 'Calls', cell: ({ apiCalls }) => <Count of={apiCalls} /> },
    ]}
  />
);

function tookOf({ startedAt, finishedAt }: Pick<Run, 'startedAt' | 'finishedAt'>): string {
  if (finishedAt === null) return '–';
  const ms = finishedAt.getTime() - startedAt.getTime();
  return ms < 1_000 ? `${ms} ms` : duration(ms);
}

/** What a run of the account found. */
function accountOf({ added, changed, listed }: Run): string {
  if (added + changed > 0) return 'changed';
  return listed > 0 ? 'unchanged' : '–';
}

/** The digits of a whole number that a person typed, maybe with its thousands apart; null for all else. */
function numberTyped(text: unknown): string | null {
  if (typeof text !== 'string') return null;
  const isNumber = /^\d+$|^\d{1,3}(?:[\s,.]\d{3})+$/.test(text.trim());
  return isNumber ? text.replace(/\D/g, '') : null;
}

function noRun(): Problem {
  return new Problem('There is no such run', '/runs lists the runs there are.', 404);
}
