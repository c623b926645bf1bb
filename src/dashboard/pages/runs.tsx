import type { FC } from 'hono/jsx';
import { runRemedy } from '../../catalogue/problem.js';
import { decideRemovals, DecisionRefused } from '../../catalogue/decide-removals.js';
import { SellerBusyError } from '../../db/locks.js';
import { type Run, getRun } from '../../catalogue/runs-store.js';
import { RUN_COUNTS, RUN_FACTS, RUNS, shownState } from '../../catalogue/runs-listing.js';
import {
  type Dashboard,
  type DashboardParts,
  enqueueSync,
  isOperator,
  Problem,
  queueNotice,
  runAction,
} from '../context.js';
import { page } from '../layout.js';
import { capital, printable } from '../format.js';
import { count, plural } from '../../domain/text.js';
import {
  ActionButton,
  Ago,
  type Fact,
  Facts,
  Figures,
  ItemLink,
  Lines,
  Section,
  SellerLink,
  State,
  Table,
  TableSection,
  Token,
  Untrusted,
  Sentence,
} from '../parts.js';
import { addListing, factsOf, ListingTable } from '../listing.js';
import { parseId } from '../query.js';
import { CHANGES, FoldFinder, readShownChanges } from '../../catalogue/changes-listing.js';
import { readHeldItemStates, readHeldRun } from '../../catalogue/decisions-store.js';

/** Items and changes on the page of a run. */
const MAX_ROWS = 200;
/** Longer quarantined records are cut off. */
const MAX_RAW_CHARS = 2_000;

