import type { Child, FC } from 'hono/jsx';
import type { AuditProgress } from '../../store/audits/types.js';
import type { Happened, Night, PriceMove, Running } from '../../store/overview.js';
import { ALIVE_MS, isAlive, type LiveProcess } from '../../store/processes.js';
import { PAUSED } from '../../store/sellers.js';
import type { SellerStatus } from '../../store/status.js';
import type { LiveBar } from '../live.js';
import { act, type Dashboard, type DashboardParts, Problem, queuedNotice } from '../context.js';
import { ageOf, nextTimes, obstacleOf, schedulesOf, stateOf } from '../seller-state.js';
import { NightStrip } from '../charts.js';
import { page } from '../layout.js';
import {
  ActionButton,
  Ago,
  Bar,
  Card,
  count,
  Count,
  duration,
  Figures,
  Foreign,
  money,
  Pages,
  Percent,
  plural,
  Section,
  SellerLink,
  State,
  Table,
} from '../parts.js';

const NIGHTS = 30;
const DAY_MS = 86_400_000;
/** Sellers on one page. */
const PAGE_SELLERS = 20;
const MOST_MOVES = 5;
/** Cards of sellers; the rest is counted. */
const MOST_CARDS = 12;
/** Cards of audits that were begun within so many days. */
const MOST_AUDITS = 3;
const AUDIT_DAYS = 7;

/** `/`: is my copy current, what happened overnight, what needs me? */
export function addOverview(app: Dashboard, parts: DashboardParts): void {
  const { store, mirror, config, queues, live } = parts;

  app.get('/', async (c) => {
    const since = new Date(Date.now() - DAY_MS);
    const staleMs = config.staleAfterHours * 3_600_000;
    const [sellers, happened, running, audits, moves, beats] = await Promise.all([
      store.sellers.statuses(),
      store.overview.happenedSince(since),
      store.overview.running(),
      mirror.audit.findMany({
        where: {
          OR: [{ state: 'failed' }, { state: 'finished', unproven: { gt: 0 } }],
          createdAt: { gte: new Date(Date.now() - AUDIT_DAYS * DAY_MS) },
        },
        orderBy: { auditId: 'desc' },
        take: MOST_AUDITS,
      }),
      store.overview.priceMoves(since, MOST_MOVES),
      store.processes.live(ALIVE_MS),
    ]);
    const processes = beats.filter(isAlive);
    const search = c.req.query('seller')?.toLowerCase() ?? '';
    const from = Math.max(0, Number(c.req.query('from') ?? 0) || 0);
    const listed = sellers.filter(({ sellerId }) => sellerId.toLowerCase().includes(search));
    const shown = listed.slice(from, from + PAGE_SELLERS);
    const nights = await store.overview.nights(
      shown.map(({ sellerId }) => sellerId),
      NIGHTS,
    );
    const token = c.get('token');
    const isOperator = c.get('session').role === 'operator';
    const needs = sellers
      .flatMap((seller) => needOf(seller, staleMs))
      .sort((a, b) => URGENCY.indexOf(a.kind) - URGENCY.indexOf(b.kind));
    return page(
      c,
      {
        title: 'Overview',
        lead: sentence(sellers, staleMs),
        actions:
          isOperator && sellers.length + config.sellers.length > 0 ? (
            <ActionButton action="/sync" token={token} isMain>
              Sync now
            </ActionButton>
          ) : undefined,
      },
      <>
        <Section title="Needs you">
          {needs.length + audits.length === 0 ? (
            <p class="empty">Nothing needs you.</p>
          ) : (
            <div class="cards">
              {needs.slice(0, MOST_CARDS).map((need) => (
                <NeedCard need={need} token={token} isOperator={isOperator} />
              ))}
              {audits.map((audit) => (
                <AuditCard audit={audit} />
              ))}
            </div>
          )}
          {needs.length > MOST_CARDS ? (
            <p class="muted">
              and {plural(needs.length - MOST_CARDS, 'more seller', 'more sellers')}: the list below
              has all
            </p>
          ) : null}
        </Section>
        <Work bars={live.barsOf(running)} running={running} />
        <Overnight happened={happened} />
        <Section
          title="Sellers"
          note={
            isOperator && sellers.some(({ parked }) => parked !== null)
              ? 'Sync now mirrors all of them, paused and parked ones too'
              : undefined
          }
        >
          {sellers.length > PAGE_SELLERS ? (
            <form class="filter" method="get" action="/">
              <label>
                Seller
                <input type="search" name="seller" value={c.req.query('seller') ?? ''} />
              </label>
              <button>Search</button>
            </form>
          ) : null}
          <SellerTable
            sellers={shown}
            nights={nights}
            staleMs={staleMs}
            processes={processes}
            empty={
              sellers.length > 0 ? (
                'No seller matches.'
              ) : (
                <>
                  No seller was mirrored yet:{' '}
                  {config.sellers.length > 0 ? 'press Sync now, or run' : 'configure one and run'}{' '}
                  <code>seller-mirror sync</code>.
                </>
              )
            }
          />
          <Pages
            url={c.req.url}
            by="from"
            next={from + PAGE_SELLERS < listed.length ? from + PAGE_SELLERS : null}
            words={['First', 'More']}
          />
        </Section>
        <PriceMoves moves={moves} />
      </>,
    );
  });

  app.post('/sync', async (c) => {
    const { seller } = await c.req.parseBody();
    // A configured seller may be new to the store: its first sync makes it known.
    const configured = config.sellers.map(({ name }) => name);
    const known = (await store.sellers.statuses()).map(({ sellerId }) => sellerId);
    const sellers = typeof seller === 'string' ? [seller] : [...new Set([...known, ...configured])];
    await act(
      c,
      parts,
      { action: 'sync now', target: sellers.join(', ').slice(0, 200) },
      async () => {
        for (const name of sellers) {
          if (!known.includes(name) && !configured.includes(name))
            throw new Problem(
              'There is no such seller',
              'The overview lists the sellers there are.',
              404,
            );
          await queues.addMirror({
            kind: 'sync',
            seller: name,
            tick: null,
            askedAt: new Date().toISOString(),
          });
        }
      },
    );
    return c.redirect(`/?notice=${await queuedNotice(store)}`, 303);
  });
}

