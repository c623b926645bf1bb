import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, beforeAll, beforeEach, describe, expect, it, onTestFinished } from 'vitest';
import { hasMariaDb } from '../../support/mariadb.js';
import { until } from '../../support/until.js';
import { openMariaDb, openPostgres, openSqlite, type Place } from './places.js';
import { VIEWS, World } from './world.js';

let world: World;
beforeAll(async () => {
  world = await World.open();
});
afterAll(() => world.close());

const OPEN = {
  PostgreSQL: openPostgres,
  // Without LOAD DATA, as MySQL is by default.
  MariaDB: () => openMariaDb(['--innodb-flush-log-at-trx-commit=2', '--local-infile=0']),
  SQLite: openSqlite,
};

const RAISE = `BEGIN RAISE 'not today'; END`;
/** Statements that make a trigger which refuses all updates of items, and that drop it. */
const TRIGGERS = {
  PostgreSQL: [
    `CREATE FUNCTION shop.no() RETURNS trigger LANGUAGE plpgsql AS $$ ${RAISE} $$;
     CREATE TRIGGER no BEFORE INSERT OR UPDATE ON shop.items FOR EACH ROW EXECUTE FUNCTION shop.no()`,
    'DROP FUNCTION shop.no() CASCADE',
  ],
  MariaDB: [
    `CREATE TRIGGER no BEFORE UPDATE ON items FOR EACH ROW SIGNAL SQLSTATE '45000' SET MESSAGE_TEXT = 'not today'`,
    'DROP TRIGGER no',
  ],
  SQLite: [
    `CREATE TRIGGER no BEFORE UPDATE ON items BEGIN SELECT raise(ABORT, 'not today'); END`,
    'DROP TRIGGER no',
  ],
} as const;

