import type { App } from '../app.js';
import type { Queues } from '../queue/queues.js';
import { migrationState } from '../store/migrate.js';

/** Something that must work for the process to do its work. */
export interface NamedCheck {
  readonly name: string;
  /**
   * Resolves to nothing when it works, and otherwise to the reason, which anybody may read. Of an
   * error only the code is shown, since its text may hold an address with a password.
   */
  readonly check: () => Promise<string | void>;
}

/** What `/readyz` looks at. */
export function checksOf(
  app: App,
  queues: Queues,
  isStopping: () => boolean,
): readonly NamedCheck[] {
  return [
    {
      name: 'running',
      check: () => Promise.resolve(isStopping() ? 'it is stopping' : undefined),
    },
    { name: 'store', check: () => app.store.ping() },
    {
      name: 'schema',
      check: async () => {
        const { pending, unknown } = await migrationState(app.database.url);
        if (pending.length > 0) return `migrations are pending: ${pending.join(', ')}`;
        return unknown.length > 0 ? 'it was migrated by a newer version' : undefined;
      },
    },
    { name: 'queue', check: () => queues.ping() },
  ];
}