/** Runs and audits at work, with bars that move. */
const Work: FC<{ running: Running; bars: readonly LiveBar[] }> = ({ running, bars }) => {
  const runs = running.runs.map(({ runId, kind, sellerId }) => ({
    id: `run ${runId}`,
    link: `/runs/${runId}`,
    what: `${sellerId}: ${kind}`,
  }));
  const audits = running.audits.map(({ auditId, sellerId, source }) => ({
    id: `audit ${auditId}`,
    link: `/audits/${auditId}`,
    what: `${sellerId}: ${source}`,
  }));
  if (runs.length + audits.length === 0) return null;
  return (
    <Section title="Running">
      <div class="cards">
        {[...runs, ...audits].map(({ id, link, what }) => {
          const bar = bars.find((one) => one.id === id);
          return (
            <Card tone="busy" title={<a href={link}>{id.replace(/^./, (c) => c.toUpperCase())}</a>}>
              <Foreign text={what} />
              {bar === undefined ? null : <Bar {...bar} label={id} />}
            </Card>
          );
        })}
      </div>
    </Section>
  );
};

const PriceMoves: FC<{ moves: readonly PriceMove[] }> = ({ moves }) =>
  moves.length === 0 ? null : (
    <Section title="Biggest price moves" note="of the last 24 hours">
      <Table
        caption="Biggest price moves"
        flows
        rows={moves}
        empty=""
        columns={[
          {
            name: 'Item',
            cell: ({ sellerId, itemId, itemName }) => (
              <a href={`/items/${encodeURIComponent(sellerId)}/${itemId}`}>
                <Foreign text={itemName ?? itemId} />
              </a>
            ),
          },
          { name: 'Price', cell: ({ price }) => price },
          {
            name: 'Old',
            isFigure: true,
            cell: ({ oldPrice, oldCurrency }) => money(oldPrice, oldCurrency),
          },
          {
            name: 'New',
            isFigure: true,
            cell: ({ newPrice, currency }) => money(newPrice, currency),
          },
          {
            name: 'Change',
            isFigure: true,
            cell: ({ percent }) => <Percent of={Number(percent)} />,
          },
        ]}
      />
    </Section>
  );

