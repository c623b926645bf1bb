import type { FC } from 'hono/jsx';
import {
  type Check,
  databaseChecks,
  diskSpace,
  failed,
  ok,
  settingsChecks,
} from '../../app/checks.js';
import type { FeedConfig } from '../../config/index.js';
import { feedDelay } from '../../domain/feeds.js';
import { type EndedJob, type QueueCounts } from '../../queue/queues.js';
import { QUEUE_NAMES, type QueueName } from '../../queue/tasks.js';
import { QueueError } from '../../queue/errors.js';
import { shownUrl, StoreError } from '../../store/errors.js';
import type { FeedState } from '../../store/feeds.js';
import { ALIVE_MS, isAlive, type LiveProcess } from '../../store/processes.js';
import { cachedCall } from '../../web/cached-call.js';
import { act, type Dashboard, type DashboardParts, isOperator, Problem } from '../context.js';
import { page } from '../layout.js';
import {
  ActionButton,
  Ago,
  count,
  Count,
  Foreign,
  Moment,
  printable,
  Section,
  Sentence,
  State,
  Table,
} from '../parts.js';
import { oneOf } from '../query.js';

const MOST_FAILED = 50;
const MOST_ALERTS = 20;
const MOST_ACTIONS = 100;
/** Processes seen within this time (ms): the store keeps them as long. */
const DAY_MS = 86_400_000;
/** Longest wait for the checks, and how long they are shown to others too (ms). */
const CHECKS_MS = 10_000;

