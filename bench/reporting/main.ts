import { readFile } from 'node:fs/promises';
import { Client } from 'pg';
import { BenchDatabase } from '../database.js';
import type { Line } from '../table.js';
import { amountsFor, dataStatements } from './data.js';
import { QUERIES, type Query } from './queries.js';

/** A tenth of a second. */
const TARGET_MS = 100;

interface Timing {
  /** Planning and execution, as the server says. */
  readonly ms: number;
  /** CPU time where one process does it all; null where the system does not tell. */
  readonly cpuMs: number | null;
}

/**
 * Measures the views of schema reporting on a store that is as full as `items` calls for. Each query
 * is answered several times, and the least counts: what takes longer is the machine's other work.
 */
export async function reportingLines(items: number, repetitions: number): Promise<Line[]> {
  const database = await BenchDatabase.open();
  const client = new Client(database.url);
  try {
    await client.connect();
    process.stderr.write(`  filling a store for reports\n`);
    for (const statement of dataStatements(amountsFor(items))) await client.query(statement);
    const { rows } = await client.query<{ pid: number }>('SELECT pg_backend_pid() AS pid');
    const lines: Line[] = [];
    for (const query of QUERIES) {
      lines.push(lineOf(query, await measure(client, rows[0]?.pid ?? 0, query, repetitions)));
    }
    return lines;
  } finally {
    await client.end();
    await database.close();
  }
}

async function measure(
  client: Client,
  pid: number,
  { sql }: Query,
  repetitions: number,
): Promise<Timing> {
  const times: number[] = [];
  const cpuTimes: number[] = [];
  for (let n = 0; n < repetitions; n++) {
    times.push(await explain(client, sql));
    const cpuMs = await cpuOf(pid, () => serially(client, sql));
    if (cpuMs !== null) cpuTimes.push(cpuMs);
  }
  return {
    ms: Math.min(...times),
    cpuMs: cpuTimes.length === 0 ? null : Math.min(...cpuTimes),
  };
}

/** Milliseconds of planning and execution, as the server says. */
async function explain(client: Client, sql: string): Promise<number> {
  const { rows } = await client.query<{ 'QUERY PLAN': [Record<string, number>] }>(
    `EXPLAIN (ANALYZE, TIMING OFF, FORMAT JSON) ${sql}`,
  );
  const [plan] = rows[0]?.['QUERY PLAN'] ?? [];
  return (plan?.['Planning Time'] ?? Number.NaN) + (plan?.['Execution Time'] ?? Number.NaN);
}

/** Has one process answer, so that its CPU time is all that there is. */
async function serially(client: Client, sql: string): Promise<void> {
  await client.query('SET max_parallel_workers_per_gather = 0');
  await explain(client, sql);
  await client.query('RESET max_parallel_workers_per_gather');
}

async function cpuOf(pid: number, work: () => Promise<void>): Promise<number | null> {
  const before = await cpuNs(pid);
  await work();
  const after = await cpuNs(pid);
  return before === null || after === null ? null : (after - before) / 1e6;
}

/** Time that a process was on a CPU, in nanoseconds; null elsewhere than on Linux. */
async function cpuNs(pid: number): Promise<number | null> {
  const text = await readFile(`/proc/${pid}/schedstat`, 'utf8').catch(() => null);
  return text === null ? null : Number(text.split(' ')[0]);
}

function lineOf({ view, what, whole = false }: Query, { ms, cpuMs }: Timing): Line {
  return {
    what: `reporting.${view}: ${what}`,
    figure: `${ms.toFixed(1)} ms`,
    ratio: cpuMs === null ? '' : `CPU ${cpuMs.toFixed(1)} ms`,
    target: whole ? '' : `<= ${TARGET_MS} ms`,
    met: whole ? null : ms <= TARGET_MS,
  };
}
