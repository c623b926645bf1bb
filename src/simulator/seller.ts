import type { Catalogue } from './catalogue.js';
import { Purchases } from './purchases.js';
import type { PurchaseSpec } from './purchases.js';
import type { SimAccount } from './types.js';

export interface SellerSpec {
  readonly key: string;
  readonly username: string;
  readonly account?: Partial<SimAccount>;
  readonly catalogue: Catalogue;
  readonly purchases?: Purchases | readonly PurchaseSpec[];
  /** False: a user whose key passes account details and fails everything else (field notes). */
  readonly sells?: boolean;
}

/** A seller of the simulated marketplace; its fields may be changed at any time. */
export class Seller {
  readonly key: string;
  account: SimAccount;
  catalogue: Catalogue;
  purchases: Purchases;
  sells: boolean;

  constructor(spec: SellerSpec) {
    this.key = spec.key;
    this.account = { ...defaultAccount(spec.username), ...spec.account, username: spec.username };
    this.catalogue = spec.catalogue;
    this.purchases =
      spec.purchases instanceof Purchases
        ? spec.purchases
        : new Purchases({ seed: 0, count: 0 }, spec.purchases);
    this.sells = spec.sells ?? true;
  }

  get username(): string {
    return this.account.username;
  }
}

function defaultAccount(username: string): SimAccount {
  return {
    username,
    firstname: 'Ada',
    lastname: 'Seller',
    email: `${username}@mail.example`,
    balanceCents: 123_450,
    currency: 'USD',
    heading: 'Scripts and themes since 2016',
    description: '<p>We make things that work &amp; keep working.</p>',
    contactEmail: `help@${username}.example`,
    socialLinks: {
      facebook: `https://www.facebook.com/${username}`,
      x: `https://x.com/${username}`,
    },
    avatar: `https://storage.marketplace.example/avatars/${username}.png`,
    cover: `https://storage.marketplace.example/covers/${username}.jpg`,
    registeredAt: '2016-03-04T05:06:07Z',
  };
}
