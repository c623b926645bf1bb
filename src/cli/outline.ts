import type { EventEmitter } from 'node:events';
import { readFileSync } from 'node:fs';
import { Argument, type Command, Option } from 'commander';

/** What help shows of a command: its code takes a second to load, all commands together. */
export interface Outline {
  readonly name: string;
  readonly summary: string;
  readonly description: string;
  readonly usage: string;
  /** Each as it is written, such as `<id>` or `--json`, with what is said of it. */
  readonly arguments: readonly (readonly [flags: string, text: string])[];
  readonly options: readonly (readonly [flags: string, text: string])[];
  /** What follows at the end. */
  readonly after: string;
  readonly commands: readonly Outline[];
  /** Whether `help` is listed among them. */
  readonly helpCommand: boolean;
}

/** The outlines that the build wrote, of all commands; none when the program runs from its sources. */
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
  // A command is an emitter, which its types don't tell.
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
