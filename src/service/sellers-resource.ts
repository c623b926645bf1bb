import { type ItemsOfDay, readItemDays } from '../catalogue/items-store.js';
import { removeSeller } from '../catalogue/names-store.js';
import { RUNS } from '../catalogue/runs-listing.js';
import type { Run } from '../catalogue/runs-store.js';
import {
  type Balance,
  pauseSeller,
  readBalances,
  resumeSeller,
} from '../catalogue/sellers-store.js';
import type { Config } from '../config/index.js';
import { readRequestsOfLastHour, type RequestSlot, SLOT_MINUTES } from '../db/budget.js';
import type { Db } from '../db/db.js';
import { money, plural } from '../domain/text.js';
import type { ListingColumn } from '../listing/listing.js';
import { type Action, part, type Resource } from '../listing/resource.js';
import { fewRows } from '../listing/table-listing.js';
import { OBSTACLES, readBoard, type ScheduleCard, type SellerCard, statusJson } from './board.js';
import type { JobsSource } from './jobs-resource.js';

/** Where sellers are read from. */
export interface SellersSource extends JobsSource {
  readonly db: Db;
  readonly config: Config;
}

/** Days in the chart of items. */
const MAX_DAYS = 90;
/** Changes in the chart of balances. */
const MAX_BALANCES = 200;
const MAX_RUNS = 8;
const TIME = new Intl.DateTimeFormat('en-GB', { hour: '2-digit', minute: '2-digit' });

const ITEM_COUNTS: readonly ListingColumn<SellerCard>[] = (
  ['live', 'missing', 'removed'] as const
).map((state) => ({ name: state, type: 'count', value: ({ items }) => items[state] }));

const TASKS = {
  sync: 'mirror account and items',
  account: 'mirror account',
  recheck: 're-check known codes',
  feed: 'deliver the feed',
} as const;

/** Deletes a seller; its name in the settings stays. */
const REMOVE: Action<SellerCard, SellersSource> = {
  name: 'remove',
  label: 'Remove',
  logged: 'remove seller',
  about: 'delete the seller with its copy, history and checks',
  hint: 'Deletes the copy, history and checks of this seller. Nothing but a backup can bring them back.',
  isLast: true,
  isPossible: isStored,
  confirm: ({ sellerId }) => ({
    field: 'name',
    ask: `This deletes the copy, history and checks of ${sellerId}. Type its name`,
    answer: sellerId,
    wrong: 'the name does not match: nothing was removed',
  }),
  async perform({ source: { db, config, queues } }, { sellerId }) {
    // First, so that nothing is deleted while the queue can't be reached.
    const opened = await queues();
    await opened.ping();
    const items = await removeSeller(db, sellerId);
    await opened.forgetSeller(sellerId);
    const isConfigured = config.sellers.some(({ name }) => name === sellerId);
    const note = isConfigured
      ? '\n  the settings still name it: the next run mirrors it again'
      : '';
    return {
      text: `${sellerId} is removed, with ${plural(items, 'item')}${note}`,
      json: { sellerId, items, configured: isConfigured },
      path: '/',
      notice: 'seller-removed',
    };
  },
};