/** `/runs`, `/runs/ID`, `/runs/ID/decide`. */
export function addRuns(app: Dashboard, parts: DashboardParts): void {
  const { db, mirror } = parts;

  addListing(app, parts, RUNS);

  app.get('/runs/:id', async (c) => {
    const found = await getRun(db, parseId(c.req.param('id')));
    if (found === null) throw noRun();
    const { run, quarantine, held } = found;
    const query = { sellerIds: [run.sellerId], runId: run.runId, limit: MAX_ROWS };
    const changes = await readShownChanges(db, query, new FoldFinder(db));
    const hasItems = run.kind !== 'account';
    const canRepeat = isOperator(c) && (run.kind === 'items' || run.kind === 'account');
    return page(
      c,
      {
        title: `Run ${run.runId}`,
        lead: (
          <>
            <State of={shownState(run)} /> {run.kind} of <SellerLink name={run.sellerId} />,{' '}
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
            <Untrusted text={run.problem} isWhole />
            {run.state === 'failed' ? (
              <>
                . <Sentence text={`${capital(runRemedy(run))}.`} />
              </>
            ) : null}
          </p>
        )}
        {hasItems ? (
          <Figures of={factsOf(RUN_COUNTS, run).map(([label, value]) => ({ label, value }))} />
        ) : null}
        <Facts
          of={[
            ...factsOf(RUN_FACTS, run),
            hasItems ? null : ['Account', accountOf(run)],
            decisionFact(run),
          ]}
        />
        {run.warnings.length === 0 ? null : (
          <Section title="Warnings">
            <Lines of={run.warnings} />
          </Section>
        )}
        <TableSection
          title="Quarantined records"
          note="unreadable; the copy keeps their last good state"
          rows={quarantine}
          columns={[
            { name: 'Item', cell: ({ itemId }) => (itemId === null ? '–' : String(itemId)) },
            { name: 'Why', cell: ({ reason }) => <Untrusted text={reason} /> },
            {
              name: 'Record',
              cell: ({ raw }) => (
                <details>
                  <summary>Show</summary>
                  <pre>{printable(raw.slice(0, MAX_RAW_CHARS))}</pre>
                </details>
              ),
            },
          ]}
        />
        {hasItems ? (
          <Section
            title="Changes"
            note={changes.length === MAX_ROWS ? `first ${MAX_ROWS}` : undefined}
            actions={<a href={`/changes?run=${run.runId}`}>All changes of this run</a>}
          >
            <ListingTable
              listing={CHANGES}
              rows={changes}
              hide={['at', 'seller']}
              empty={
                run.added === 0
                  ? 'This run changed nothing.'
                  : 'A seller’s first list has no changes.'
              }
            />
          </Section>
        ) : null}
      </>,
    );
  });

  app.post('/runs/:id/again', async (c) => {
    const found = await getRun(db, parseId(c.req.param('id')));
    if (found === null) throw noRun();
    const { sellerId, kind } = found.run;
    if (kind !== 'items' && kind !== 'account') {
      throw new Problem('Only runs of items and of the account can be repeated', 'Use Sync now.');
    }
    await runAction(c, parts, { action: 'run again', target: sellerId }, () =>
      enqueueSync(parts, sellerId, kind),
    );
    return c.redirect(`/?notice=${await queueNotice(db)}`, 303);
  });

  app.get('/runs/:id/decide', async (c) => {
    const runId = parseId(c.req.param('id'));
    const [found, waiting, items] = await Promise.all([
      getRun(db, runId),
      readHeldRun(db, runId),
      mirror.heldItem.findMany({
        where: { runId },
        orderBy: [{ confirmed: 'desc' }, { itemId: 'asc' }],
        take: MAX_ROWS,
      }),
    ]);
    if (found === null || found.held === null) throw noRun();
    const { run, held } = found;
    const named = await mirror.item.findMany({
      where: { sellerId: run.sellerId, itemId: { in: items.map(({ itemId }) => itemId) } },
      select: { itemId: true, name: true, state: true, syncedRunId: true },
    });
    const byId = new Map(named.map((item) => [item.itemId, item]));
    const { gone } = await readHeldItemStates(db.pool, run, runId);
    const newer = run.decision === null ? (waiting?.newerHeld?.runId ?? null) : null;
    const isOpen = run.decision === null && newer === null;
    const percent = Math.round((100 * held.items) / Math.max(1, held.present));
    return page(
      c,
      {
        title: `Decide on run ${runId}`,
        lead: (
          <>
            {run.sellerId}, <Ago at={run.startedAt} />
          </>
        ),
        isStatic: true,
      },
      <>
        <p class={`notice ${isOpen ? 'warn' : ''}`}>
          The list lacked {count(held.items)} of {plural(held.present, 'item')} ({percent} %), more
          than a run may remove by itself. The marketplace denied {count(held.confirmed)} of them
          when they were looked up.
          {isOpen ? ' Nothing was removed. They stay missing until you decide.' : null}
        </p>
        {isOpen && isOperator(c) ? (
          <DecisionForm runId={runId} removable={gone.length} token={c.get('token')} />
        ) : (
          <p class="notice">
            {isOpen ? (
              'Only operators can decide.'
            ) : newer === null ? (
              `${capital(run.decision ?? '')} by ${run.decidedBy ?? 'unknown'}`
            ) : (
              <>
                <a href={`/runs/${newer}/decide`}>Run {String(newer)}</a> is newer and holds back
                those of these items that are still missing.
              </>
            )}
          </p>
        )}
        <Table
          caption="Items that the list lacked"
          flows
          rows={items}
          empty="The items of this run were not recorded."
          columns={[
            { name: 'Item', isLabelled: true, cell: ({ itemId }) => String(itemId) },
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
                confirmed ? 'not listed, look-up denied' : 'not listed, not looked up',
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
    const runId = parseId(c.req.param('id'));
    const { decision, items, note } = await c.req.parseBody();
    if (decision !== 'approved' && decision !== 'rejected') {
      throw new Problem('No decision was made', 'Choose Approve removals or Reject.');
    }
    const found = await getRun(db, runId);
    if (found === null || found.held === null) throw noRun();
    if (decision === 'approved') {
      const { gone } = await readHeldItemStates(db.pool, found.run, runId);
      if (typedNumber(items) !== String(gone.length)) {
        throw new Problem(
          'No decision was made: the number of items does not match',
          `Go back and type ${gone.length}.`,
        );
      }
    }
    const { who } = c.get('session');
    const by = typeof note === 'string' && note.trim() !== '' ? `${who}: ${note.trim()}` : who;
    const action = decision === 'approved' ? 'approve removals' : 'reject removals';
    await runAction(c, parts, { action, target: `run ${runId}` }, async () => {
      try {
        const holder = `dashboard (${who})`;
        await decideRemovals({ db, holder, by: by.slice(0, 500) }, runId, decision);
      } catch (error) {
        if (error instanceof DecisionRefused) {
          throw new Problem(capital(error.message), error.remedy, 409);
        }
        if (error instanceof SellerBusyError) {
          throw new Problem(capital(error.message), 'Try again when that run has finished.', 409);
        }
        throw error;
      }
    });
    return c.redirect(`/runs/${runId}?notice=${decision}`, 303);
  });
}

/** @param removable number of items that an approval removes */
const DecisionForm: FC<{ runId: bigint; removable: number; token: string }> = ({
  runId,
  removable,
  token,
}) => (
  <form class="form" method="post" action={`/runs/${runId}/decide`}>
    <Token value={token} />
    {/* The form's default button: Enter in a field must not decide. */}
    <button disabled hidden>
      Decide
    </button>
    <p>
      <strong>Approve removals</strong> removes the items that were denied and are still missing.{' '}
      <strong>Reject</strong> keeps all of them as missing.
    </p>
    <label>
      {`To approve, type the number of items it removes, ${removable}`}
      <input name="items" inputmode="numeric" autocomplete="off" />
    </label>
    <label>
      Note
      <input name="note" maxlength={300} placeholder="Optional: why you decided this way" />
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

function decisionFact({ decision, decidedBy, decidedAt }: Run): Fact | null {
  if (decision === null) return null;
  const value = (
    <>
      {decision} by {decidedBy}, <Ago at={decidedAt} />
    </>
  );
  return ['Decision', value];
}

/** What a run of the account found. */
function accountOf({ added, changed, listed }: Run): string {
  if (added + changed > 0) return 'changed';
  return listed > 0 ? 'unchanged' : '–';
}

/** The digits of a typed whole number, without thousands separators; null for anything else. */
function typedNumber(text: unknown): string | null {
  if (typeof text !== 'string') return null;
  const isNumber = /^\d+$|^\d{1,3}(?:[\s,.]\d{3})+$/.test(text.trim());
  return isNumber ? text.replace(/\D/g, '') : null;
}

function noRun(): Problem {
  return new Problem('Run not found', 'The Runs page lists all runs.', 404);
}
