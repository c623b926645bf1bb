/**
 * The public API of the package: a client of the marketplace, and read access to the mirror. Only `openMirror` needs a
 * database. Other modules of the package are internal.
 */
import type { Mirror, MirrorOptions } from './db/mirror.js';

export type {
  Account,
  Decoded,
  Item,
  Json,
  Money,
  Purchase,
  PurchasedItem,
  Timestamp,
} from './domain/item.js';
export { describeFailure } from './marketplace/reply.js';
export type {
  Answered,
  Denied,
  Failure,
  Limited,
  Refused,
  Reply,
  Unavailable,
  UnavailableReason,
  Unreadable,
} from './marketplace/reply.js';
export { Secret } from './domain/secret.js';
export { evenlySpacedBudget, unlimitedBudget } from './marketplace/budget.js';
export { createMarketplace } from './marketplace/client.js';
export { MarketplaceOptionsError, PlainHttpRefusedError } from './marketplace/types.js';
export type {
  Budget,
  CallOptions,
  CallRecord,
  ItemList,
  ListElement,
  Marketplace,
  MarketplaceOptions,
  Operation,
  ParameterCarriage,
  Priority,
  RandomParameter,
  RetryPolicy,
  ServerFacts,
  Sourced,
} from './marketplace/types.js';
export type { Mirror, MirrorOptions };

/**
 * Opens the mirror for reading, as a Prisma Client over the reporting views: `mirror.reportingPriceChanges` reads
 * the view `reporting.price_changes`. PostgreSQL refuses every write.
 * @param options.databaseUrl PostgreSQL connection URL; default: the embedded server under `dataDir`
 * @throws {Error} when there is no mirror under `dataDir`: it is neither created nor migrated
 */
export async function openMirror(options: MirrorOptions = {}): Promise<Mirror> {
  const mirror = await import('./db/mirror.js');
  return mirror.openMirror(options);
}
