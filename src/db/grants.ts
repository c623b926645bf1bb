import { readFile } from 'node:fs/promises';
import { withOwnClient } from './pools.js';

const SCRIPT = new URL('../../prisma/grants.sql', import.meta.url);

/** Lets the role `reporting_reader` read schema `reporting`, also after updates. Repeatable. */
export async function grantReports(url: string, signal: AbortSignal): Promise<void> {
  const script = await readFile(SCRIPT, 'utf8');
  await withOwnClient(url, 'db', signal, (client) => client.query(script));
}
