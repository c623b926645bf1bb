import { spawn, spawnSync } from 'node:child_process';
import { once } from 'node:events';
import { copyFileSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { text } from 'node:stream/consumers';
import type { Command } from 'commander';
import { describe, expect, it } from 'vitest';
import { program } from '../../src/cli/program.js';
import { reportError } from '../../src/cli/errors.js';
import { folder, MAIN, run, type Ended } from './support.js';

const whole = await program();

function all(command: Command): Command[] {
  const shown = command.createHelp().visibleCommands(command);
  return [command, ...command.commands.filter((one) => shown.includes(one)).flatMap(all)];
}

/** What `--help` prints. */
function helpOf(command: Command): string {
  let text = '';
  command.configureOutput({ writeOut: (part) => (text += part) }).outputHelp();
  return text;
}

describe('the command line', () => {
  it.each(all(whole).map((command) => [command.name(), command] as const))(
    'shows an example in the help of %s',
    (name, command) => {
      expect(helpOf(command)).toMatch(new RegExp(`Examples?:\\n  \\$ .*seller-mirror.*`));
      expect(command.description(), name).not.toBe('');
    },
  );

  it('says in help which options can’t be left out', () => {
    const help = (name: string, group = 'codes') => {
      const parent = whole.commands.find((one) => one.name() === group);
      const command = parent?.commands.find((one) => one.name() === name);
      return command === undefined ? '' : helpOf(command).replaceAll(/\s+/g, ' ');
    };
    expect(help('recheck')).toMatch(/--older-than <time> [^-]*\(required\)/);
    for (const name of ['check', 'recheck']) {
      expect(help(name)).toContain(
        '--seller <name> which seller; needed where several are configured',
      );
    }
    expect(help('list', 'audits')).toContain('--seller <name> only this seller (default: all)');
  });

  it.each([
    [['approve', '4'], 'runs approve'],
    [['codes', 'list', '--json'], 'audits list'],
    [['codes', 'export', '12', '--out', 'x.csv'], 'audits export'],
  ])('tells who types the former name %j the present one', async (args, present) => {
    const { code, stdout, stderr } = await run(args, {});
    expect({ code, stdout }).toEqual({ code: 2, stdout: '' });
    expect(stderr).toContain(`it is called '${present}'`);
  });

  it('tells the next step after wrong usage as after every other error', async () => {
    for (const args of [['nix'], ['help', 'nix'], ['export', '--nix'], ['completion', 'nix']]) {
      const { code, stderr } = await run(args, {});
      expect(code).toBe(2);
      expect(stderr, args.join(' ')).toMatch(
        /^error: .*\n {2}→ add --help to see what there is\n$/,
      );
    }
  });
});

describe('help', () => {
  it('lists the same commands before any is loaded as with all of them', async () => {
    expect(helpOf(await program([]))).toBe(helpOf(whole));
  });

  it.each(['--help', '--version'])(
    'loads no library of settings or databases for %s, since people wait for it',
    (option) => {
      const env = { NODE_DEBUG: 'esm' };
      const { status, stderr } = spawnSync(process.execPath, [MAIN, option], { env });
      const loaded = new Set(String(stderr).match(/(?<=\/node_modules\/)(?:@[\w-]+\/)?[\w-]+/g));
      expect(status).toBe(0);
      expect(loaded).toContain('commander');
      for (const library of ['zod', 'pg', '@prisma/client']) expect(loaded).not.toContain(library);
    },
  );

  it.each([
    [['help', 'nix'], "error: unknown command 'nix'\n  → add --help"],
    [['help', 'snyc'], "error: unknown command 'snyc'\n(Did you mean sync?)"],
    [['codes', 'help', 'chek'], "error: unknown command 'codes chek'\n(Did you mean codes check?)"],
    [
      ['help', 'runs', 'aprove'],
      "error: unknown command 'runs aprove'\n(Did you mean runs approve?)",
    ],
  ])('of an unknown command is an error that names the nearest one: %j', async (args, why) => {
    const { code, stdout, stderr } = await run(args, {});
    expect(stderr).toContain(why);
    expect({ code, stdout }).toEqual({ code: 2, stdout: '' });
  });

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
      stderr: `seller-mirror needs Node ${needed} or newer; this is ${old}\n`,
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
        ['-c', 'ulimit -n 64; exec "$@"', 'sh', process.execPath, MAIN, command],
        { cwd: folder(), env: { PATH: process.env['PATH'] } },
      );
      const [stderr, [code]] = await Promise.all([text(child.stderr), once(child, 'close')]);
      expect({ code: code as unknown, lines: stderr.split('\n') }).toEqual({
        code: 1,
        lines: [
          'error: too few open files are allowed (ulimit -n 64); seller-mirror needs at least 256',
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
