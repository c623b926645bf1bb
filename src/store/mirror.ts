import { StoreError } from './errors.js';
import { describeEmbedded, openEmbedded } from './embedded/index.js';
import type { PrismaClient, Prisma } from './generated/prisma/client.js';
import { openPrisma } from './prisma.js';

export type { Prisma };

export interface MirrorOptions {
  /** PostgreSQL connection URL. Without one, the embedded server under `dataDir` is used. */
  readonly databaseUrl?: string | undefined;
  /** Where the embedded server keeps its data; `./data` by default, as for `DATA_DIR`. */
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
 * Prisma Client without its writes. `mirror.reportingPriceChanges` reads the view
 * `reporting.price_changes`, and so on. Models without `reporting` in their name are the tables
 * behind the views: they may change with any version.
 */
export type Mirror = {
  readonly [Model in ModelProperty]: Pick<PrismaClient[Model], Reads & keyof PrismaClient[Model]>;
} & Pick<PrismaClient, '$queryRaw' | '$transaction'> & {
    close(): Promise<void>;
  };

/** There is no mirror to read. */
export class NoMirrorError extends StoreError {
  readonly code = 'NO_MIRROR';
}

/**
 * Opens the mirror for programs that report from it. PostgreSQL refuses every write.
 * It creates and migrates nothing: run a command such as `sync` or `migrate` first.
 * @throws {StoreError} when there is no embedded mirror under `dataDir`, or it can't be started
 */
export async function openMirror(options: MirrorOptions = {}): Promise<Mirror> {
  const { databaseUrl, dataDir = './data' } = options;
  const embedded = databaseUrl === undefined ? await useEmbedded(dataDir) : null;
  const prisma = openPrisma({
    connectionString: databaseUrl ?? embedded?.url,
    application_name: APPLICATION_NAME,
    connectionTimeoutMillis: 30_000,
    // A statement, since connection poolers refuse or ignore options of the connection.
    // oxlint-disable-next-line typescript/no-misused-promises -- pg-pool awaits it; its types don't tell
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
      'Name the folder in dataDir or the database in databaseUrl, or run `seller-mirror sync` first.',
    );
  }
  return openEmbedded({ dataDir, applicationName: APPLICATION_NAME });
}
