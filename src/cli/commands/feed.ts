import { Option, type Command } from 'commander';
import type { App } from '../../app.js';
import type { FeedConfig } from '../../config/index.js';
import {
  feedDelay,
  type FeedOutcome,
  type FeedState,
  readFeedRequestTime,
  recordDelivery,
  listFeedStates,
} from '../../reporting/feeds-store.js';
import { failedDelivery, deliveryOutcome } from '../../service/feeds.js';
import { openTarget, runFeed } from '../../reporting/feeds/open.js';
import { LIST_VIEWS, shapesOf, type ViewReport } from '../../reporting/feeds/deliver.js';
import { TargetError, type Position, type Target } from '../../reporting/feeds/target.js';
import { withExports } from '../../reporting/exports.js';
import { print, printJson, printList, printResult, stdoutLook } from '../console.js';
import { usageError } from '../errors.js';
import { appAction } from '../execute.js';
import { EXIT, type ExitCode } from '../exit-codes.js';
import { describeCommand, type CommonOptions } from '../options.js';
import { withProgress } from '../output/progress.js';
import { table } from '../output/table.js';
import { momentCell, safeLine } from '../output/text.js';
import { count, plural, duration } from '../../domain/text.js';

/** `feed [list|run|status|check|reset]`: keeps reporting databases and folders up to date. */
export function add(program: Command): void {
  const feed = describeCommand(program.command('feed'), {
    about:
      'Keeps the reporting databases and folders in FEEDS_FILE up to date. `run` and `worker` deliver after each sync and audit, or on the feed’s own schedule.',
    examples: [
      'FEEDS_FILE=feeds.json seller-mirror feed check warehouse',
      'seller-mirror feed run warehouse',
    ],
  });
  describeCommand(feed.command('list', { isDefault: true }), {
    summary: 'list the feeds in FEEDS_FILE',
    examples: ['seller-mirror feed list'],
    options: ['json'],
  }).action(appAction('store', list));
  describeCommand(feed.command('run').argument('[name]', 'the feed (default: all)'), {
    summary: 'deliver now',
    about: 'Delivers one feed, or all, now. The next run continues an interrupted delivery.',
    examples: ['seller-mirror feed run warehouse'],
    more: 'Exit codes: 0 delivered, 1 a feed or view failed, 2 usage, 130 interrupted',
    options: ['json'],
  }).action(appAction('store', run));
  describeCommand(feed.command('status'), {
    summary: 'show how current each view is',
    about: 'Asks each target how current its views are, and shows the answers.',
    examples: ['seller-mirror feed status'],
    options: ['json'],
  }).action(appAction('store', status));
  describeCommand(feed.command('check').argument('<name>', 'the feed'), {
    summary: 'check the target of a feed',
    about: 'Connects to the target of a feed and shows what is there. Writes nothing.',
    examples: ['seller-mirror feed check warehouse'],
    options: ['json'],
  }).action(appAction('store', check));
  describeCommand(feed.command('reset').argument('<name>', 'the feed'), {
    summary: 'send all rows again',
    about: 'Makes the next delivery send all rows of its views. Deletes no rows.',
    examples: ['seller-mirror feed reset warehouse --view items'],
    options: [new Option('--view <view>', 'only this view (default: all views of the feed)')],
  }).action(appAction('store', reset));
}

const NO_FEED =
  'There is no feed: name a file with feeds in FEEDS_FILE; docs/feeds.md shows one.\n';

/** @throws {CommandError} when there is no such feed */
function feedNamed({ config }: App, name: string): FeedConfig {
  const found = config.feeds.find((feed) => feed.name === name);
  if (found !== undefined) return found;
  const names = config.feeds.map((feed) => feed.name).join(', ');
  throw usageError(
    `there is no feed "${name}"`,
    names === '' ? 'FEEDS_FILE names the file with the feeds' : `feeds: ${names}`,
  );
}

async function list({ config }: App, options: CommonOptions): Promise<void> {
  const feeds = config.feeds.map(({ name, place, views, sellers, cron, deletes }) => ({
    feed: name,
    target: place,
    views,
    sellers,
    when: cron ?? 'after-sync',
    deletes,
  }));
  await printList(options, feeds, NO_FEED, (look) =>
    table(
      feeds,
      [
        { header: 'feed', value: ({ feed }) => feed },
        { header: 'target', value: ({ target }) => target },
        { header: 'when', value: ({ when }) => when },
        { header: 'views', value: ({ views }) => views.join(', ') },
      ],
      look,
    ),
  );
}

