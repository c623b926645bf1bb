import { readFileSync } from 'node:fs';
import { describe, expect, it } from 'vitest';
import { program } from '../src/cli/program.js';

const readme = readFileSync(new URL('../README.md', import.meta.url), 'utf8');

/** First cells of the rows of the table whose header begins with this word. */
function firstCells(header: string): string[] {
  const lines = readme.split('\n');
  const start = lines.findIndex((line) => new RegExp(`^\\| ${header} +\\|`).test(line));
  const length = lines.slice(start).findIndex((line) => !line.startsWith('|'));
  return lines.slice(start + 2, start + length).map((line) => line.split('|')[1]?.trim() ?? '');
}

describe('README', () => {
  it('lists the commands there are, in the order of --help', () => {
    const names = firstCells('Command').map((cell) => cell.replaceAll('`', ''));
    expect(names).toEqual(program().commands.map((command) => command.name()));
  });

  it('shows no command, subcommand or option that does not exist', () => {
    const commands = program().commands;
    const uses = [...readme.matchAll(/(?:npx seller-mirror|npm start --) (\w+)(?: (\w+))?/g)];
    expect(uses.length).toBeGreaterThan(5);
    for (const [use, name, word] of uses) {
      const command = commands.find((one) => one.name() === name);
      expect(command, use).toBeDefined();
      const names = command?.commands.map((one) => one.name()) ?? [];
      if (names.length > 0) expect(names, use).toContain(word);
    }
  });
});
