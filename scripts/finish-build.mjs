/**
 * The last step of the build: turns the compiler's output into the published package.
 * Usage: finish-build.mjs [folder, default `dist`]
 */
import { copyFile, readdir, readFile, rm, writeFile } from 'node:fs/promises';
import { createRequire } from 'node:module';
import { dirname, join, relative, resolve } from 'node:path';
import { fileURLToPath, pathToFileURL } from 'node:url';
import { rolldown } from 'rolldown';

const DIST = resolve(process.argv[2] ?? fileURLToPath(new URL('../dist', import.meta.url)));
const STORE = join(DIST, 'store');
const GENERATED = join(STORE, 'generated/prisma');

await bundlePrisma();
await bundleZod();
await copyPrismaTypes();
await removeUnusedTypes();
await writeOutlines();

/**
 * Bundles Prisma's code into `store/prisma.js`. Prisma's packages as dependencies would also install its tools,
 * which are three quarters of an install and which the product never runs.
 */
async function bundlePrisma() {
  const bundle = await rolldown({
    input: join(STORE, 'prisma.js'),
    platform: 'node',
    external: [/^node:/, /^pg$/],
  });
  const { output } = await bundle.write({
    dir: STORE,
    entryFileNames: '[name].js',
    // The query compiler, loaded at the first query.
    chunkFileNames: 'generated/prisma/[name].js',
    minify: true,
  });
  const written = new Set(output.map(({ fileName }) => join(STORE, fileName)));
  for (const path of await filesIn(GENERATED, /\.js(?:\.map)?$/)) {
    if (!written.has(path)) await rm(path);
  }
  await rm(join(STORE, 'prisma.js.map'), { force: true });
  await writeFile(join(STORE, 'prisma.LICENSES.txt'), await licencesOf(output));
}

/** Bundles zod into one file, which loads 40 ms faster than its hundred files. Half of them are translations. */
async function bundleZod() {
  const file = join(DIST, 'config/zod.js');
  await writeFile(file, "export { z } from 'zod';\n");
  const english = {
    name: 'english',
    load: (id) =>
      id.endsWith('zod/v4/locales/index.js') ? "export { default as en } from './en.js';" : null,
  };
  const bundle = await rolldown({ input: file, platform: 'node', plugins: [english] });
  const { output } = await bundle.write({ file, minify: true });
  await writeFile(join(DIST, 'config/zod.LICENSES.txt'), await licencesOf(output));
  for (const path of await filesIn(DIST, /\.js$/)) {
    const text = await readFile(path, 'utf8');
    const near = relative(dirname(path), file).replaceAll('\\', '/');
    const own = text.replace(
      / from 'zod';/,
      ` from '${near.startsWith('.') ? near : `./${near}`}';`,
    );
    if (own !== text) await writeFile(path, own);
  }
}

/** Returns the licences of the bundled packages, which must be distributed with them. */
async function licencesOf(output) {
  const packages = output
    .flatMap(({ moduleIds = [] }) => moduleIds)
    .flatMap((path) => /^.*node_modules\/(?:@[^/]+\/)?[^/]+/.exec(path) ?? []);
  const texts = [...new Set(packages)].map(async (folder) => {
    const { name, version } = JSON.parse(await readFile(join(folder, 'package.json'), 'utf8'));
    const file = (await readdir(folder)).find((one) => /^licen[cs]e/i.test(one));
    if (file === undefined) throw new Error(`${name} has no licence file`);
    return `${name} ${version}\n\n${await readFile(join(folder, file), 'utf8')}`;
  });
  return (await Promise.all(texts)).join(`\n${'-'.repeat(80)}\n\n`);
}

/** Copies Prisma's types, which the generated types import. */
async function copyPrismaTypes() {
  const client = createRequire(import.meta.url).resolve('@prisma/client/runtime/client');
  const utils = createRequire(client).resolve('@prisma/client-runtime-utils');
  const copies = [
    ['@prisma/client/runtime/client', client, 'prisma-runtime'],
    ['@prisma/client-runtime-utils', utils, 'prisma-utils'],
  ];
  for (const [, path, copy] of copies) {
    await copyFile(path.replace(/\.[cm]?js$/, '.d.ts'), join(GENERATED, `${copy}.d.ts`));
  }
  for (const path of await filesIn(GENERATED, /\.d\.ts$/)) {
    const up = relative(dirname(path), GENERATED) || '.';
    let text = await readFile(path, 'utf8');
    for (const [specifier, , copy] of copies) {
      text = text.replaceAll(new RegExp(`(["'])${specifier}\\1`, 'g'), `'${up}/${copy}.js'`);
    }
    await writeFile(path, text);
  }
}

/** Removes types that `index.d.ts` does not reach, because nobody can import them. */
async function removeUnusedTypes() {
  const reached = new Set();
  const next = [join(DIST, 'index.d.ts')];
  for (let path = next.pop(); path !== undefined; path = next.pop()) {
    if (reached.has(path)) continue;
    reached.add(path);
    const text = await readFile(path, 'utf8');
    for (const [, specifier] of text.matchAll(/(?:from|import)\s*\(?["'](\.[^"']+)\.js["']/g)) {
      next.push(resolve(dirname(path), `${specifier}.d.ts`));
    }
  }
  for (const path of await filesIn(DIST, /\.d\.ts$/)) {
    if (!reached.has(path)) await rm(path);
  }
}

/** Writes the text of --help, so that help does not load the commands. */
async function writeOutlines() {
  const { program } = await import(pathToFileURL(join(DIST, 'cli/program.js')).href);
  const { outlineOf } = await import(pathToFileURL(join(DIST, 'cli/outline.js')).href);
  await writeFile(join(DIST, 'cli/outline.json'), JSON.stringify(outlineOf(await program())));
}

async function filesIn(folder, name) {
  const files = await readdir(folder, { recursive: true });
  return files.filter((file) => name.test(file)).map((file) => join(folder, file));
}
