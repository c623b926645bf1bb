/**
 * seller-mirror for other programs: the marketplace's client, and checking purchase codes with it.
 * Nothing here needs a database or a queue, and nothing else of the package is meant to be imported.
 */
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
export { describeFailure } from './domain/reply.js';
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
} from './domain/reply.js';
export { Secret } from './domain/secret.js';
export { checkCodes } from './jobs/codes/check-codes.js';
export type { CheckCodesOptions, CheckedCode } from './jobs/codes/check-codes.js';
export { evenlySpacedBudget, unlimitedBudget } from './marketplace/budget.js';
export { createMarketplace } from './marketplace/client.js';
export { ListBroken } from './marketplace/list-broken.js';
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
  RetryPolicy,
  ServerFacts,
  Sourced,
} from './marketplace/types.js';
