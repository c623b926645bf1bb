import { onlyRow } from '../db/connection.js';
import { readBoard } from '../service/board.js';
import type { App } from '../app.js';

/** The numbers beside the sections of the dashboard. */
export interface NavCounts {
  /** Things that need somebody. */
  readonly needs: number;
  /** Checks that are running. */
  readonly checking: number;
  readonly codes: number;
  /** Items of the copies that are not removed. */
  readonly items: number;
  /** Changes of the last day. */
  readonly changes: number;
}

export async function readNavCounts(parts: Pick<App, 'config' | 'db'>): Promise<NavCounts> {
  const [{ needs }, counted] = await Promise.all([
    readBoard(parts.db, parts.config, new Date()),
    parts.db.pool.query<Omit<NavCounts, 'needs'>>(
      `SELECT (SELECT count(*)::int FROM mirror.audits WHERE state = 'running') AS checking,
              (SELECT count(*)::int FROM mirror.purchase_codes WHERE merged_into IS NULL) AS codes,
              (SELECT count(*)::int FROM mirror.items WHERE state <> 'removed') AS items,
              (SELECT count(*)::int FROM mirror.item_changes WHERE changed_at > now() - interval '1 day') AS changes`,
    ),
  ]);
  return { needs: needs.length, ...onlyRow(counted) };
}
