import { Client } from 'pg';
import type { Market } from './market.js';

export interface Comparison {
  readonly listed: number;
  /** Sentences; empty when the store equals the marketplace. */
  readonly differences: readonly string[];
  readonly runs: Readonly<Record<string, number>>;
  /** Jobs that did the same catalogue twice with success. */
  readonly doubled: number;
}

/** Whether every seller has a catalogue run that began after `since` and succeeded. */
export async function allMirroredSince(url: string, market: Market, since: Date): Promise<boolean> {
  return await withClient(url, async (client) => {
    const { rows } = await client.query<{ fresh: string }>(
      `SELECT count(DISTINCT seller_id) AS fresh FROM mirror.runs
        WHERE kind = 'items' AND state = 'succeeded' AND started_at > $1`,
      [since],
    );
    return Number(rows[0]?.fresh) === market.sellers.length;
  });
}

/** Compares each seller's live items with what is listed. */
export async function compare(url: string, market: Market): Promise<Comparison> {
  return await withClient(url, async (client) => {
    const differences: string[] = [];
    let listed = 0;
    for (const seller of market.sellers) {
      const { rows } = await client.query<{ id: string; said: string }>(
        `SELECT item_id AS id, name || ' ' || (price_regular * 100)::bigint AS said
           FROM mirror.items WHERE seller_id = $1 AND state = 'live'`,
        [seller],
      );
      const stored = new Map(rows.map(({ id, said }) => [Number(id), said]));
      const truth = market.truthOf(seller);
      listed += truth.size;
      for (const [id, said] of truth) {
        const own = stored.get(id);
        if (own !== said)
          differences.push(`${seller} ${id}: "${own ?? 'not there'}", not "${said}"`);
      }
      for (const id of stored.keys()) {
        if (!truth.has(id)) differences.push(`${seller} ${id}: live, but not listed`);
      }
    }
    const runs = await client.query<{ what: string; number: string }>(
      `SELECT kind || ' ' || state AS what, count(*) AS number FROM mirror.runs
        GROUP BY 1 ORDER BY 1`,
    );
    const doubled = await client.query<{ number: string }>(
      `SELECT count(*) AS number FROM (
         SELECT FROM mirror.runs WHERE kind = 'items' AND state = 'succeeded' AND job_id IS NOT NULL
          GROUP BY job_id HAVING count(*) > 1) AS twice`,
    );
    return {
      listed,
      differences,
      runs: Object.fromEntries(runs.rows.map(({ what, number }) => [what, Number(number)])),
      doubled: Number(doubled.rows[0]?.number),
    };
  });
}

async function withClient<T>(url: string, work: (client: Client) => Promise<T>): Promise<T> {
  const client = new Client(url);
  await client.connect();
  try {
    return await work(client);
  } finally {
    await client.end();
  }
}