/** Sellers of the store and of the settings: listed, shown with their state, mirrored, paused and removed. */
export const SELLER: Resource<SellerCard, SellerCard, SellersSource> = {
  listing: {
    name: 'sellers',
    about: 'Sellers of the store and of the settings.',
    none: 'There is no seller. Set SELLER_NAME or SELLERS_FILE, and run `seller-mirror sync`.',
    columns: [
      {
        name: 'seller',
        type: 'word',
        value: ({ sellerId }) => sellerId,
        link: ({ sellerId }) => `/sellers/${encodeURIComponent(sellerId)}`,
      },
      { name: 'state', type: 'state', value: ({ state }) => state },
      {
        name: 'in the settings',
        type: 'word',
        value: ({ configured }) => (configured ? 'yes' : 'no'),
      },
      { name: 'account', type: 'text', value: ({ account }) => account?.username ?? null },
      { name: 'marketplace', type: 'word', value: ({ marketplace }) => marketplace },
      ...ITEM_COUNTS,
      { name: 'mirrored', type: 'moment', value: ({ itemsMirroredAt }) => itemsMirroredAt },
      { name: 'since', type: 'moment', value: ({ knownSince }) => knownSince },
    ],
    json: ({ sellerId, configured, state, account, marketplace, items, ...card }) => ({
      ...{ sellerId, configured, state, account: account?.username ?? null, marketplace },
      ...{ ...items, itemsMirroredAt: card.itemsMirroredAt, knownSince: card.knownSince },
    }),
    ...fewRows<SellerCard, SellersSource>(
      [
        {
          name: 'search',
          about: 'sellers whose name has this text',
          type: 'text',
          matches: ({ sellerId }: SellerCard, text) =>
            sellerId.toLowerCase().includes(text.toLowerCase()),
        },
        {
          name: 'state',
          about: 'sellers in this state',
          type: 'choice',
          choices: ['current', 'running', 'stale', 'never', 'failing', 'paused', 'stopped'],
          matches: ({ state }: SellerCard, wanted) =>
            state === (wanted === 'stopped' ? 'parked' : wanted),
        },
      ],
      (source) => cardsOf(source, null),
    ),
  },
  one: 'seller',
  ids: 'name',
  find: cardsOf,
  sellerOf: ({ sellerId }) => sellerId,
  record: {
    title: ({ sellerId }) => sellerId,
    head: [
      { name: 'state', type: 'state', value: ({ state }) => state },
      { name: 'marketplace', type: 'word', value: ({ marketplace }) => marketplace },
    ],
    notices: ({ parked, copy, needs }) => [
      ...(parked === null || copy !== 'paused'
        ? []
        : [{ tone: 'quiet', text: `${parked.reason}; schedules skip this seller` } as const]),
      ...needs.map(({ tone, text, remedy, onPage }) => ({ tone, text, remedy, onPage })),
    ],
    figures: [
      ...ITEM_COUNTS,
      {
        name: 'balance',
        type: 'money',
        value: ({ account }) => account && money(account.balance, account.currency),
      },
    ],
    facts: [
      { name: 'account', type: 'text', value: ({ account }) => account?.username ?? null },
      { name: 'items mirrored', type: 'moment', value: ({ itemsMirroredAt }) => itemsMirroredAt },
      { name: 'account mirrored', type: 'moment', value: (card) => card.accountMirroredAt },
      { name: 'in the store since', type: 'moment', value: ({ knownSince }) => knownSince },
      {
        name: 'in the settings',
        type: 'word',
        value: ({ configured }) => (configured ? 'yes' : 'no'),
      },
    ],
    parts: [
      part<SellerCard, SellersSource, ScheduleCard>({
        title: 'Schedules',
        none: 'No schedule mirrors this seller. SYNC_CRON sets one.',
        columns: [
          { name: 'task', type: 'word', value: ({ kind }) => TASKS[kind] },
          { name: 'cron', type: 'word', value: ({ cron }) => cron },
          { name: 'time zone', type: 'word', value: ({ timeZone }) => timeZone },
          {
            name: 'next times',
            type: 'word',
            value: (one) => (one.obstacle === null ? nextTimes(one) : OBSTACLES[one.obstacle][0]),
          },
        ],
        rows: (_, { schedules }) => schedules,
      }),
      part<SellerCard, SellersSource, RequestSlot & { readonly budget: number | null }>({
        title: 'Requests in the last hour',
        note: 'in five minutes each',
        only: 'pages',
        none: 'No requests in the last hour. Syncs and checks of codes make them.',
        columns: [
          { name: 'from', type: 'word', value: ({ at }) => TIME.format(at) },
          { name: 'this seller', type: 'count', value: ({ own }) => own },
          { name: 'all sellers of the marketplace', type: 'count', value: ({ all }) => all },
          { name: 'budget', type: 'count', value: ({ budget }) => budget },
        ],
        async rows({ db, config }, { sellerId }) {
          const perMinute = config.sellers.find(({ name }) => name === sellerId)?.requestsPerMinute;
          const budget = perMinute ? SLOT_MINUTES * perMinute : null;
          const slots = await readRequestsOfLastHour(db, sellerId);
          return slots.every(({ own }) => own === 0)
            ? []
            : slots.map((slot) => ({ ...slot, budget }));
        },
        steps: { unit: () => null, point: ({ at, own }) => ({ at, value: own }) },
      }),
      part<SellerCard, SellersSource, ItemsOfDay>({
        title: 'Items over time',
        note: `last ${MAX_DAYS} days (UTC)`,
        only: 'pages',
        none: 'The chart starts with the first sync of the items.',
        columns: [
          { name: 'day', type: 'word', value: ({ day }) => day.toISOString().slice(0, 10) },
          ...(['live', 'missing', 'added', 'removed', 'changed'] as const).map(
            (name): ListingColumn<ItemsOfDay> => ({ name, type: 'count', value: (of) => of[name] }),
          ),
        ],
        rows: async ({ db }, { sellerId }) =>
          (await readItemDays(db, sellerId, MAX_DAYS)).toReversed(),
        steps: { unit: () => null, point: ({ day, live }) => ({ at: day, value: live }) },
      }),
      part<SellerCard, SellersSource, Balance>({
        title: 'Balance over time',
        only: 'pages',
        none: 'The chart starts with the first sync of the account.',
        columns: [
          { name: 'since', type: 'moment', value: ({ validFrom }) => validFrom },
          { name: 'balance', type: 'money', value: (of) => money(of.balance, of.currency) },
          { name: 'change', type: 'money', value: (of) => money(of.change, of.currency) },
        ],
        rows: ({ db }, { sellerId }) => readBalances(db, sellerId, MAX_BALANCES),
        steps: {
          unit: ({ account }) => account?.currency ?? null,
          point: ({ validFrom, balance }) =>
            balance === null ? null : { at: validFrom, value: Number(balance) },
        },
      }),
      part<SellerCard, SellersSource, Run>({
        title: 'Latest runs',
        none: 'No run has mirrored this seller yet.',
        columns: RUNS.columns.filter(({ name }) => name !== 'seller'),
        rows: ({ db }, { sellerId }, limit) => {
          const page = { from: null, limit: Math.min(limit, MAX_RUNS), face: 'tables' } as const;
          return RUNS.read(db, { seller: sellerId }, page);
        },
        all: ({ sellerId }) => `/runs?seller=${encodeURIComponent(sellerId)}`,
      }),
    ],
    json: (card) => statusJson({ sellers: [card], feeds: [], general: [] })[0] ?? {},
  },
  actions: [
    {
      name: 'sync',
      label: 'Sync now',
      about: 'have a worker mirror its account and items',
      // Also of sellers that only a worker elsewhere has in its settings.
      isPossible: () => true,
      async perform({ ask }, { sellerId }) {
        await ask(sellerId, { kind: 'sync' });
        return { text: `${sellerId} · asked for; a worker does it`, notice: 'queued' };
      },
    },
    {
      name: 'pause',
      label: 'Pause',
      about: 'keep schedules from mirroring it',
      isPossible: (card) => isStored(card) && card.copy !== 'paused',
      async perform({ source: { db }, who }, { sellerId }) {
        await pauseSeller(db, sellerId, `paused by ${who}`);
        // Its page itself says that the seller is paused.
        return { text: `${sellerId} is paused: schedules skip it`, notice: 'paused' };
      },
    },
    {
      name: 'resume',
      label: 'Resume',
      about: 'let schedules mirror it again',
      isPossible: ({ parked }) => parked !== null,
      async perform({ source: { db } }, { sellerId }) {
        await resumeSeller(db, sellerId);
        return { text: `${sellerId}: schedules mirror it again`, notice: 'resumed' };
      },
    },
    REMOVE,
  ],
};

/** @param only of this seller; null: of all */
async function cardsOf({ db, config }: SellersSource, only: string | null) {
  return (await readBoard(db, config, new Date(db.clock.now()), only)).sellers;
}

/** Whether the store knows the seller. */
function isStored({ knownSince }: SellerCard): boolean {
  return knownSince !== null;
}

const formats = new Map<string, Intl.DateTimeFormat>();

/** When a schedule runs next, in its time zone: `Sun 22 Nov 02:00, Mon 23 Nov 02:00`. */
export function nextTimes({ next, timeZone }: ScheduleCard): string {
  // Kept, because making one takes longer than all else that is shown of a seller.
  const format =
    formats.get(timeZone) ??
    new Intl.DateTimeFormat('en-GB', {
      timeZone,
      ...({ weekday: 'short', day: 'numeric', month: 'short' } as const),
      ...({ hour: '2-digit', minute: '2-digit' } as const),
    });
  formats.set(timeZone, format);
  return next.map((at) => format.format(at).replaceAll(',', '')).join(', ');
}
