import { readFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { gunzipSync } from 'node:zlib';
import { describe, expect, it } from 'vitest';
import { printed, run } from '../cli/support.js';
import { query } from '../support/postgres.js';
import { database } from './support.js';

type Row = Readonly<Record<string, unknown>>;

const fixture = (name: string): string =>
  fileURLToPath(new URL(`upgrade/${name}`, import.meta.url));

/**
 * A backup of a filled store that has only the first migration: two sellers, a removed item, three held ones, a finished
 * check, one of a workbook and one that waits, users and tokens. Made with the program as it was then, and never again.
 */
const BACKUP = fixture('init.backup.tar.gz');
/** Every view of that store, as it was then. */
const VIEWS = JSON.parse(
  gunzipSync(readFileSync(fixture('init.views.json.gz'))).toString(),
) as Record<string, Row[]>;
/** The day of the fixture: views that depend on the day are compared up to it. */
const DAY = '2026-11-28';

/** Columns that depend on the time of the question. */
const OF_NOW = ['support', 'account_age_seconds', 'items_age_seconds', 'active', 'expired'];

/** Values that a later migration changes on purpose, as `view.column`, with the reason. */
const CHANGED: Readonly<Record<string, string>> = {};

/** What was there then, in the columns that are still there and keep their values. */
function kept(view: string, rows: readonly Row[], columns: readonly string[]): string[] {
  const names = columns.filter((name) => !OF_NOW.includes(name) && !(`${view}.${name}` in CHANGED));
  return rows
    .filter((row) => view !== 'items_daily' || String(row['day']) <= DAY)
    .map((row) => JSON.stringify(names.map((name) => row[name])))
    .sort();
}

describe('a store of the first version', () => {
  it('is restored and migrated, and every view tells what it told then', async () => {
    const url = await database();
    expect(await printed(['restore', BACKUP], { DATABASE_URL: url })).toContain(
      '2 sellers · 12 items',
    );
    const now = new Map<string, Row[]>();
    const views = await query(
      url,
      `SELECT relname AS name FROM pg_class
        WHERE relnamespace = 'reporting'::regnamespace AND relkind = 'v'`,
    );
    for (const { name } of views) {
      const rows = await query(
        url,
        `SELECT to_jsonb(v)::text AS row FROM reporting.${String(name)} v`,
      );
      now.set(
        String(name),
        rows.map(({ row }) => JSON.parse(String(row)) as Row),
      );
    }
    const compared = Object.keys(VIEWS).filter((view) => now.has(view));
    expect(compared.length).toBeGreaterThan(10);
    for (const view of compared) {
      const [before = [], after = []] = [VIEWS[view], now.get(view)];
      const columns = Object.keys(before[0] ?? {}).filter((name) => name in (after[0] ?? {}));
      expect(kept(view, after, columns), view).toEqual(kept(view, before, columns));
      expect(before.length === 0 || columns.length > 0, view).toBe(true);
    }
  });

  it('is replaced in place, so that rights and other people’s views stay', async () => {
    const url = await database();
    await query(url, 'CREATE VIEW public.mine AS SELECT item_id FROM reporting.items');
    await query(url, 'GRANT USAGE ON SCHEMA reporting TO PUBLIC');
    await printed(['restore', BACKUP, '--replace'], { DATABASE_URL: url });
    expect(await query(url, 'SELECT count(*)::int AS n FROM public.mine')).toEqual([{ n: 12 }]);
    expect(
      await query(
        url,
        `SELECT nspacl::text ~ '[{,]=U/' AS granted FROM pg_namespace WHERE nspname = 'reporting'`,
      ),
    ).toEqual([{ granted: true }]);
    const schemas = await query(url, `SELECT nspname FROM pg_namespace WHERE nspname ~ 'mirror'`);
    expect(schemas).toEqual([{ nspname: 'mirror' }]);
    expect(await printed(['migrate', '--status'], { DATABASE_URL: url })).toContain('up to date');
    // The triggers work again: a code that has checks can't be deleted.
    await expect(query(url, 'DELETE FROM mirror.purchase_codes')).rejects.toThrow();
  });
});

describe('a store that a build with other SQL migrated', () => {
  it('is refused by migrate, status and doctor in one true sentence', async () => {
    const url = await database();
    const env = { DATABASE_URL: url };
    await query(
      url,
      `UPDATE mirror._prisma_migrations SET checksum = 'x' WHERE migration_name ~ '_init$'`,
    );
    const sentence =
      'the database was migrated by a build of this program with other SQL (20261125000000_init)';
    for (const command of ['migrate', 'status', 'sync']) {
      const { code, stderr } = await run([command], {
        ...env,
        MARKETPLACE_URL: 'http://127.0.0.1:1',
        MARKETPLACE_API_KEY: 'x',
      });
      expect(stderr).toContain(`error: ${sentence}\n  → Use that build, or name a new database`);
      expect(code).toBe(1);
    }
    const shown = await run(['migrate', '--status'], env);
    expect(shown).toMatchObject({ code: 1, stdout: expect.stringContaining(sentence) as string });
    expect((await run(['doctor'], env)).stdout).toContain(`✗ schema: ${sentence}`);
  });
});
