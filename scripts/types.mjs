/**
 * Writes dist/index.d.ts, the types of the package: what src/index.ts exports, in one file. `npm pack` and
 * `npm publish` run it after the build. The client of `openMirror` is typed for the reporting views only, since the
 * tables behind them may change in any version.
 *
 *   node scripts/types.mjs [FOLDER]    # FOLDER in place of dist
 */
import { spawnSync } from 'node:child_process';
import { cpSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { rollup } from 'rollup';
import { dts } from 'rollup-plugin-dts';

process.chdir(fileURLToPath(new URL('..', import.meta.url)));
const [out = 'dist'] = process.argv.slice(2);
// In the project, so that packages are found from there.
const work = `.dist-types-${process.pid}`;

/** Runs a program of a package, and ends this one if it fails. */
function run(path, ...args) {
  const { status } = spawnSync(process.execPath, [join('node_modules', path), ...args], {
    stdio: ['ignore', 'ignore', 'inherit'],
  });
  if (status !== 0) throw new Error(`${path} ended with ${status}`);
}

try {
  cpSync('src', join(work, 'src'), { recursive: true });
  rmSync(join(work, 'src/db/generated'), { recursive: true });
  const schema = readFileSync('prisma/schema.prisma', 'utf8');
  const parts = schema.match(/^(?:\/\/\/.*\n)*(?:generator|datasource|view) [^]*?^\}/gm) ?? [];
  const views = join(work, 'views.prisma');
  writeFileSync(
    views,
    parts
      .join('\n\n')
      .replace('../src/db', 'src/db')
      .replace('"mirror", "reporting"', '"reporting"'),
  );
  run('prisma/build/index.js', 'generate', '--no-hints', '--schema', views);
  writeFileSync(
    join(work, 'tsconfig.json'),
    JSON.stringify({
      extends: '../tsconfig.json',
      compilerOptions: {
        ...{ noEmit: false, rootDir: 'src', outDir: 'types' },
        ...{ declaration: true, emitDeclarationOnly: true },
      },
      files: ['src/index.ts'],
      include: ['src/**/*.d.ts'],
    }),
  );
  run('typescript/bin/tsc', '-p', work);
  const bundle = await rollup({
    input: join(work, 'types/index.d.ts'),
    external: (id) => !/^[./]/.test(id),
    plugins: [dts()],
  });
  await bundle.write({ file: join(out, 'index.d.ts'), format: 'es' });
  await bundle.close();
} finally {
  rmSync(work, { recursive: true, force: true });
}