/** `2 copies current, the oldest 6 h old`. */
function sentence(sellers: readonly SellerStatus[], staleMs: number): string {
  if (sellers.length === 0) return 'No seller was mirrored yet.';
  const active = sellers.filter(({ parked }) => parked?.code !== PAUSED);
  const paused = sellers.length - active.length;
  const ages = active.map(ageOf);
  const stale = ages.filter((age) => age > staleMs).length;
  const known = ages.filter((age) => age < Infinity);
  const oldest = known.length === 0 ? null : duration(known.reduce((a, b) => Math.max(a, b)));
  const current = active.length - stale;
  const parts = [
    current > 0 ? `${plural(current, 'copy', 'copies')} current` : '',
    stale > 0 ? `${plural(stale, 'copy', 'copies')} stale` : '',
    oldest === null ? '' : `${active.length === 1 ? '' : 'the oldest '}${oldest} old`,
    paused > 0 ? `${paused} paused` : '',
  ];
  return parts.filter((part) => part !== '').join(', ');
}

/** What needs somebody, the most urgent first: of a thousand stale copies, a held run is not the last. */
const URGENCY = ['held', 'parked', 'failed', 'stale'] as const;

interface Need {
  readonly kind: (typeof URGENCY)[number];
  readonly seller: SellerStatus;
}

function needOf(seller: SellerStatus, staleMs: number): Need[] {
  const { lastProblem, parked } = seller;
  const isPaused = parked?.code === PAUSED;
  if (parked !== null && !isPaused) return [{ kind: 'parked', seller }];
  if (lastProblem?.state === 'held') return [{ kind: 'held', seller }];
  if (isPaused) return [];
  if (lastProblem !== null) return [{ kind: 'failed', seller }];
  return ageOf(seller) > staleMs ? [{ kind: 'stale', seller }] : [];
}

function upper(text: string): string {
  return text.replace(/^./u, (first) => first.toUpperCase());
}

const NeedCard: FC<{ need: Need; token: string; isOperator: boolean }> = ({
  need: { kind, seller },
  token,
  isOperator,
}) => {
  const { sellerId, lastProblem: problem, parked } = seller;
  const sync = isOperator ? (
    <ActionButton action="/sync" token={token} fields={{ seller: sellerId }}>
      Sync now
    </ActionButton>
  ) : null;
  const run =
    problem === null ? null : <a href={`/runs/${problem.runId}`}>Run {String(problem.runId)}</a>;
  if (kind === 'held') {
    return (
      <Card
        tone="warn"
        title={`${sellerId}: a run waits for your decision`}
        actions={
          <a class="button main" href={`/runs/${problem?.runId}/decide`}>
            Decide
          </a>
        }
      >
        {run} would have removed more items than the guard allows. {problem?.problem}
      </Card>
    );
  }
  if (kind === 'parked') {
    return (
      <Card
        tone="bad"
        title={`${sellerId} is parked`}
        actions={
          <a class="button" href={`/sellers/${encodeURIComponent(sellerId)}`}>
            Look at {sellerId}
          </a>
        }
      >
        <Foreign text={upper(parked?.reason ?? '')} />. Schedules leave it alone until this is
        mended.
      </Card>
    );
  }
  if (kind === 'failed') {
    return (
      <Card tone="bad" title={`${sellerId}: the last run failed`} actions={sync}>
        {run}: <Foreign text={problem?.problem ?? 'it ended without a reason'} />
      </Card>
    );
  }
  return (
    <Card tone="warn" title={`${sellerId}: the copy is stale`} actions={sync}>
      {seller.itemsMirroredAt === null ? (
        'It was never mirrored whole.'
      ) : (
        <>
          It was mirrored <Ago at={seller.itemsMirroredAt} />.
        </>
      )}{' '}
      Check that <code>seller-mirror run</code> is running.
    </Card>
  );
};

