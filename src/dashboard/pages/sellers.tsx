import type { FC } from 'hono/jsx';
import { NeedList } from './needs.js';
import { type RequestSlot, readRequestsOfLastHour } from '../../db/budget.js';
import { pauseSeller, resumeSeller, readBinding } from '../../catalogue/sellers-store.js';
import { BarChart, StepChart } from '../charts.js';
import {
  type Dashboard,
  type DashboardContext,
  type DashboardParts,
  enqueueSync,
  isOperator,
  queueNotice,
  runAction,
  sellerNotFound,
} from '../context.js';
import { page } from '../layout.js';
import { capital, moment, TIME_ZONE } from '../format.js';
import { money, count } from '../../domain/text.js';
import {
  ActionButton,
  Ago,
  ChartWithTable,
  Empty,
  Facts,
  Figures,
  Moment,
  Section,
  State,
  Table,
  TableSection,
  Untrusted,
} from '../parts.js';
import { OBSTACLES, readBoard, type SellerCard } from '../../service/board.js';
import { readItemDays } from '../../catalogue/items-store.js';
import { RUNS } from '../../catalogue/runs-listing.js';
import { ListingTable } from '../listing.js';

/** Days in the chart of items. */
const MAX_DAYS = 90;
/** Changes in the chart of balances. */
const MAX_BALANCES = 200;
/** Rows in the tables below the charts. */
const MAX_TABLE_ROWS = 40;
const MAX_RUNS = 8;

