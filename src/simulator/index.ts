/** A marketplace to try the product on: the same API, field quirks, faults. Stands alone. */
export { Catalogue, recordsCatalogue, seededCatalogue } from './catalogue.js';
export type { CutPoint, Fault, Faults, RedirectTarget } from './faults.js';
export type { LimitOptions, Limits } from './limits.js';
export type { LogEntry } from './log.js';
export type { SimulatorOptions } from './options.js';
export { notationQuirks, profiles } from './profiles.js';
export type { ProfileName, Quirks } from './profiles.js';
export { Purchases, seededPurchases } from './purchases.js';
export type { PurchaseSpec, SeededPurchases } from './purchases.js';
export type { RedirectOptions } from './redirects.js';
export type { TouchedField } from './rules.js';
export type { SeededOptions } from './seeded.js';
export type { Seller, SellerSpec } from './seller.js';
export { Simulator, startSimulator } from './server.js';
export type {
  CatalogueRecord,
  ItemState,
  Operation,
  PurchaseState,
  SimAccount,
  SimItem,
  SimPurchase,
} from './types.js';
export { visibleAccount, visibleItem, visiblePurchase } from './visible.js';
export type { Language } from './words.js';
