import { OF_SELLER, type Listing, type ListingFilter } from '../listing/listing.js';
import { newestFirst, wordFilter } from '../listing/table-listing.js';
import type { Db } from '../db/db.js';
import { PROGRESS, progressIn } from './audits-store.js';
import type { AuditProgress } from './types.js';

const FILTERS: readonly ListingFilter[] = [
  wordFilter('state', 'audits in this state', ['running', 'finished', 'cancelled', 'failed']),
  OF_SELLER,
];

/** Audits of all sellers, as `audits` lists them and the page shows them. */
export const AUDITS: Listing<AuditProgress, Db> = {
  name: 'audits',
  about: 'Lists of purchase codes and their checks.',
  none: 'No list was checked yet. `seller-mirror codes check LIST` makes one.',
  columns: [
    { name: 'audit', type: 'id', value: ({ auditId }) => auditId },
    { name: 'seller', type: 'seller', value: ({ sellerId }) => sellerId },
    { name: 'list', type: 'secret', value: ({ source }) => source },
    { name: 'state', type: 'state', value: ({ state }) => state },
    { name: 'started', type: 'moment', value: ({ createdAt }) => createdAt },
    { name: 'codes', type: 'count', value: ({ codes }) => codes },
    { name: 'valid', type: 'count', value: ({ valid }) => valid },
    { name: 'invalid', type: 'count', value: ({ invalid }) => invalid },
    { name: 'no_longer_valid', type: 'count', value: ({ noLongerValid }) => noLongerValid },
    { name: 'unproven', type: 'count', value: ({ unproven }) => unproven },
    { name: 'waiting', type: 'count', value: ({ pending }) => pending },
    { name: 'problem', type: 'sentence', value: ({ problem }) => problem },
  ],
  filters: FILTERS,
  next: ({ auditId }) => auditId,
  ...newestFirst<AuditProgress>({
    table: 'mirror.audits',
    key: 'audit_id',
    columns: PROGRESS,
    always: `state <> 'draft'`,
    filters: FILTERS,
    rowOf: progressIn,
  }),
};