/** `/sellers/NAME`: a seller's account, schedules, requests and history. */
export function addSellers(app: Dashboard, parts: DashboardParts): void {
  const { db, mirror, config } = parts;

  app.get('/sellers/:name', async (c) => {
    const sellerId = c.req.param('name');
    const [board, account, slots, days, balances, runs] = await Promise.all([
      readBoard(db, config, new Date(db.clock.now()), sellerId),
      mirror.account.findUnique({ where: { sellerId } }),
      readRequestsOfLastHour(db, sellerId),
      readItemDays(db, sellerId, MAX_DAYS),
      mirror.reportingBalanceHistory.findMany({
        where: { sellerId },
        orderBy: { validFrom: 'desc' },
        take: MAX_BALANCES,
      }),
      RUNS.read(db, { seller: sellerId }, { face: 'tables', from: null, limit: MAX_RUNS }),
    ]);
    const [seller] = board.sellers;
    if (seller === undefined) throw sellerNotFound();
    const path = `/sellers/${encodeURIComponent(sellerId)}`;
    const token = c.get('token');
    const configured = config.sellers.find(({ name }) => name === sellerId);
    const known = balances.filter(({ balance }) => balance !== null);
    return page(
      c,
      {
        title: sellerId,
        lead: (
          <>
            <State of={seller.state} />
            {seller.marketplace === null ? null : ` on ${seller.marketplace}`}
          </>
        ),
        actions: isOperator(c) ? (
          <>
            {seller.copy === 'paused' ? null : (
              <ActionButton action={`${path}/pause`} token={token}>
                Pause
              </ActionButton>
            )}
            {seller.parked === null ? null : (
              <ActionButton action={`${path}/resume`} token={token}>
                Resume
              </ActionButton>
            )}
            <ActionButton action={`${path}/sync`} token={token} isMain>
              Sync now
            </ActionButton>
          </>
        ) : undefined,
      },
      <>
        <Paused seller={seller} />
        <NeedList needs={seller.needs} c={c} />
        <Figures
          of={[
            { label: 'Live items', value: count(seller.items.live) },
            ...(['missing', 'removed'] as const).flatMap((state) =>
              seller.items[state] === 0
                ? []
                : [{ label: capital(state), value: count(seller.items[state]) }],
            ),
            { label: 'Items mirrored', value: <Ago at={seller.itemsMirroredAt} /> },
            { label: 'Account mirrored', value: <Ago at={seller.accountMirroredAt} /> },
            { label: 'Balance', value: money(account?.balance ?? null, account?.currency ?? null) },
          ]}
        />
        <Section
          title="Account"
          actions={
            <span class="actions">
              <a href={`/items?seller=${encodeURIComponent(sellerId)}`}>Items</a>
              <a href={`/changes?seller=${encodeURIComponent(sellerId)}`}>Changes</a>
            </span>
          }
        >
          {account === null ? (
            <Empty>The account was not mirrored yet.</Empty>
          ) : (
            <Facts
              of={[
                ['Username', <Untrusted text={account.username} />],
                ['Name', <Untrusted text={account.fullName} />],
                ['Email', <Untrusted text={account.email} />],
                ['Registered', <Moment at={account.registeredAt} />],
                ['Changed', <Ago at={account.changedAt} />],
              ]}
            />
          )}
        </Section>
        <Schedules schedules={seller.schedules} />
        <Requests slots={slots} seller={seller} perMinute={configured?.requestsPerMinute ?? null} />
        <Section title="Items over time" note={`last ${MAX_DAYS} days (UTC)`}>
          {days.length === 0 ? (
            <Empty>The chart starts with the first sync of the items.</Empty>
          ) : (
            <ChartWithTable
              chart={
                <StepChart
                  label={`Live items of ${sellerId} over time`}
                  points={days.toReversed().map(({ day, live }) => ({ at: day, value: live }))}
                />
              }
              table={
                <Table
                  caption="Items over time"
                  rows={days.slice(0, MAX_TABLE_ROWS)}
                  columns={[
                    { name: 'Day', cell: ({ day }) => day.toISOString().slice(0, 10) },
                    { name: 'Live', count: ({ live }) => live },
                    { name: 'Missing', count: ({ missing }) => missing },
                    { name: 'New', count: ({ added }) => added },
                    { name: 'Removed', count: ({ removed }) => removed },
                    {
                      name: 'Changed',
                      isMinor: true,
                      count: ({ changed }) => changed,
                    },
                  ]}
                />
              }
            />
          )}
        </Section>
        <Section title="Balance over time">
          {known.length === 0 ? (
            <Empty>The chart starts with the first sync of the account.</Empty>
          ) : (
            <ChartWithTable
              chart={
                <StepChart
                  label={`Balance of ${sellerId} over time`}
                  unit={account?.currency}
                  points={known
                    .toReversed()
                    .map(({ validFrom, balance }) => ({ at: validFrom, value: Number(balance) }))}
                />
              }
              table={
                <Table
                  caption="Balances"
                  rows={balances.slice(0, MAX_TABLE_ROWS)}
                  columns={[
                    { name: 'Since', cell: ({ validFrom }) => moment(validFrom) },
                    {
                      name: 'Balance',
                      isNumber: true,
                      cell: ({ balance, currency }) => money(balance, currency),
                    },
                    {
                      name: 'Change',
                      isNumber: true,
                      cell: ({ change, currency }) => money(change, currency),
                    },
                  ]}
                />
              }
            />
          )}
        </Section>
        <Section
          title="Latest runs"
          actions={<a href={`/runs?seller=${encodeURIComponent(sellerId)}`}>All runs</a>}
        >
          <ListingTable listing={RUNS} rows={runs} />
        </Section>
      </>,
    );
  });

  app.post('/sellers/:name/sync', async (c) => {
    const { seller, path } = await sellerIn(c, parts);
    await runAction(c, parts, { action: 'sync now', target: seller }, () =>
      enqueueSync(c, parts, seller),
    );
    return c.redirect(`${path}?notice=${await queueNotice(db)}`, 303);
  });

  app.post('/sellers/:name/pause', async (c) => {
    const { seller, path } = await sellerIn(c, parts);
    await runAction(c, parts, { action: 'pause', target: seller }, () =>
      pauseSeller(db, seller, `paused by ${c.get('session').who}`),
    );
    // The page itself says that the seller is paused.
    return c.redirect(path, 303);
  });

  app.post('/sellers/:name/resume', async (c) => {
    const { seller, path } = await sellerIn(c, parts);
    await runAction(c, parts, { action: 'resume', target: seller }, () => resumeSeller(db, seller));
    return c.redirect(`${path}?notice=resumed`, 303);
  });
}

