import { Option, type Command } from 'commander';
import type { App } from '../../app.js';
import type { FeedConfig } from '../../config/index.js';
import { lagOf } from '../../domain/feeds.js';
import { failureOf, outcomeOf } from '../../app/feeds.js';
import { openTarget, runFeed } from '../../feeds/open.js';
import { LIST_VIEWS, shapesOf, type ViewReport } from '../../feeds/deliver.js';
import { TargetError, type Description } from '../../feeds/target.js';
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

/** `feed [list|run|status|check|reset]`: reporting databases and folders that are kept full. */
export function add(program: Command): void {
  const feed = described(program.command('feed'), {
    about:
      'Keeps reporting databases and folders full: FEEDS_FILE says which. `run` and `worker` deliver after each sync and audit, or on the feed’s own cron.',
    examples: [
      'FEEDS_FILE=feeds.json seller-mirror feed check warehouse',
      'seller-mirror feed run warehouse',
    ],
  });
  described(feed.command('list', { isDefault: true }), {
    about: 'Lists the feeds that FEEDS_FILE has.',
    examples: ['seller-mirror feed list'],
    options: ['json'],
  }).action(appAction('store', list));
  described(feed.command('run').argument('[name]', 'of the feed (default: all)'), {
    about: 'Delivers now: one feed, or all. Interrupted, it goes on from there the next time.',
    examples: ['seller-mirror feed run warehouse'],
    more: 'Exit codes: 0 delivered, 1 a feed or view failed, 2 usage, 130 interrupted',
    options: ['json'],
  }).action(appAction('store', run));
  described(feed.command('status'), {
    about: 'Shows how far each view of each feed is, as its target says.',
    examples: ['seller-mirror feed status'],
    options: ['json'],
  }).action(appAction('store', status));
  described(feed.command('check').argument('<name>', 'of the feed'), {
    about: 'Connects to the target of a feed and says what is there. Writes nothing.',
    examples: ['seller-mirror feed check warehouse'],
    options: ['json'],
  }).action(appAction('store', check));
  described(feed.command('reset').argument('<name>', 'of the feed'), {
    about: 'Has views delivered whole the next time. Deletes no rows.',
    examples: ['seller-mirror feed reset warehouse --view items'],
    options: [new Option('--view <view>', 'only this view (default: all of the feed)')],
  }).action(appAction('store', reset));
}

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

