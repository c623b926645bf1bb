import type { FC } from 'hono/jsx';
import { parkedRemedy, runProblem } from '../../jobs/problem.js';
import type { RequestSlot } from '../../store/budget.js';
import { ALIVE_MS, isAlive, type LiveProcess } from '../../store/processes.js';
import { PAUSED } from '../../store/sellers.js';
import { copyState, type SellerStatus } from '../../store/status.js';
import { BarChart, StepChart } from '../charts.js';
import {
  act,
  type Dashboard,
  type DashboardContext,
  type DashboardParts,
  isOperator,
  noSeller,
  queuedNotice,
} from '../context.js';
import { page } from '../layout.js';
import {
  ActionButton,
  Ago,
  count,
  Empty,
  Facts,
  Figures,
  Foreign,
  moment,
  Moment,
  money,
  Section,
  Sentence,
  State,
  Table,
  TIME_ZONE,
  WithTable,
} from '../parts.js';
import { nextTimes, obstacleOf, schedulesOf } from '../seller-state.js';
import { newestRuns, RunTable } from './runs.js';

/** Days of the catalogue's chart. */
const DAYS = 90;
/** Balances of the balance's chart, the newest. */
const BALANCES = 200;
/** Rows shown of a table beside a chart. */
const TABLE_ROWS = 40;
const RUNS = 8;

