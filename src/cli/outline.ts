import type { EventEmitter } from 'node:events';
import { readFileSync } from 'node:fs';
import { Argument, type Command, Option } from 'commander';

/** The help of a command. Printing it from here is fast: loading the code of all commands takes a second. */
export interface Outline {
  readonly name: string;
  readonly summary: string;
  readonly description: string;
  readonly usage: string;
  /** `flags` as in the help, such as `<id>`. */
  readonly arguments: readonly (readonly [flags: string, text: string])[];
  /** `flags` as in the help, such as `--json`. */
  readonly options: readonly (readonly [flags: string, text: string])[];
  /** The text after the options: notes and examples. */
  readonly after: string;
  readonly commands: readonly Outline[];
  /** True if the subcommands include `help`. */
  readonly helpCommand: boolean;
}

/** Reads the outlines of all commands from the build. Empty when the program runs from its sources. */
export function writtenOutlines(): readonly Outline[] {
  try {
    const text = readFileSync(new URL('outline.json', import.meta.url), 'utf8');
    return (JSON.parse(text) as Outline).commands;
  } catch {
    return [];
  }
}

export function outlineOf(command: Command): Outline {
  const help = command.createHelp();
  let after = '';
  // Commands are event emitters, but their types don't show it.
  (command as unknown as EventEmitter).emit('afterHelp', {
    error: false,
    command,
    write: (text: string) => (after += text),
  });
  return {
    name: command.name(),
    summary: command.summary(),
    description: command.description(),
    usage: command.usage(),
    arguments: command.registeredArguments.map((argument) => {
      const name = `${argument.name()}${argument.variadic ? '...' : ''}`;
      const flags = argument.required ? `<${name}>` : `[${name}]`;
      return [flags, help.argumentDescription(argument)];
    }),
    options: command.options.map((one) => [one.flags, help.optionDescription(one)]),
    after,
    commands: command.commands.map(outlineOf),
    helpCommand: help.visibleCommands(command).some((one) => one.name() === 'help'),
  };
}

/** Adds a command that can only show its help. */
export function addOutline(parent: Command, outline: Outline): void {
  const { name, summary, description, usage, after } = outline;
  const command = parent.command(name).summary(summary).description(description).usage(usage);
  for (const [flags, text] of outline.arguments) command.addArgument(new Argument(flags, text));
  for (const [flags, text] of outline.options) command.addOption(new Option(flags, text));
  command.on('afterHelp', ({ write }: { write: (text: string) => void }) => write(after));
  command.helpCommand(outline.helpCommand);
  for (const child of outline.commands) addOutline(command, child);
}
