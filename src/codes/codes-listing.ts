import type { Db } from '../db/db.js';
import { money } from '../domain/text.js';
import type { Listing } from '../listing/listing.js';
import { describeCheck, isDenial } from './evidence.js';
import type { KnownPurchase, Support } from './known-code.js';
import type { StoredCheck } from './types.js';

/** A purchase with its seller and the verdict on its code. */
export interface ShownPurchase extends KnownPurchase {
  readonly sellerId: string;
  /** Null for an invalid code, whose support has ended with it. */
  readonly support: Support | null;
}

/** A purchase, as `codes check` and `codes show` print it and the page of a code shows it. */
export const PURCHASE_COLUMNS: Listing<ShownPurchase, Db>['columns'] = [
  { name: 'licence', type: 'text', value: ({ licenseType }) => licenseType },
  {
    name: 'item',
    type: 'text',
    value: ({ item }) =>
      item === null
        ? null
        : [item.id, item.name].filter((part) => part !== null).join(' · ') || item.url,
    link: ({ sellerId, item }) =>
      item === null || item.id === null
        ? null
        : `/items/${encodeURIComponent(sellerId)}/${item.id}`,
  },
  { name: 'price', type: 'money', value: (one) => one.price && money(one.price, one.currency) },
  { name: 'purchased', type: 'moment', value: ({ purchasedAt }) => momentOf(purchasedAt) },
  { name: 'support', type: 'word', value: ({ support }) => support },
  {
    name: 'until',
    type: 'moment',
    value: ({ support, supportedUntil }) => (support === null ? null : momentOf(supportedUntil)),
  },
  {
    name: 'downloaded',
    type: 'word',
    value: ({ downloaded }) => (downloaded === null ? null : downloaded ? 'yes' : 'no'),
  },
];

function momentOf(text: string | null): Date | null {
  return text === null ? null : new Date(text);
}

/** The checks of a code, as `codes show` and the page of the code show them. */
export const CHECKS: Pick<Listing<StoredCheck, Db>, 'name' | 'none' | 'columns'> = {
  name: 'checks',
  none: 'Not checked yet.',
  columns: [
    { name: 'checked', type: 'moment', value: ({ checkedAt }) => checkedAt },
    {
      name: 'verdict',
      type: 'state',
      value: (check) => (isDenial(check) ? 'denied' : check.verdict),
    },
    {
      name: 'response',
      type: 'text',
      value: ({ httpStatus, message }) =>
        [httpStatus, message].filter((one) => one !== null && one !== '').join(' '),
    },
    {
      name: 'audit',
      type: 'number',
      value: ({ auditId }) => auditId,
      link: ({ auditId }) => (auditId === null ? null : `/audits/${auditId}`),
    },
    { name: 'proof', type: 'long text', value: describeCheck },
  ],
};
