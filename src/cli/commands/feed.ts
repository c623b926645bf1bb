import { Option, type Command } from 'commander';
import type { App } from '../../app.js';
import type { FeedConfig } from '../../config/index.js';
import { feedDelay } from '../../domain/feeds.js';
import { failedDelivery, deliveryOutcome } from '../../app/feeds.js';
import { openTarget, runFeed } from '../../feeds/open.js';
import { LIST_VIEWS, shapesOf, type ViewReport } from '../../feeds/deliver.js';
import { TargetError, type Position, type Target } from '../../feeds/target.js';
import { withExports } from '../../store/exports.js';
import type { FeedOutcome } from '../../store/feeds.js';
import { print, printResult, stdoutLook } from '../console.js';
import { usageError } from '../errors.js';
import { appAction } from '../execute.js';
import { EXIT, type ExitCode } from '../exit-codes.js';
import { described, type CommonOptions } from '../options.js';
import { Progress } from '../output/progress.js';
import { table } from '../output/table.js';
import { count, duration, momentCell, plural } from '../output/text.js';

/** `feed [list|run|status|check|reset]`: keeps reporting databases and folders up to date. */
export function add(program: Command): void {
  const feed = described(program.command('feed'), {
    about:
      'Keeps the reporting databases and folders in FEEDS_FILE up to date. `run` and `worker` deliver after each sync and audit, or on the feed’s own cron.',
    examples: [
      'FEEDS_FILE=feeds.json seller-mirror feed check warehouse',
      'seller-mirror feed run warehouse',
    ],
  });
  described(feed.command('list', { isDefault: true }), {
    summary: 'list the feeds',
    about: 'Lists the feeds that FEEDS_FILE has.',
    examples: ['seller-mirror feed list'],
    options: ['json'],
  }).action(appAction('store', list));
  described(feed.command('run').argument('[name]', 'of the feed (default: all)'), {
    summary: 'deliver now',
    about: 'Delivers now: one feed, or all. An interrupted delivery continues the next time.',
    examples: ['seller-mirror feed run warehouse'],
    more: 'Exit codes: 0 delivered, 1 a feed or view failed, 2 usage, 130 interrupted',
    options: ['json'],
  }).action(appAction('store', run));
  described(feed.command('status'), {
    summary: 'show how far each view is',
    about: 'Shows how far each view of each feed is, as its target says.',
    examples: ['seller-mirror feed status'],
    options: ['json'],
  }).action(appAction('store', status));
  described(feed.command('check').argument('<name>', 'of the feed'), {
    summary: 'check the target of a feed',
    about: 'Connects to the target of a feed and says what is there. Writes nothing.',
    examples: ['seller-mirror feed check warehouse'],
    options: ['json'],
  }).action(appAction('store', check));
  described(feed.command('reset').argument('<name>', 'of the feed'), {
    summary: 'have all rows sent again',
    about: 'Makes the next delivery of views send all their rows. Deletes no rows.',
    examples: ['seller-mirror feed reset warehouse --view items'],
    options: [new Option('--view <view>', 'only this view (default: all of the feed)')],
  }).action(appAction('store', reset));
}

const NO_FEED =
  'There is no feed: name a file with feeds in FEEDS_FILE; docs/feeds.md shows one.\n';

/** @throws {CommandError} when there is no such feed */
function feedOf({ config }: App, name: string): FeedConfig {
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
  await printResult(options, feeds, () =>
    feeds.length === 0
      ? NO_FEED
      : table(
          feeds,
          [
            { header: 'feed', value: ({ feed }) => feed },
            { header: 'target', value: ({ target }) => target },
            { header: 'when', value: ({ when }) => when },
            { header: 'views', value: ({ views }) => views.join(', ') },
          ],
          stdoutLook(),
        ),
  );
}

async function run(app: App, name: string | undefined, options: CommonOptions): Promise<ExitCode> {
  const { signal } = app;
  const feeds = name === undefined ? app.config.feeds : [feedOf(app, name)];
  if (feeds.length === 0) throw usageError('there is no feed', 'name their file in FEEDS_FILE');
  const { feeds: states } = app.store;
  const results: { feed: string; problem: string | null; views: readonly ViewReport[] }[] = [];
  for (const feed of feeds) {
    const progress = new Progress(feed.name);
    const onProgress = (view: string, rows: number): void =>
      progress.update(rows, { detail: view });
    const askedAt = await states.askedAt(feed.name);
    let views: readonly ViewReport[] = [];
    let outcome: Omit<FeedOutcome, 'askedAt'>;
    try {
      views = await runFeed(app.database.url, feed, { signal, onProgress });
      outcome = deliveryOutcome(views);
    } catch (error) {
      if (signal.aborted || !(error instanceof TargetError)) throw error;
      outcome = failedDelivery(feed, error);
    } finally {
      progress.finish();
    }
    const { problem } = outcome;
    await states.recordDelivery(feed.name, { ...outcome, askedAt });
    results.push({ feed: feed.name, problem, views });
    if (options.json !== true) await print(feedLines(feed, problem, views));
  }
  if (options.json === true) await printResult(options, results, () => '');
  return results.some(({ problem }) => problem !== null) ? EXIT.failed : EXIT.done;
}

