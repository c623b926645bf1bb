import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { Mirror } from '../../support/mirror.js';
import { CONTRACT, offered } from './contract.js';

let mirror: Mirror;
beforeAll(async () => {
  mirror = await Mirror.open();
});
afterAll(() => mirror.close());

describe('schema reporting, the contract', () => {
  it('offers just these views and functions, with these columns, types and order', async () => {
    expect(await offered(mirror.pool)).toEqual(CONTRACT);
  });

  it('holds nothing but views: what they are made of may change', async () => {
    const others = await mirror.rows(
      `SELECT relname FROM pg_class WHERE relnamespace = 'reporting'::regnamespace AND relkind <> 'v'`,
    );
    expect(others).toEqual([]);
  });

  it('has a comment on each view, function and column', async () => {
    const silent = await mirror.rows<{ name: string }>(
      `SELECT concat_ws('.', c.relname, a.attname) AS name
         FROM pg_class c JOIN pg_attribute a ON a.attrelid = c.oid AND a.attnum > 0
        WHERE c.relnamespace = 'reporting'::regnamespace
          AND coalesce(col_description(c.oid, a.attnum), '') !~ '^[A-Z0-9a-z].*[.]$'
       UNION ALL
       SELECT relname FROM pg_class WHERE relnamespace = 'reporting'::regnamespace
          AND coalesce(obj_description(oid, 'pg_class'), '') !~ '[.]$'
       UNION ALL
       SELECT proname FROM pg_proc WHERE pronamespace = 'reporting'::regnamespace
          AND coalesce(obj_description(oid, 'pg_proc'), '') !~ '[.]$'`,
    );
    expect(silent).toEqual([]);
  });

  it('says of every moment which time zone it is shown in, and of every amount its unit', async () => {
    const comments = await mirror.rows<{ name: string; type: string; comment: string }>(
      `SELECT concat_ws('.', c.relname, a.attname) AS name, format_type(a.atttypid, NULL) AS type,
              col_description(c.oid, a.attnum) AS comment
         FROM pg_class c JOIN pg_attribute a ON a.attrelid = c.oid AND a.attnum > 0
        WHERE c.relnamespace = 'reporting'::regnamespace`,
    );
    for (const { name, type, comment } of comments) {
      if (type === 'timestamp with time zone') expect(comment, name).toContain('time zone');
      if (type === 'date') expect(comment, name).toContain('UTC');
      if (type === 'numeric') expect(comment, name).toMatch(/two decimals/);
    }
    expect(comments.length).toBeGreaterThan(200);
  });

  it('lets the planner know how common a state is, though its text has no index', async () => {
    await mirror.store.sellers.ensure('main', 'market.example');
    await mirror.pool.query(
      `INSERT INTO mirror.items (seller_id, item_id, name, state, first_seen_at, changed_at, valid_from,
         synced_run_id, content_hash, extra_hash, wire_hash, extra, raw)
       SELECT 'main', n, 'x', (CASE n % 10 WHEN 0 THEN 'removed' ELSE 'live' END)::mirror.item_state,
              now(), now(), now(), 1, '', '', '', '{}', '{}' FROM generate_series(1, 1000) AS n`,
    );
    await mirror.pool.query('ANALYZE mirror.items');
    const estimates = await Promise.all(
      ['live', 'removed'].map(async (state) => {
        const [row] = await mirror.rows<{ 'QUERY PLAN': { Plan: { 'Plan Rows': number } }[] }>(
          `EXPLAIN (FORMAT JSON) SELECT * FROM reporting.items WHERE state = '${state}'`,
        );
        return row?.['QUERY PLAN'][0]?.Plan['Plan Rows'];
      }),
    );
    expect(estimates).toEqual([900, 100]);
  });
});
