import { DbClient } from '../../src/db/connection.js';

/** Returns the address of another database on the same server. */
export function databaseAt(url: string, database: string): string {
  const address = new URL(url);
  address.pathname = `/${database}`;
  return address.href;
}

/** Runs statements on a new connection. @returns the rows of the last one */
export async function query(
  url: string,
  ...statements: readonly string[]
): Promise<Record<string, unknown>[]> {
  const client = new DbClient(url);
  client.on('error', () => undefined); // the current statement reports it
  await client.connect();
  try {
    let rows: Record<string, unknown>[] = [];
    for (const sql of statements) ({ rows } = await client.query<Record<string, unknown>>(sql));
    return rows;
  } finally {
    await client.end();
  }
}
