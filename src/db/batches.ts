import type { QueryResult, QueryResultRow } from 'pg';
import type { Db } from './db.js';
import { openLongConnection } from './locks.js';

/**
 * Yields the rows of a query in batches of `size`, in bounded memory. All come from one snapshot, however long the
 * caller takes. Uses a connection of its own. The next batch is fetched while the caller handles this one.
 */
export async function* readBatches<Row extends QueryResultRow>(
  db: Db,
  query: string,
  values: unknown[],
  size: number,
): AsyncGenerator<readonly Row[], void, undefined> {
  const { client, release } = await openLongConnection(db);
  let isFinished = false;
  const fetch = (): Promise<QueryResult<Row>> => {
    const batch = client.query<Row>(`FETCH ${size} FROM batches`);
    // The loop below throws this error. A caller that stops early never awaits it.
    batch.catch(() => undefined);
    return batch;
  };
  try {
    await client.query('BEGIN TRANSACTION READ ONLY');
    await client.query(`DECLARE batches NO SCROLL CURSOR FOR ${query}`, values);
    let batch = fetch();
    for (;;) {
      const { rows } = await batch;
      if (rows.length === 0) break;
      batch = fetch();
      yield rows;
    }
    await client.query('COMMIT');
    isFinished = true;
  } finally {
    // If the caller stopped early, a fetch may be under way: close the connection then.
    release(isFinished);
  }
}
