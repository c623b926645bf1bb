import { spawn, spawnSync } from 'node:child_process';
import { once } from 'node:events';
import {
  copyFileSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs';
import { dirname, join } from 'node:path';
import { text } from 'node:stream/consumers';
import { fileURLToPath } from 'node:url';
import type { Command } from 'commander';
import { describe, expect, it } from 'vitest';
import { reportError } from '../../src/cli/errors.js';
import { outlineOf } from '../../src/cli/outline.js';
import { program } from '../../src/cli/program.js';
import { useMirror } from '../support/mirror.js';
import { type Ended, folder, MAIN, run } from './support.js';

const whole = await program();

/** What `--help` prints. */
function helpOf(command: Command): string {
  let text = '';
  command.configureOutput({ writeOut: (part) => (text += part) }).outputHelp();
  return text;
}

describe('the command line', () => {
  it.each(all(whole).map(([, command]) => [command.name(), command] as const))(
    'shows an example in the help of %s',
    (name, command) => {
      expect(helpOf(command)).toMatch(new RegExp(`Examples?:\\n  \\$ .*seller-mirror.*`));
      expect(command.description(), name).not.toBe('');
    },
  );

  it.each(all(whole).map(([path, command]) => [path.join(' '), command] as const))(
    'offers in the help of "%s" no option but its own, since it takes no other',
    (_, command) => {
      const offered = [...helpOf(command).matchAll(/^ {2}(?:-\w, )?(--[\w-]+)/gm)];
      const own = command.options.map(({ long }) => long);
      expect(new Set(offered.map(([, long]) => long))).toEqual(new Set([...own, '--help']));
    },
  );

  it('has for every command some words for the list of its parent, not all of its description', () => {
    const long = all(whole).filter(
      ([path, one]) => path.length > 0 && !/^[a-z]/.test(one.summary()),
    );
    expect(long.map(([path]) => path.join(' '))).toEqual([]);
  });

  it('says in help which options can’t be left out', () => {
    const help = (name: string, group = 'codes') => {
      const parent = whole.commands.find((one) => one.name() === group);
      const command = parent?.commands.find((one) => one.name() === name);
      return command === undefined ? '' : helpOf(command).replaceAll(/\s+/g, ' ');
    };
    expect(help('recheck')).toMatch(/--older-than <time> [^-]*\(required\)/);
    expect(help('add', 'users')).toMatch(/--role <role> [^-]*\(required\)/);
    for (const name of ['check', 'recheck', 'show']) {
      expect(help(name)).toContain(
        '--seller <name> which seller; required if several are configured',
      );
    }
    expect(help('list', 'audits')).toContain('--seller <name> only this seller (default: all)');
  });
});

describe('help', () => {
  it('lists the same commands before any is loaded as with all of them', async () => {
    expect(helpOf(await program([]))).toBe(helpOf(whole));
  });

  it('shows of every command, from its outline alone, what it shows when it is loaded', async () => {
    const helps = (command: Command) => all(command).map(([, one]) => helpOf(one));
    const outlined = await program([], outlineOf(whole).commands);
    expect(helps(outlined)).toEqual(helps(whole));
  });

  it.each(['--help', '--version', 'codes check --help', 'help runs approve', 'export -h'])(
    'loads no more for %s than the modules that show help, since people wait for it',
    (words) => {
      const env = { NODE_DEBUG: 'esm' };
      const args = [MAIN, ...words.split(' ')];
      const { status, stderr } = spawnSync(process.execPath, args, { env });
      expect(status).toBe(0);
      const loaded = String(stderr).match(/(?<=Translating \w+ file:\/\/)\S+/g) ?? [];
      const modules = loaded.map((path) => path.replace(/^.*\/(?=dist\/|node_modules\/)/, ''));
      expect(modules.filter((path) => path.startsWith('node_modules/')).sort()).toEqual([
        'node_modules/commander/esm.mjs',
        'node_modules/commander/index.js',
      ]);
      expect(modules.length).toBeLessThanOrEqual(11);
    },
  );

  it.each([
    [['help'], 'Usage: seller-mirror [options]'],
    [['help', 'sync'], 'Usage: seller-mirror sync'],
    [['help', 'codes', 'check'], 'Usage: seller-mirror codes check'],
    [['codes', 'help'], 'Usage: seller-mirror codes [options]'],
    [['codes', 'help', 'check'], 'Usage: seller-mirror codes check'],
  ])('shows what --help does: %j', async (args, usage) => {
    const { code, stdout, stderr } = await run(args, {});
    expect(stdout).toContain(usage);
    expect({ code, stderr }).toEqual({ code: 0, stderr: '' });
  });
});

describe('a machine that this program can’t run on', () => {
  const { engines } = JSON.parse(
    readFileSync(new URL('../../package.json', import.meta.url), 'utf8'),
  ) as { engines: { node: string } };

  /** Starts the program with a Node that says it is of another version. */
  function runOn(version: string): Promise<Ended> {
    const preload = join(folder(), `node-${version}.cjs`);
    const versions = `{ ...process.versions, node: '${version}' }`;
    writeFileSync(preload, `Object.defineProperty(process, 'versions', { value: ${versions} });`);
    return run(['--version'], { NODE_OPTIONS: `--require=${preload}` });
  }

  it.each([
    ['16.20.2', '20.19'],
    ['18.19.0', '20.19'],
    ['20.18.3', '20.19'],
    ['21.7.3', '22.12'],
    ['22.11.0', '22.12'],
  ])('is told by one line when its Node is %s, which can’t load the rest', async (old, needed) => {
    expect(await runOn(old)).toEqual({
      code: 2,
      stdout: '',
      stderr: `seller-mirror needs Node ${needed} or newer; this is ${old.replace(/\.\d+$/, '')}\n`,
    });
  });

  it.each(['20.19.0', '22.12.0', '23.0.0', '24.1.0', '100.0.0'])(
    'is not one with Node %s',
    async (version) => {
      expect(await runOn(version)).toMatchObject({ code: 0, stderr: '' });
      expect(engines.node).toBe('^20.19.0 || >=22.12.0');
    },
  );

  it.each([['sync'], ['run'], ['demo']])(
    'is told what to do when too few open files are allowed: %s',
    async (command) => {
      const child = spawn(
        '/bin/sh',
        ['-c', 'ulimit -n 40; exec "$@"', 'sh', process.execPath, MAIN, command],
        { cwd: folder(), env: { PATH: process.env['PATH'] } },
      );
      const [stderr, [code]] = await Promise.all([text(child.stderr), once(child, 'close')]);
      expect({ code: code as unknown, lines: stderr.split('\n') }).toEqual({
        code: 1,
        lines: [
          'error: too few open files are allowed (ulimit -n 40); seller-mirror needs at least 256',
          expect.stringMatching(/^ {2}→ raise the limit: /),
          '',
        ],
      });
    },
  );

  it('is told so too when the files run out later, wherever in an error that is said', () => {
    const emfile = Object.assign(new Error('too many'), { code: 'EMFILE' });
    const within = new Error('no connection', { cause: new AggregateError([emfile], 'tried') });
    for (const error of [emfile, within]) {
      expect(reportError(error, null)).toMatchObject({
        lines: [expect.stringMatching(/^too few open files are allowed/), expect.any(String)],
        exitCode: 1,
      });
    }
  });

  it('says what is missing where it was not installed whole, without the stack of Node', async () => {
    const own = join(folder(), 'broken');
    mkdirSync(join(own, 'dist/cli'), { recursive: true });
    for (const file of [
      'package.json',
      'check-node.cjs',
      'dist/cli/main.js',
      'dist/cli/open-files.js',
    ]) {
      copyFileSync(new URL(`../../${file}`, import.meta.url), join(own, file));
    }
    const child = spawn(process.execPath, [join(own, 'dist/cli/main.js')]);
    const [stderr, [code]] = await Promise.all([text(child.stderr), once(child, 'close')]);
    expect(code).toBe(1);
    expect(stderr).toMatch(
      /^error: the program can’t be loaded: .*program\.js.*\n  → install it again \(npm ci\)/,
    );
    expect(stderr).not.toMatch(/^\s+at /m);
  });
});

async function scriptOf(shell: string): Promise<string> {
  const { code, stdout } = await run(['completion', shell], {});
  expect(code).toBe(0);
  return stdout;
}

const hasShell = (shell: string): boolean => spawnSync(shell, ['-c', 'true']).status === 0;

/** What a real bash completes of a line, its last word unfinished. */
function completed(script: string, line: string): string[] {
  const words = line.split(' ').map((word) => `'${word}'`);
  const probe = `${script}
    COMP_WORDS=(${words.join(' ')}); COMP_CWORD=${words.length - 1}
    _seller_mirror; printf '%s\\n' "\${COMPREPLY[@]}"`;
  const { stdout, stderr, status } = spawnSync('bash', ['--norc', '-u', '-c', probe], {
    cwd: folder(),
    encoding: 'utf8',
  });
  expect({ stderr, status }).toEqual({ stderr: '', status: 0 });
  return stdout.split('\n').filter((word) => word !== '');
}

describe('completion in bash', () => {
  it('knows commands, options, their values and files, each where it can stand', async () => {
    const script = await scriptOf('bash');
    writeFileSync(join(folder(), 'codes.csv'), '');
    mkdirSync(join(folder(), 'codes of May'));
    expect(completed(script, 'seller-mirror s')).toEqual(
      expect.arrayContaining(['sync', 'status', 'sql', 'scheduler', 'simulate']),
    );
    expect(completed(script, 'seller-mirror approv'), 'a former name').toEqual([]);
    expect(completed(script, 'seller-mirror audits re')).toEqual(['resume']);
    expect(completed(script, 'seller-mirror audits list --li')).toEqual(['--limit']);
    expect(completed(script, 'seller-mirror items --limit 5 --st')).toEqual(['--state']);
    expect(completed(script, 'seller-mirror items --state m')).toEqual(['missing']);
    expect(completed(script, 'seller-mirror sync a')).toEqual(['account']);
    expect(completed(script, 'seller-mirror items --limit ')).toEqual([]);
    expect(completed(script, 'seller-mirror codes check co').sort()).toEqual([
      'codes of May',
      'codes.csv',
    ]);
    expect(completed(script, 'seller-mirror audits export 7 --out codes.')).toEqual(['codes.csv']);
    expect(completed(script, 'seller-mirror --ver')).toEqual(['--version']);
  });
});

/** Commands that help shows, with what is typed to get there. */
function all(command: Command, path: readonly string[] = []): [readonly string[], Command][] {
  return [[path, command], ...command.commands.flatMap((one) => all(one, [...path, one.name()]))];
}

describe.each(['bash', 'zsh', 'fish'])('completion in %s', (shell) => {
  it('has every command and option that help shows', async () => {
    const script = await scriptOf(shell);
    expect(script, 'modifiers in zsh, such as $word:a').not.toMatch(/\$\w+:[a-z]/);
    for (const [path, command] of all(whole)) {
      for (const word of path) expect(script).toContain(word);
      for (const { long } of command.options) {
        if (long !== undefined && long !== null) expect(script).toContain(long.replace(/^--/, ''));
      }
    }
  });

  it.skipIf(!hasShell(shell))(`is a script that ${shell} can read (needs ${shell})`, async () => {
    const script = await scriptOf(shell);
    const { status, stderr } = spawnSync(shell, ['-n'], { input: script, encoding: 'utf8' });
    expect({ status, stderr }).toEqual({ status: 0, stderr: '' });
  });
});

const mirror = useMirror();
/** Commands in messages, and up to two words of each. */
const QUOTED = /`seller-mirror ([a-z]+(?: [a-z]+)?)/g;
const ROOT = fileURLToPath(new URL('../..', import.meta.url));

/** What a command says on stderr when it is started as this script. */
async function saidBy(
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
  const ASKED = ['runs', 'show', '4711'];
  const remedy = (program: string): string => `→ \`${program} runs\` lists them`;

  it('names commands as the program was started, so that they work when pasted', async () => {
    const local = linkTo('node_modules/.bin/seller-mirror');
    const script = { npm_lifecycle_event: 'mirror', npm_lifecycle_script: 'seller-mirror' };
    expect(await saidBy(linkTo('bin/seller-mirror'), ASKED)).toContain(remedy('seller-mirror'));
    expect(await saidBy('dist/cli/main.js', ASKED, {}, ROOT)).toContain(
      remedy('node dist/cli/main.js'),
    );
    expect(await saidBy(local, ASKED, script)).toContain(remedy('npm run mirror --'));
  });

  it('does so by what Node and npm really tell the program', () => {
    const { PATH, HOME } = process.env;
    const env = { PATH, HOME, DATABASE_URL: mirror().databaseUrl };
    const said = (file: string, args: readonly string[], cwd: string): string =>
      spawnSync(file, [...args, ...ASKED], { cwd, env, encoding: 'utf8' }).stderr;
    const local = linkTo('its/node_modules/.bin/seller-mirror');
    expect(said(process.execPath, [local], folder())).toContain(remedy('npx seller-mirror'));
    expect(said('npm', ['start', '--'], ROOT)).toContain(remedy('npm start --'));
  });

  it('names the data folder that the environment names, which the next command needs too', async () => {
    const installed = linkTo('usr/bin/seller-mirror');
    const env = { DATA_DIR: 'other data', DATABASE_URL: '' };
    expect(await saidBy(installed, ['backup', 'x.tar.gz'], env)).toContain(
      "`DATABASE_URL= DATA_DIR='other data' seller-mirror sync` creates one",
    );
  });

  it('names no command that is not there', async () => {
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
      // Where there is no subcommand of this name, the word is an argument.
      const takesWords = (command?.registeredArguments.length ?? 0) > 0;
      const isThere = command?.commands.some((one) => one.name() === sub) ?? false;
      expect(sub === undefined || takesWords || isThere, words.join(' ')).toBe(true);
    }
  });

  it('is so for wrong usage too', async () => {
    const local = linkTo('other/node_modules/.bin/seller-mirror');
    expect(await saidBy(local, ['audits', 'show', 'x'])).toContain(
      '`npx seller-mirror audits list` shows them',
    );
    expect(await saidBy(local, ['sync', 'item'])).toContain(
      'for example: `npx seller-mirror sync item 4711`',
    );
  });
});
