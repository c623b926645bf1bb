import { join } from 'node:path';
import { setTimeout as pause } from 'node:timers/promises';
import fc from 'fast-check';
import { afterAll, beforeAll, expect, it } from 'vitest';
import { start } from '../../cli/support.js';
import { hasMariaDb } from '../../support/mariadb.js';
import { openMariaDb, openPostgres, openSqlite, type Place } from './places.js';
import { VIEWS, World, type Seller } from './world.js';

/** Higher numbers take longer and find more. `SEED` repeats a run. */
const TRIALS = Number(process.env['TRIALS'] ?? 2);
const SEED = Number(process.env['SEED'] ?? Date.now() % 1_000_000);
const MINUTE = 60_000;

/** Modes that servers are run in, and that a session of ours must not follow. */
const ODD = ['--autocommit=0', '--sql-mode=ANSI,STRICT_ALL_TABLES', '--default-time-zone=-07:00'];
const FAST = ['--innodb-flush-log-at-trx-commit=2', '--innodb-buffer-pool-size=64M'];

let places: readonly Place[];
beforeAll(async () => {
  places = hasMariaDb
    ? await Promise.all([openPostgres(), openMariaDb([...FAST, ...ODD]), openSqlite()])
    : [];
});
afterAll(async () => {
  for (const place of places) await place.close();
});

const seller = fc.constantFrom<Seller>('ada', 'bob');
const place = fc.nat({ max: 2 });
const night = fc.record({
  kind: fc.constant('night' as const),
  seller,
  removed: fc.subarray([0, 1]),
  text: fc.constantFrom('A', '', "it's \t\\N \u{1f600}", 'NULL'),
});
const check = fc.record({
  kind: fc.constant('check' as const),
  seller,
  code: fc.constantFrom('P', 'Q', '=R'),
  isValid: fc.boolean(),
  price: fc.constantFrom('1.50', '20.00'),
  until: fc.constantFrom(null, '2024-01-02T03:04:05Z', '2100-01-02T03:04:05.5Z'),
});
const deliver = fc.record({
  kind: fc.constant('deliver' as const),
  to: place,
  how: fc.constantFrom(
    'quiet',
    'quiet',
    'full',
    'cut',
    'cut',
    'commit lost',
    'reply lost',
    'stopped',
  ),
  after: fc.nat({ max: 60 }),
});
const edit = fc.record({
  kind: fc.constant('edit' as const),
  to: place,
  what: fc.constantFrom(
    'delete',
    'delete all',
    'update',
    'key',
    'bucket',
    'no owner',
    'drop',
    'drop column',
  ),
  view: fc.constantFrom('items', 'item_history', 'purchases', 'item_changes'),
});
const kill = fc.record({ kind: fc.constant('kill' as const), to: place, ms: fc.nat({ max: 900 }) });
const prune = fc.record({ kind: fc.constant('prune' as const), days: fc.constantFrom(1, 20) });
const other = fc.record({
  kind: fc.constantFrom(
    'restore' as const,
    'go back' as const,
    'second store' as const,
    'new column' as const,
  ),
  to: place,
});

/** A world with a feed into each place, and what its readers must never see. */
class Course {
  nights = 0;
  columns = 0;
  readonly edited = new Set<number>();
  earlier: World | null = null;

  constructor(readonly world: World) {}

  feeds(world = this.world): void {
    world.feeds(...places.map((one) => ({ name: one.name, ...one.target, views: VIEWS })));
  }

  /** Each night gives all items of a seller the same price, so a mix of two nights shows. */
  async night({ seller, removed, text }: { seller: Seller; removed: number[]; text: string }) {
    this.nights += 1;
    const catalogue = this.world.catalogues[seller];
    const ids = [1001, 1002, 1003, 1004];
    for (const [n, id] of ids.entries()) {
      catalogue.restore(id);
      catalogue.change(id, { priceRegularCents: this.nights * 100, description: text });
      if (removed.includes(n)) catalogue.remove(id);
    }
    await this.world.sync(seller);
  }

