import { UserError } from '../domain/user-error.js';
import type { Pool } from 'pg';
import { explainDatabaseError, shownUrl } from './errors.js';
import { describeEmbedded, openEmbedded } from './embedded/index.js';
import type { PrismaClient, Prisma } from './generated/prisma/client.js';
import { createPool } from './pools.js';
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

/**
 * Opens the mirror for programs that read it. PostgreSQL refuses every write. This creates and migrates
 * nothing: run a command such as `sync` or `migrate` first.
 * @throws {UserError} if `databaseUrl` is no address, the server can't be reached, or there is no mirror
 */
export async function openMirror(options: MirrorOptions = {}): Promise<Mirror> {
  const { databaseUrl, dataDir = './data' } = options;
  if (databaseUrl !== undefined && !/^postgres(?:ql)?:\/\//.test(databaseUrl)) {
    throw new UserError(
      databaseUrl === '' ? 'databaseUrl is empty' : 'databaseUrl is not an address of PostgreSQL',
      'Give one such as postgresql://user:password@host:5432/database, or leave databaseUrl out to use the embedded server under dataDir.',
      'DATABASE_URL',
    );
  }
  const embedded = databaseUrl === undefined ? await useEmbedded(dataDir) : null;
  const url = databaseUrl ?? embedded?.url ?? '';
  const { pool, end } = createPool(url, {
    application_name: APPLICATION_NAME,
    onConnect: (client) => client.query('SET default_transaction_read_only = on'),
  });
  const close = async (): Promise<void> => {
    await end(CLOSE_MS);
    await embedded?.close();
  };
  try {
    await assertMirror(pool, url);
  } catch (error) {
    await close();
    throw error;
  }
  const prisma = openPrisma(pool);
  return Object.assign(prisma, {
    close: async () => {
      await prisma.$disconnect();
      await close();
    },
  });
}

const APPLICATION_NAME = 'seller-mirror library';
const CLOSE_MS = 5_000;

async function assertMirror(pool: Pool, url: string): Promise<void> {
  const { rows } = await pool
    .query<{ exists: boolean }>(`SELECT to_regnamespace('reporting') IS NOT NULL AS exists`)
    .catch((error: unknown) => {
      throw explainDatabaseError(error, url) ?? error;
    });
  if (rows[0]?.exists === true) return;
  throw new UserError(
    `there is no mirror in ${shownUrl(url)}`,
    'Set databaseUrl to an existing mirror, or run `seller-mirror sync` first.',
    'NO_MIRROR',
  );
}

async function useEmbedded(dataDir: string): ReturnType<typeof openEmbedded> {
  if ((await describeEmbedded(dataDir)) === null) {
    throw new UserError(
      `there is no mirror under ${dataDir}`,
      'Set dataDir or databaseUrl to an existing mirror, or run `seller-mirror sync` first.',
      'NO_MIRROR',
    );
  }
  return openEmbedded({ dataDir, applicationName: APPLICATION_NAME });
}
