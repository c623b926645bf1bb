import { stateWord } from '../../listing/listing.js';
import type { Child, FC } from 'hono/jsx';
import {
  type ChangeSummary,
  type Night,
  type PriceMove,
  type Running,
  summarizeChanges,
  readRunning,
  listPriceMoves,
  readNights,
} from '../../catalogue/overview-store.js';
import { type LiveProcess, listLiveProcesses } from '../../service/processes-store.js';
import type { Schedule } from '../../service/due.js';
import { PAUSED } from '../../catalogue/sellers-store.js';
import {
  type CopyState,
  copyState,
  type SellerStatus,
  readSellerStatuses,
} from '../../catalogue/status-store.js';
import { NightStrip } from '../charts.js';
import {
  type Dashboard,
  type DashboardParts,
  enqueueSync,
  isOperator,
  listName,
  queueNotice,
  runAction,
  sellerNotFound,
} from '../context.js';
import { roughly, money, count, plural } from '../../domain/text.js';
import { page } from '../layout.js';
import type { LiveBar } from '../live.js';
import {
  ActionButton,
  Ago,
  Bar,
  Card,
  Figures,
  Filter,
  ItemLink,
  Pages,
  Percent,
  Section,
  SellerLink,
  State,
  Table,
  TableSection,
  Untrusted,
} from '../parts.js';
import { parseNumber } from '../query.js';
import { activeSchedules, obstacleTo } from '../../service/scheduler.js';
import { nextTime } from '../../service/cron.js';
import { readNeeds } from '../../service/needs.js';
import { NeedsYou } from './needs.js';
import { ListForm } from './new-audit-views.js';

/** A seller and the state of its copy. */
type Seller = SellerStatus & { readonly copy: CopyState };

const NIGHTS = 30;
const DAY_MS = 86_400_000;
/** Sellers on one page. */
const PAGE_SIZE = 20;
const MAX_MOVES = 5;

/** `/`: is my copy current, what happened overnight, what needs me? */
export function addOverview(app: Dashboard, parts: DashboardParts): void {
  const { db, config, live } = parts;

  app.get('/', async (c) => {
    const since = new Date(Date.now() - DAY_MS);
    const now = new Date();
    const [state, happened, running, moves, processes] = await Promise.all([
      readNeeds(parts, now),
      summarizeChanges(db, since),
      readRunning(db),
      listPriceMoves(db, since, MAX_MOVES),
      listLiveProcesses(db),
    ]);
    const schedules = activeSchedules(processes);
    const sellers = state.sellers.map((status) => ({
      ...status,
      copy: copyState(status, config.staleAfterHours, now),
    }));
    const search = c.req.query('seller') ?? '';
    const from = Number(parseNumber(c.req.query('from')) ?? 0n);
    const found = sellers.filter(({ sellerId }) =>
      sellerId.toLowerCase().includes(search.toLowerCase()),
    );
    const shown = found.slice(from, from + PAGE_SIZE);
    const nights = await readNights(
      db,
      shown.map(({ sellerId }) => sellerId),
      NIGHTS,
    );
    const token = c.get('token');
    const mayAct = isOperator(c);
    const hasSellers = sellers.length > 0;
    const mayCheck = mayAct && config.sellers.length > 0;
    return page(
      c,
      {
        title: 'Overview',
        lead: summary(sellers),
        actions:
          mayAct && sellers.length + config.sellers.length > 0 ? (
            <ActionButton action="/sync" token={token} isMain>
              Sync now
            </ActionButton>
          ) : undefined,
      },
      <>
        <div class={mayCheck && hasSellers ? 'beside' : undefined}>
          {mayCheck ? (
            <Section title="Check codes" note="see which purchase codes of a list are valid">
              <ListForm token={token} sellers={config.sellers.map(({ name }) => name)} />
            </Section>
          ) : null}
          {hasSellers ? <NeedsYou needs={state.needs} c={c} /> : null}
        </div>
        <RunningWork
          bars={live.barsOf(running)}
          running={{
            ...running,
            audits: running.audits.map((audit) => {
              return { ...audit, source: listName(c, audit.source) };
            }),
          }}
        />
        {hasSellers ? <LastDay happened={happened} /> : null}
        <Section
          title="Sellers"
          note={
            mayAct && sellers.some(({ parked }) => parked !== null)
              ? 'Sync now also mirrors paused and stopped sellers'
              : undefined
          }
        >
          {sellers.length > PAGE_SIZE ? (
            <Filter button="Search">
              <label>
                Seller
                <input type="search" name="seller" value={search} />
              </label>
            </Filter>
          ) : null}
          <SellerTable
            sellers={shown}
            nights={nights}
            schedules={schedules}
            processes={processes}
            empty={
              hasSellers ? (
                'No seller matches.'
              ) : (
                <>
                  No seller was mirrored yet.{' '}
                  {config.sellers.length > 0
                    ? 'Press Sync now or run'
                    : 'Configure a seller, then run'}{' '}
                  <code>npx seller-mirror sync</code>.
                </>
              )
            }
          />
          <Pages url={c.req.url} next={from + PAGE_SIZE < found.length ? from + PAGE_SIZE : null} />
        </Section>
        <PriceMoves moves={moves} />
      </>,
    );
  });

  app.post('/sync', async (c) => {
    const { seller } = await c.req.parseBody();
    // A configured seller enters the store with its first sync.
    const known = new Set([
      ...(await readSellerStatuses(db)).map(({ sellerId }) => sellerId),
      ...config.sellers.map(({ name }) => name),
    ]);
    const sellers = typeof seller === 'string' ? [seller] : [...known];
    const action = { action: 'sync now', target: sellers.join(', ').slice(0, 200) };
    await runAction(c, parts, action, async () => {
      for (const name of sellers) {
        if (!known.has(name)) throw sellerNotFound();
        await enqueueSync(c, parts, name);
      }
    });
    return c.redirect(`/?notice=${await queueNotice(db)}`, 303);
  });
}