describe.each(Object.entries(OPEN))('a feed into %s', (name, open) => {
  if (name === 'MariaDB' && !hasMariaDb) {
    it.skip('needs mariadbd, which is not installed here', () => undefined);
    return;
  }
  let place: Place;
  beforeAll(async () => {
    place = await open();
  });
  afterAll(() => place.close());
  beforeEach(async () => {
    await world.empty();
    await place.clear();
    feed();
    await world.sync();
    await world.check('ada', 'A-1', { item: ids('ada')[0], until: '2100-01-01T00:00:00Z' });
    await world.check('bob', 'B-1', { item: ids('bob')[1], until: null });
  });

  const feed = (more: object = {}): void =>
    world.feeds({ name: 'test', ...place.target, views: VIEWS, ...more });
  const ids = (seller: 'ada' | 'bob'): number[] =>
    [...world.catalogues[seller].truth()].map(({ id }) => id);
  const table = (view: string): string => place.table(view);
  /** The columns that a feed adds to those of the view. */
  const OWN = ['_hash', '_bucket', ...(name === 'PostgreSQL' ? [] : ['_check'])];
  const change = async (...statements: readonly string[]): Promise<void> => {
    for (const sql of statements) await place.query(sql);
  };
  const problemOf = async (view: string): Promise<string> => {
    const { views } = await world.deliver();
    for (const one of views) if (one.view !== view) expect(one.problem, one.view).toBeNull();
    const problem = views.find((one) => one.view === view)?.problem;
    return `${problem?.message}: ${problem?.remedy}`;
  };

  /** A night with a changed, a removed and a new item, and new verdicts of codes. */
  async function night(n: number): Promise<void> {
    const { ada, bob } = world.catalogues;
    const [changed = 0, gone = 0] = ids('ada');
    ada.change(changed, { name: `it's "new" ${n}\t\\`, priceRegularCents: 1000 + n });
    ada.remove(gone);
    bob.change(ids('bob')[0] ?? 0, { priceExtendedCents: 2000 + n });
    await world.sync();
    ada.restore(gone);
    await world.check('ada', 'A-1', n % 2 === 0 ? null : { price: `${n}.50` });
    await world.check('ada', `A-${n}`, { item: changed });
  }

  it('makes each table equal to its view, night after night, and writes only what differs', async () => {
    expect((await world.deliverEqual(place))['items']).toBe(12);
    expect(Object.values(await world.deliverEqual(place))).toEqual(VIEWS.map(() => 0));
    await night(2);
    const written = await world.deliverEqual(place);
    expect(written['items']).toBeLessThan(6);
    expect(written['purchases']).toBeGreaterThan(0);
    // Under another name, too, since the store knows what its tables hold.
    feed({ name: 'renamed' });
    await night(3);
    expect((await world.deliverEqual(place))['items']).toBeLessThan(6);
    expect((await world.deliverQuietly('renamed')).rows).toBe(0);
  });

  it('puts back rows that were deleted or added at each delivery, and edited ones when it compares in full', async () => {
    await world.deliverEqual(place);
    await change(
      `DELETE FROM ${table('purchases')}`,
      `DELETE FROM ${table('items')} WHERE item_id = ${ids('ada')[0]}`,
      `UPDATE ${table('item_changes')} SET seq = seq + 100000 WHERE _hash IS NOT NULL`,
      `UPDATE ${table('item_history')} SET _bucket = 7`,
    );
    expect((await world.deliverQuietly()).problem).toBeNull();
    await world.expectEqual(place);
    await change(
      `UPDATE ${table('items')} SET name = 'mine' WHERE seller_id = 'ada' AND item_id = ${ids('ada')[1]}`,
      `UPDATE ${table('items')} SET price_regular = price_regular + 1 WHERE seller_id = 'ada' AND item_id = ${ids('ada')[2]}`,
      `UPDATE ${table('items')} SET tags = NULL, extra = NULL WHERE seller_id = 'bob' AND item_id = ${ids('bob')[2]}`,
      `UPDATE ${table('purchases')} SET supported_until = NULL`,
      `UPDATE ${table('item_history')} SET item_id = item_id + 1000000`,
    );
    const { stdout } = await world.cli('feed', 'check', 'test');
    // Items 2 and 3 of both sellers.
    expect(stdout).toContain('items: the table fits; differs in up to 4 rows');
    expect(stdout).toContain('item_changes: the table fits; nothing differs');
    await world.deliverEqual(place);
    expect(await world.printed('feed', 'check', 'test')).not.toContain('differs in');
  });

  it('keeps rows, columns, indexes and views of people, and adds and widens columns of its own', async () => {
    await world.deliverEqual(place);
    const part = name === 'MariaDB' ? 'name(20)' : 'name';
    await change(
      `ALTER TABLE ${table('items')} ADD COLUMN note varchar(20)`,
      `UPDATE ${table('items')} SET note = 'mine' WHERE seller_id = 'ada' AND item_id = ${ids('ada')[0]}`,
      `CREATE INDEX mine ON ${table('items')} (${part})`,
      `CREATE VIEW ${table('names')} AS SELECT name FROM ${table('items')}`,
      `INSERT INTO ${table('items')} (seller_id, item_id, name) VALUES ('me', 1, 'my own')`,
      `INSERT INTO ${table('revenue_by_item')} (seller_id, item_name) VALUES ('me', 'my own')`,
      `ALTER TABLE ${table('items')} DROP COLUMN version`,
      ...(name === 'PostgreSQL' ? [] : [`ALTER TABLE ${table('items')} DROP COLUMN _check`]),
      ...narrowed,
    );
    onTestFinished(() => change(`DROP VIEW ${table('names')}`));
    expect((await world.cli('feed', 'check', 'test')).stdout).toContain('would add version');
    await night(4);
    // Also a delivery that does not look for edits fills the new column.
    expect((await world.deliverQuietly()).problem).toBeNull();
    await world.expectEqual(place);
    const own = await place.query(
      `SELECT 1 FROM ${table('items')} WHERE note = 'mine' OR seller_id = 'me'
       UNION ALL SELECT 1 FROM ${table('revenue_by_item')} WHERE seller_id = 'me'`,
    );
    expect(own).toHaveLength(3);
    expect((await place.query(`SELECT * FROM ${table('names')}`)).length).toBeGreaterThan(10);
  });
  const narrowed = {
    PostgreSQL: ['ALTER TABLE shop.items ALTER COLUMN price_regular TYPE decimal(12,2)'],
    MariaDB: ['ALTER TABLE items MODIFY COLUMN price_regular decimal(12,2)'],
    SQLite: [],
  }[name as keyof typeof OPEN];

  it('stops a single view at a row of somebody, a column of another type or a failing trigger, and says why', async () => {
    await world.deliverEqual(place);
    const [first = 0] = ids('ada');
    await change(
      `UPDATE ${table('items')} SET _hash = NULL, name = 'mine' WHERE seller_id = 'ada' AND item_id = ${first}`,
    );
    expect(await problemOf('items')).toContain(
      `a row of yours with the key of a row of the view: seller_id ada, item_id ${first}`,
    );
    await change(
      `DELETE FROM ${table('items')} WHERE name = 'mine'`,
      `ALTER TABLE ${table('items')} DROP COLUMN version`,
      `ALTER TABLE ${table('items')} ADD COLUMN version date`,
    );
    expect(await problemOf('items')).toMatch(
      /^column version of table items has type date, but the view has (?:long)?text.*: change the column’s type to/i,
    );
    const [create = '', drop = ''] = TRIGGERS[name as keyof typeof OPEN];
    await change(`ALTER TABLE ${table('items')} DROP COLUMN version`, create);
    expect(await problemOf('items')).toContain('not today');
    await change(drop);
    await world.deliverEqual(place);
  });

  it('keeps past states that the store has pruned, but leaves no item with two open states', async () => {
    await night(6);
    await world.age(30);
    await world.deliverEqual(place);
    const ended = `SELECT * FROM ${table('item_history')} WHERE valid_to IS NOT NULL`;
    const past = (await place.query(ended)).length;
    expect(past).toBeGreaterThan(1);
    // A night that the feed misses, and then a prune of the states that it superseded.
    await night(7);
    await world.age(20);
    await world.pruneVersions(7);
    expect(await world.rows('SELECT FROM mirror.item_versions')).toEqual([]);
    expect((await world.deliver()).problem).toBeNull();
    const { columns, rows } = await world.view('item_history');
    const kept = await place.rows('item_history', columns);
    for (const row of rows) expect(kept).toContain(row);
    expect(await place.query(ended)).toHaveLength(past);
    expect(kept).toHaveLength(rows.length + past);
    expect((await world.deliverQuietly()).rows).toBe(0);
  });

  it('takes over tables that an earlier version filled, with rows that are no longer in the view', async () => {
    await world.deliverEqual(place);
    await place.query(`DROP TABLE ${table('_seller_mirror')}`);
    await world.rows('DELETE FROM mirror.feed_views');
    for (const view of VIEWS) {
      for (const column of OWN) {
        await place.query(`ALTER TABLE ${table(view)} DROP COLUMN ${column}`);
      }
    }
    await place.query(
      `CREATE TABLE ${table('_seller_mirror_feeds')} (feed varchar(63), view_name varchar(63), epoch varchar(40))`,
    );
    for (const view of VIEWS) {
      await place.query(
        `INSERT INTO ${table('_seller_mirror_feeds')} VALUES ('test', '${view}', 'e')`,
      );
    }
    await place.query(`UPDATE ${table('items')} SET name = 'old' WHERE item_id = ${ids('ada')[0]}`);
    await place.query(`UPDATE ${table('purchases')} SET code_id = 4711 WHERE code = 'B-1'`);
    expect((await world.cli('feed', 'check', 'test')).stdout).toContain(
      'items: would take over the table that an earlier version filled',
    );
    await world.deliverEqual(place);
    const left = async () => place.query(`SELECT 1 FROM ${table('_seller_mirror_feeds')}`);
    await expect(left()).rejects.toThrow();
  });

  it('is delivered by two workers at once, also for the first time', async () => {
    const both = await Promise.all([world.deliverQuietly(), world.deliverQuietly()]);
    expect(both.map(({ problem }) => problem)).toEqual([null, null]);
    await world.expectEqual(place);
  });

  // The rest is the same in each database.
  if (name !== 'PostgreSQL') return;

  it('delivers what time alone changes, such as support that ends', async () => {
    await world.check('ada', 'A-2', { until: new Date(Date.now() + 2500).toISOString() });
    expect((await world.deliver()).problem).toBeNull();
    await until(async () => {
      const { rows } = await world.view('purchases');
      return rows.filter((row) => row.includes('"expired"')).length === 1;
    });
    expect((await world.deliverQuietly()).problem).toBeNull();
    await world.expectEqual(place);
  });

  it('delivers only some sellers and columns, and codes only as a salted hash', async () => {
    writeFileSync(join(world.folder, 'salt'), 'a long and random salt', { mode: 0o600 });
    const hidden = {
      views: ['items', 'purchases'],
      columns: { items: ['name', 'state'] },
      hash: ['purchases.code', 'purchases.answered_code'],
      hashSaltFile: 'salt',
    };
    feed({ ...hidden, sellers: ['ada'] });
    expect((await world.deliver()).problem).toBeNull();
    const [item] = await place.query(`SELECT * FROM ${table('items')}`);
    expect(Object.keys(item ?? {}).sort()).toEqual(
      [...OWN, 'item_id', 'name', 'seller_id', 'state'].sort(),
    );
    const codes = await place.query(
      `SELECT code, answered_code, seller_id FROM ${table('purchases')}`,
    );
    const hash = '[0-9a-f]{64}';
    expect(codes).toEqual([
      {
        code: expect.stringMatching(hash) as string,
        answered_code: expect.stringMatching(hash) as string,
        seller_id: 'ada',
      },
    ]);
    // Another choice of sellers: rows of those that it leaves go.
    feed({ ...hidden, sellers: ['bob'] });
    expect((await world.deliver()).problem).toBeNull();
    const sellers = await place.query(`SELECT DISTINCT seller_id FROM ${table('items')}`);
    expect(sellers).toEqual([{ seller_id: 'bob' }]);
  });

  it('has one owner: of two copies of a store the first to deliver, until somebody takes it over', async () => {
    await world.deliverEqual(place);
    const copy = await world.copy();
    onTestFinished(() => copy.close());
    copy.feeds({ name: 'test', ...place.target, views: VIEWS });
    await night(9);
    await copy.deliverEqual(place);
    const refused = await world.deliver();
    expect(refused.views.every(({ problem }) => problem !== null)).toBe(true);
    expect(refused.problem).toMatch(
      /another store, or a later state of this one, fills items there.*: .*feed take-over test/,
    );
    await copy.expectEqual(place);
    expect(await world.printed('feed', 'take-over', 'test')).toContain('now fills items');
    await world.deliverEqual(place);
    expect((await copy.deliver()).problem).toContain('another store');
  });

  it('delivers rows that another definition of a view changes, without a change of the store', async () => {
    const { columns } = await world.view('item_changes');
    const [{ sql } = { sql: '' }] = await world.rows<{ sql: string }>(
      `SELECT pg_get_viewdef('reporting.item_changes'::regclass) AS sql`,
    );
    const define = (text: string) =>
      world.rows(`CREATE OR REPLACE VIEW reporting.item_changes AS ${text.replace(/;$/, '')}`);
    onTestFinished(async () => void (await define(sql)));
    await night(12);
    await world.deliverEqual(place);
    await world.deliverQuietly();
    const list = columns.map(({ name: one, type }) =>
      type.startsWith('text') && one !== 'seller_id' ? `upper(${one}) AS ${one}` : one,
    );
    await define(`SELECT ${list.join(', ')} FROM (${sql.replace(/;$/, '')}) AS v`);
    expect((await world.deliverQuietly()).problem).toBeNull();
    await world.expectEqual(place);
  });
});
