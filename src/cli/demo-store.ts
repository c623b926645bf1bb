import type { Db } from '../db/db.js';

/**
 * Moves all times that the mirror recorded back by some days, so that what was just done looks older. The dates that
 * the marketplace gave stay. For the demo's own store only.
 */
export async function backdate({ pool }: Db, days: number): Promise<void> {
  await pool.query(
    `DO $$
     DECLARE one record;
     BEGIN
       FOR one IN
         SELECT c.table_name AS name,
                string_agg(format('%1$I = %1$I - interval ''${Math.floor(days)} days''', c.column_name), ', ') AS sets
           FROM information_schema.columns c
           JOIN information_schema.tables t USING (table_schema, table_name)
          WHERE c.table_schema = 'mirror' AND t.table_type = 'BASE TABLE'
            AND c.data_type = 'timestamp with time zone'
            AND c.column_name NOT IN ('published_at', 'registered_at', 'purchased_at', 'supported_until')
          GROUP BY 1
       LOOP
         EXECUTE format('UPDATE mirror.%I SET %s', one.name, one.sets);
       END LOOP;
     END $$`,
  );
}
