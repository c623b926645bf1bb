import { UserError } from '../../domain/user-error.js';
import type { Command } from 'commander';
import type { App } from '../../app.js';
import type { FeedConfig } from '../../config/index.js';
import { readFeedRequest, recordDelivery } from '../../reporting/feeds-store.js';
import { deliver, failedDelivery } from '../../service/feeds.js';
import { FEED, FEED_VIEWS } from '../../service/feeds-resource.js';
import type { Delivery, ViewReport } from '../../reporting/feeds/deliver.js';
import { withDelivery } from '../../reporting/feeds/open.js';
import { print, printJson, printResult } from '../console.js';
import { usageError } from '../errors.js';
import { appAction } from '../execute.js';
import { EXIT, type ExitCode } from '../exit-codes.js';
import { describeCommand, type CommonOptions } from '../options.js';
import { addListing } from '../listing.js';
import { withProgress } from '../output/progress.js';
import { addResource } from '../resource.js';
import { safeLine } from '../output/text.js';
import { plural, duration } from '../../domain/text.js';

/** `feed [list|show|run|status|check|take-over]`: keeps reporting databases and folders up to date. */
export function add(program: Command): void {
  const feed = addResource(program, {
    resource: FEED,
    name: 'feed',
    source: (app) => app,
    about:
      'Keeps the reporting databases and folders in FEEDS_FILE up to date. `run` and `worker` deliver after each sync and check, or on the feed’s own schedule.',
    example: 'warehouse',
    list: {
      summary: 'list the feeds in FEEDS_FILE, and how current they are',
      examples: ['FEEDS_FILE=feeds.json seller-mirror feed list'],
    },
  });
  describeCommand(feed.command('run').argument('[name]', 'the feed (default: all)'), {
    summary: 'deliver now',
    about:
      'Makes the target of one feed, or all, equal to the views now, also where people edited rows there.',
    examples: ['seller-mirror feed run warehouse'],
    more: 'Exit codes: 0 delivered, 1 a feed or view failed, 2 usage, 130 interrupted',
    options: ['json', 'quiet'],
  }).action(appAction('store', run));
  addListing(feed.command('status'), FEED_VIEWS, {
    summary: 'show how current each view is',
    about:
      'Shows when each view was last delivered, how long it has been behind, and its last problem. Connects to no target.',
    examples: ['seller-mirror feed status'],
    more: 'Exit codes: 0 no view has a problem, 1 a view has one',
    source: (app) => app,
    async check(app) {
      const views = await FEED_VIEWS.read(app, {}, ALL);
      return views.some(({ problem }) => problem !== null) ? EXIT.failed : EXIT.done;
    },
  });
  describeCommand(feed.command('check').argument('<name>', 'the feed'), {
    summary: 'check the target of a feed',
    about:
      'Connects to the target of a feed, compares it with the views, and shows what differs. Writes nothing.',
    examples: ['seller-mirror feed check warehouse'],
    options: ['json'],
  }).action(appAction('store', check));
  describeCommand(feed.command('take-over').argument('<name>', 'the feed'), {
    summary: 'make this store the owner of the tables',
    about:
      'Makes this store the owner of the feed’s tables, if another store or a later state of this one filled them. Changes no rows; the next delivery makes them equal to this store.',
    notes: 'Stop the other store’s feed first, or take its tables over there again later.',
    examples: ['seller-mirror feed take-over warehouse'],
    options: ['json'],
  }).action(appAction('store', takeOver));
}

const ALL = { from: null, limit: Infinity, face: 'tables' } as const;

/** @throws {UserError} when there is no such feed */
function feedNamed({ config }: App, name: string): FeedConfig {
  const found = config.feeds.find((feed) => feed.name === name);
  if (found !== undefined) return found;
  const names = config.feeds.map((feed) => feed.name).join(', ');
  throw usageError(
    `there is no feed "${name}"`,
    names === '' ? 'FEEDS_FILE names the file with the feeds' : `feeds: ${names}`,
  );
}