/** What came of a delivery, for people. */
export function feedLines(
  { name, place }: FeedConfig,
  problem: string | null,
  views: readonly ViewReport[],
): string {
  const rows = views.reduce((sum, view) => sum + view.rows, 0);
  const head =
    views.length === 0
      ? `✗ ${name} · ${problem ?? 'nothing was delivered'}\n`
      : `${problem === null ? '✓' : '!'} ${name} · ${place} · ${plural(rows, 'row')}\n`;
  const lines = views.map(({ view, kind, why, rows: n, ms, problem: fault }) => {
    if (fault !== null) return `  ${view}: ${fault.message}\n    → ${fault.remedy}\n`;
    const what = { all: 'all of it', changes: 'what changed', same: 'no change' }[kind];
    const again = why === null ? '' : `, since ${why}`;
    return `  ${view}: ${kind === 'same' ? what : `${count(n)} rows, ${what}${again}`} (${duration(ms)})\n`;
  });
  return head + lines.join('');
}

async function status({ config, store, signal }: App, options: CommonOptions): Promise<ExitCode> {
  const states = await store.feeds.list();
  const now = new Date();
  const found = [];
  for (const feed of config.feeds) {
    const known = states.find((state) => state.feed === feed.name)?.views ?? [];
    const { found: cursors, error } = await atTarget(feed, signal, async (target) => {
      const positions: Position[] = [];
      for (const view of feed.views) positions.push(await target.cursor(view));
      return positions;
    });
    const rows = feed.views.map((view, n) => {
      const { delivered = null, loading = null } = cursors?.[n] ?? {};
      const { deliveredAt = null, rows = null } = delivered ?? {};
      const loadedRows = loading?.rows ?? null;
      const stored = known.find((one) => one.view === view)?.problem ?? null;
      const problem = error === null ? stored : failedDelivery(feed, error).problem;
      const lagSeconds = Math.round(feedDelay(known, [view], now).ms / 1000);
      return { feed: feed.name, view, deliveredAt, rows, loadedRows, lagSeconds, problem };
    });
    found.push(rows);
  }
  const rows = found.flat();
  const look = stdoutLook();
  await printResult(options, rows, () =>
    rows.length === 0
      ? NO_FEED
      : table(
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

/** Does work at the target of a feed. A target that can't be used is an error beside no result. */
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
  const feed = feedOf(app, name);
  const { found, error } = await atTarget(feed, app.signal, async (target) => {
    const { shapes, known } = await withExports(app.database.url, app.signal, async (exports) => {
      return { shapes: await shapesOf(exports, feed), known: await exports.sellers() };
    });
    const { views: plans, ...server } = await target.describe(shapes);
    const views = [];
    for (const plan of plans) {
      const { delivered } = await target.cursor(plan.view);
      views.push({ ...plan, delivered: delivered?.deliveredAt ?? null });
    }
    const sellers = [...new Set([...known, ...app.config.sellers.map((one) => one.name)])];
    const noViews = feed.views.filter((name) => !shapes.some(({ view }) => view === name));
    const noSellers = (feed.sellers ?? []).filter((name) => !sellers.includes(name));
    const problems = [
      ...(noViews.length === 0 ? [] : [`there is no view ${noViews.join(', ')}: ${LIST_VIEWS}`]),
      ...(noSellers.length === 0
        ? []
        : [
            `there is no seller ${noSellers.join(', ')}: known are ${sellers.join(', ') || 'none'}`,
          ]),
    ];
    const problem = problems.length === 0 ? null : problems.join('; ');
    return { ...server, problem, views };
  });
  const { server = null, clockMs = null, views = [] } = found ?? {};
  const problem = error === null ? found.problem : failedDelivery(feed, error).problem;
  const isFine = problem === null && views.every(({ fits }) => fits);
  await printResult(
    options,
    { feed: name, target: feed.place, server, clockMs, problem, views },
    () => {
      const mark = isFine ? '✓' : '✗';
      const said = [name, feed.place, server, clockWords(clockMs), problem];
      const lines = views.map(({ view, delivered, plan, fits }) => {
        if (!fits) return `  ${view}: ${plan}\n`;
        const when =
          delivered === null
            ? 'would be delivered whole'
            : `delivered ${momentCell(delivered, new Date(), stdoutLook())}`;
        return `  ${view}: ${plan}; ${when}\n`;
      });
      return `${mark} ${said.filter((text) => text !== null).join(' · ')}\n${lines.join('')}`;
    },
  );
  return isFine ? EXIT.done : EXIT.failed;
}

/** A difference of clocks that people should know of, in words; null for less than a minute. */
function clockWords(clockMs: number | null): string | null {
  if (clockMs === null || Math.abs(clockMs) < 60_000) return null;
  return `its clock is ${duration(Math.abs(clockMs))} ${clockMs > 0 ? 'ahead' : 'behind'}`;
}

async function reset(app: App, name: string, { view }: { readonly view?: string }): Promise<void> {
  const feed = feedOf(app, name);
  if (view !== undefined && !feed.views.includes(view)) {
    throw usageError(`feed ${name} has no view "${view}"`, `views: ${feed.views.join(', ')}`);
  }
  const { error } = await atTarget(feed, app.signal, async (target) => {
    for (const one of view === undefined ? feed.views : [view]) await target.forget(one);
  });
  if (error !== null) throw error;
  await print(`feed ${name} delivers ${view ?? 'each view'} whole the next time\n`);
}
