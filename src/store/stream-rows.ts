import type { QueryResult, QueryResultRow } from 'pg';
import { openLong, type LockPools } from './advisory-lock.js';

/** Rows of one portion; the next one is fetched while the caller is at work on this one. */
const PORTION = 1_000;

/**
 * The answer to a query in portions, in bounded memory: all of it as of the moment of the first. Whoever
 * reads may take any time, on a connection of its own.
 */
export async function* streamRows<R extends QueryResultRow>(
  pools: LockPools,
  sql: string,
  values: readonly unknown[],
): AsyncGenerator<readonly R[], void, undefined> {
  const { client, release } = await openLong(pools);
  let isDone = false;
  const fetch = (): Promise<QueryResult<R>> => {
    const portion = client.query<R>(`FETCH ${PORTION} FROM streamed`);
    // Told when it is waited for; a caller that turns away does not wait for it.
    portion.catch(() => undefined);
    return portion;
  };
  try {
    await client.query('BEGIN TRANSACTION READ ONLY');
    await client.query(`DECLARE streamed NO SCROLL CURSOR FOR ${sql}`, [...values]);
    let portion = fetch();
    for (;;) {
      const { rows } = await portion;
      if (rows.length === 0) break;
      portion = fetch();
      yield rows;
    }
    await client.query('COMMIT');
    isDone = true;
  } finally {
    // Of a caller that turned away, the connection may be in the middle of an answer.
    release(isDone);
  }
}
