import type { Command } from 'commander';
import { editDistance } from '../config/nearest.js';

/**
 * Shows the help that `help codes check` or `codes help check` asks for, and ends the process.
 * Commander would answer an unknown command there with the help of another one.
 * @param words of the command line; does nothing when they don't ask for help
 */
export function showHelp(program: Command, words: readonly string[]): void {
  const place = words.indexOf('help');
  const before = words.slice(0, Math.max(place, 0));
  const parent = before.reduce<Command | undefined>(childOf, program);
  if (place < 0 || parent === undefined || parent.commands.length === 0) return;
  let command = parent;
  for (const word of words.slice(place + 1).filter((one) => !one.startsWith('-'))) {
    // What stands behind a whole command is its argument.
    if (command.commands.length === 0) break;
    command = childOf(command, word) ?? refuse(program, command, word);
  }
  command.help();
}

function childOf(parent: Command | undefined, name: string): Command | undefined {
  return parent === undefined ? undefined : childrenOf(parent).find((one) => one.name() === name);
}

/** Without those that are hidden, and without Commander's own `help`. */
function childrenOf(parent: Command): readonly Command[] {
  const shown = parent.createHelp().visibleCommands(parent);
  return parent.commands.filter((one) => shown.includes(one));
}

function refuse(program: Command, parent: Command, word: string): never {
  const path = pathOf(parent);
  const names = childrenOf(parent).map((one) => one.name());
  const [nearest] = names
    .map((name) => ({ name, distance: editDistance(word, name) }))
    .filter(({ name, distance }) => distance < 0.6 * Math.max(word.length, name.length))
    .sort((one, other) => one.distance - other.distance);
  const meant = nearest === undefined ? '' : `\n(Did you mean ${path}${nearest.name}?)`;
  return program.error(`error: unknown command '${path}${word}'${meant}`);
}

/** `codes ` for the commands of `codes`; nothing for those of the program itself. */
function pathOf(command: Command): string {
  return command.parent === null ? '' : `${pathOf(command.parent)}${command.name()} `;
}
