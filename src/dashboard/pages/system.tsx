import { isUserError, UserError } from '../../domain/user-error.js';
import type { FC } from 'hono/jsx';
import {
  type Check,
  databaseChecks,
  diskSpace,
  failed,
  ok,
  settingsChecks,
} from '../../service/checks.js';
import { callsAllowed, type Config } from '../../config/index.js';
import { shareUsed } from '../../codes/look-up-store.js';
import { type Board, readBoard } from '../../service/board.js';
import type { QueueCounts } from '../../service/queue/queues.js';
import { QUEUE_NAMES, type QueueName } from '../../service/queue/tasks.js';
import { shownUrl } from '../../db/errors.js';
import { cachedCall } from '../../service/concurrency.js';
import type { Dashboard, DashboardParts } from '../context.js';
import { listAlerts } from '../../service/alerts/alerts-store.js';
import { printable } from '../format.js';
import { page } from '../layout.js';
import { Ago, Moment, Sentence, State, TableSection, Untrusted } from '../parts.js';
import { listActions } from '../access-store.js';

/** Lists that belong to the installation. */
const PAGES = [
  ['/users', 'Users'],
  ['/tokens', 'Tokens'],
  ['/feeds', 'Feeds'],
  ['/jobs', 'Failed jobs'],
] as const;
const MAX_ALERTS = 20;
const MAX_ACTIONS = 100;
/** Timeout of the checks, and how long their results are cached (ms). */
const CHECKS_MS = 10_000;

/** `/system`: checks, queues, processes, feeds, alerts, accounts and the action log. */
export function addSystem(app: Dashboard, parts: DashboardParts): void {
  const { db, config, queues } = parts;
  const checks = cachedCall(
    () => checksOf(parts),
    CHECKS_MS,
    () => CHECKS_MS,
  );

  app.get('/system', async (c) => {
    const [jobs, board, found, actions, alerts] = await Promise.all([
      jobsOf(parts),
      readBoard(db, config, new Date(db.clock.now())),
      checks(),
      listActions(db, MAX_ACTIONS),
      listAlerts(db, MAX_ALERTS),
    ]);
    return page(
      c,
      {
        title: 'System',
        lead: 'Health of the installation, and what people did.',
        actions: PAGES.map(([path, label]) => (
          <a class="button" href={path}>
            {label}
          </a>
        )),
      },
      <>
        <TableSection
          title="Checks"
          note="of settings, queue and database"
          flows
          rows={[...jobs.problems, ...found]}
          columns={[
            { name: 'Result', cell: ({ result }) => <State of={result} tone={TONES[result]} /> },
            { name: 'Finding', cell: ({ text }) => printable(text) },
            {
              name: found.some(({ remedy }) => remedy !== null) ? 'What to do' : '',
              cell: ({ remedy }) => (remedy === null ? null : <Sentence text={remedy} />),
            },
          ]}
        />
        <Queues counts={jobs.counts} backend={queues.backend} />
        <Processes processes={board.processes} />
        <LookUps loads={board.lookUps} config={config} />
        <TableSection
          title="Alerts"
          note={`last ${MAX_ALERTS}`}
          flows
          rows={alerts}
          empty={
            config.alertWebhook !== null || config.alertMail !== null
              ? 'No alerts yet. They are sent when something needs you.'
              : 'No alerts yet. ALERT_WEBHOOK_URL or ALERT_EMAIL sets where they go.'
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
}

const TONES = { ok: 'good', warning: 'warn', failed: 'bad' } as const;

/** Reads the queues. If they don't respond, that becomes a failed check instead of an error page. */
async function jobsOf({ queues }: DashboardParts): Promise<{
  readonly counts: Readonly<Record<QueueName, QueueCounts>> | null;
  readonly problems: readonly Check[];
}> {
  try {
    return { counts: await queues.counts(), problems: [ok(QUEUE_OK[queues.backend])] };
  } catch (error) {
    if (!isUserError(error, 'QUEUE')) throw error;
    const problems = [failed(`queue: ${error.message}`, error.remedy)];
    return { counts: null, problems };
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
      if (!(error instanceof UserError)) throw error;
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

const Processes: FC<{ processes: Board['processes'] }> = ({ processes }) => (
  <TableSection
    title="Processes"
    note="last 24 hours, without those that stopped normally"
    flows
    rows={processes}
    empty="No process is running, so nothing is mirrored by schedule."
    columns={[
      { name: 'Process', cell: ({ host, pid }) => `${pid} on ${host}` },
      { name: 'Roles', cell: ({ roles }) => roles.join(', ') },
      { name: 'State', cell: ({ state }) => <State of={state} /> },
      { name: 'Last seen', isLabelled: true, cell: ({ seenAt }) => <Ago at={seenAt} /> },
      { name: 'Started', isLabelled: true, cell: ({ startedAt }) => <Ago at={startedAt} /> },
    ]}
  />
);

/** Codes that the seller's own programs look up. Left out as long as nobody asks. */
const LookUps: FC<{ loads: Board['lookUps']; config: Config }> = ({ loads, config }) => {
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
