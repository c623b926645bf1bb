import { execFile } from 'node:child_process';
import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { Client } from 'pg';

const run = promisify(execFile);

/** Rows of any table in which a text occurs, by table; none is as it should be. */
export async function inDatabase(url: string, text: string): Promise<Record<string, number>> {
  const client = new Client(url);
  await client.connect();
  try {
    const { rows: tables } = await client.query<{ name: string }>(
      `SELECT format('%I.%I', schemaname, tablename) AS name FROM pg_tables
        WHERE schemaname NOT IN ('pg_catalog', 'information_schema')`,
    );
    const found: Record<string, number> = {};
    for (const { name } of tables) {
      const { rows } = await client.query<{ rows: number }>(
        `SELECT count(*)::int AS rows FROM ${name} AS t WHERE position($1 IN t::text) > 0`,
        [text],
      );
      if (rows[0] !== undefined && rows[0].rows > 0) found[name] = rows[0].rows;
    }
    return found;
  } finally {
    await client.end();
  }
}

/** How often any of the texts occurs in the append-only files of a Redis: in all that was ever written. */
export async function inRedis(url: string, texts: readonly string[]): Promise<number> {
  const ask = async (what: string): Promise<string> => {
    const { stdout } = await run('redis-cli', ['-u', url, 'config', 'get', what]);
    return stdout.trimEnd().split('\n')[1] ?? '';
  };
  const folder = join(await ask('dir'), await ask('appenddirname'));
  return readdirSync(folder).reduce(
    (sum, file) => sum + occurrences(readFileSync(join(folder, file), 'latin1'), texts),
    0,
  );
}

export function occurrences(text: string, parts: readonly string[]): number {
  return parts.reduce((sum, part) => sum + text.split(part).length - 1, 0);
}
