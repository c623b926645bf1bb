import { script } from '@bomb.sh/tab';
import { Argument, type Command } from 'commander';
import { write } from '../console.js';
import { describeCommand } from '../options.js';
import { shellWord } from '../own-command.js';

const SHELLS = ['bash', 'zsh', 'fish'];

/** `completion SHELL`: prints a script that completes commands and options. */
export function add(program: Command): void {
  const command = program
    .command('completion')
    .addArgument(new Argument('<shell>', 'the shell').choices(SHELLS));
  describeCommand(command, {
    about:
      'Prints a script that lets the Tab key complete commands and options. Load it when your shell starts. `seller-mirror` must be in PATH.',
    examples: [
      'source <(seller-mirror completion bash)    # in ~/.bashrc',
      'source <(seller-mirror completion zsh)     # in ~/.zshrc, after compinit',
      'seller-mirror completion fish > ~/.config/fish/completions/seller-mirror.fish',
    ],
  }).action((shell: string) => {
    const words = [process.execPath, process.argv[1] ?? ''];
    script(shell, 'seller-mirror', words.map(shellWord).join(' '));
  });
}

/** `complete -- WORDS`: what may come next. Scripts of `completion` call it. */
export function addComplete(program: Command): void {
  const command = program.command('complete', { hidden: true }).argument('[words...]');
  describeCommand(command, {
    summary: 'print the words that may come next, for the scripts of `completion`',
    examples: ['seller-mirror complete -- sync --'],
  }).action(async (words: readonly string[]) => {
    const found = nextWords(program, words);
    const lines = found.map(([word, about]) => `${word}\t${about}\n`);
    await write(`${lines.join('')}:${found.length > 0 ? NO_FILES : FILES}\n`);
  });
}

/** What the scripts do besides: complete names of files, or not. */
const FILES = 0;
const NO_FILES = 4;

type Word = readonly [word: string, about: string];

/** The words that may stand in place of the last one. */
function nextWords(program: Command, words: readonly string[]): readonly Word[] {
  const last = words.at(-1) ?? '';
  let command = program;
  for (const word of words.slice(0, -1)) {
    command = command.commands.find((one) => one.name() === word) ?? command;
  }
  // Groups take the options of what they do without a name.
  const { options } = command.commands.find((one) => one.name() === 'list') ?? command;
  const given = options.find((one) => one.required && [one.short, one.long].includes(words.at(-2)));
  if (given !== undefined) return wordsOf(given.argChoices, last);
  if (last.startsWith('-')) {
    return options
      .filter(({ hidden, long }) => !hidden && long?.startsWith(last) === true)
      .map(({ long, description }) => [long ?? '', description]);
  }
  const names = command.commands
    .filter((one) => one.name().startsWith(last) && one.name() !== 'complete')
    .map((one): Word => [one.name(), one.summary()]);
  const choices = command.registeredArguments.flatMap(({ argChoices }) => argChoices ?? []);
  return [...names, ...wordsOf(choices, last)];
}

function wordsOf(choices: readonly string[] | undefined, start: string): readonly Word[] {
  return (choices ?? []).filter((one) => one.startsWith(start)).map((one) => [one, '']);
}