async function list({ config }: App, _: AbortSignal, options: CommonOptions): Promise<void> {
  const feeds = config.feeds.map(({ name, place, views, sellers, cron, deletes }) => ({
    ...{ feed: name, target: place, views, sellers, when: cron ?? 'after-sync', deletes },
  }));
  await printResult(options, feeds, () =>
    feeds.length === 0
      ? 'There is no feed: name a file with feeds in FEEDS_FILE; docs/feeds.md shows one.\n'
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

async function run(
  app: App,
  signal: AbortSignal,
  name: string | undefined,
  options: CommonOptions,
): Promise<ExitCode> {
  const feeds = name === undefined ? app.config.feeds : [feedOf(app, name)];
  if (feeds.length === 0) throw usageError('there is no feed', 'name their file in FEEDS_FILE');
  const { feeds: states } = app.store;
  const results: { feed: string; problem: string | null; views: readonly ViewReport[] }[] = [];
  for (const feed of feeds) {
    const progress = new Progress({ output: process.stderr, label: feed.name });
    const askedAt = await states.askedAt(feed.name);
    let problem: string | null = null;
    let views: ViewReport[] = [];
    let outcome: Omit<FeedOutcome, 'askedAt'>;
    try {
      const onProgress = (view: string, rows: number): void =>
        progress.update(rows, { detail: view });
      views = await runFeed(app.database.url, feed, { signal, onProgress });
      outcome = outcomeOf(views);
      problem = outcome.problem;
    } catch (error) {
      if (signal.aborted || !(error instanceof TargetError)) throw error;
      outcome = failureOf(feed, error);
      problem = outcome.problem;
    } finally {
      progress.finish();
    }
    await states.note(feed.name, { ...outcome, askedAt });
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

async function status(app: App, signal: AbortSignal, options: CommonOptions): Promise<ExitCode> {
  const states = new Map((await app.store.feeds.list()).map((state) => [state.feed, state]));
  const rows: {
    feed: string;
    view: string;
    deliveredAt: Date | null;
    rows: number | null;
    lagSeconds: number;
    problem: string | null;
  }[] = [];
  const now = new Date();
  for (const feed of app.config.feeds) {
    const known = states.get(feed.name)?.views ?? [];
    const storedOf = (view: string) => ({
      lagSeconds: Math.round(lagOf(known, [view], now).ms / 1000),
      problem: known.find((one) => one.view === view)?.problem ?? null,
    });
    try {
      const target = await openTarget(feed, signal);
      try {
        for (const view of feed.views) {
          const { delivered } = await target.cursor(view);
          const { deliveredAt = null, rows: last = null } = delivered ?? {};
          rows.push({ feed: feed.name, view, deliveredAt, rows: last, ...storedOf(view) });
        }
      } finally {
        await target.close();
      }
    } catch (error) {
      if (!(error instanceof TargetError)) throw error;
      const { problem } = failureOf(feed, error);
      for (const view of feed.views) {
        const { lagSeconds } = storedOf(view);
        rows.push({ feed: feed.name, view, deliveredAt: null, rows: null, lagSeconds, problem });
      }
    }
  }
  const look = stdoutLook();
  await printResult(options, rows, () =>
    rows.length === 0
      ? 'There is no feed: name a file with feeds in FEEDS_FILE; docs/feeds.md shows one.\n'
      : table(
          rows,
          [
            { header: 'feed', value: (row) => row.feed },
            { header: 'view', value: (row) => row.view },
            {
              header: 'delivered',
              value: ({ deliveredAt }) =>
                deliveredAt === null ? 'never' : momentCell(deliveredAt, now, look),
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

async function check(
  app: App,
  signal: AbortSignal,
  name: string,
  options: CommonOptions,
): Promise<ExitCode> {
  const feed = feedOf(app, name);
  let found: Omit<Description, 'views'> | null = null;
  let problem: string | null = null;
  const views: { view: string; delivered: Date | null; plan: string; fits: boolean }[] = [];
  try {
    const target = await openTarget(feed, signal);
    try {
      const shapes = await withExports(app.database.url, signal, (exports) =>
        shapesOf(exports, feed),
      );
      const { views: plans, ...server } = await target.describe(shapes);
      found = server;
      for (const plan of plans) {
        const { delivered } = await target.cursor(plan.view);
        views.push({ ...plan, delivered: delivered?.deliveredAt ?? null });
      }
      const unknown = feed.views.filter((name) => !shapes.some(({ view }) => view === name));
      if (unknown.length > 0) problem = `there is no view ${unknown.join(', ')}: ${LIST_VIEWS}`;
    } finally {
      await target.close();
    }
  } catch (error) {
    if (!(error instanceof TargetError)) throw error;
    problem = `${error.message}: ${error.remedy}`;
  }
  const { server = null, clockMs = null } = found ?? {};
  const isFine = problem === null && views.every(({ fits }) => fits);
  await printResult(
    options,
    { feed: name, target: feed.place, server, clockMs, problem, views },
    () => {
      const mark = isFine ? '✓' : '✗';
      const said = [name, feed.place, server, clockWords(clockMs), problem];
      const lines = views.map(({ view, delivered, plan }) => {
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

async function reset(
  app: App,
  signal: AbortSignal,
  name: string,
  { view }: { readonly view?: string },
): Promise<void> {
  const feed = feedOf(app, name);
  if (view !== undefined && !feed.views.includes(view)) {
    throw usageError(`feed ${name} has no view "${view}"`, `views: ${feed.views.join(', ')}`);
  }
  const target = await openTarget(feed, signal);
  try {
    for (const one of view === undefined ? feed.views : [view]) await target.forget(one);
  } finally {
    await target.close();
  }
  await print(`${view ?? 'every view'} of ${name} is delivered whole the next time\n`);
}
