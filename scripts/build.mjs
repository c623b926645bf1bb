/**
 * Builds dist/ from src/: JavaScript with source maps. `scripts/types.mjs` adds the types of the package.
 * `--if-old`: only if a source is newer, and in spite of type errors, which `npm run types` reports.
 * dist/ is replaced by renaming, so that programs and tests beside it never see a partial one.
 */
import { spawnSync } from 'node:child_process';
import { cpSync, existsSync, readdirSync, renameSync, rmSync, statSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';

const ROOT = fileURLToPath(new URL('..', import.meta.url));
const CLIENT = 'src/db/generated/prisma/client.ts';
const ifOld = process.argv.includes('--if-old');
process.chdir(ROOT);

/** Milliseconds since 1970 at which a file was written; 0 if there is none. */
const writtenAt = (path) => statSync(path, { throwIfNoEntry: false })?.mtimeMs ?? 0;

function isBuilt() {
  // Declarations are not compiled. Each `prisma generate` writes the generated client again, changed or not.
  const names = readdirSync('src', { recursive: true, encoding: 'utf8' }).filter(
    (name) => /\.(?:tsx?|css)$/.test(name) && !/\.d\.ts$|^db.generated/.test(name),
  );
  const isNew = (built, source) => writtenAt(built) >= writtenAt(source) && existsSync(built);
  return (
    isNew('dist/db/generated/prisma/client.js', 'prisma/schema.prisma') &&
    names.every((name) => isNew(join('dist', name.replace(/tsx?$/, 'js')), join('src', name)))
  );
}

/** Runs a program of a package. Ends the build if it fails, unless `mayFail`. */
function run(path, args, mayFail = false) {
  const { status } = spawnSync(process.execPath, [join('node_modules', path), ...args], {
    stdio: mayFail ? 'ignore' : ['ignore', 'inherit', 'inherit'],
  });
  if (status !== 0 && !mayFail) process.exit(status ?? 1);
}

function build() {
  if (!ifOld || writtenAt(CLIENT) < writtenAt('prisma/schema.prisma')) {
    run('prisma/build/index.js', ['generate', '--no-hints']);
  }
  const fresh = `.dist-${process.pid}`;
  const old = `.dist-${process.pid}-old`;
  const compile = (project, folder) =>
    run('typescript/bin/tsc', ['-p', project, '--outDir', folder], ifOld);
  try {
    compile('tsconfig.build.json', fresh);
    compile('src/dashboard/client', join(fresh, 'dashboard/client'));
    cpSync('src/dashboard/styles.css', join(fresh, 'dashboard/styles.css'));
    if (existsSync('dist')) renameSync('dist', old);
    renameSync(fresh, 'dist');
  } catch (error) {
    // A build beside this one was faster.
    if (!['ENOENT', 'ENOTEMPTY', 'EEXIST'].includes(error.code)) throw error;
  } finally {
    rmSync(fresh, { recursive: true, force: true });
    rmSync(old, { recursive: true, force: true });
  }
}

// An installed package has neither sources nor compilers.
if (existsSync('src') && existsSync('node_modules/typescript') && !(ifOld && isBuilt())) build();
