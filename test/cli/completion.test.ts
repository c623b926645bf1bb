import { spawnSync } from 'node:child_process';
import { mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import type { Command } from 'commander';
import { describe, expect, it } from 'vitest';
import { program } from '../../src/cli/program.js';
import { folder, run } from './support.js';

const whole = await program();

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
  const shown = command.createHelp().visibleCommands(command);
  const named = command.commands.filter((one) => shown.includes(one));
  return [[path, command], ...named.flatMap((one) => all(one, [...path, one.name()]))];
}

describe.each(['bash', 'zsh', 'fish'])('completion in %s', (shell) => {
  it('has every command and option that help shows', async () => {
    const script = await scriptOf(shell);
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
