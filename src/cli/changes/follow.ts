import { setTimeout as sleep } from 'node:timers/promises';
import { explainDatabaseError } from '../../store/errors.js';
import type { ChangeFilter, ItemChange } from '../../store/history-read.js';
import type { Store } from '../../store/store.js';

/** New changes are looked for so often. */
const PAUSE_MS = 1_000;
const PAGE = 500;

export interface Following {
  readonly store: Pick<Store, 'items'>;
  /** Explains what the database driver throws; never shown. */
  readonly databaseUrl: string;
  readonly filter: Omit<ChangeFilter, 'after'>;
  /** The place in the feed to go on after. */
  readonly after: bigint;
  /** Told when the database can't be reached, and when it can again. */
  readonly onOutage: (problem: string | null) => void;
}

/**
 * Changes as they are committed, in pages, until the signal: none is missed and none comes twice,
 * whatever happens to the database meanwhile. Polling also reaches through poolers and past
 * connections that died in silence, which notifications do not.
 */
export async function* followChanges(
  { store, databaseUrl, filter, after, onOutage }: Following,
  signal: AbortSignal,
): AsyncGenerator<readonly ItemChange[], void, undefined> {
  let [place, out] = [after, false];
  while (!signal.aborted) {
    let page: readonly ItemChange[] = [];
    try {
      page = await store.items.changes({ ...filter, after: place, limit: PAGE });
      if (out) onOutage(null);
      out = false;
    } catch (error) {
      const problem = explainDatabaseError(error, databaseUrl);
      if (problem === null) throw error;
      if (!out) onOutage(problem.message);
      out = true;
    }
    place = page.at(-1)?.seq ?? place;
    if (page.length > 0) yield page;
    if (page.length < PAGE) await sleep(PAUSE_MS, undefined, { signal }).catch(() => undefined);
  }
}
