import { randomBytes } from 'node:crypto';
import type { Purchase, PurchasedItem } from '../../src/domain/item.js';
import { syncAccount } from '../../src/catalogue/account.js';
import { syncItem } from '../../src/catalogue/sync-item.js';
import { syncItems } from '../../src/catalogue/sync-items.js';
import { seededCatalogue } from '../../src/simulator/index.js';
import { KEY, never, type Mirror } from '../support/mirror.js';
import type { Db } from '../../src/db/db.js';
import {
  at,
  invalid,
  ITEM,
  load,
  pending,
  type PurchaseReading,
  recordResults,
  unproven,
  valid,
} from '../codes/store-support.js';

const ADA = { key: KEY, username: 'ada' };

/**
 * Four nights of two sellers through the real jobs, the last of them yesterday at noon in UTC, and
 * the purchases that audits found.
 */
export async function fillStore(mirror: Mirror): Promise<void> {
  await mirrorNights(mirror);
  await auditCodes(mirror);
}

async function mirrorNights(mirror: Mirror): Promise<void> {
  const main = seededCatalogue({ seed: 3, count: 6 });
  for (let id = 1001; id <= 1006; id++) {
    main.change(id, { priceRegularCents: 1000, priceExtendedCents: 5000, currency: 'USD' });
  }
  main.change(1004, { extra: { rating: 4.5 } }); // as a fork of the marketplace sends it
  const second = seededCatalogue({ seed: 4, count: 2 });
  second.change(1002, { priceRegularCents: 1000, currency: 'EUR' });
  const sim = await mirror.simulate({
    sellers: [{ ...ADA, catalogue: main, account: { balanceCents: 10_000, heading: 'Hello' } }],
  });
  const other = await mirror.simulate({
    sellers: [{ key: KEY, username: 'bob', catalogue: second, account: { balanceCents: 500 } }],
  });
  const deps = mirror.deps(sim.url, { removalGuard: { items: 1, percent: 5 } });
  const otherDeps = mirror.deps(other.url, { sellerId: 'second' });
  const night = async (): Promise<void> => {
    await syncAccount(deps, never);
    await syncItems(deps, never);
  };

  await night();
  await syncAccount(otherDeps, never);
  await syncItems(otherDeps, never);

  await passTime(mirror, '1 day');
  main.change(1001, { priceRegularCents: 1250, priceExtendedCents: 4000 });
  main.change(1002, { name: 'Renamed' });
  main.remove(1003);
  main.add({ ...main.original(0), id: 1007, name: 'New' });
  await night();
  for (let n = 0; n < 3; n++) {
    other.faults.next('list', { kind: 'truncate', how: 'destroy', fraction: 0.5 });
  }
  await syncItems(otherDeps, never);

  await passTime(mirror, '1 day');
  main.restore(1003);
  main.change(1004, { priceRegularCents: 2000, currency: 'EUR' });
  sim.addSeller({ ...ADA, catalogue: main, account: { balanceCents: 9_000, heading: 'Hi' } });
  await night();
  second.change(1001, { name: 'Renamed by itself' });
  await syncItem(otherDeps, 1001, never);

  await passTime(mirror, '1 day');
  main.remove(1005);
  main.remove(1006);
  main.change(1001, { currency: 'CHF' });
  main.change(1002, { version: '9.9' });
  sim.addSeller({ ...ADA, catalogue: main, account: { balanceCents: 9_000, heading: 'Welcome' } });
  await night();
  second.change(1002, { priceRegularCents: null });
  await syncItems(otherDeps, never);

  const [last] = await mirror.rows<{ ago: string }>(
    `SELECT (max(started_at) - (date_trunc('day', now() AT TIME ZONE 'UTC') - interval '12 hours')
              AT TIME ZONE 'UTC')::text AS ago FROM mirror.runs`,
  );
  await passTime(mirror, last?.ago ?? '');
}

/** What the marketplace says does not become older with the store. */
const TOLD = ['published_at', 'registered_at', 'purchased_at', 'supported_until'];