/** The seller in the URL. @throws {Problem} (404) when neither the settings nor the store know it */
async function sellerIn(
  c: DashboardContext,
  { db, config }: DashboardParts,
): Promise<{ seller: string; path: string }> {
  const seller = c.req.param('name') ?? '';
  const isConfigured = config.sellers.some(({ name }) => name === seller);
  if (!isConfigured && (await readBinding(db, seller)) === null) throw sellerNotFound();
  return { seller, path: `/sellers/${encodeURIComponent(seller)}` };
}

/** Who stopped the schedules of the seller, and how to start them. */
const Paused: FC<{ seller: SellerCard }> = ({ seller: { parked, copy } }) =>
  parked !== null && copy === 'paused' ? (
    <p class="notice">
      <Untrusted text={capital(parked.reason)} />, <Ago at={parked.since} />. Schedules skip this
      seller until you press Resume.
    </p>
  ) : null;

const TASKS = {
  sync: 'mirror account and items',
  account: 'mirror account',
  recheck: 're-check known codes',
  feed: 'deliver the feed',
} as const;

const Schedules: FC<{ schedules: SellerCard['schedules'] }> = ({ schedules }) => (
  <TableSection
    title="Schedules"
    flows
    rows={schedules}
    empty="No schedule mirrors this seller. SYNC_CRON sets one."
    columns={[
      { name: 'Task', cell: ({ kind }) => TASKS[kind] },
      { name: 'Cron', cell: ({ cron }) => <code class="nowrap">{cron}</code> },
      { name: 'Time zone', cell: ({ timeZone }) => timeZone },
      {
        name: `Next times (${TIME_ZONE})`,
        isLabelled: true,
        cell: ({ obstacle, next }) =>
          obstacle === null
            ? next.map((at) => moment(at).slice(0, 16)).join(', ')
            : OBSTACLES[obstacle][0],
      },
    ]}
  />
);

/** Requests and used budget of the last hour. */
const Requests: FC<{
  slots: readonly RequestSlot[];
  seller: SellerCard;
  perMinute: number | null;
}> = ({ slots, seller: { sellerId, marketplace }, perMinute }) => {
  const own = slots.reduce((sum, slot) => sum + slot.own, 0);
  const all = slots.reduce((sum, slot) => sum + slot.all, 0);
  const bars = slots.map(({ at, own: value }) => {
    return { name: moment(at).slice(11, 16), value, title: count(value) };
  });
  const limit = perMinute === null || perMinute === 0 ? null : perMinute * 60;
  return (
    <Section title="Requests in the last hour">
      <Figures
        of={[
          { label: 'This seller', value: count(own) },
          ...(marketplace === null || all === own
            ? []
            : [{ label: `All sellers on ${marketplace}`, value: count(all) }]),
          {
            label: 'Budget per hour',
            value: limit === null ? (perMinute === 0 ? 'no limit' : '–') : count(limit),
            ...(limit === null ? {} : { note: `${Math.round((100 * all) / limit)} % used` }),
          },
        ]}
      />
      {own === 0 ? (
        <Empty>No requests in the last hour. Syncs and checks of codes make them.</Empty>
      ) : (
        <ChartWithTable
          chart={<BarChart label={`Requests for ${sellerId} in the last hour`} bars={bars} />}
          table={
            <Table
              caption="Requests in the last hour"
              rows={slots}
              columns={[
                { name: 'From', cell: ({ at }) => moment(at).slice(11, 16) },
                { name: 'This seller', count: (slot) => slot.own },
                { name: 'All sellers', count: (slot) => slot.all },
              ]}
            />
          }
        />
      )}
    </Section>
  );
};
