import { defineConfig } from 'prisma/config';

// `generate` never runs the native schema engine, yet Prisma downloads it first, from a host that
// closed networks block. Naming any existing executable avoids the download. Only for `generate`:
// every other command of Prisma's needs the real engine and must be free to fetch it.
if (process.argv.includes('generate')) {
  process.env['PRISMA_SCHEMA_ENGINE_BINARY'] ??= process.execPath;
}

/** Prisma keeps the history of migrations in schema `public` unless it is told otherwise. */
function inOwnSchema(databaseUrl: string): string {
  if (!URL.canParse(databaseUrl)) return databaseUrl;
  const url = new URL(databaseUrl);
  url.searchParams.set('schema', 'mirror');
  return url.href;
}

export default defineConfig({
  schema: 'prisma/schema.prisma',
  migrations: { path: 'prisma/migrations' },
  // Only Prisma's own commands read this; the product connects through its store.
  datasource: { url: inOwnSchema(process.env['DATABASE_URL'] ?? 'postgresql://localhost/unset') },
});