  /** Delivers until nothing is left, as a worker does after an outage, and expects equality. */
  async settle(to: number): Promise<void> {
    const [place] = [places[to]];
    if (place === undefined) return;
    place.link?.inspect(null);
    const isFull = this.edited.delete(to);
    const outcome = await this.world.deliverQuietly(place.name, { isFull });
    expect(outcome.problem, place.name).toBeNull();
    await this.world.expectEqualButPast(place, VIEWS);
    const open = await place.query(
      `SELECT 1 FROM ${place.table('item_history')} WHERE valid_to IS NULL
        GROUP BY seller_id, item_id HAVING count(*) > 1`,
    );
    expect(open).toEqual([]);
  }

  /** Reads a place until `work` is done, and expects no mix of two nights. */
  async reading<T>(place: Place, work: Promise<T>): Promise<T> {
    let isDone = false;
    const ended = work.finally(() => (isDone = true));
    ended.catch(() => undefined);
    while (!isDone) {
      const sql = `SELECT seller_id, count(DISTINCT price_regular) AS prices FROM ${place.table('items')}
                    WHERE _hash IS NOT NULL AND state = 'live' GROUP BY seller_id`;
      const mixed = await place.query(sql).catch(() => []);
      for (const row of mixed) expect(Number(row['prices']), place.name).toBeLessThan(2);
      await pause(2);
    }
    return ended;
  }

  async deliver({ to, how, after }: { to: number; how: string; after: number }): Promise<void> {
    const place = places[to];
    if (place === undefined) return;
    let count = 0;
    let isDone = false;
    const { link } = place;
    if (how === 'cut') link?.inspect(() => (count += 1) <= after * 2);
    if (how === 'commit lost') {
      link?.inspect((data, isToServer) =>
        isToServer && data.includes('COMMIT') ? (count += 1) <= after % VIEWS.length : true,
      );
    }
    if (how === 'reply lost') {
      link?.inspect((data, isToServer) => {
        if (isDone && !isToServer) return false;
        if (isToServer && data.includes('COMMIT')) isDone ||= (count += 1) > after % VIEWS.length;
        return true;
      });
    }
    const stop = new AbortController();
    if (how === 'stopped') setTimeout(() => stop.abort(new Error('stopped')), after * 4);
    const options = { isFull: how === 'full', signal: stop.signal };
    const delivering = this.world.deliverQuietly(place.name, options);
    await this.reading(place, delivering).catch((error: unknown) => {
      if (!stop.signal.aborted) throw error;
    });
    link?.inspect(null);
  }

  async edit({ to, what, view }: { to: number; what: string; view: string }): Promise<void> {
    const place = places[to];
    const table = place?.table(view) ?? '';
    const number = view === 'purchases' ? 'code_id' : view === 'item_changes' ? 'seq' : 'item_id';
    const mark = view === 'item_changes' ? 'field' : view === 'purchases' ? 'currency' : 'name';
    const sql = {
      delete: `DELETE FROM ${table} WHERE ${number} % 2 = 0 AND _hash IS NOT NULL`,
      'delete all': `DELETE FROM ${table}`,
      update: `UPDATE ${table} SET ${mark} = 'edited' WHERE ${number} % 2 = 0`,
      key: `UPDATE ${table} SET ${number} = ${number} + 100000 WHERE _hash IS NOT NULL`,
      bucket: `UPDATE ${table} SET _bucket = _bucket + 1, _hash = _hash + 1`,
      'no owner': `DELETE FROM ${place?.table('_seller_mirror')} WHERE view_name = '${view}'`,
      drop: `DROP TABLE ${table}`,
      'drop column': `ALTER TABLE ${table} DROP COLUMN ${mark}`,
    }[what];
    // The table may not be there yet.
    await place?.query(sql ?? '').catch(() => undefined);
    if (what === 'update' || what === 'key') this.edited.add(to);
  }

  async kill(to: number, ms: number): Promise<void> {
    const running = start(['feed', 'run', places[to]?.name ?? ''], this.world.env);
    await pause(400 + ms);
    running.process.kill('SIGKILL');
    await running.ended;
  }