async function run(app: App, name: string | undefined, options: CommonOptions): Promise<ExitCode> {
  const feeds = name === undefined ? app.config.feeds : [feedNamed(app, name)];
  if (feeds.length === 0) throw usageError('there is no feed', 'name their file in FEEDS_FILE');
  const results: { feed: string; problem: string | null; views: readonly ViewReport[] }[] = [];
  for (const feed of feeds) {
    const { problem, views } = await deliver(app, feed);
    results.push({ feed: feed.name, problem, views });
    if (options.json !== true) await print(feedLines(feed, problem, views));
  }
  if (options.json === true) await printJson(results);
  return results.some(({ problem }) => problem !== null) ? EXIT.failed : EXIT.done;
}

/** Delivers a feed and records the outcome in the store, as a worker does. */
async function deliver({ db, database, signal }: App, feed: FeedConfig) {
  const askedAt = await readFeedRequestTime(db, feed.name);
  let views: readonly ViewReport[] = [];
  let outcome: Omit<FeedOutcome, 'askedAt'>;
  try {
    views = await withProgress(feed.name, (progress) => {
      const onProgress = (detail: string, rows: number): void => progress.update(rows, { detail });
      return runFeed(database.url, feed, { signal, onProgress });
    });
    outcome = deliveryOutcome(views);
  } catch (error) {
    if (signal.aborted || !(error instanceof TargetError)) throw error;
    outcome = failedDelivery(feed, error);
  }
  await recordDelivery(db, feed.name, { ...outcome, askedAt });
  return { problem: outcome.problem, views };
}

/** Formats the outcome of a delivery for a person. */
export function feedLines(
  { name, place }: FeedConfig,
  problem: string | null,
  views: readonly ViewReport[],
): string {
  const total = views.reduce((sum, view) => sum + view.rows, 0);
  const head =
    views.length === 0
      ? `✗ ${name} · ${safeLine(problem ?? 'nothing was delivered')}\n`
      : `${problem === null ? '✓' : '!'} ${name} · ${safeLine(place)} · ${plural(total, 'row')}\n`;
  const lines = views.map(({ view, kind, why, rows, ms, problem: fault }) => {
    if (fault !== null) {
      return `  ${view}: ${safeLine(fault.message)}\n    → ${safeLine(fault.remedy)}\n`;
    }
    const reason = why === null ? '' : `, since ${safeLine(why)}`;
    const what = {
      all: `${count(rows)} rows, all of it${reason}`,
      changes: `${count(rows)} rows, what changed${reason}`,
      same: 'no change',
    }[kind];
    return `  ${view}: ${what} (${duration(ms)})\n`;
  });
  return head + lines.join('');
}

async function status({ config, db, signal }: App, options: CommonOptions): Promise<ExitCode> {
  const states = await listFeedStates(db);
  const now = new Date();
  const found = [];
  for (const feed of config.feeds) {
    const stored = states.find((state) => state.feed === feed.name)?.views ?? [];
    found.push(await viewsAtTarget(feed, stored, now, signal));
  }
  const rows = found.flat();
  await printList(options, rows, NO_FEED, (look) =>
    table(
      rows,
      [
        { header: 'feed', value: (row) => row.feed },
        { header: 'view', value: (row) => row.view },
        {
          header: 'delivered',
          value: ({ deliveredAt, loadedRows }) => {
            const when = deliveredAt === null ? null : momentCell(deliveredAt, now, look);
            if (loadedRows === null) return when ?? 'never';
            const soFar = `${plural(loadedRows, 'row')} so far`;
            return when === null ? `first load: ${soFar}` : `${when}; all again: ${soFar}`;
          },
        },
        {
          header: 'behind',
          value: ({ lagSeconds }) => (lagSeconds === 0 ? '' : duration(lagSeconds * 1000)),
        },
        { header: 'last rows', value: (row) => row.rows },
        { header: 'problem', value: (row) => row.problem ?? '', isNote: true },
      ],
      look,
    ),
  );
  return rows.some(({ problem }) => problem !== null) ? EXIT.failed : EXIT.done;
}

