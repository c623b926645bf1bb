/** A marketplace to try the product on: the same API, field quirks, faults. Stands alone. */
export { Catalogue, recordsCatalogue, seededCatalogue } from './catalogue.js';
export type { Fault, Faults } from './faults.js';
export { notationQuirks, profiles } from './profiles.js';
export type { Language, ProfileName, Quirks } from './profiles.js';
export { Purchases, seededPurchases } from './seller.js';
export type { Seller, SellerSpec } from './seller.js';
export { Simulator, startSimulator } from './server.js';
export type { LogEntry, SimulatorOptions } from './server.js';
export type { SimItem, SimPurchase } from './types.js';
