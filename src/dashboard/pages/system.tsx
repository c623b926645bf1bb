import type { FC } from 'hono/jsx';
import {
  type Check,
  databaseChecks,
  diskSpace,
  failed,
  ok,
  settingsChecks,
} from '../../service/checks.js';
import { callsAllowed, type Config, type FeedConfig } from '../../config/index.js';
import { listLookUpLoads, shareUsed, type LookUpLoad } from '../../codes/look-up-store.js';
import { feedDelay, type FeedState, listFeedStates } from '../../reporting/feeds-store.js';
import { type EndedJob, type QueueCounts } from '../../service/queue/queues.js';
import { type MirrorTask, QUEUE_NAMES, type QueueName } from '../../service/queue/tasks.js';
import { QueueError } from '../../service/queue/errors.js';
import { shownUrl, StoreError } from '../../db/errors.js';
import { listProcesses } from '../../service/processes-store.js';
import { cachedCall } from '../../service/concurrency.js';
import {
  type Dashboard,
  type DashboardParts,
  enqueueSync,
  isOperator,
  Problem,
  runAction,
} from '../context.js';
import type { Wanted } from '../../catalogue/requests-store.js';
import { listAlerts } from '../../service/alerts/alerts-store.js';
import { printable } from '../format.js';
import { page } from '../layout.js';
import { ActionButton, Ago, Moment, Sentence, State, TableSection, Untrusted } from '../parts.js';
import { Accounts } from '../invitations.js';
import { listUsers, listActions } from '../access-store.js';
import { oneOf } from '../query.js';

const MAX_FAILED_JOBS = 50;
const MAX_ALERTS = 20;
const MAX_ACTIONS = 100;
/** How long processes stay listed after they were last seen (ms). */
const DAY_MS = 86_400_000;
/** Timeout of the checks, and how long their results are cached (ms). */
const CHECKS_MS = 10_000;

/** `/system`: checks, queues, processes, feeds, alerts, accounts and the action log. */
export function addSystem(app: Dashboard, parts: DashboardParts): void {
  const { db, queues } = parts;
  const checks = cachedCall(
    () => checksOf(parts),
    CHECKS_MS,
    () => CHECKS_MS,
  );

  app.get('/system', async (c) => {
    const [jobs, processes, found, users, actions, feeds, lookUps, alerts] = await Promise.all([
      jobsOf(parts),
      listProcesses(db, DAY_MS),
      checks(),
      listUsers(db),
      listActions(db, MAX_ACTIONS),
      listFeedStates(db),
      listLookUpLoads(db),
      listAlerts(db, MAX_ALERTS),
    ]);
    return page(
      c,
      { title: 'System', lead: 'Health of the installation, and what people did.' },
      <>
        <TableSection
          title="Checks"
          note={
            <>
              <code>npx seller-mirror doctor</code> also checks marketplaces and API keys
            </>
          }
          flows
          rows={[...jobs.problems, ...found]}
          columns={[
            { name: 'Result', cell: ({ result }) => <State of={result} tone={TONES[result]} /> },
            { name: 'Finding', cell: ({ text }) => printable(text) },
            {
              name: 'What to do',
              isLabelled: true,
              cell: ({ remedy }) =>
                remedy === null ? <span class="muted">–</span> : <Sentence text={remedy} />,
            },
          ]}
        />
        <Queues counts={jobs.counts} backend={queues.backend} />
        <TableSection
          title="Failed jobs"
          note="a later run may have succeeded since"
          flows
          rows={jobs.failed}
          empty="No failed jobs."
          columns={[
            { name: 'Queue', cell: ({ queue }) => queue },
            {
              name: 'Job',
              cell: ({ kind, seller }) => [kind, seller].filter(Boolean).join(' of '),
            },
            { name: 'Failed', cell: ({ endedAt }) => <Ago at={endedAt} /> },
            { name: 'Attempts', count: ({ attempts }) => attempts },
            { name: 'Why', cell: ({ problem }) => <Sentence text={problem ?? '–'} /> },
            ...(isOperator(c)
              ? [
                  {
                    name: 'Action',
                    cell: ({ queue, jobId }: EndedJob) => (
                      <ActionButton
                        action="/system/retry"
                        token={c.get('token')}
                        fields={{ queue, job: jobId }}
                      >
                        Retry
                      </ActionButton>
                    ),
                  },
                ]
              : []),
          ]}
        />
        <Processes processes={processes} />
        <LookUps loads={lookUps} config={parts.config} />
        <Feeds configured={parts.config.feeds} states={feeds} />
        <TableSection
          title="Alerts"
          note={`last ${MAX_ALERTS}`}
          flows
          rows={alerts}
          empty={
            parts.config.alertWebhook !== null || parts.config.alertMail !== null ? (
              'No alerts yet. They are sent when something needs you.'
            ) : (
              <>
                No alerts yet. Set <code>ALERT_WEBHOOK_URL</code> or <code>ALERT_EMAIL</code> to
                receive them.
              </>
            )
          }
          columns={[
            { name: 'At', cell: ({ at }) => <Ago at={at} /> },
            { name: 'Alert', cell: ({ title }) => <Untrusted text={title} /> },
            { name: 'By', cell: ({ channel }) => channel },
            {
              name: 'Outcome',
              cell: ({ outcome, note }) => (
                <Untrusted text={note === null ? outcome : `${outcome}: ${note}`} />
              ),
            },
          ]}
        />
        <Accounts users={users} c={c} />
        <TableSection
          title="Action log"
          note={`last ${MAX_ACTIONS}`}
          flows
          rows={actions}
          empty="No actions yet."
          columns={[
            { name: 'At', cell: ({ at }) => <Moment at={at} /> },
            { name: 'Who', cell: ({ who }) => <Untrusted text={who} /> },
            { name: 'Action', cell: ({ action }) => action },
            { name: 'Target', cell: ({ target }) => <Untrusted text={target} /> },
            { name: 'Outcome', cell: ({ outcome }) => <Untrusted text={outcome} /> },
          ]}
        />
      </>,
    );
  });

  app.post('/system/retry', async (c) => {
    const { queue: name, job } = await c.req.parseBody();
    const queue = oneOf(QUEUE_NAMES, typeof name === 'string' ? name : undefined);
    const jobId = typeof job === 'string' ? job.slice(0, 200) : '';
    await runAction(c, parts, { action: 'retry job', target: jobId }, async () => {
      const task = queue === undefined ? null : await queues.retry(queue, jobId);
      // The store says that its runs have ended, so a person must ask for new ones.
      if (task !== null && 'byHand' in task)
        await enqueueSync(c, parts, task.seller, wantedOf(task));
      if (task !== null) return;
      throw new Problem(
        'This failed job no longer exists',
        'It may have been retried already. The System page lists all failed jobs.',
        409,
      );
    });
    return c.redirect('/system?notice=retried', 303);
  });
}

