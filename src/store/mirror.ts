import { StoreError } from './errors.js';
import { describeEmbedded, openEmbedded } from './embedded/index.js';
import type { PrismaClient, Prisma } from './generated/prisma/client.js';
import { openPrisma } from './prisma.js';

export type { Prisma };

export interface MirrorOptions {
  /** PostgreSQL connection URL. Default: the embedded server under `dataDir`. */
  readonly databaseUrl?: string | undefined;
  /** Data folder of the embedded server. Default: `./data`, as for `DATA_DIR`. */
  readonly dataDir?: string | undefined;
}

type Reads =
  | 'findUnique'
  | 'findUniqueOrThrow'
  | 'findFirst'
  | 'findFirstOrThrow'
  | 'findMany'
  | 'count'
  | 'aggregate'
  | 'groupBy';

type ModelProperty = Uncapitalize<Prisma.ModelName>;

/**
 * Prisma Client without its write methods. `mirror.reportingPriceChanges` reads the view
 * `reporting.price_changes`, and so on. Models without `reporting` in their name are the tables behind
 * the views; they may change in any version.
 */
export type Mirror = {
  readonly [Model in ModelProperty]: Pick<PrismaClient[Model], Reads & keyof PrismaClient[Model]>;
} & Pick<PrismaClient, '$queryRaw' | '$transaction'> & {
    close(): Promise<void>;
  };

/** There is no mirror to read. */
class NoMirrorError extends StoreError {
  readonly code = 'NO_MIRROR';
}

/**
 * Opens the mirror for programs that read it. PostgreSQL refuses every write. This creates and migrates
 * nothing: run a command such as `sync` or `migrate` first.
 * @throws {StoreError} if there is no embedded mirror under `dataDir`, or it can't be started
 */
export async function openMirror(options: MirrorOptions = {}): Promise<Mirror> {
  const { databaseUrl, dataDir = './data' } = options;
  const embedded = databaseUrl === undefined ? await useEmbedded(dataDir) : null;
  const prisma = openPrisma({
    connectionString: databaseUrl ?? embedded?.url,
    application_name: APPLICATION_NAME,
    connectionTimeoutMillis: 30_000,
    // As a statement, since connection poolers refuse or ignore connection options.
    // oxlint-disable-next-line typescript/no-misused-promises -- pg-pool awaits it, but its types don't say so
    onConnect: async (client) => {
      await client.query('SET default_transaction_read_only = on');
    },
  });
  return Object.assign(prisma, {
    close: async () => {
      await prisma.$disconnect();
      await embedded?.close();
    },
  });
}

const APPLICATION_NAME = 'seller-mirror library';

async function useEmbedded(dataDir: string): ReturnType<typeof openEmbedded> {
  if ((await describeEmbedded(dataDir)) === null) {
    throw new NoMirrorError(
      `there is no mirror under ${dataDir}`,
      'Set dataDir or databaseUrl to an existing mirror, or run `seller-mirror sync` first.',
    );
  }
  return openEmbedded({ dataDir, applicationName: APPLICATION_NAME });
}
