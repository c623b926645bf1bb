import { spawnSync } from 'node:child_process';
import { mkdirSync, readdirSync, readFileSync, symlinkSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import type { Command } from 'commander';
import { describe, expect, it } from 'vitest';
import { reportError, writtenOrFailed } from '../../src/cli/errors.js';
import { program } from '../../src/cli/program.js';
import { UserError } from '../../src/domain/user-error.js';
import { useMirror } from '../support/mirror.js';
import { type Ended, folder, MAIN, run } from './support.js';

const whole = await program();

/** Returns what `--help` prints. */
function helpOf(command: Command): string {
  let text = '';
  command.configureOutput({ writeOut: (part) => (text += part) }).outputHelp();
  return text;
}

describe('the command line', () => {
  it.each(all(whole).map(([path, command]) => [path.join(' '), command] as const))(
    'has a summary and a description of "%s", an example, and only its own options',
    (name, command) => {
      const help = helpOf(command);
      expect(help).toMatch(/Examples?:\n {2}\$ .*seller-mirror/);
      expect(command.description()).not.toBe('');
      if (name !== '') expect(command.summary()).toMatch(/^[a-z]/);
      const shown = [...help.matchAll(/^ {2}(?:-\w, )?(--[\w-]+)/gm)].map(([, long]) => long);
      const own = command.options.filter(({ hidden }) => !hidden).map(({ long }) => long);
      expect(new Set(shown)).toEqual(new Set([...own, '--help']));
    },
  );

  it('marks required options in help', () => {
    const help = (name: string, group = 'codes') => {
      const parent = whole.commands.find((one) => one.name() === group);
      const command = parent?.commands.find((one) => one.name() === name);
      return command === undefined ? '' : helpOf(command).replaceAll(/\s+/g, ' ');
    };
    expect(help('recheck')).toMatch(/--older-than <time> [^-]*\(required\)/);
    expect(help('add', 'users')).toMatch(/--role <role> [^-]*\(required\)/);
    for (const name of ['recheck', 'show']) {
      expect(help(name)).toContain(
        '--seller <name> which seller; required if several are configured',
      );
    }
    expect(help('check')).toContain(
      '--seller <name> which seller; required for lists if several are configured',
    );
    expect(help('list', 'audits')).toContain('--seller <name> only this seller (default: all)');
  });
});

describe('help', () => {
  it('lists the same commands whether they are loaded or not', async () => {
    expect(helpOf(await program([]))).toBe(helpOf(whole));
  });

  it.each(['--help', '--version', 'help'])(
    'of %s loads no command, because loading all takes a second',
    (words) => {
      const env = { NODE_DEBUG: 'esm' };
      const { status, stderr } = spawnSync(process.execPath, [MAIN, words], { env });
      expect(status).toBe(0);
      const loaded = String(stderr).match(/(?<=Translating \w+ file:\/\/)\S+/g) ?? [];
      expect(loaded.length).toBeGreaterThan(5); // or nothing is looked at
      expect(loaded.filter((path) => path.includes('/commands/'))).toEqual([]);
    },
  );

  it.each([
    [['help'], 'Usage: seller-mirror [options]'],
    [['help', 'sync'], 'Usage: seller-mirror sync'],
    [['codes', 'check', '--help'], 'Usage: seller-mirror codes check'],
    [['codes', 'help'], 'Usage: seller-mirror codes [options]'],
    [['codes', 'help', 'check'], 'Usage: seller-mirror codes check'],
  ])('is printed by %j', async (args, usage) => {
    const { code, stdout, stderr } = await run(args, {});
    expect(stdout).toContain(usage);
    expect({ code, stderr }).toEqual({ code: 0, stderr: '' });
  });
});

describe('completion', () => {
  it.each(['bash', 'zsh', 'fish'])('for %s is a script that asks this program', async (shell) => {
    const { code, stdout } = await run(['completion', shell], {}, { spawned: true });
    expect(stdout).toMatch(/seller-mirror complete -- /);
    expect(code).toBe(0);
  });

  it.each([
    [['s'], /^sync\t[^]*^sellers\t[^]*:4\n$/m],
    [['sync', ''], /^account\t\nitems\t\nitem\t\n:4\n$/],
    [['sync', '--ac'], /^--accept-account\t.*\n--accept-removals\t.*\n:4\n$/],
    [['runs', '--state', 'su'], /^succeeded\t\n:4\n$/],
    [['runs', 'sh'], /^show\tshow one run in full\n:4\n$/],
    // Names of files come from the shell.
    [['codes', 'check', 'cust'], /^:0\n$/],
    [['export', 'items', '-o', ''], /^:0\n$/],
  ])('of %j offers what may come next', async (words, expected) => {
    expect((await run(['complete', '--', ...words], {})).stdout).toMatch(expected);
  });
});

describe('an unsuitable machine', () => {
  const { engines } = JSON.parse(
    readFileSync(new URL('../../package.json', import.meta.url), 'utf8'),
  ) as { engines: { node: string } };

  /** Runs the program with a faked version of Node. */
  function runOn(version: string): Promise<Ended> {
    const preload = join(folder(), `node-${version}.cjs`);
    const versions = `{ ...process.versions, node: '${version}' }`;
    writeFileSync(preload, `Object.defineProperty(process, 'versions', { value: ${versions} });`);
    return run(['--version'], { NODE_OPTIONS: `--require=${preload}` });
  }

  const needs = (needed: string, is: string) =>
    `seller-mirror needs Node ${needed} or newer; this is ${is}\n`;
  it.each([
    ['16.20.2', needs('20.19', '16.20')],
    ['18.19.0', needs('20.19', '18.19')],
    ['20.18.3', needs('20.19', '20.18')],
    ['20.19.0', ''],
    ['21.7.3', needs('22.12', '21.7')],
    ['22.11.0', needs('22.12', '22.11')],
    ['22.12.0', ''],
    ['23.0.0', ''],
    ['24.1.0', ''],
    ['100.0.0', ''],
  ])('may have Node %s: %j', async (version, stderr) => {
    expect(await runOn(version)).toMatchObject({ code: stderr === '' ? 0 : 2, stderr });
    expect(engines.node).toBe('^20.19.0 || >=22.12.0');
  });

  it('of a full disk exits with 1, because the file’s name was right', async () => {
    const full = new UserError('x.csv: the disk is full', 'Free some space.', 'FILE', 2);
    const error: unknown = await writtenOrFailed(Promise.reject(full)).catch(
      (thrown: unknown) => thrown,
    );
    const lines = ['x.csv: the disk is full', '→ Free some space.'];
    expect(reportError(error, null)).toEqual({ lines, exitCode: 1 });
  });
});

/** Returns all commands with their names from the top. */
function all(command: Command, path: readonly string[] = []): [readonly string[], Command][] {
  return [[path, command], ...command.commands.flatMap((one) => all(one, [...path, one.name()]))];
}

const mirror = useMirror();
/** Matches commands in messages, with up to two words. */
const QUOTED = /`seller-mirror ([a-z-]+(?: [a-z][a-z-]*)?)/g;
const ROOT = fileURLToPath(new URL('../..', import.meta.url));

/** Runs a command as this script, and returns what it prints on stderr. */
async function stderrOf(
  script: string,
  args: readonly string[],
  env: Record<string, string> = {},
  cwd = folder(),
): Promise<string> {
  const settings = { DATABASE_URL: mirror().databaseUrl, ...env };
  return (await run(args, settings, { script, cwd })).stderr;
}

function linkTo(place: string): string {
  const path = join(folder(), place);
  mkdirSync(dirname(path), { recursive: true });
  symlinkSync(MAIN, path);
  return path;
}

describe('a remedy', () => {
  const UNKNOWN_RUN = ['runs', 'show', '4711'];
  const remedy = (program: string): string => `→ \`${program} runs\` lists them`;

  it('names commands so that they work when pasted', async () => {
    const local = linkTo('node_modules/.bin/seller-mirror');
    const script = { npm_lifecycle_event: 'mirror' };
    expect(await stderrOf(linkTo('bin/seller-mirror'), UNKNOWN_RUN)).toContain(
      remedy('seller-mirror'),
    );
    expect(await stderrOf('dist/cli/main.js', UNKNOWN_RUN, {}, ROOT)).toContain(
      remedy('node dist/cli/main.js'),
    );
    expect(await stderrOf('bin/seller-mirror.js', UNKNOWN_RUN, {}, ROOT)).toContain(
      remedy('node bin/seller-mirror.js'),
    );
    expect(await stderrOf(local, UNKNOWN_RUN, script)).toContain(remedy('npx seller-mirror'));
  });

  it('does so with the real Node and npm', () => {
    const { PATH, HOME } = process.env;
    const env = { PATH, HOME, DATABASE_URL: mirror().databaseUrl };
    const printed = (file: string, args: readonly string[], cwd: string): string =>
      spawnSync(file, [...args, ...UNKNOWN_RUN], { cwd, env, encoding: 'utf8' }).stderr;
    const local = linkTo('its/node_modules/.bin/seller-mirror');
    expect(printed(process.execPath, [local], folder())).toContain(remedy('npx seller-mirror'));
    expect(printed('npm', ['start', '--'], ROOT)).toContain(remedy('npx seller-mirror'));
  });

  it('includes DATA_DIR and an empty DATABASE_URL of the environment', async () => {
    const installed = linkTo('usr/bin/seller-mirror');
    const env = { DATA_DIR: 'other data', DATABASE_URL: '' };
    expect(await stderrOf(installed, ['backup', 'x.tar.gz'], env)).toContain(
      "`DATABASE_URL= DATA_DIR='other data' seller-mirror sync` creates one",
    );
  });

  it('names only existing commands', async () => {
    const { commands } = await program();
    const files = readdirSync(join(ROOT, 'src'), { recursive: true, encoding: 'utf8' });
    const quoted = files
      .filter((file) => file.endsWith('.ts') && !file.startsWith(join('store', 'generated')))
      .flatMap((file) => [...readFileSync(join(ROOT, 'src', file), 'utf8').matchAll(QUOTED)])
      .map(([, words = '']) => words.trim().split(' '));
    expect(quoted.length).toBeGreaterThan(30);
    for (const words of quoted) {
      const [name, sub] = words;
      const command = commands.find((one) => one.name() === name);
      expect(command, words.join(' ')).toBeDefined();
      // The second word may also be an argument.
      const takesWords = (command?.registeredArguments.length ?? 0) > 0;
      const exists = command?.commands.some((one) => one.name() === sub) ?? false;
      expect(sub === undefined || takesWords || exists, words.join(' ')).toBe(true);
    }
  });

  it('names commands in the same way for wrong usage', async () => {
    const local = linkTo('other/node_modules/.bin/seller-mirror');
    expect(await stderrOf(local, ['audits', 'export', 'x'])).toContain(
      '`npx seller-mirror audits list` shows them',
    );
    expect(await stderrOf(local, ['sync', 'item'])).toContain(
      'for example: `npx seller-mirror sync item 4711`',
    );
  });
});
