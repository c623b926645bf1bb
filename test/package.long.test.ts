import { execFile } from 'node:child_process';
import { mkdtempSync, readdirSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';

const ROOT = fileURLToPath(new URL('..', import.meta.url));
const run = promisify(execFile);

describe('the package, installed into an empty project', () => {
  let project = '';
  let packed: string[] = [];

  beforeAll(async () => {
    project = mkdtempSync(join(tmpdir(), 'seller-mirror-package-'));
    // Scripts would rebuild `dist`, which other tests use.
    const pack = ['pack', '--ignore-scripts', '--json', '--pack-destination', project];
    const { stdout } = await run('npm', pack, { cwd: ROOT });
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
        ...['LICENSE', 'README.md', 'check-node.cjs', 'docs', 'package.json'],
        ...['dist/index.d.ts', ...built, 'prisma/grants.sql', 'prisma/migrations'],
      ].sort(),
    );
    expect(packed).toContain('dist/dashboard/styles.css');
    expect(packed).toContain('dist/dashboard/client/main.js');
    expect(packed).toContain('dist/store/prisma.LICENSES.txt');
    expect(packed).toContain('dist/config/zod.LICENSES.txt');
    expect(
      packed.filter(
        (path) => path.startsWith('dist/') && !/\.(?:js|json|css|txt|d\.ts)$/.test(path),
      ),
    ).toEqual([]);
  });

  it('takes less than 200 MB with its dependencies, without Prisma’s tools and compilers', () => {
    const modules = join(project, 'node_modules');
    const files = readdirSync(modules, { recursive: true }) as string[];
    const bytes = files.reduce((sum, name) => sum + statSync(join(modules, name)).size, 0);
    expect(bytes).toBeLessThan(200e6);
    expect(readdirSync(modules)).toEqual(expect.arrayContaining(['seller-mirror', 'pg']));
    expect(readdirSync(modules)).not.toContain('@prisma');
    expect(readdirSync(modules)).not.toContain('typescript');
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
       mirror.item.deleteMany;
       await mirror.close();`,
    );
    // Without --skipLibCheck, so that the types of dependencies are checked too.
    const options = ['--strict', '--target', 'es2023', '--module', 'nodenext', '--types', 'node'];
    const roots = ['--typeRoots', join(ROOT, 'node_modules/@types')];
    const compiler = join(ROOT, 'node_modules/typescript/bin/tsc');
    await run(process.execPath, [compiler, ...options, ...roots, 'program.ts'], { cwd: project });
    const read = await run(process.execPath, ['program.js'], { cwd: project });
    expect(read.stdout).toMatch(/^[1-9]\d*\n$/);
  });
});