  async other(kind: string, to: number): Promise<void> {
    const { world } = this;
    const takeOver = async (one: World): Promise<void> => {
      for (const { name } of places) await one.printed('feed', 'take-over', name);
    };
    switch (kind) {
      case 'restore': {
        const file = join(world.folder, 'backup.tar.gz');
        await world.printed('backup', file);
        await this.night({ seller: 'ada', removed: [], text: 'lost' });
        await world.deliverQuietly(places[to]?.name);
        await world.printed('restore', file, '--replace', '--take-over-feeds');
        return;
      }
      case 'go back': {
        const earlier = await world.copy();
        await this.night({ seller: 'bob', removed: [1], text: 'lost' });
        const before = await world.deliverQuietly(places[to]?.name);
        await world.goBackTo(earlier);
        if (before.problem === null) {
          const refused = await world.deliverQuietly(places[to]?.name);
          expect(refused.problem).toContain('a later state of this one');
        }
        return takeOver(world);
      }
      case 'second store': {
        const copy = await world.copy();
        this.feeds(copy);
        const name = places[to]?.name;
        const first = await copy.deliverQuietly(name);
        if (first.problem === null) {
          expect((await world.deliverQuietly(name)).problem).toContain('another store');
        }
        await takeOver(world);
        expect((await copy.deliverQuietly(name)).problem).toContain('another store');
        await copy.close();
        return;
      }
      case 'new column': {
        if (this.columns >= 2) return;
        this.columns += 1;
        const definition = await world.rows<{ sql: string }>(
          `SELECT pg_get_viewdef('reporting.items'::regclass) AS sql`,
        );
        const sql = (definition[0]?.sql ?? '').replace(
          /\s+FROM mirror\.items/,
          `, (item_id % 7)::numeric(${6 + this.columns},2) AS column_${this.columns} FROM mirror.items`,
        );
        await world.rows(`CREATE OR REPLACE VIEW reporting.items AS ${sql.replace(/;\s*$/, '')}`);
        return;
      }
    }
  }
}

it.skipIf(!hasMariaDb)(
  'a target equals the views after any sequence of nights, checks, kills, outages, edits, prunes and other stores',
  async () => {
    const steps = fc.array(
      fc.oneof(
        { arbitrary: night, weight: 5 },
        { arbitrary: check, weight: 4 },
        { arbitrary: deliver, weight: 9 },
        { arbitrary: edit, weight: 4 },
        { arbitrary: kill, weight: 1 },
        { arbitrary: prune, weight: 1 },
        { arbitrary: other, weight: 2 },
      ),
      { minLength: 14, maxLength: 26, size: 'max' },
    );
    const counts: Record<string, number> = {};
    await fc.assert(
      fc.asyncProperty(steps, async (sequence) => {
        const world = await World.open(4);
        const course = new Course(world);
        try {
          for (const one of places) await one.clear();
          course.feeds();
          for (const seller of ['ada', 'bob'] as const) {
            await course.night({ seller, removed: [], text: 'first' });
          }
          for (const step of sequence) {
            const what = 'how' in step ? step.how : 'what' in step ? step.what : step.kind;
            counts[what] = (counts[what] ?? 0) + 1;
            if (step.kind === 'night') await course.night(step);
            else if (step.kind === 'check') {
              const { price, until } = step;
              await world.check(step.seller, step.code, step.isValid ? { price, until } : null);
            } else if (step.kind === 'deliver') {
              await course.deliver(step);
              if (step.how === 'quiet' || step.after % 3 === 0) await course.settle(step.to);
            } else if (step.kind === 'edit') await course.edit(step);
            else if (step.kind === 'kill') await course.kill(step.to, step.ms);
            else if (step.kind === 'prune') {
              await world.age(30);
              await world.pruneVersions(step.days);
            } else await course.other(step.kind, step.to);
          }
          for (const to of places.keys()) {
            await course.settle(to);
            const again = await world.deliverQuietly(places[to]?.name, { isFull: true });
            expect([again.problem, again.rows]).toEqual([null, 0]);
          }
        } finally {
          await world.close();
        }
      }),
      { numRuns: TRIALS, seed: SEED, endOnFailure: true },
    );
    process.stdout.write(`seed ${SEED}, ${TRIALS} sequences: ${JSON.stringify(counts)}\n`);
  },
  MINUTE * (2 + 3 * TRIALS),
);
