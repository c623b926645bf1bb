import type { Config } from '../../config/index.js';
import { describeEmbedded, openEmbedded } from '../../store/embedded/index.js';
import { CommandError } from '../errors.js';

/** A store that is open, its schema as it was found. */
export interface FoundStore {
  readonly url: string;
  close(): Promise<void>;
}

/**
 * Opens the configured store and leaves its schema alone, so that a backup can be made before
 * another version of the program migrates it.
 * @throws {CommandError} when there is no embedded store yet
 */
export async function findStore(
  { databaseUrl, dataDir }: Config,
  applicationName: string,
  signal: AbortSignal,
): Promise<FoundStore> {
  if (databaseUrl !== null) return { url: databaseUrl.reveal(), close: () => Promise.resolve() };
  if ((await describeEmbedded(dataDir)) === null) {
    throw new CommandError(
      `there is no database in ${dataDir} yet`,
      'DATA_DIR says where it is; `seller-mirror sync` begins one',
    );
  }
  return openEmbedded({ dataDir, applicationName, signal });
}
