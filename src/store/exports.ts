import type { Client } from 'pg';
import { exportView, type Exported, type ExportRequest } from './export-view.js';
import { feedRule } from './feed-rules.js';
import { withOwnClient } from './own-client.js';

/** A view that can be exported. */
export interface ExportableView {
  readonly name: string;
  /** What it holds, for people. */
  readonly comment: string | null;
  /** Its rows can be told apart by sellers. */
  readonly bySeller: boolean;
  /** Columns that tell its rows apart; null when only whole exports of it are to be had. */
  readonly key: readonly string[] | null;
}

/** What can be exported, on a connection of its own. */
export class Exports {
  readonly #client: Client;

  constructor(client: Client) {
    this.#client = client;
  }

  /** The views that there are, by name. */
  async views(): Promise<ExportableView[]> {
    const { rows } = await this.#client.query<Omit<ExportableView, 'key'>>(
      `SELECT c.relname AS name, obj_description(c.oid, 'pg_class') AS comment,
              EXISTS (SELECT FROM pg_attribute a
                       WHERE a.attrelid = c.oid AND a.attname = 'seller_id') AS "bySeller"
         FROM pg_class c WHERE c.relnamespace = 'reporting'::regnamespace AND c.relkind IN ('v', 'm')
        ORDER BY c.relname`,
    );
    return rows.map((view) => ({ ...view, key: feedRule(view.name)?.key ?? null }));
  }

  /** The sellers that the store holds, by name. */
  async sellers(): Promise<string[]> {
    const { rows } = await this.#client.query<{ name: string }>(
      'SELECT seller_id AS name FROM mirror.sellers ORDER BY 1',
    );
    return rows.map(({ name }) => name);
  }

  /**
   * Hands the rows of a view, as they are at one moment, to `consume`.
   * @throws {CursorAheadError} when the cursor was not given by this store
   * @throws {FeedBusyError} when writers are in the way for long
   */
  read<T>(request: ExportRequest, consume: (exported: Exported) => Promise<T>): Promise<T> {
    return exportView(this.#client, request, consume);
  }
}

/** Works on exports. `signal` ends what is under way. */
export function withExports<T>(
  url: string,
  signal: AbortSignal,
  work: (exports: Exports) => Promise<T>,
): Promise<T> {
  return withOwnClient(url, 'export', signal, (client) => work(new Exports(client)));
}
