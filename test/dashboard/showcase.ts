import { Secret } from '../../src/domain/secret.js';
import { syncAccount } from '../../src/catalogue/account.js';
import { syncItems } from '../../src/catalogue/sync-items.js';
import { seededCatalogue, seededPurchases, type Simulator } from '../../src/simulator/index.js';
import { auditDeps, enter, workThrough } from '../codes/support.js';
import { never, type Mirror } from '../support/mirror.js';

const NIGHTS = 30;
const ITEMS = 180;
const CODES = 240;

/** Two sellers with a month of syncs, an audit of purchase codes, and a held run. */
export async function showcase(mirror: Mirror) {
  const main = { name: 'main', key: 'k'.repeat(32) };
  const studio = { name: 'studio', key: 's'.repeat(32) };
  const catalogue = seededCatalogue({ seed: 3, count: ITEMS, firstId: 4_701 });
  const small = seededCatalogue({ seed: 8, count: 40, firstId: 9_101 });
  const purchases = seededPurchases({ seed: 11, count: 2 * CODES });
  const sim = await mirror.simulate({
    sellers: [
      { key: main.key, username: 'ada', catalogue, purchases },
      { key: studio.key, username: 'studio-north', catalogue: small },
    ],
  });
  const depsOf = ({ name, key }: typeof main) =>
    mirror.deps(sim.url, { sellerId: name, client: { key: new Secret(key) } });
  for (let night = NIGHTS; night > 0; night--) {
    for (const seller of [main, studio]) {
      const deps = depsOf(seller);
      if (seller === main && night === 17) sim.faults.next('list', { kind: 'server-error' }, 9);
      const { account } = await syncAccount(deps, never);
      await syncItems(deps, never, account).catch(() => undefined);
      sim.faults.clear();
    }
    if (night === 8) {
      const codes = [...purchases.codes()].slice(0, CODES);
      const refused = codes.slice(0, 6).map((code) => code.replaceAll(/[0-4]/g, 'f'));
      const options = { source: 'customers.csv' };
      const auditId = await enter(mirror, new URL(sim.url).host, [...codes, ...refused], options);
      await workThrough(auditDeps(mirror, depsOf(main).marketplace), [auditId]);
    }
    changeMarketplace(sim, main.key, night);
    await backdate(mirror, 1);
  }
  // Removes so many items that the removal guard holds the run.
  for (let id = 9_103; id < 9_118; id++) small.remove(id);
  for (const seller of [main, studio]) {
    const deps = depsOf(seller);
    const { account } = await syncAccount(deps, never);
    await syncItems(deps, never, account);
  }
  await mirror.rows(`UPDATE mirror.runs SET started_at = started_at - interval '5 hours',
    finished_at = finished_at - interval '5 hours' WHERE started_at > now() - interval '1 hour'`);
  return {
    sim,
    catalogue,
    sellers: [main, studio].map((seller) => ({ ...seller, url: sim.url })),
    /** An item with many price changes. */
    item: '/items/main/4707',
    newCodes: [...purchases.codes()].slice(CODES),
  };
}

/** Makes the changes of one day in the marketplace. */
function changeMarketplace(sim: Simulator, key: string, night: number): void {
  const seller = sim.seller(key);
  const { catalogue } = seller;
  const first = 4_701;
  const idOf = (step: number): number => first + ((night * 13 + step * 7) % ITEMS);
  for (const id of [idOf(1), idOf(2)]) {
    const { version } = catalogue.find(id)?.item ?? {};
    const [major = '1', minor = '0'] = version?.split('.') ?? [];
    catalogue.change(id, { version: `${major}.${Number(minor) + 1}.0` });
  }
  const moves = night % 6 === 0 ? [3, 4, 5, 6, 7] : night % 4 === 0 ? [3] : [];
  for (const step of moves) {
    const id = idOf(step);
    const cents = catalogue.find(id)?.item.priceRegularCents ?? 1_000;
    const factor = step % 3 === 0 ? 1.15 : 0.8;
    catalogue.change(id, { priceRegularCents: Math.round(cents * factor) });
  }
  if (night % 5 === 0) {
    const cents = [1_900, 2_400, 1_700, 2_900, 2_200, 2_600][night / 5 - 1] ?? 2_000;
    catalogue.change(4_707, { priceRegularCents: cents });
  }
  if (night % 3 === 0) {
    const like = catalogue.original(night);
    catalogue.add({ ...like, id: first + catalogue.size, name: like.name.replace(/\d+/, 'Pro') });
  }
  if (night % 9 === 0) catalogue.remove(idOf(8));
  const sold = 1_900 * ((night * 7) % 5) - (night === 12 ? 40_000 : 0);
  seller.account = { ...seller.account, balanceCents: seller.account.balanceCents + sold };
}

/** Moves all times in the mirror back by some days. */
async function backdate(mirror: Mirror, days: number): Promise<void> {
  const columns = await mirror.rows<{ table: string; sets: string }>(
    `SELECT c.table_name AS "table",
            string_agg(format('%1$I = %1$I - make_interval(days => ${days})', c.column_name), ', ') AS sets
       FROM information_schema.columns c
       JOIN information_schema.tables t USING (table_schema, table_name)
      WHERE c.table_schema = 'mirror' AND t.table_type = 'BASE TABLE'
        AND c.data_type = 'timestamp with time zone'
        AND c.column_name NOT IN ('published_at', 'registered_at')
      GROUP BY 1`,
  );
  for (const { table, sets } of columns) await mirror.rows(`UPDATE mirror."${table}" SET ${sets}`);
}
