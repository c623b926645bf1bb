import { readFileSync } from 'node:fs';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { Mirror } from '../support/mirror.js';
import { offered } from './contract.js';
import { fillStore } from './data.js';

let mirror: Mirror;
beforeAll(async () => {
  mirror = await Mirror.open();
});
afterAll(() => mirror.close());

describe('schema reporting', () => {
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
    await mirror.pool.query(
      `INSERT INTO mirror.sellers (seller_id, marketplace) VALUES ('main', 'market.example')`,
    );
    await mirror.pool.query(
      `INSERT INTO mirror.items (seller_id, item_id, name, state, first_seen_at, changed_at, valid_from,
         synced_run_id, wire_hash, extra, raw)
       SELECT 'main', n, 'x', (CASE n % 10 WHEN 0 THEN 'removed' ELSE 'live' END)::mirror.item_state,
              now(), now(), now(), 1, '', '{}', '{}' FROM generate_series(1, 1000) AS n`,
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

const pageOf = (name: string): string =>
  readFileSync(new URL(`../../docs/${name}`, import.meta.url), 'utf8');
const TABLE = pageOf('reporting.md');
const DOCS = pageOf('views.md');

interface Section {
  readonly name: string;
  readonly columns: readonly string[];
  readonly examples: readonly string[];
}

/** The examples in a part of the document. */
function examplesIn(text: string): string[] {
  return [...text.matchAll(/^```sql(?: bi)?\n(.*?)^```$/gms)].map(([, sql = '']) => sql);
}

/** The columns that the document names, with those that it takes from the list of `reporting.items`. */
function columnsIn(text: string, items: readonly string[]): readonly string[] {
  const extra = items.findIndex((column) => column.startsWith('extra '));
  return text
    .replaceAll('`', '')
    .replace(/\s+/g, ' ')
    .split(/[,;] /)
    .flatMap((column) => {
      if (column === 'those of reporting.items before extra') return items.slice(0, extra);
      if (column === 'those of reporting.items from extra on') return items.slice(extra);
      if (column !== 'those of reporting.items')
        return column === 'without precision' ? [] : [column];
      return items.map((one) => one.replace('numeric(14,2)', 'numeric'));
    });
}

/** What the document says of each view and function. */
function sections(): Section[] {
  let items: readonly string[] = [];
  return DOCS.split(/^## /m)
    .slice(1)
    .map((text) => {
      const name = /^`reporting\.(\S+)`$/m.exec(text)?.[1] ?? text;
      const columns = columnsIn(/^Columns: (.*?)\n\n/ms.exec(text)?.[1] ?? '', items);
      if (name === 'items') items = columns;
      return { name, columns, examples: examplesIn(text) };
    });
}

describe('docs/views.md', () => {
  beforeAll(async () => {
    await mirror.reset();
    await fillStore(mirror);
    // Yesterday's noon is not a day ago before today's: one copy is older at any time of the day.
    await mirror.pool.query(
      `UPDATE mirror.runs SET finished_at = finished_at - interval '1 day' WHERE seller_id = 'second'`,
    );
  });

  it('is the contract: it lists all views and functions, and their columns in order', async () => {
    const told = sections().map(({ name, columns }) => [name, columns]);
    expect(Object.fromEntries(told)).toEqual(await offered(mirror.pool));
  });

  it('has an example of each, which answers with rows and whose every column has a name', async () => {
    for (const { name, examples } of sections()) {
      expect(examples.length, name).toBeGreaterThan(0);
      for (const sql of examples) expect(sql, name).toContain(`reporting.${name.split('(')[0]}`);
    }
    for (const sql of [TABLE, DOCS, pageOf('bi.md')].flatMap(examplesIn)) {
      const { rows, fields } = await mirror.pool.query(sql);
      expect(rows.length, sql).toBeGreaterThan(0);
      for (const { name } of fields) expect(name, sql).not.toMatch(/^\?column\?$/);
    }
  });

  it('names every view in its table', async () => {
    const table = TABLE.slice(TABLE.indexOf('| View '));
    const views = [...table.matchAll(/^\| `reporting\.(\w+)`/gm)].map(([, name]) => name);
    const all = Object.keys(await offered(mirror.pool)).filter((name) => !name.includes('('));
    expect(new Set(views)).toEqual(new Set(all));
    expect(views).toHaveLength(all.length);
  });
});
