import { expect, it } from 'vitest';
import { useMirror } from '../support/mirror.js';
import { openSynced } from './market.js';

const mirror = useMirror();
const ITEMS = 16;
const NIGHTS = Number(process.env['NIGHTS'] ?? 60);

/** Each item with its name and state in one snapshot, and whether all views agree about the states. */
async function look(): Promise<{ items: string; figures: readonly string[] }> {
  const counts = `SELECT count(*) FILTER (WHERE state = 'live') || '/' || count(*) FILTER (WHERE state = 'missing')`;
  const [row] = await mirror().rows<{ items: string; figures: string[] }>(
    `WITH rows AS (SELECT item_id, name, state FROM reporting.items)
     SELECT (SELECT string_agg(concat_ws(' ', item_id, name, state), E'\n' ORDER BY item_id) FROM rows) AS items,
            ARRAY[(${counts} FROM rows),
                  (${counts} FROM reporting.items_as_of('infinity')),
                  (${counts} FROM reporting.item_history WHERE valid_to IS NULL),
                  (SELECT live || '/' || missing FROM reporting.items_daily ORDER BY day DESC LIMIT 1),
                  (SELECT live_items || '/' || missing_items FROM reporting.freshness)] AS figures`,
  );
  return row as { items: string; figures: string[] };
}

it(`a reader sees each night whole: of ${NIGHTS} nights, the state before the run or the one after it`, async () => {
  const { sim, catalogue, sync } = await openSynced(
    mirror(),
    ITEMS,
    {},
    { removalGuard: { items: 100, percent: 100 }, lookupsPerRun: 3 },
  );
  let random = 7;
  const chance = (of: number): boolean => (random = (random * 48_271) % 2_147_483_647) % of === 0;
  const ids = Array.from({ length: ITEMS }, (_, n) => 1_001 + n);
  sim.faults.always('item', { kind: 'stall', ms: 3 });
  for (let night = 1; night <= NIGHTS; night++) {
    const before = await look();
    for (const id of ids) {
      catalogue.change(id, { name: `Night ${night}` });
      if (id === 1_001) continue;
      if (chance(6)) catalogue.setState(id, 'unlisted');
      else if (chance(8)) catalogue.remove(id);
      else if (chance(2)) catalogue.restore(id);
    }
    if (chance(9)) sim.faults.next('item', { kind: 'server-error' }, 2);
    let isOver = false;
    const run = sync().finally(() => (isOver = true));
    const seen = [];
    while (!isOver) seen.push(await look());
    const { state } = await run;
    const after = await look();
    for (const { items, figures } of seen) {
      expect([before.items, after.items], `night ${night}`).toContain(items);
      expect(new Set(figures).size, `all views agree: ${figures.join(', ')}`).toBe(1);
    }
    // What is listed has tonight's content.
    for (const { id } of state === 'failed' ? [] : catalogue.truth()) {
      expect(after.items).toContain(`${id} Night ${night} live`);
    }
  }
}, 600_000);