/** `/system`: queues, processes, checks, alerts, accounts, and what people did. */
export function addSystem(app: Dashboard, parts: DashboardParts): void {
  const { store, queues } = parts;
  const checks = cachedCall(
    () => checksOf(parts),
    CHECKS_MS,
    () => CHECKS_MS,
  );

  app.get('/system', async (c) => {
    const [jobs, processes, found, users, actions, feeds] = await Promise.all([
      jobsOf(parts),
      store.processes.live(DAY_MS),
      checks(),
      store.access.users(),
      store.access.actions(MOST_ACTIONS),
      store.feeds.list(),
    ]);
    return page(
      c,
      { title: 'System', lead: 'What works behind the copies.' },
      <>
        <Section
          title="Checks"
          note={
            <>
              without asking marketplaces: <code>seller-mirror doctor</code> does that too
            </>
          }
        >
          <Table
            caption="Checks"
            flows
            rows={[...jobs.problems, ...found]}
            empty=""
            columns={[
              { name: 'Result', cell: ({ result }) => <State of={result} tone={TONES[result]} /> },
              { name: 'Found', cell: ({ text }) => printable(text) },
              {
                named: 'What to do',
                cell: ({ remedy }) =>
                  remedy === null ? <span class="muted">–</span> : <Sentence text={remedy} />,
              },
            ]}
          />
        </Section>
        <Queues counts={jobs.counts} backend={queues.backend} />
        <Section
          title="Failed jobs"
          note="kept for some days; a new run of the seller may have made them good"
        >
          <Table
            caption="Failed jobs"
            flows
            rows={jobs.failed}
            empty="No job failed."
            columns={[
              { name: 'Queue', cell: ({ queue }) => queue },
              {
                name: 'Job',
                cell: ({ kind, seller }) => [kind, seller].filter(Boolean).join(' of '),
              },
              { name: 'Failed', cell: ({ endedAt }) => <Ago at={endedAt} /> },
              { figure: 'Attempts', cell: ({ attempts }) => attempts },
              { name: 'Why', cell: ({ problem }) => <Foreign text={problem} /> },
              ...(isOperator(c)
                ? [
                    {
                      name: '',
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
        </Section>
        <Processes processes={processes} />
        <Feeds configured={parts.config.feeds} states={feeds} />
        <Section title="Alerts" note={`the newest ${MOST_ALERTS} that were delivered or dropped`}>
          <Table
            caption="Alerts"
            flows
            rows={jobs.alerts}
            empty={
              <>
                No alert was delivered. <code>ALERT_WEBHOOK_URL</code> and <code>ALERT_EMAIL</code>{' '}
                say where they go.
              </>
            }
            columns={[
              { name: 'At', cell: ({ endedAt }) => <Ago at={endedAt} /> },
              { name: 'Alert', cell: ({ jobId }) => jobId.replace('.', ' ') },
              { name: 'Outcome', cell: ({ result }) => <Foreign text={outcomeOf(result)} /> },
            ]}
          />
        </Section>
        <Section title="Accounts">
          <Table
            caption="Accounts"
            rows={users}
            empty={
              <>
                No account yet: <code>seller-mirror users add NAME --role viewer</code> makes one.
                Until then <code>seller-mirror dashboard link</code> logs in.
              </>
            }
            columns={[
              { name: 'Name', cell: ({ name }) => name },
              { name: 'Role', cell: ({ role }) => role },
              { name: 'Since', cell: ({ createdAt }) => <Ago at={createdAt} /> },
            ]}
          />
        </Section>
        <Section title="Log of actions" note={`the newest ${MOST_ACTIONS}`}>
          <Table
            caption="Log of actions"
            flows
            rows={actions}
            empty="Nobody did anything here yet."
            columns={[
              { name: 'At', cell: ({ at }) => <Moment at={at} /> },
              { name: 'Who', cell: ({ who }) => <Foreign text={who} /> },
              { name: 'Action', cell: ({ action }) => action },
              { name: 'To', cell: ({ target }) => <Foreign text={target} /> },
              { name: 'Outcome', cell: ({ outcome }) => <Foreign text={outcome} /> },
            ]}
          />
        </Section>
      </>,
    );
  });

  app.post('/system/retry', async (c) => {
    const { queue: name, job } = await c.req.parseBody();
    const queue = oneOf(QUEUE_NAMES, typeof name === 'string' ? name : undefined);
    const jobId = typeof job === 'string' ? job.slice(0, 200) : '';
    await act(c, parts, { action: 'retry job', target: jobId }, async () => {
      if (queue !== undefined && (await queues.retry(queue, jobId))) return;
      throw new Problem(
        'There is no such failed job any more',
        'System lists those there are: it may have been tried again meanwhile.',
        409,
      );
    });
    return c.redirect('/system?notice=retried', 303);
  });
}

const TONES = { ok: 'good', warning: 'warn', failed: 'bad' } as const;

/** What is in the queues; a queue that does not answer is a problem to show, not a missing page. */
async function jobsOf({ queues }: DashboardParts): Promise<{
  readonly counts: Readonly<Record<QueueName, QueueCounts>> | null;
  readonly failed: readonly EndedJob[];
  readonly alerts: readonly EndedJob[];
  readonly problems: readonly Check[];
}> {
  try {
    const [counts, alerts, ...failedJobs] = await Promise.all([
      queues.counts(),
      queues.ended('alerts', 'completed', MOST_ALERTS),
      ...QUEUE_NAMES.map((name) => queues.ended(name, 'failed', MOST_FAILED)),
    ]);
    const newest = failedJobs.flat().sort((a, b) => b.endedAt.getTime() - a.endedAt.getTime());
    return {
      counts,
      alerts,
      failed: newest.slice(0, MOST_FAILED),
      problems: [ok(QUEUE_OK[queues.backend])],
    };
  } catch (error) {
    if (!(error instanceof QueueError)) throw error;
    const problems = [failed(`queue: ${error.message}`, error.remedy)];
    return { counts: null, alerts: [], failed: [], problems };
  }
}

const QUEUE_OK = {
  redis: 'queue: Redis answers',
  postgres: 'queue: in the database; REDIS_URL is not set',
} as const;

/** The checks of `doctor` that need no key: settings, database, disk. */
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
  <Section title="Queues" note={backend === 'redis' ? 'in Redis' : 'in PostgreSQL'}>
    <Table
      caption="Queues"
      rows={counts === null ? [] : QUEUE_NAMES.map((name) => ({ name, ...counts[name] }))}
      empty="The queue does not answer."
      columns={[
        { name: 'Queue', cell: ({ name }) => name },
        { figure: 'Waiting', cell: ({ waiting }) => count(waiting) },
        { figure: 'Active', cell: ({ active }) => count(active) },
        { figure: 'Delayed', cell: ({ delayed }) => count(delayed) },
        { figure: 'Failed', cell: (of) => count(of.failed) },
        { figure: 'Done', isMinor: true, cell: ({ completed }) => count(completed) },
      ]}
    />
  </Section>
);

const Processes: FC<{ processes: readonly LiveProcess[] }> = ({ processes }) => (
  <Section title="Processes" note="seen within a day; those that ended in order are not listed">
    <Table
      caption="Processes"
      flows
      rows={processes}
      empty={
        <>
          Nothing mirrors or checks: start <code>seller-mirror run</code>.
        </>
      }
      columns={[
        { name: 'Process', cell: ({ host, pid }) => `${pid} on ${host}` },
        { name: 'Does', cell: ({ roles }) => roles.join(', ') },
        {
          name: 'State',
          cell: (one) =>
            isLive(one) ? <State of="alive" tone="good" /> : <State of="gone" tone="bad" />,
        },
        { named: 'Last seen', cell: ({ seenAt }) => <Ago at={seenAt} /> },
        { named: 'Started', cell: ({ startedAt }) => <Ago at={startedAt} /> },
        { figure: 'Schedules', cell: ({ schedules }) => <Count of={schedules.length} /> },
      ]}
    />
  </Section>
);

function isLive(one: LiveProcess): boolean {
  return Date.now() - one.seenAt.getTime() < ALIVE_MS && isAlive(one);
}

/** What became of an alert, in words. */
function outcomeOf(result: unknown): string {
  if (typeof result !== 'object' || result === null) return '–';
  if ('dropped' in result) return `dropped: ${String(result.dropped)}`;
  if ('delivered' in result) return `delivered (${JSON.stringify(result.delivered)})`;
  return JSON.stringify(result);
}

/** How the feeds into other databases are doing. */
const Feeds: FC<{ configured: readonly FeedConfig[]; states: readonly FeedState[] }> = ({
  configured,
  states,
}) => (
  <Section
    title="Feeds"
    note={
      <>
        <code>seller-mirror feed status</code> asks the targets themselves
      </>
    }
  >
    <Table
      caption="Feeds"
      flows
      rows={feedRows(configured, states)}
      empty={
        <>
          No feed: <code>FEEDS_FILE</code> names reporting databases to keep up to date.
        </>
      }
      columns={[
        { name: 'Feed', cell: ({ name }) => name },
        { name: 'Target', cell: ({ place }) => place },
        { name: 'State', cell: ({ state, tone }) => <State of={state} tone={tone} /> },
        { named: 'Delivered', cell: ({ deliveredAt }) => <Ago at={deliveredAt} /> },
        { named: 'Behind since', cell: ({ since }) => <Ago at={since} /> },
        { named: 'Views behind', cell: ({ views }) => views.join(', ') || '–' },
        { name: 'Problem', cell: ({ problem }) => <Foreign text={problem} /> },
      ]}
    />
  </Section>
);

/** Feeds that are configured here, and those that only other processes know. */
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