function wantedOf(task: MirrorTask): Wanted {
  return task.kind === 'item' ? { kind: 'item', itemId: task.itemId } : { kind: task.kind };
}

const TONES = { ok: 'good', warning: 'warn', failed: 'bad' } as const;

/** Reads the queues. If they don't respond, that becomes a failed check instead of an error page. */
async function jobsOf({ queues }: DashboardParts): Promise<{
  readonly counts: Readonly<Record<QueueName, QueueCounts>> | null;
  readonly failed: readonly EndedJob[];
  readonly problems: readonly Check[];
}> {
  try {
    const [counts, ...failedJobs] = await Promise.all([
      queues.counts(),
      ...QUEUE_NAMES.map((name) => queues.failedJobs(name, MAX_FAILED_JOBS)),
    ]);
    const newest = failedJobs.flat().sort((a, b) => b.endedAt.getTime() - a.endedAt.getTime());
    return {
      counts,
      failed: newest.slice(0, MAX_FAILED_JOBS),
      problems: [ok(QUEUE_OK[queues.backend])],
    };
  } catch (error) {
    if (!(error instanceof QueueError)) throw error;
    const problems = [failed(`queue: ${error.message}`, error.remedy)];
    return { counts: null, failed: [], problems };
  }
}

const QUEUE_OK = {
  redis: 'queue: connected to Redis',
  postgres: 'queue: in the database; REDIS_URL is not set',
} as const;

/** The checks of `doctor` that need no API key: settings, database, disk. */
async function checksOf({ config, database }: DashboardParts): Promise<Check[]> {
  const { url, location } = database;
  const shown = location === null ? shownUrl(url) : `embedded server in ${location}`;
  const space = location === null ? [] : [await diskSpace(config.dataDir)];
  const store = await databaseChecks(config, url, shown, AbortSignal.timeout(CHECKS_MS)).catch(
    (error: unknown) => {
      if (!(error instanceof StoreError)) throw error;
      return { checks: [failed(`store: ${error.message}`, error.remedy)] };
    },
  );
  return [...settingsChecks(config), ...store.checks, ...space];
}

