import type { FC } from 'hono/jsx';
import { runRemedy } from '../../catalogue/problem.js';
import { acceptRemovals, keepRemovals, NothingHeldError } from '../../catalogue/accept-removals.js';
import { SellerBusyError } from '../../db/locks.js';
import { type Run, getRun } from '../../catalogue/runs-store.js';
import { RUN_COUNTS, RUN_FACTS, RUNS } from '../../catalogue/runs-listing.js';
import {
  type Dashboard,
  type DashboardContext,
  type DashboardParts,
  enqueueSync,
  isOperator,
  Problem,
  queueNotice,
  runAction,
} from '../context.js';
import { page } from '../layout.js';
import { capital, printable } from '../format.js';
import { count as shownCount, plural } from '../../domain/text.js';
import {
  ActionButton,
  Ago,
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
import { followUp } from '../../service/follow-up.js';

/** Items and changes on the page of a run. */
const MAX_ROWS = 200;
/** Longer quarantined records are cut off. */
const MAX_RAW_CHARS = 2_000;
const MAX_NOTE = 300;

/** `/runs`, `/runs/ID`. */
export function addRuns(app: Dashboard, parts: DashboardParts): void {
  const { db } = parts;

  addListing(app, parts, RUNS);

  const findRun = async (c: DashboardContext): Promise<FoundRun> => {
    const found = await getRun(db, parseId(c.req.param('id') ?? ''));
    if (found === null) throw new Problem('Run not found', 'The Runs page lists all runs.', 404);
    return found;
  };

  const showRun = async (
    c: DashboardContext,
    found: FoundRun,
    typed: Typed | null,
  ): Promise<Response> => {
    const { run, quarantine } = found;
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
            <State of={run.state} /> {run.kind === 'approval' ? 'accepted removals' : run.kind} of{' '}
            <SellerLink name={run.sellerId} />, <Ago at={run.startedAt} />
          </>
        ),
        status: typed === null ? 200 : 422,
        actions: canRepeat ? (
          <ActionButton action={`/runs/${run.runId}/again`} token={c.get('token')}>
            Run again
          </ActionButton>
        ) : undefined,
      },
      <>
        {run.problem === null ? null : (
          <p class="notice bad">
            <Untrusted text={run.problem} isWhole />
            {run.state === 'failed' ? (
              <>
                . <Sentence text={`${capital(runRemedy(run))}.`} />
              </>
            ) : null}
          </p>
        )}
        <HeldSection found={found} token={isOperator(c) ? c.get('token') : null} typed={typed} />
        {hasItems ? (
          <Figures of={factsOf(RUN_COUNTS, run).map(([label, value]) => ({ label, value }))} />
        ) : null}
        <Facts
          of={[
            ...factsOf(RUN_FACTS, run),
            hasItems ? null : ['Account', accountOf(run)],
            run.acceptedRunId === null
              ? null
              : [
                  'Accepted',
                  <a href={`/runs/${run.acceptedRunId}`}>
                    removals that run {String(run.acceptedRunId)} shows
                  </a>,
                ],
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
  };

  app.get('/runs/:id', async (c) => showRun(c, await findRun(c), null));

  app.post('/runs/:id/again', async (c) => {
    const { sellerId, kind } = (await findRun(c)).run;
    if (kind !== 'items' && kind !== 'account') {
      throw new Problem('Only runs of items and of the account can be repeated', 'Use Sync now.');
    }
    await runAction(c, parts, { action: 'run again', target: sellerId }, () =>
      enqueueSync(c, parts, sellerId, { kind }),
    );
    return c.redirect(`/?notice=${await queueNotice(db)}`, 303);
  });

  app.post('/runs/:id/accept', async (c) => {
    const { items, note } = await c.req.parseBody();
    const found = await findRun(c);
    const { runId } = found.run;
    const removable = found.shown.filter(({ now }) => now === 'gone').length;
    const reason = typeof note === 'string' ? note.trim().slice(0, MAX_NOTE) : '';
    if (removable > 0 && typedNumber(items) !== String(removable)) {
      const wrong = `The number of items does not match: nothing was removed. Type ${removable}.`;
      return showRun(c, found, { wrong, note: reason });
    }
    const { who } = c.get('session');
    const by = reason === '' ? who : `${who}: ${reason}`;
    const action = { action: 'accept removals', target: `run ${runId}` };
    const accepted = await runAction(c, parts, action, () =>
      unlessBusy(() => acceptRemovals({ db, holder: `dashboard (${who})`, by }, runId)),
    );
    await followUp(parts, parts.queues, true, parts.log);
    return c.redirect(`/runs/${accepted.runId}?notice=accepted`, 303);
  });

  app.post('/runs/:id/keep', async (c) => {
    const { run } = await findRun(c);
    const action = { action: 'keep held items', target: `run ${run.runId}` };
    await runAction(c, parts, action, () => unlessBusy(() => keepRemovals({ db }, run.runId)));
    return c.redirect(`/runs/${run.runId}?notice=kept`, 303);
  });
}

/** Turns what a person can mend into a page with its remedy. */
async function unlessBusy<T>(work: () => Promise<T>): Promise<T> {
  try {
    return await work();
  } catch (error) {
    if (error instanceof NothingHeldError) {
      throw new Problem(capital(error.message), `${capital(error.remedy)}.`, 409);
    }
    if (error instanceof SellerBusyError) {
      throw new Problem(capital(error.message), 'Try again when that run has finished.', 409);
    }
    throw error;
  }
}

type FoundRun = NonNullable<Awaited<ReturnType<typeof getRun>>>;

/** What was typed before, if it was wrong. */
interface Typed {
  readonly wrong: string;
  readonly note: string;
}

/** The items whose removal is held, with what became of them, and the two things that one can do. */
const HeldSection: FC<{ found: FoundRun; token: string | null; typed: Typed | null }> = ({
  found: { run, shown, acceptedBy },
  token,
  typed,
}) => {
  if (shown.length === 0) return null;
  const count = (now: string): number => shown.filter((one) => one.now === now).length;
  const [gone, unproven, back, removed] = ['gone', 'unproven', 'back', 'removed'].map(count) as [
    ...[number, number, number, number],
  ];
  const isOpen = shown.some(({ now, kept }) => !kept && (now === 'gone' || now === 'unproven'));
  const sentences = [
    `The list lacked ${plural(shown.length, 'item')} that ${run.state === 'held' ? 'this run' : 'an earlier run'} did not remove by itself.`,
    gone > 0
      ? `The marketplace denies ${shownCount(gone)} of them between two proofs of the key.`
      : '',
    unproven > 0 ? `${shownCount(unproven)} are not proven to be gone.` : '',
    back > 0 ? `${shownCount(back)} are back.` : '',
    removed > 0 ? `${shownCount(removed)} are removed.` : '',
    !isOpen && gone + unproven > 0 ? 'They are kept as missing.' : '',
  ];
  return (
    <Section title="Held removals">
      <p class={`notice ${isOpen ? 'warn' : ''}`}>
        {sentences.filter(Boolean).join(' ')}
        {acceptedBy === null ? null : (
          <>
            {' '}
            <a href={`/runs/${acceptedBy}`}>Run {String(acceptedBy)}</a> removed what was accepted.
          </>
        )}
      </p>
      {isOpen && token !== null ? (
        <AcceptForm runId={run.runId} removable={gone} token={token} typed={typed} />
      ) : null}
      {isOpen && token === null ? <p class="muted">Only operators can accept removals.</p> : null}
      <Table
        caption="Items whose removal is held"
        flows
        rows={shown.slice(0, MAX_ROWS)}
        columns={[
          { name: 'Item', isLabelled: true, cell: ({ itemId }) => String(itemId) },
          {
            name: 'Name',
            cell: ({ itemId, name }) => (
              <ItemLink seller={run.sellerId} item={String(itemId)} name={name} />
            ),
          },
          { name: 'Now', cell: ({ now, kept }) => `${EVIDENCE[now]}${kept ? ', kept' : ''}` },
        ]}
      />
      {shown.length > MAX_ROWS ? (
        <p class="muted">and {shownCount(shown.length - MAX_ROWS)} more</p>
      ) : null}
    </Section>
  );
};

const EVIDENCE: Readonly<Record<FoundRun['shown'][number]['now'], string>> = {
  gone: 'not listed, look-up denied',
  unproven: 'not listed, not proven to be gone',
  back: 'back',
  removed: 'removed',
};

/** @param removable number of items that accepting removes */
const AcceptForm: FC<{ runId: bigint; removable: number; token: string; typed: Typed | null }> = ({
  runId,
  removable,
  token,
  typed,
}) => (
  <>
    {removable === 0 ? null : (
      <form class="form" method="post" action={`/runs/${runId}/accept`}>
        <Token value={token} />
        {/* The form's default button: Enter in a field must not remove anything. */}
        <button disabled hidden>
          Accept
        </button>
        {typed === null ? null : <p class="notice bad">{typed.wrong}</p>}
        <label>
          {`To accept, type the number of items that it removes, ${removable}`}
          <input name="items" inputmode="numeric" autocomplete="off" />
        </label>
        <label>
          Note
          <input
            name="note"
            maxlength={MAX_NOTE}
            value={typed?.note ?? ''}
            placeholder="Optional: why they are gone"
          />
        </label>
        <div class="actions">
          <button class="danger">Accept removals</button>
        </div>
      </form>
    )}
    <p class="muted">Items that you keep stay missing, and need nobody any more.</p>
    <ActionButton action={`/runs/${runId}/keep`} token={token}>
      Keep them
    </ActionButton>
  </>
);

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
