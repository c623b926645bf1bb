import type { Child, FC } from 'hono/jsx';
import type { AuditProgress } from '../../store/audits/types.js';
import type { ChangeSummary, Night, PriceMove, Running } from '../../store/overview.js';
import { ALIVE_MS, isAlive, type LiveProcess } from '../../store/processes.js';
import { PAUSED } from '../../store/sellers.js';
import { copyState, type CopyState, type SellerStatus } from '../../store/status.js';
import type { LiveBar } from '../live.js';
import {
  act,
  type Dashboard,
  type DashboardParts,
  isOperator,
  noSeller,
  queuedNotice,
} from '../context.js';
import { nextTimes, obstacleOf, schedulesOf } from '../seller-state.js';
import { NightStrip } from '../charts.js';
import { page } from '../layout.js';
import {
  ActionButton,
  Ago,
  Bar,
  capital,
  Card,
  count,
  Count,
  duration,
  Figures,
  Filter,
  Foreign,
  ItemLink,
  money,
  Pages,
  Percent,
  plural,
  Section,
  SellerLink,
  State,
  Table,
} from '../parts.js';
import { numberIn } from '../query.js';

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
    const [statuses, happened, running, audits, moves, beats] = await Promise.all([
      store.sellers.statuses(),
      store.overview.changesSince(since),
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
    const now = new Date();
    const sellers = statuses.map((status) => ({
      ...status,
      copy: copyState(status, config.staleAfterHours, now),
    }));
    const processes = beats.filter(isAlive);
    const search = c.req.query('seller')?.toLowerCase() ?? '';
    const from = Number(numberIn(c.req.query('from')) ?? 0n);
    const listed = sellers.filter(({ sellerId }) => sellerId.toLowerCase().includes(search));
    const shown = listed.slice(from, from + PAGE_SELLERS);
    const nights = await store.overview.nights(
      shown.map(({ sellerId }) => sellerId),
      NIGHTS,
    );
    const token = c.get('token');
    const mayAct = isOperator(c);
    const needs = sellers
      .flatMap(needOf)
      .sort((a, b) => URGENCY.indexOf(a.kind) - URGENCY.indexOf(b.kind));
    return page(
      c,
      {
        title: 'Overview',
        lead: sentence(sellers),
        actions:
          mayAct && sellers.length + config.sellers.length > 0 ? (
            <ActionButton action="/sync" token={token} isMain>
              Sync now
            </ActionButton>
          ) : undefined,
      },
      <>
        {sellers.length === 0 ? null : (
          <Section title="Needs you">
            {needs.length + audits.length === 0 ? (
              <p class="empty">Nothing needs you.</p>
            ) : (
              <div class="cards">
                {needs.slice(0, MOST_CARDS).map((need) => (
                  <NeedCard need={need} token={token} mayAct={mayAct} />
                ))}
                {audits.map((audit) => (
                  <AuditCard audit={audit} />
                ))}
              </div>
            )}
            {needs.length > MOST_CARDS ? (
              <p class="muted">
                and {plural(needs.length - MOST_CARDS, 'more seller', 'more sellers')}: the list
                below has all
              </p>
            ) : null}
          </Section>
        )}
        <Work bars={live.barsOf(running)} running={running} />
        {sellers.length === 0 ? null : <Overnight happened={happened} />}
        <Section
          title="Sellers"
          note={
            mayAct && sellers.some(({ parked }) => parked !== null)
              ? 'Sync now mirrors all of them, paused and parked ones too'
              : undefined
          }
        >
          {sellers.length > PAGE_SELLERS ? (
            <Filter button="Search" action="/">
              <label>
                Seller
                <input type="search" name="seller" value={c.req.query('seller') ?? ''} />
              </label>
            </Filter>
          ) : null}
          <SellerTable
            sellers={shown}
            nights={nights}
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
          if (!known.includes(name) && !configured.includes(name)) throw noSeller();
          await queues.add('mirror', {
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
            <Card tone="busy" title={<a href={link}>{capital(id)}</a>}>
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
              <ItemLink seller={sellerId} item={itemId} name={itemName} />
            ),
          },
          { name: 'Price', cell: ({ price }) => price },
          { figure: 'Old', cell: ({ oldPrice, oldCurrency }) => money(oldPrice, oldCurrency) },
          { figure: 'New', cell: ({ newPrice, currency }) => money(newPrice, currency) },
          { figure: 'Change', cell: ({ percent }) => <Percent of={Number(percent)} /> },
        ]}
      />
    </Section>
  );