const Queues: FC<{
  counts: Readonly<Record<QueueName, QueueCounts>> | null;
  backend: string;
}> = ({ counts, backend }) => (
  <TableSection
    title="Queues"
    note={backend === 'redis' ? 'in Redis' : 'in PostgreSQL'}
    rows={counts === null ? [] : QUEUE_NAMES.map((name) => ({ name, ...counts[name] }))}
    empty="The queue does not respond."
    columns={[
      { name: 'Queue', cell: ({ name }) => name },
      { name: 'Waiting', count: ({ waiting }) => waiting },
      { name: 'Active', count: ({ active }) => active },
      { name: 'Delayed', count: ({ delayed }) => delayed },
      { name: 'Failed', count: (of) => of.failed },
      { name: 'Done', isMinor: true, count: ({ completed }) => completed },
    ]}
  />
);

const Processes: FC<{ processes: Awaited<ReturnType<typeof listProcesses>> }> = ({ processes }) => (
  <TableSection
    title="Processes"
    note="last 24 hours, without those that stopped normally"
    flows
    rows={processes}
    empty={
      <>
        No process is running. Start <code>npx seller-mirror run</code>.
      </>
    }
    columns={[
      { name: 'Process', cell: ({ host, pid }) => `${pid} on ${host}` },
      { name: 'Roles', cell: ({ roles }) => roles.join(', ') },
      {
        name: 'State',
        cell: (one) =>
          one.isAlive ? <State of="alive" tone="good" /> : <State of="gone" tone="bad" />,
      },
      { name: 'Last seen', isLabelled: true, cell: ({ seenAt }) => <Ago at={seenAt} /> },
      { name: 'Started', isLabelled: true, cell: ({ startedAt }) => <Ago at={startedAt} /> },
    ]}
  />
);

/** Codes that the seller's own programs look up. Left out as long as nobody asks. */
const LookUps: FC<{ loads: readonly LookUpLoad[]; config: Config }> = ({ loads, config }) => {
  if (loads.length === 0) return null;
  const allowed = callsAllowed(config);
  return (
    <TableSection
      title="Look-up API"
      note={`today; ${Math.round(config.api.share * 100)} % of the request budget is its share`}
      rows={loads}
      columns={[
        { name: 'Seller', cell: ({ sellerId }) => <Untrusted text={sellerId} /> },
        { name: 'Codes asked', count: ({ codes }) => codes },
        { name: 'Calls', count: ({ calls }) => calls },
        {
          name: 'Share used',
          isNumber: true,
          cell: (load) => {
            const perMinute = allowed(load.sellerId);
            return perMinute === Infinity
              ? '–'
              : `${Math.round(shareUsed(load, perMinute) * 100)} %`;
          },
        },
        { name: 'Pending', count: ({ pending }) => pending },
      ]}
    />
  );
};

/** Describes how an alert ended. */
/** State of the feeds into other databases. */
const Feeds: FC<{ configured: readonly FeedConfig[]; states: readonly FeedState[] }> = ({
  configured,
  states,
}) => (
  <TableSection
    title="Feeds"
    note={
      <>
        <code>npx seller-mirror feed check NAME</code> compares a target with the views
      </>
    }
    flows
    rows={feedRows(configured, states)}
    empty={
      <>
        No feeds. List reporting databases to keep up to date in <code>FEEDS_FILE</code>.
      </>
    }
    columns={[
      { name: 'Feed', cell: ({ name }) => name },
      { name: 'Target', cell: ({ place }) => place },
      { name: 'State', cell: ({ state, tone }) => <State of={state} tone={tone} /> },
      {
        name: 'Delivered',
        isLabelled: true,
        cell: ({ deliveredAt }) => <Ago at={deliveredAt} />,
      },
      { name: 'Behind since', isLabelled: true, cell: ({ since }) => <Ago at={since} /> },
      { name: 'Views behind', isLabelled: true, cell: ({ views }) => views.join(', ') || '–' },
      { name: 'Problem', cell: ({ problem }) => <Untrusted text={problem} /> },
    ]}
  />
);

/** The configured feeds, and feeds that only other processes have configured. */
function feedRows(configured: readonly FeedConfig[], states: readonly FeedState[]) {
  const names = new Set([...configured.map(({ name }) => name), ...states.map(({ feed }) => feed)]);
  return [...names].map((name) => {
    const feed = configured.find((one) => one.name === name);
    const found = states.find((one) => one.feed === name);
    const known = found?.views ?? [];
    const lag = feedDelay(known, feed?.views ?? known.map(({ view }) => view), new Date());
    const { problem = null, deliveredAt = null } = found ?? {};
    const isWaiting = lag.since !== null || deliveredAt === null;
    const [state, tone] =
      problem !== null
        ? (['failed', 'bad'] as const)
        : isWaiting
          ? (['waiting', 'warn'] as const)
          : (['ok', 'good'] as const);
    const place = feed?.place ?? '–';
    return { name, place, state, tone, deliveredAt, problem, since: lag.since, views: lag.views };
  });
}