/** Has all that is in the store happened that much earlier. */
async function passTime(mirror: Mirror, interval: string): Promise<void> {
  const tables = await mirror.rows<{ name: string; sets: string }>(
    `SELECT table_name AS name,
            string_agg(format('%1$I = %1$I - %2$L::interval', column_name, $2::text), ', ') AS sets
       FROM information_schema.columns JOIN information_schema.tables
            USING (table_catalog, table_schema, table_name)
      WHERE table_schema = 'mirror' AND data_type = 'timestamp with time zone'
        AND table_type = 'BASE TABLE' AND column_name <> ALL ($1) AND table_name NOT LIKE '\\_prisma%'
      GROUP BY table_name`,
    [TOLD, interval],
  );
  for (const { name, sets } of tables) await mirror.pool.query(`UPDATE mirror.${name} SET ${sets}`);
}

/** A currency that no index could hold. */
export const ODD_CURRENCY = randomBytes(6000).toString('base64');

const EXPIRED = '2025-07-01T00:00:00Z';
const FUTURE = '2999-01-15T00:00:00Z';

function purchase(code: string, told: Partial<Purchase> = {}): PurchaseReading {
  const value: Purchase = {
    purchaseCode: code.toLowerCase(),
    licenseType: 'Regular',
    price: null,
    currency: null,
    item: item(1001),
    supportedUntil: null,
    downloaded: null,
    purchasedAt: null,
    ...told,
  };
  return { value, raw: { supported_until: value.supportedUntil } };
}

function item(id: number, name = `Told ${id}`): PurchasedItem {
  return { ...ITEM, id, name };
}

/** A price paid for item 1001: when, and until when there is support. */
const paid = (price: string, currency: string, supportedUntil: string, purchasedAt: string) => ({
  price,
  currency,
  supportedUntil,
  purchasedAt,
});

const GHOST = { price: '5.00', currency: 'USD', supportedUntil: EXPIRED };

/** What `main` learns of its codes one after the other, in the order of the list. */
const FOUND: Readonly<Record<string, readonly (Partial<Purchase> | Denial)[]>> = {
  P1: [paid('19.90', 'USD', FUTURE, '2025-01-02T03:04:05Z')],
  P2: [paid('0.10', 'USD', FUTURE, '2025-01-31T23:59:59.999999Z')],
  P3: [paid('10.00', 'EUR', EXPIRED, '2025-02-01T00:00:00Z')],
  P4: [{}],
  P5: [
    { ...GHOST, item: item(9999, 'Ghost') },
    { ...GHOST, item: item(9999, 'Ghost II'), licenseType: 'Extended' },
  ],
  P6: [{ item: item(1003), price: '8.00', currency: 'USD' }, 'invalid'],
  P7: ['invalid'],
  P8: ['unproven'],
  P9: [{ item: null }],
};

type Denial = 'invalid' | 'unproven';

async function auditCodes({ db }: Mirror): Promise<void> {
  await audit(db, 'main', FOUND);
  const odd = { item: item(1001), price: '7.77', currency: ODD_CURRENCY };
  await audit(db, 'second', { P1: [odd] });
}

/** Records what is found of each code, a minute between two answers. */
async function audit(db: Db, sellerId: string, found: typeof FOUND): Promise<void> {
  for (let round = 0; round < 2; round++) {
    const asked = Object.entries(found).filter(([, answers]) => answers.length > round);
    const names = asked.map(([code]) => code);
    if (names.length === 0) continue;
    // Two customers named the first one.
    const { auditId } = await load(db, [...names, names[0] ?? null], {
      sellerId,
      columns: ['code', 'email'],
    });
    const results = (await pending(db, auditId)).map((code, n) => {
      const moment = at(round * 60 + n);
      const answer = found[code.code]?.[round];
      if (answer === 'invalid') return invalid(code, moment);
      if (answer === 'unproven') return unproven(code, moment);
      return valid(code, moment, purchase(code.code, answer));
    });
    await recordResults(db, auditId, results, results.length);
  }
}
