import type { Config, FeedConfig } from '../config/index.js';
import type { Db } from '../db/db.js';
import type { Listing, ListingColumn } from '../listing/listing.js';
import { part, type Resource } from '../listing/resource.js';
import { fewRows } from '../listing/table-listing.js';
import { type FeedCard, readBoard } from './board.js';

/** Where feeds are read from. */
export interface FeedsSource {
  readonly db: Db;
  readonly config: Config;
}

/** A feed with its settings. */
interface FoundFeed extends FeedCard {
  /** Null for a feed that only other processes have configured. */
  readonly settings: FeedConfig | null;
}

/** How current a view of a feed is. */
type FeedView = FeedCard['views'][number] & {
  readonly feed: string;
  readonly comparedAt: Date | null;
};

const VIEW_COLUMNS: readonly ListingColumn<FeedView>[] = [
  { name: 'view', type: 'word', value: ({ view }) => view },
  { name: 'delivered', type: 'moment', value: ({ deliveredAt }) => deliveredAt },
  {
    name: 'behind',
    type: 'milliseconds',
    value: ({ lagSeconds }) => (lagSeconds === 0 ? null : 1_000 * lagSeconds),
  },
  { name: 'compared in full', type: 'moment', value: ({ comparedAt }) => comparedAt },
  { name: 'problem', type: 'sentence', value: ({ problem }) => problem },
];

const NONE = 'There is no feed: name a file with feeds in FEEDS_FILE; docs/feeds.md shows one.';

/** The views of all configured feeds, as `feed status` lists them. */
export const FEED_VIEWS: Listing<FeedView, FeedsSource> = {
  name: 'views of feeds',
  about: 'How current each view of each feed is.',
  none: NONE,
  columns: [{ name: 'feed', type: 'word', value: ({ feed }) => feed }, ...VIEW_COLUMNS],
  ...fewRows<FeedView, FeedsSource>([], async (source) => {
    const feeds = await feedsOf(source);
    return feeds.filter(({ settings }) => settings !== null).flatMap(viewsOf);
  }),
};

function viewsOf({ name: feed, views, comparedAt }: FoundFeed): readonly FeedView[] {
  return views.map((view) => ({ feed, ...view, comparedAt }));
}

/** Feeds: listed, and shown with their views. */
export const FEED: Resource<FoundFeed, FoundFeed, FeedsSource> = {
  listing: {
    name: 'feeds',
    about: 'Reporting databases and folders that are kept up to date.',
    none: NONE,
    columns: [
      {
        name: 'feed',
        type: 'word',
        value: ({ name }) => name,
        link: ({ name }) => `/feeds/${encodeURIComponent(name)}`,
      },
      { name: 'state', type: 'state', value: ({ state }) => state },
      { name: 'target', type: 'word', value: ({ place }) => place },
      { name: 'when', type: 'word', value: whenOf },
      { name: 'delivered', type: 'moment', value: ({ deliveredAt }) => deliveredAt },
      { name: 'behind since', type: 'moment', value: ({ delay }) => delay.since },
      { name: 'views behind', type: 'texts', value: ({ delay }) => delay.views },
      { name: 'problem', type: 'sentence', value: ({ problem }) => problem },
    ],
    json: feedJson,
    ...fewRows<FoundFeed, FeedsSource>(
      [
        {
          name: 'state',
          about: 'feeds in this state',
          type: 'choice',
          choices: ['current', 'waiting', 'stale', 'failing'],
          matches: ({ state }: FoundFeed, wanted) => state === wanted,
        },
      ],
      feedsOf,
    ),
  },
  one: 'feed',
  ids: 'name',
  async find(source, id) {
    return (await feedsOf(source)).filter(({ name }) => name === id);
  },
  sellerOf: () => null,
  record: {
    title: ({ name }) => name,
    head: [
      { name: 'state', type: 'state', value: ({ state }) => state },
      { name: 'target', type: 'word', value: ({ place }) => place },
    ],
    notices: ({ needs }) =>
      needs.map(({ tone, text, remedy, onPage }) => ({ tone, text, remedy, onPage })),
    figures: [{ name: 'failures in a row', type: 'count', value: ({ failures }) => failures }],
    facts: [
      { name: 'when', type: 'word', value: whenOf },
      { name: 'sellers', type: 'texts', value: ({ sellers }) => sellers ?? ['all'] },
      { name: 'delivered', type: 'moment', value: ({ deliveredAt }) => deliveredAt },
    ],
    parts: [
      part<FoundFeed, FeedsSource, FeedView>({
        title: 'Views',
        columns: VIEW_COLUMNS,
        rows: (_, feed) => viewsOf(feed),
      }),
    ],
    json: (feed) => ({ ...feedJson(feed), problem: feed.problem, views: viewsOf(feed) }),
  },
  actions: [],
};

async function feedsOf({ db, config }: FeedsSource): Promise<readonly FoundFeed[]> {
  const { feeds } = await readBoard(db, config, new Date(db.clock.now()));
  return feeds.map((feed) => ({
    ...feed,
    settings: config.feeds.find(({ name }) => name === feed.name) ?? null,
  }));
}

function whenOf({ settings }: FoundFeed): string | null {
  return settings && (settings.cron ?? 'after-sync');
}

function feedJson(feed: FoundFeed) {
  return {
    feed: feed.name,
    target: feed.place,
    state: feed.state,
    views: feed.views.map(({ view }) => view),
    sellers: feed.sellers,
    when: whenOf(feed),
    columns: feed.settings?.columns ?? {},
    hash: feed.settings?.hash ?? {},
    deliveredAt: feed.deliveredAt,
    behindSince: feed.delay.since,
    problem: feed.problem,
  };
}