/** How current each view of a feed is. @param stored what the store recorded about the feed's views */
async function viewsAtTarget(
  feed: FeedConfig,
  stored: FeedState['views'],
  now: Date,
  signal: AbortSignal,
) {
  const { found: positions, error } = await atTarget(feed, signal, async (target) => {
    const found: Position[] = [];
    for (const view of feed.views) found.push(await target.position(view));
    return found;
  });
  return feed.views.map((view, n) => {
    const { delivered = null, loading = null } = positions?.[n] ?? {};
    const problem = stored.find((one) => one.view === view)?.problem ?? null;
    return {
      feed: feed.name,
      view,
      deliveredAt: delivered?.deliveredAt ?? null,
      rows: delivered?.rows ?? null,
      loadedRows: loading?.rows ?? null,
      lagSeconds: Math.round(feedDelay(stored, [view], now).ms / 1000),
      problem: error === null ? problem : failedDelivery(feed, error).problem,
    };
  });
}

/** Opens the target of a feed for some work. If the target can't be used, returns the error. */
async function atTarget<T>(
  feed: FeedConfig,
  signal: AbortSignal,
  work: (target: Target) => Promise<T>,
): Promise<{ found: T; error: null } | { found: null; error: TargetError }> {
  try {
    const target = await openTarget(feed, signal);
    try {
      return { found: await work(target), error: null };
    } finally {
      await target.close();
    }
  } catch (error) {
    if (!(error instanceof TargetError)) throw error;
    return { found: null, error };
  }
}

async function check(app: App, name: string, options: CommonOptions): Promise<ExitCode> {
  const feed = feedNamed(app, name);
  const { found, error } = await atTarget(feed, app.signal, async (target) => {
    const { shapes, known } = await withExports(app.database.url, app.signal, async (exports) => {
      return { shapes: await shapesOf(exports, feed), known: await exports.sellers() };
    });
    const { views: plans, ...server } = await target.describe(shapes);
    const views = [];
    for (const plan of plans) {
      const { delivered } = await target.position(plan.view);
      views.push({ ...plan, delivered: delivered?.deliveredAt ?? null });
    }
    const sellers = [...new Set([...known, ...app.config.sellers.map((one) => one.name)])];
    const noViews = feed.views.filter((name) => !shapes.some(({ view }) => view === name));
    const noSellers = (feed.sellers ?? []).filter((name) => !sellers.includes(name));
    const problems: string[] = [];
    if (noViews.length > 0) problems.push(`there is no view ${noViews.join(', ')}: ${LIST_VIEWS}`);
    if (noSellers.length > 0) {
      const names = sellers.join(', ') || 'none';
      problems.push(`there is no seller ${noSellers.join(', ')}: known are ${names}`);
    }
    return { ...server, problem: problems.join('; ') || null, views };
  });
  const { server = null, clockMs = null, views = [] } = found ?? {};
  const problem = error === null ? found.problem : failedDelivery(feed, error).problem;
  const isUsable = problem === null && views.every(({ fits }) => fits);
  const json = { feed: name, target: feed.place, server, clockMs, problem, views };
  await printResult(options, json, () => {
    const parts = [name, feed.place, server, clockText(clockMs), problem];
    const lines = views.map(({ view, delivered, plan, fits }) => {
      if (!fits) return `  ${view}: ${safeLine(plan)}\n`;
      const when =
        delivered === null
          ? 'not delivered yet'
          : `delivered ${momentCell(delivered, new Date(), stdoutLook())}`;
      return `  ${view}: ${safeLine(plan)}; ${when}\n`;
    });
    const head = safeLine(parts.filter((text) => text !== null).join(' · '));
    return `${isUsable ? '✓' : '✗'} ${head}\n${lines.join('')}`;
  });
  return isUsable ? EXIT.done : EXIT.failed;
}

/** How far the target's clock is off; null for less than a minute. */
function clockText(clockMs: number | null): string | null {
  if (clockMs === null || Math.abs(clockMs) < 60_000) return null;
  return `its clock is ${duration(Math.abs(clockMs))} ${clockMs > 0 ? 'ahead' : 'behind'}`;
}

async function reset(app: App, name: string, { view }: { readonly view?: string }): Promise<void> {
  const feed = feedNamed(app, name);
  if (view !== undefined && !feed.views.includes(view)) {
    throw usageError(`feed ${name} has no view "${view}"`, `views: ${feed.views.join(', ')}`);
  }
  const { error } = await atTarget(feed, app.signal, async (target) => {
    for (const one of view === undefined ? feed.views : [view]) await target.reset(one);
  });
  if (error !== null) throw error;
  await print(`the next delivery of feed ${name} sends all rows of ${view ?? 'each view'}\n`);
}
