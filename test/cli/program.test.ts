import type { Command } from 'commander';
import { describe, expect, it } from 'vitest';
import { program } from '../../src/cli/program.js';

function all(command: Command): Command[] {
  return [command, ...command.commands.flatMap(all)];
}

/** What `--help` prints. */
function helpOf(command: Command): string {
  let text = '';
  command.configureOutput({ writeOut: (part) => (text += part) }).outputHelp();
  return text;
}

describe('the command line', () => {
  it.each(all(program()).map((command) => [command.name(), command] as const))(
    'shows an example in the help of %s',
    (name, command) => {
      expect(helpOf(command)).toMatch(new RegExp(`Examples?:\\n  \\$ .*seller-mirror.*`));
      expect(command.description(), name).not.toBe('');
    },
  );

  it('says in help which options can’t be left out', () => {
    const codes = program().commands.find((command) => command.name() === 'codes');
    const help = (name: string) => {
      const command = codes?.commands.find((one) => one.name() === name);
      return command === undefined ? '' : helpOf(command).replaceAll(/\s+/g, ' ');
    };
    expect(help('recheck')).toMatch(/--older-than <time> [^-]*\(required\)/);
    for (const name of ['check', 'recheck']) {
      expect(help(name)).toContain(
        '--seller <name> which seller; needed where several are configured',
      );
    }
    expect(help('list')).toContain('--seller <name> only this seller (default: all)');
  });
});
