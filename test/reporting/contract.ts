import type { Pool } from 'pg';

/** As PostgreSQL calls a column's type, but for moments, which all have microseconds. */
const TYPE = `regexp_replace(format_type(a.atttypid, a.atttypmod), '^timestamp.* with time zone$', 'timestamptz')`;

/** What schema reporting offers: views, and functions by their signature, with columns in order. */
export async function offered(pool: Pool): Promise<Record<string, string[]>> {
  const { rows } = await pool.query<{ name: string; columns: string[] }>(
    `SELECT c.relname AS name, array_agg(a.attname || ' ' || ${TYPE} ORDER BY a.attnum) AS columns
       FROM pg_class c JOIN pg_attribute a ON a.attrelid = c.oid AND a.attnum > 0
      WHERE c.relnamespace = 'reporting'::regnamespace AND c.relkind IN ('r', 'v', 'm', 'f', 'p')
      GROUP BY c.oid
     UNION ALL
     SELECT format('%s(%s)', p.proname, replace(oidvectortypes(p.proargtypes), 'timestamp with time zone', 'timestamptz')),
            array_agg(name || ' ' || replace(format_type(type, NULL), 'timestamp with time zone', 'timestamptz') ORDER BY place) FILTER (WHERE mode = 't')
       FROM pg_proc p, unnest(p.proargnames, p.proallargtypes, p.proargmodes) WITH ORDINALITY AS a (name, type, mode, place)
      WHERE p.pronamespace = 'reporting'::regnamespace
      GROUP BY p.oid`,
  );
  return Object.fromEntries(rows.map(({ name, columns }) => [name, columns]));
}
