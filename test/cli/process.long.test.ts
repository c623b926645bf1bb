import { spawn, spawnSync } from 'node:child_process';
import { once } from 'node:events';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { width } from '../../src/cli/output/text.js';
import { useMirror } from '../support/mirror.js';
import {
  codesMarket,
  codesOf,
  fileWith,
  folder,
  MAIN,
  marketOf,
  run,
  settings,
} from './support.js';

const mirror = useMirror();

/** Runs a command on a terminal of this size, with `script` of util-linux, and returns the screen. */
async function onTerminal(
  args: readonly string[],
  env: Readonly<Record<string, string>>,
  [columns, rows]: readonly [number, number] = [80, 24],
): Promise<{ readonly code: number | null; readonly screen: string }> {
  const words = [process.execPath, MAIN, ...args].map((word) => `'${word}'`);
  const command = `stty cols ${columns} rows ${rows} && exec ${words.join(' ')}`;
  const child = spawn('script', ['-qefc', command, '/dev/null'], {
    cwd: folder(),
    env: { PATH: process.env['PATH'], HOME: process.env['HOME'], NO_COLOR: '1', ...env },
    stdio: ['ignore', 'pipe', 'inherit'],
  });
  let screen = '';
  child.stdout.setEncoding('utf8').on('data', (text: string) => (screen += text));
  const [code] = (await once(child, 'close')) as [number | null];
  // Removes cleared progress lines.
  const lines = screen.replaceAll('\r\n', '\n').split('\n');
  return { code, screen: lines.map((line) => line.split(CLEARED).at(-1)).join('\n') };
}

/** Clears the line of a progress bar. */
const CLEARED = '\r\u001B[2K';

const hasScript = /util-linux/.test(
  spawnSync('script', ['--version'], { encoding: 'utf8' }).stdout ?? '',
);

/** Mirrors a new seller. */
async function mirrored(count = 40) {
  const market = await marketOf(mirror(), count);
  await run(['sync'], market.env);
  return market;
}

describe.skipIf(!hasScript)('on a terminal (needs `script` of util-linux)', () => {
  it('only output longer than the screen goes through PAGER', async () => {
    const { env } = await mirrored();
    const paged = { ...env, PAGER: 'sed s/^/paged:/' };
    const long = await onTerminal(['items'], paged);
    expect(long.screen).toMatch(/^paged:item /);
    expect(long.screen.match(/^paged:10\d\d /gm)).toHaveLength(40);
    expect(long.code).toBe(0);
    const whole = ['items', '--limit', '5'];
    for (const args of [
      ['items', '--no-pager'],
      ['items', '--json'],
      ['items', '--format', 'csv'],
      whole,
    ]) {
      expect((await onTerminal(args, paged)).screen).not.toContain('paged:');
    }
    expect((await run(['items'], paged)).stdout).not.toContain('paged:');
    for (const PAGER of ['', 'cat', 'no-such-program']) {
      expect((await onTerminal(['items'], { ...env, PAGER })).screen).toMatch(/\n1040 [^\n]*\n$/);
    }
  });

  it('quitting the pager early ends the command with 0', async () => {
    const { env } = await mirrored();
    const endless =
      'select a.name from reporting.items a, reporting.items b, reporting.items c, reporting.items d';
    const { code, screen } = await onTerminal(['sql', endless], { ...env, PAGER: 'head -n 3' });
    expect(screen.trimEnd().split('\n')).toHaveLength(3);
    expect(code).toBe(0);
  });

  it('rows too wide for a table are records, with --vertical uncut', async () => {
    const { env } = await mirrored(3);
    const statement = `select *, repeat(chr(97), 500) as long from reporting.items where item_id = 1001`;
    const all = ['sql', statement, '--no-pager'];
    const narrow = (await onTerminal(all, env)).screen;
    expect(narrow).toMatch(/^── 1 ──\nseller_id +main\nitem_id +1001\n/);
    expect(narrow).toMatch(/\(1 row; --vertical shows long values whole\)\n$/);
    const few = ['items', '--limit', '1'];
    expect((await onTerminal(few, env)).screen).toMatch(/^item +name +version /);
    expect((await run([...few, '--vertical'], env)).stdout).toMatch(/^── 1 ──\nitem +1001\n/);
    for (const list of [['runs'], ['audits', 'list']]) {
      expect((await run([...list, '--vertical'], env)).code).toBe(0);
    }
  });

  it('no line is wider than 80 columns unless it contains a very long word', async () => {
    const { sim, sync, env } = await mirrored();
    sim.faults.always('list', { kind: 'html', status: 200 });
    await sync();
    const commands = ['status', 'runs', 'runs show 3', 'runs show 99', 'doctor', 'sync items'];
    for (const command of [...commands, 'items']) {
      const { screen } = await onTerminal(command.split(' '), { ...env, PAGER: '' });
      expect(screen).not.toBe('');
      for (const line of screen.split('\n').filter((one) => width(one) > 80)) {
        // A command between backticks is never wrapped.
        const words = line.match(/`[^`]*`\S*|\S+/g) ?? [];
        expect(
          words.some((word) => width(word) > 40),
          `${command}: ${line}`,
        ).toBe(true);
      }
    }
  });
});

describe('a separate process', () => {
  it('exits after each command, with the same exit code as in this process', async () => {
    const sim = await codesMarket(mirror());
    const env = settings(mirror().databaseUrl, sim.url);
    const list = fileWith(codesOf(sim, 5).join('\n'), 'txt');
    for (const args of [
      ['sync'],
      ['sync', 'item', '1001'],
      ['sync', '--queue'],
      ['codes', 'check', list],
      ['codes', 'show', codesOf(sim, 2)[1] ?? ''],
      ['codes', 'recheck', '--older-than', '30d'],
      ['audits'],
      ['audits', 'export', '1'],
      ['status', '--check'],
      ['runs'],
      ['runs', 'show', '999'],
      ['changes'],
      ['items'],
      ['sql', 'select 1'],
      ['export', 'items'],
      ['migrate'],
      ['prune', '--dry-run'],
      ['backup', join(folder(), 'backup')],
      ['doctor'],
      ['config'],
      ['completion', 'bash'],
      ['no-such-command'],
    ]) {
      const separate = await run(args, env, { spawned: true });
      const again = args[0] === 'backup' ? ['backup', join(folder(), 'another')] : args;
      const here = await run(again, env);
      expect(separate.code, `${args.join(' ')}: ${separate.stderr}`).toBe(here.code);
    }
  });
});