async function run(app: App, name: string | undefined, options: CommonOptions): Promise<ExitCode> {
  const feeds = name === undefined ? app.config.feeds : [feedNamed(app, name)];
  if (feeds.length === 0) throw usageError('there is no feed', 'name their file in FEEDS_FILE');
  const results: { feed: string; problem: string | null; views: readonly ViewReport[] }[] = [];
  for (const feed of feeds) {
    const { problem, views } = await deliverNow(app, feed);
    results.push({ feed: feed.name, problem, views });
    if (options.json !== true) await print(feedLines(feed, problem, views));
  }
  if (options.json === true) await printJson(results);
  return results.some(({ problem }) => problem !== null) ? EXIT.failed : EXIT.done;
}

/** Delivers a feed and records the outcome in the store, as a worker does. */
async function deliverNow({ db, signal }: App, feed: FeedConfig) {
  const { askedAt } = await readFeedRequest(db, feed.name);
  const outcome = await withProgress(feed.name, (progress) => {
    const onProgress = (detail: string, rows: number): void => progress.update(rows, { detail });
    return deliver(db, feed, { signal, isFull: true, onProgress });
  });
  await recordDelivery(db, feed.name, { ...outcome, askedAt });
  return { problem: outcome.problem, views: outcome.reports };
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
  const lines = views.map(({ view, rows, ms, problem: fault }) => {
    if (fault !== null) {
      return `  ${view}: ${safeLine(fault.message)}\n    → ${safeLine(fault.remedy)}\n`;
    }
    return `  ${view}: ${rows === 0 ? 'no change' : plural(rows, 'row')} (${duration(ms)})\n`;
  });
  return head + lines.join('');
}

async function check(app: App, name: string, options: CommonOptions): Promise<ExitCode> {
  const feed = feedNamed(app, name);
  const { server, problem, views } = await withDelivery(
    app.db,
    feed,
    { signal: app.signal, isFull: true },
    async (delivery) => ({
      ...(await delivery.check()),
      problem: await unknownSellers(app, feed, delivery),
    }),
  ).catch((error: unknown) => {
    if (!(error instanceof UserError)) throw error;
    return { server: null, problem: failedDelivery(feed, error).problem, views: [] };
  });
  const isUsable = problem === null && views.every(({ fits }) => fits);
  const json = { feed: name, target: feed.place, server, problem, views };
  await printResult(options, json, () => {
    const parts = [name, feed.place, server, problem];
    const lines = views.map(({ view, plan }) => `  ${view}: ${safeLine(plan)}\n`);
    const head = safeLine(parts.filter((text) => text !== null).join(' · '));
    return `${isUsable ? '✓' : '✗'} ${head}\n${lines.join('')}`;
  });
  return isUsable ? EXIT.done : EXIT.failed;
}

/** Names the sellers of a feed that nobody knows; null: there are none. */
async function unknownSellers({ config }: App, { sellers }: FeedConfig, delivery: Delivery) {
  const known = new Set([
    ...(await delivery.snapshot.sellers()),
    ...config.sellers.map((one) => one.name),
  ]);
  const missing = (sellers ?? []).filter((seller) => !known.has(seller));
  if (missing.length === 0) return null;
  return `there is no seller ${missing.join(', ')}: known are ${[...known].join(', ') || 'none'}`;
}

async function takeOver(app: App, name: string, options: CommonOptions): Promise<void> {
  const feed = feedNamed(app, name);
  const views = await takeOverFeed(app, feed);
  await printResult(options, { feed: name, views }, () => takeOverText(feed, views));
}

/** Makes this store the owner of a feed's tables. @throws {UserError} */
export function takeOverFeed(
  { db, signal }: Pick<App, 'db' | 'signal'>,
  feed: FeedConfig,
): ReturnType<Delivery['takeOver']> {
  return withDelivery(db, feed, { signal, isFull: true }, (delivery) => delivery.takeOver());
}

/** What a take-over did, for a person. */
function takeOverText({ name, place }: FeedConfig, views: readonly string[]): string {
  return views.length === 0
    ? `✓ ${name} · ${safeLine(place)} · no other store fills these tables\n`
    : `✓ ${name} · ${safeLine(place)} · this store now fills ${views.join(', ')}\n`;
}
