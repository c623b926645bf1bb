import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { ITEM_FIELDS, type Item, type Json } from '../../src/domain/item.js';
import { decodeItem } from '../../src/marketplace/decode.js';
import { useMirror } from '../support/mirror.js';
import { until } from '../support/until.js';
import { openMarket, openSynced } from './market.js';

const mirror = useMirror();

const text = fc.option(fc.constantFrom('', 'a', 'b', 'ä "quoted"\n', 'NULL'));
const list = fc.subarray(['x', 'y,z', '{}', 'NULL']);
const money = fc.option(fc.constantFrom(0, 10, 10.5, -0.01, 999999999999.99));
const record = fc.record({
  name: fc.constantFrom('A', 'B'),
  description: text,
  category: text,
  sub_category: text,
  options: list,
  version: text,
  demo_link: text,
  tags: list,
  currency: fc.option(fc.constantFrom('USD', 'EUR')),
  price: fc.record({ regular: money, extended: money }),
  media: fc.record({ thumbnail: text, preview_image: text, screenshots: list }),
  published_at: fc.option(
    fc.constantFrom('2024-01-02T03:04:05Z', '2024-01-02T03:04:05.120000Z', '1999-12-31'),
  ),
  rating: fc.constantFrom(1, 2),
});

function canonical(json: object): Item {
  const decoding = decodeItem(json as Json);
  if (!decoding.ok) throw new Error(decoding.reason);
  return decoding.decoded.value;
}

/** A change in one line, with its canonical values. */
function lineOf(id: number, kind: string, field: string, old: unknown, now: unknown): string {
  return `${id} ${kind} ${field}: ${JSON.stringify(old)} → ${JSON.stringify(now)}`;
}

/** The changes after this number, in their order. */
async function changes(after = '0'): Promise<{ seq: string; seller: string; line: string }[]> {
  const rows = await mirror().rows<Record<string, string>>(
    'SELECT * FROM reporting.item_changes WHERE seq > $1 ORDER BY seq',
    [after],
  );
  return rows.map((row) => ({
    seq: String(row['seq']),
    seller: String(row['seller_id']),
    line: lineOf(
      Number(row['item_id']),
      ...([String(row['class']), String(row['field'])] as const),
      ...([row['old_value'], row['new_value']] as const),
    ),
  }));
}

describe('the numbered changes', () => {
  it('are exactly the canonical fields that differ, with their canonical values', async () => {
    const pairs = fc.array(fc.tuple(record, record), { minLength: 1, maxLength: 8 });
    await fc.assert(
      fc.asyncProperty(pairs, async (cases) => {
        await mirror().reset();
        const { catalogue, sync } = await openMarket(mirror(), cases.length);
        const nights = [0, 1] as const;
        const records = nights.map((night) =>
          cases.map((pair, n) => ({ id: 1001 + n, ...pair[night] })),
        );
        for (const night of records) {
          for (const one of night) catalogue.breakRecord(one.id, JSON.stringify(one));
          expect((await sync()).state).toBe('succeeded');
        }
        const [before = [], after = []] = records.map((night) => night.map(canonical));
        const expected = before.flatMap((old, n) =>
          ITEM_FIELDS.flatMap(({ key, column, class: kind }) => {
            const now = after[n]?.[key];
            const isSame = JSON.stringify(old[key]) === JSON.stringify(now);
            return isSame ? [] : [lineOf(old.id, kind, column, old[key], now)];
          }),
        );
        expect((await changes()).map(({ line }) => line).sort()).toEqual(expected.sort());
      }),
      { numRuns: 12 },
    );
  });

  it('become visible in their order, even if runs commit in another order than they wrote', async () => {
    const markets = await Promise.all(
      ['slow', 'fast'].map((sellerId) => openSynced(mirror(), 1, {}, { sellerId })),
    );
    const [slow, fast] = markets as [(typeof markets)[0], (typeof markets)[0]];
    for (const { catalogue } of markets) catalogue.change(1001, { name: 'Renamed' });
    // The slow run stops after its changes have numbers and before its commit.
    await mirror().pool.query(`
      CREATE FUNCTION mirror.wait_when_slow() RETURNS trigger LANGUAGE plpgsql AS $$
      BEGIN
        IF EXISTS (SELECT FROM told WHERE seller_id = 'slow') THEN
          PERFORM pg_advisory_xact_lock(42);
        END IF;
        RETURN NULL;
      END $$;
      CREATE TRIGGER wait_when_slow AFTER INSERT ON mirror.item_changes
        REFERENCING NEW TABLE AS told FOR EACH STATEMENT EXECUTE FUNCTION mirror.wait_when_slow()`);
    const waiting = async (): Promise<number> => {
      const rows = await mirror().rows(
        `SELECT FROM pg_locks WHERE locktype = 'advisory' AND NOT granted
            AND database = (SELECT oid FROM pg_database WHERE datname = current_database())`,
      );
      return rows.length;
    };
    const gate = await mirror().pool.connect();
    try {
      await gate.query('SELECT pg_advisory_lock(42)');
      const slowEnd = slow.sync();
      await until(async () => (await waiting()) === 1);
      let fastIsDone = false;
      const fastEnd = fast.sync().then(() => (fastIsDone = true));
      await until(async () => fastIsDone || (await waiting()) === 2);
      const first = await changes();
      await gate.query('SELECT pg_advisory_unlock(42)');
      await Promise.all([slowEnd, fastEnd]);
      const rest = await changes(first.at(-1)?.seq);
      expect([...first, ...rest].map(({ seller }) => seller).sort()).toEqual(['fast', 'slow']);
    } finally {
      await gate.query('SELECT pg_advisory_unlock_all()');
      gate.release();
      await mirror().pool.query('DROP FUNCTION mirror.wait_when_slow CASCADE');
    }
  });
});