/** A seller, and how current its copy is. */
type Seller = SellerStatus & { readonly copy: CopyState };

/** In the order in which the sentence counts them. */
const COPIES = ['current', 'stale', 'never', 'failing', 'parked', 'paused'] as const;

/** `2 copies current, 1 paused, the oldest 6 h old`. */
function sentence(sellers: readonly Seller[]): string {
  if (sellers.length === 0) return 'No copy yet.';
  const counts = COPIES.map((state) => ({
    state: state === 'never' ? 'never mirrored' : state,
    sellers: sellers.filter(({ copy }) => copy === state).length,
  })).filter((one) => one.sellers > 0);
  const parts = counts.map(({ state, sellers: n }, place) =>
    place === 0 ? `${plural(n, 'copy', 'copies')} ${state}` : `${count(n)} ${state}`,
  );
  // A person wants the copy of a paused seller to grow old.
  const times = sellers.flatMap(({ copy, itemsMirroredAt }) =>
    copy === PAUSED || itemsMirroredAt === null ? [] : [itemsMirroredAt.getTime()],
  );
  if (times.length === 0) return parts.join(', ');
  const age = duration(Date.now() - times.reduce((a, b) => Math.min(a, b)));
  return [...parts, `${sellers.length === 1 ? '' : 'the oldest '}${age} old`].join(', ');
}

/** What needs somebody, the most urgent first: of a thousand stale copies, a held run is not the last. */
const URGENCY = ['held', 'parked', 'failed', 'stale'] as const;

interface Need {
  readonly kind: (typeof URGENCY)[number];
  readonly seller: Seller;
}

function needOf(seller: Seller): Need[] {
  const { copy, lastProblem } = seller;
  if (copy === 'parked') return [{ kind: 'parked', seller }];
  if (lastProblem?.state === 'held') return [{ kind: 'held', seller }];
  if (copy === PAUSED) return [];
  if (lastProblem !== null) return [{ kind: 'failed', seller }];
  return copy === 'stale' || copy === 'never' ? [{ kind: 'stale', seller }] : [];
}

const NeedCard: FC<{ need: Need; token: string; mayAct: boolean }> = ({
  need: { kind, seller },
  token,
  mayAct,
}) => {
  const { sellerId, lastProblem: problem, parked, held } = seller;
  const sync = mayAct ? (
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
        {run}: the list lacked{' '}
        {held === null ? 'items' : `${count(held.items)} of ${plural(held.present, 'item')}`}, more
        than the removal guard allows. Nothing was removed.
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
        <Foreign text={capital(parked?.reason ?? '')} />. Schedules leave it alone until this is
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

const Overnight: FC<{ happened: ChangeSummary }> = ({ happened }) => (
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
  sellers: readonly Seller[];
  nights: readonly Night[];
  processes: readonly LiveProcess[];
  empty: Child;
}> = ({ sellers, nights, processes, empty }) => (
  <Table
    caption="Sellers"
    flows
    rows={sellers}
    empty={empty}
    columns={[
      { name: 'Seller', cell: ({ sellerId }) => <SellerLink name={sellerId} /> },
      { name: 'Copy', cell: ({ copy }) => <State of={copy} /> },
      { named: 'Mirrored', cell: ({ itemsMirroredAt }) => <Ago at={itemsMirroredAt} /> },
      { figure: 'Live', cell: ({ items }) => <Count of={items.live} /> },
      { figure: 'Missing', cell: ({ items }) => <Count of={items.missing} /> },
      { figure: 'Removed', cell: ({ items }) => <Count of={items.removed} /> },
      {
        figure: 'Balance',
        cell: ({ account }) =>
          account === null ? (
            <span class="muted">–</span>
          ) : (
            money(account.balance, account.currency)
          ),
      },
      { named: 'Next run', cell: (seller) => <Ago at={nextRunOf(seller, processes)} none="–" /> },
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
                day: ['today', 'yesterday'][daysAgo] ?? `${daysAgo} days ago`,
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
