import { defineConfig } from 'prisma/config';

// `generate` never runs the native schema engine, but Prisma downloads it first, from a host that closed
// networks block. Naming any executable avoids the download. Other Prisma commands need the real engine.
if (process.argv.includes('generate')) {
  process.env['PRISMA_SCHEMA_ENGINE_BINARY'] ??= process.execPath;
}

/** By default, Prisma stores the migration history in schema `public`. */
function inOwnSchema(databaseUrl: string): string {
  if (!URL.canParse(databaseUrl)) return databaseUrl;
  const url = new URL(databaseUrl);
  url.searchParams.set('schema', 'mirror');
  return url.href;
}

export default defineConfig({
  schema: 'prisma/schema.prisma',
  migrations: { path: 'prisma/migrations' },
  // Only Prisma's commands read this. The product connects through its store.
  datasource: { url: inOwnSchema(process.env['DATABASE_URL'] ?? 'postgresql://localhost/unset') },
});