/** `/sellers/NAME`: one seller's copy, its schedules and its share of requests. */
export function addSellers(app: Dashboard, parts: DashboardParts): void {
  const { store, mirror, config, queues } = parts;

  app.get('/sellers/:name', async (c) => {
    const sellerId = c.req.param('name');
    const [[seller], account, processes, slots, days, balances, runs] = await Promise.all([
      store.sellers.statuses(sellerId),
      mirror.account.findUnique({ where: { sellerId } }),
      store.processes.live(ALIVE_MS),
      store.requests.lastHour(sellerId),
      store.items.lastDays(sellerId, DAYS),
      mirror.reportingBalanceHistory.findMany({
        where: { sellerId },
        orderBy: { validFrom: 'desc' },
        take: BALANCES,
      }),
      newestRuns(mirror, { sellerId }, RUNS),
    ]);
    if (seller === undefined) throw noSeller();
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
            <State of={copyState(seller, config.staleAfterHours, new Date())} /> on{' '}
            {seller.marketplace}
          </>
        ),
        actions: isOperator(c) ? (
          <>
            {seller.parked?.code === PAUSED ? null : (
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
        <LeftAlone seller={seller} />
        <LastProblem seller={seller} />
        <Figures
          of={[
            { label: 'Live items', value: count(seller.items.live) },
            { label: 'Missing', value: count(seller.items.missing) },
            { label: 'Removed', value: count(seller.items.removed) },
            { label: 'Items mirrored', value: <Ago at={seller.itemsMirroredAt} /> },
            { label: 'Account mirrored', value: <Ago at={seller.accountMirroredAt} /> },
            { label: 'Balance', value: money(account?.balance ?? null, account?.currency ?? null) },
          ]}
        />
        <Section
          title="Account"
          actions={
            <span class="links">
              <a href={`/items?seller=${encodeURIComponent(sellerId)}`}>Items</a>
              <a href={`/changes?seller=${encodeURIComponent(sellerId)}`}>Changes</a>
            </span>
          }
        >
          {account === null ? (
            <Empty>Its account was not mirrored yet: press Sync now.</Empty>
          ) : (
            <Facts
              of={[
                ['Username', <Foreign text={account.username} />],
                ['Name', <Foreign text={account.fullName} />],
                ['Email', <Foreign text={account.email} />],
                ['Registered', <Moment at={account.registeredAt} />],
                ['Changed', <Ago at={account.changedAt} />],
              ]}
            />
          )}
        </Section>
        <Schedules seller={seller} processes={processes.filter(isAlive)} />
        <Requests slots={slots} seller={seller} perMinute={configured?.requestsPerMinute ?? null} />
        <Section title="Items over time" note={`the last ${DAYS} days, in UTC`}>
          {days.length === 0 ? (
            <Empty>The first sync of the items begins the chart.</Empty>
          ) : (
            <WithTable
              chart={
                <StepChart
                  label={`Live items of ${sellerId} over time`}
                  points={days.toReversed().map(({ day, live }) => ({ at: day, value: live }))}
                />
              }
              table={
                <Table
                  caption="Items over time"
                  rows={days.slice(0, TABLE_ROWS)}
                  empty=""
                  columns={[
                    { name: 'Day', cell: ({ day }) => day.toISOString().slice(0, 10) },
                    { figure: 'Live', cell: ({ live }) => count(live) },
                    { figure: 'Missing', cell: ({ missing }) => count(missing) },
                    { figure: 'New', cell: ({ added }) => count(added) },
                    { figure: 'Removed', cell: ({ removed }) => count(removed) },
                    { figure: 'Changed', isMinor: true, cell: ({ changed }) => count(changed) },
                  ]}
                />
              }
            />
          )}
        </Section>
        <Section title="Balance over time">
          {known.length === 0 ? (
            <Empty>The first sync of the account begins the chart.</Empty>
          ) : (
            <WithTable
              chart={
                <StepChart
                  label={`Balance of ${sellerId} over time`}
                  points={known
                    .toReversed()
                    .map(({ validFrom, balance }) => ({ at: validFrom, value: Number(balance) }))}
                  format={(value) => money(value.toFixed(2), account?.currency ?? null)}
                />
              }
              table={
                <Table
                  caption="Balances"
                  rows={balances.slice(0, TABLE_ROWS)}
                  empty=""
                  columns={[
                    { name: 'Since', cell: ({ validFrom }) => moment(validFrom) },
                    {
                      figure: 'Balance',
                      cell: ({ balance, currency }) => money(balance, currency),
                    },
                    { figure: 'Change', cell: ({ change, currency }) => money(change, currency) },
                  ]}
                />
              }
            />
          )}
        </Section>
        <Section
          title="Newest runs"
          actions={<a href={`/runs?seller=${encodeURIComponent(sellerId)}`}>All runs</a>}
        >
          <RunTable runs={runs} />
        </Section>
      </>,
    );
  });

  app.post('/sellers/:name/sync', async (c) => {
    const { seller, path } = await sellerIn(c, parts);
    await act(c, parts, { action: 'sync now', target: seller }, () =>
      queues.add('mirror', {
        kind: 'sync',
        seller,
        tick: null,
        askedAt: new Date().toISOString(),
      }),
    );
    return c.redirect(`${path}?notice=${await queuedNotice(store)}`, 303);
  });

  app.post('/sellers/:name/pause', async (c) => {
    const { seller, path } = await sellerIn(c, parts);
    await act(c, parts, { action: 'pause', target: seller }, () =>
      store.sellers.pause(seller, `paused by ${c.get('session').who}`),
    );
    return c.redirect(`${path}?notice=paused`, 303);
  });

  app.post('/sellers/:name/resume', async (c) => {
    const { seller, path } = await sellerIn(c, parts);
    await act(c, parts, { action: 'resume', target: seller }, () => store.sellers.resume(seller));
    return c.redirect(`${path}?notice=resumed`, 303);
  });
}

/** The seller in a path. @throws {Problem} when the store does not know it */
async function sellerIn(
  c: DashboardContext,
  { store }: DashboardParts,
): Promise<{ seller: string; path: string }> {
  const seller = c.req.param('name') ?? '';
  if ((await store.sellers.bindingOf(seller)) === null) throw noSeller();
  return { seller, path: `/sellers/${encodeURIComponent(seller)}` };
}

/** Why schedules leave the seller alone, and what to do about it. */
const LeftAlone: FC<{ seller: SellerStatus }> = ({ seller: { sellerId, parked } }) => {
  if (parked === null) return null;
  const { since, code, reason, runId } = parked;
  if (code === PAUSED) {
    return (
      <p class="notice">
        Schedules leave this seller alone: <Foreign text={reason} />, <Ago at={since} />. Press
        Resume to have them mirror it again.
      </p>
    );
  }
  return (
    <p class="notice bad">
      Parked <Ago at={since} />
      {runId === null ? null : (
        <>
          {' '}
          by <a href={`/runs/${runId}`}>run {String(runId)}</a>
        </>
      )}
      : <Foreign text={reason} />. Schedules leave it alone. To go on:{' '}
      <Sentence text={parkedRemedy(code, sellerId)} />. Sync now and Resume do so too, once it is
      mended.
    </p>
  );
};

const LastProblem: FC<{ seller: SellerStatus }> = ({
  seller: { lastProblem: problem, parked, held },
}) => {
  if (problem === null || problem.runId === parked?.runId) return null;
  const run = <a href={`/runs/${problem.runId}`}>Run {String(problem.runId)}</a>;
  if (problem.state === 'held') {
    return (
      <p class="notice warn">
        {run} waits for your decision: <Foreign text={runProblem(problem, held)} isWhole />.{' '}
        <a href={`/runs/${problem.runId}/decide`}>Decide</a>
      </p>
    );
  }
  return (
    <p class="notice bad">
      {run} ended as {problem.state}
      {problem.problem === null ? '' : ': '}
      {problem.problem === null ? null : <Foreign text={problem.problem} />}
    </p>
  );
};

const DOES = {
  sync: 'account and items',
  account: 'account only',
  recheck: 'known codes again',
} as const;

const Schedules: FC<{ seller: SellerStatus; processes: readonly LiveProcess[] }> = ({
  seller,
  processes,
}) => {
  const fired = schedulesOf(seller.sellerId, processes);
  const obstacle = obstacleOf(seller, processes);
  return (
    <Section title="Schedules">
      <Table
        caption="Schedules"
        flows
        rows={fired}
        empty={
          <>
            No running scheduler mirrors this seller: start <code>seller-mirror run</code>, or set{' '}
            <code>SYNC_CRON</code> and start it again.
          </>
        }
        columns={[
          { name: 'Mirrors', cell: ({ kind }) => DOES[kind] },
          { name: 'Cron', cell: ({ cron }) => <code class="nowrap">{cron}</code> },
          { name: 'Time zone', cell: ({ timeZone }) => timeZone },
          {
            named: `Next times (${TIME_ZONE})`,
            cell: (schedule) =>
              obstacle ??
              (nextTimes(schedule)
                .map((at) => moment(at).slice(0, 16))
                .join(', ') ||
                'never'),
          },
        ]}
      />
    </Section>
  );
};

/** How much of the budget was used in the last hour. */
const Requests: FC<{
  slots: readonly RequestSlot[];
  seller: SellerStatus;
  perMinute: number | null;
}> = ({ slots, seller: { sellerId, marketplace }, perMinute }) => {
  const own = slots.reduce((sum, slot) => sum + slot.own, 0);
  const all = slots.reduce((sum, slot) => sum + slot.all, 0);
  const bars = slots.map((slot) => ({ name: moment(slot.at).slice(11, 16), value: slot.own }));
  const limit = perMinute === null || perMinute === 0 ? null : perMinute * 60;
  return (
    <Section title="Requests in the last hour" note="counted every five minutes">
      <Figures
        of={[
          { label: 'Of this seller', value: count(own) },
          { label: `All on ${marketplace}`, value: count(all) },
          {
            label: 'Budget an hour',
            value: limit === null ? (perMinute === 0 ? 'no limit' : '–') : count(limit),
            ...(limit === null ? {} : { note: `${Math.round((100 * all) / limit)} % used` }),
          },
        ]}
      />
      {own === 0 ? (
        <Empty>No request was made for it in the last hour. Syncs and audits make them.</Empty>
      ) : (
        <WithTable
          chart={<BarChart label={`Requests for ${sellerId} in the last hour`} bars={bars} />}
          table={
            <Table
              caption="Requests in the last hour"
              rows={slots}
              empty=""
              columns={[
                { name: 'From', cell: ({ at }) => moment(at).slice(11, 16) },
                { figure: 'Of this seller', cell: (slot) => count(slot.own) },
                { figure: 'All', cell: (slot) => count(slot.all) },
              ]}
            />
          }
        />
      )}
    </Section>
  );
};