/** Running mirror runs and audits with live progress bars. */
const RunningWork: FC<{ running: Running; bars: readonly LiveBar[] }> = ({ running, bars }) => {
  const jobs = [
    ...running.runs.map(({ runId, kind, sellerId }) => ({
      id: `run ${runId}`,
      title: `Run ${runId}`,
      path: `/runs/${runId}`,
      text: `${sellerId}: ${kind}`,
    })),
    ...running.audits.map(({ auditId, sellerId, source }) => ({
      id: `audit ${auditId}`,
      title: `Check ${auditId}`,
      path: `/audits/${auditId}`,
      text: `${sellerId}: ${source}`,
    })),
  ];
  if (jobs.length === 0) return null;
  return (
    <Section title="Running">
      <div class="cards">
        {jobs.map(({ id, title, path, text }) => {
          const bar = bars.find((one) => one.id === id);
          return (
            <Card tone="busy" title={<a href={path}>{title}</a>}>
              <Untrusted text={text} />
              {bar === undefined ? null : <Bar {...bar} label={title} />}
            </Card>
          );
        })}
      </div>
    </Section>
  );
};

const PriceMoves: FC<{ moves: readonly PriceMove[] }> = ({ moves }) => (
  <TableSection
    title="Biggest price moves"
    note="last 24 hours"
    flows
    rows={moves}
    columns={[
      {
        name: 'Item',
        cell: ({ sellerId, itemId, itemName }) => (
          <ItemLink seller={sellerId} item={itemId} name={itemName} />
        ),
      },
      { name: 'Price', cell: ({ price }) => price },
      {
        name: 'Old',
        isNumber: true,
        cell: ({ oldPrice, oldCurrency }) => money(oldPrice, oldCurrency),
      },
      {
        name: 'New',
        isNumber: true,
        cell: ({ newPrice, currency }) => money(newPrice, currency),
      },
      {
        name: 'Change',
        isNumber: true,
        cell: ({ percent }) => <Percent of={Number(percent)} />,
      },
    ]}
  />
);

/** States of copies, in the order of the summary. */
const COPIES = ['current', 'stale', 'never', 'failing', 'parked', 'paused'] as const;

/** `2 copies current, 1 paused, the oldest 6 h old`. Paused copies may be of any age. */
function summary(sellers: readonly Seller[]): string {
  if (sellers.length === 0) return 'No copy yet.';
  const counts = COPIES.map((state) => ({
    state: state === 'never' ? 'never mirrored' : stateWord(state),
    copies: sellers.filter(({ copy }) => copy === state).length,
  })).filter(({ copies }) => copies > 0);
  const parts = counts.map(({ state, copies }, n) =>
    n === 0 ? `${plural(copies, 'copy', 'copies')} ${state}` : `${count(copies)} ${state}`,
  );
  const times = sellers.flatMap(({ copy, itemsMirroredAt }) =>
    copy === PAUSED || itemsMirroredAt === null ? [] : [itemsMirroredAt],
  );
  const oldest = earliest(times);
  if (oldest === null) return parts.join(', ');
  const age = roughly(Date.now() - oldest.getTime());
  return [...parts, `${sellers.length === 1 ? '' : 'the oldest '}${age} old`].join(', ');
}

function earliest(times: readonly Date[]): Date | null {
  return times.reduce<Date | null>((a, b) => (a === null || b < a ? b : a), null);
}

const LastDay: FC<{ happened: ChangeSummary }> = ({ happened }) => (
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
  schedules: readonly Schedule[];
  processes: readonly LiveProcess[];
  empty: Child;
}> = ({ sellers, nights, schedules, processes, empty }) => (
  <Table
    caption="Sellers"
    flows
    rows={sellers}
    empty={empty}
    columns={[
      { name: 'Seller', cell: ({ sellerId }) => <SellerLink name={sellerId} /> },
      { name: 'Copy', cell: ({ copy }) => <State of={copy} /> },
      {
        name: 'Mirrored',
        isLabelled: true,
        cell: ({ itemsMirroredAt }) => <Ago at={itemsMirroredAt} />,
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
                day: ['today', 'yesterday'][daysAgo] ?? `${daysAgo} days ago`,
                state: night?.state ?? 'none',
              };
            })}
          />
        ),
      },
      { name: 'Live', count: ({ items }) => items.live },
      { name: 'Missing', count: ({ items }) => items.missing },
      { name: 'Removed', count: ({ items }) => items.removed },
      {
        name: 'Balance',
        isNumber: true,
        cell: ({ account }) =>
          account === null ? (
            <span class="muted">–</span>
          ) : (
            money(account.balance, account.currency)
          ),
      },
      {
        name: 'Next run',
        isLabelled: true,
        cell: (seller) => <Ago at={nextRunOf(seller, schedules, processes)} none="–" />,
      },
    ]}
  />
);

/** When a schedule mirrors the seller's items next; null when none will. */
function nextRunOf(
  seller: SellerStatus,
  schedules: readonly Schedule[],
  processes: readonly LiveProcess[],
): Date | null {
  const sync = schedules.find(({ kind, name }) => kind === 'sync' && name === seller.sellerId);
  if (sync === undefined || obstacleTo(sync, processes, seller.parked) !== null) return null;
  return nextTime(sync, new Date());
}