const AuditCard: FC<{
  audit: Pick<AuditProgress, 'auditId' | 'source' | 'state' | 'unproven' | 'problem'>;
}> = ({ audit: { auditId, source, state, unproven, problem } }) => (
  <Card
    tone={state === 'failed' ? 'bad' : 'warn'}
    title={
      state === 'failed'
        ? `Audit ${auditId} failed`
        : `Audit ${auditId}: ${plural(unproven, 'code')} unproven`
    }
    actions={
      <a class="button" href={`/audits/${auditId}`}>
        Look at audit {String(auditId)}
      </a>
    }
  >
    List <Foreign text={source} />{' '}
    {state === 'failed' ? (
      <>
        stopped: <Foreign text={problem ?? 'it ended without a reason'} />. Resume goes on with it.
      </>
    ) : (
      'finished without a verdict for them. Check them again later.'
    )}
  </Card>
);

const Overnight: FC<{ happened: Happened }> = ({ happened }) => (
  <Section title="Last 24 hours" actions={<a href="/changes">All changes</a>}>
    <Figures
      of={[
        { label: 'New items', value: count(happened.added) },
        { label: 'Changed items', value: count(happened.changed) },
        { label: 'Removed items', value: count(happened.removed) },
        { label: 'Newly invalid codes', value: count(happened.newlyInvalid) },
        {
          label: 'Balance',
          value:
            happened.balances.length === 0
              ? 'unchanged'
              : happened.balances.map(({ change, currency }) => (
                  <span class={change.startsWith('-') ? 'down' : 'up'}>
                    {change.startsWith('-') ? '' : '+'}
                    {money(change, currency)}
                  </span>
                )),
        },
      ]}
    />
  </Section>
);

const SellerTable: FC<{
  sellers: readonly SellerStatus[];
  nights: readonly Night[];
  staleMs: number;
  processes: readonly LiveProcess[];
  empty: Child;
}> = ({ sellers, nights, staleMs, processes, empty }) => (
  <Table
    caption="Sellers"
    flows
    rows={sellers}
    empty={empty}
    columns={[
      {
        name: 'Seller',
        cell: ({ sellerId }) => <SellerLink name={sellerId} />,
      },
      { name: 'Copy', cell: (seller) => <State of={stateOf(seller, staleMs)} /> },
      {
        name: 'Mirrored',
        isNamed: true,
        cell: ({ itemsMirroredAt }) => <Ago at={itemsMirroredAt} />,
      },
      { name: 'Live', isFigure: true, cell: ({ items }) => <Count of={items.live} /> },
      { name: 'Missing', isFigure: true, cell: ({ items }) => <Count of={items.missing} /> },
      { name: 'Removed', isFigure: true, cell: ({ items }) => <Count of={items.removed} /> },
      {
        name: 'Balance',
        isFigure: true,
        cell: ({ account }) => money(account?.balance ?? null, account?.currency ?? null),
      },
      {
        name: 'Next run',
        isNamed: true,
        cell: (seller) => <Ago at={nextRunOf(seller, processes)} none="–" />,
      },
      {
        name: '30 nights',
        cell: ({ sellerId }) => (
          <NightStrip
            nights={Array.from({ length: NIGHTS }, (_, n) => {
              const daysAgo = NIGHTS - 1 - n;
              const night = nights.find(
                (one) => one.sellerId === sellerId && one.daysAgo === daysAgo,
              );
              return {
                day: daysAgo === 0 ? 'today' : `${daysAgo} days ago`,
                state: night?.state ?? 'none',
              };
            })}
          />
        ),
      },
    ]}
  />
);

/** When schedules mirror a seller's items next; null when they don't. */
function nextRunOf(seller: SellerStatus, processes: readonly LiveProcess[]): Date | null {
  if (obstacleOf(seller, processes) !== null) return null;
  const syncs = schedulesOf(seller.sellerId, processes).filter(({ kind }) => kind === 'sync');
  const times = syncs.flatMap((one) => nextTimes(one)).map((at) => at.getTime());
  return times.length === 0 ? null : new Date(times.reduce((a, b) => Math.min(a, b)));
}
