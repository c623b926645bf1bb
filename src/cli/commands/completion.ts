import { Argument, type Command, type Option } from 'commander';
import { write } from '../console.js';
import { execute } from '../execute.js';
import { EXIT } from '../exit-codes.js';

const SHELLS = ['bash', 'zsh', 'fish'] as const;
type Shell = (typeof SHELLS)[number];

/** `completion SHELL`: prints a script that completes commands, options and their values. */
export function addCompletion(program: Command): void {
  program
    .command('completion')
    .description(
      'Prints a script with which bash, zsh or fish completes commands, options and their values when Tab is pressed. For a `seller-mirror` that is on the PATH.',
    )
    .addArgument(new Argument('<shell>', 'the shell').choices(SHELLS))
    .addHelpText(
      'after',
      `\nExamples:\n  $ eval "$(seller-mirror completion bash)"    # a line for ~/.bashrc\n  $ eval "$(seller-mirror completion zsh)"     # for ~/.zshrc, after compinit\n  $ seller-mirror completion fish > ~/.config/fish/completions/seller-mirror.fish`,
    )
    .action((shell: Shell) =>
      execute(async () => {
        await write(SCRIPTS[shell](placesIn(program)));
        return EXIT.done;
      }),
    );
}

/** A word that can be typed, and its description. */
interface Word {
  readonly text: string;
  readonly about: string;
}

/** The words that can be typed after some commands. */
interface Place {
  /** The commands typed so far, such as `audits list`; empty at the beginning. */
  readonly path: string;
  readonly commands: readonly Word[];
  /** Words that an argument can be. */
  readonly choices: readonly string[];
  /** Whether an argument can be a file. */
  readonly takesFile: boolean;
  readonly options: readonly OptionWord[];
}

interface OptionWord {
  /** Both spellings where there are two: `-h`, `--help`. */
  readonly names: readonly string[];
  readonly about: string;
  /** Its value: one of these words, a file, any text, or none. */
  readonly value: readonly string[] | 'file' | 'any' | null;
}

function placesIn(command: Command, path: readonly string[] = []): Place[] {
  const help = command.createHelp();
  const names = new Set(help.visibleCommands(command).map((one) => one.name()));
  // Commander's `help` command is left out: --help does the same.
  const commands = command.commands.filter((one) => names.has(one.name()));
  const args = help.visibleArguments(command);
  const place: Place = {
    path: path.join(' '),
    commands: commands.map((one) => ({ text: one.name(), about: one.summary() })),
    choices: args.flatMap(({ argChoices }) => argChoices ?? []),
    takesFile: args.some((one) => isFile(`${one.name()} ${one.description}`)),
    options: help.visibleOptions(command).map(optionWord),
  };
  return [place, ...commands.flatMap((one) => placesIn(one, [...path, one.name()]))];
}

function optionWord(option: Option): OptionWord {
  const { flags, long, short, description, argChoices, required, optional } = option;
  const takesValue = required || optional;
  return {
    names: [short, long].filter((name) => name !== undefined),
    about: description,
    value: takesValue ? (argChoices ?? (isFile(flags) ? 'file' : 'any')) : null,
  };
}

function isFile(text: string): boolean {
  return /\bfiles?\b/.test(text);
}

/** Puts text between single quotes, for all three shells. */
function quoted(text: string): string {
  return `'${text.replaceAll("'", '’')}'`;
}

/** Branches of a `case` in bash and zsh: the values of each option. */
function valueCases(
  places: readonly Place[],
  words: (values: readonly string[]) => string,
): string {
  return places
    .flatMap(({ path, options }) =>
      options.flatMap(({ names, value }) => {
        if (value === null) return [];
        const patterns = names.map((name) => quoted(`${path}|${name}`)).join('|');
        const then =
          value === 'file' ? '_seller_mirror_files' : value === 'any' ? ':' : words(value);
        return [`    ${patterns}) ${then}; return ;;\n`];
      }),
    )
    .join('');
}

/** The part that finds the commands typed so far, the same for bash and zsh. */
const PATH_CASES = (places: readonly Place[]): string =>
  places
    .filter(({ path }) => path !== '')
    .map(({ path }) => {
      const words = path.split(' ');
      const last = words.pop() ?? '';
      return quoted(`${words.join(' ')}|${last}`);
    })
    .join('|');

function bash(places: readonly Place[]): string {
  const compgen = (words: readonly string[]): string =>
    `COMPREPLY=($(compgen -W ${quoted(words.join(' '))} -- "$cur"))`;
  const wordCases = places.map(({ path, commands, choices, options, takesFile }) => {
    const names = options.flatMap((option) => option.names);
    const words = [...commands.map(({ text }) => text), ...choices];
    const files = takesFile ? '; [[ $cur == -* ]] || _seller_mirror_files' : '';
    return `    ${quoted(path)}) if [[ $cur == -* ]]; then ${compgen(names)}; else ${compgen(words)}; fi${files} ;;\n`;
  });
  return `# Completion of seller-mirror in bash.
_seller_mirror_files() {
  compopt -o filenames 2>/dev/null
  local file
  while IFS= read -r file; do COMPREPLY+=("$file"); done < <(compgen -f -- "$cur")
}
_seller_mirror() {
  local cur=\${COMP_WORDS[COMP_CWORD]} prev=\${COMP_WORDS[COMP_CWORD-1]} path='' i
  COMPREPLY=()
  for ((i = 1; i < COMP_CWORD; i++)); do
    case "$path|\${COMP_WORDS[i]}" in
    ${PATH_CASES(places)}) path="\${path:+$path }\${COMP_WORDS[i]}" ;;
    esac
  done
  case "$path|$prev" in
${valueCases(places, compgen)}  esac
  case "$path" in
${wordCases.join('')}  esac
}
complete -F _seller_mirror seller-mirror
`;
}

function zsh(places: readonly Place[]): string {
  // A colon separates the word from its description.
  const described = (words: readonly Word[]): string =>
    words.map(({ text, about }) => quoted(`${text}:${about.replaceAll(':', ' –')}`)).join(' ');
  const wordCases = places.map(({ path, commands, choices, options, takesFile }) => {
    const named = options.flatMap(({ names, about }) => names.map((text) => ({ text, about })));
    const lines = [
      `    ${quoted(path)})`,
      `      if [[ $words[CURRENT] == -* ]]; then found=(${described(named)})`,
      `      else found=(${described(commands)} ${choices.map(quoted).join(' ')}); fi`,
      ...(takesFile ? ['      [[ $words[CURRENT] == -* ]] || _files'] : []),
      '      ;;\n',
    ];
    return lines.join('\n');
  });
  return `#compdef seller-mirror
# Completion of seller-mirror in zsh.
_seller_mirror_files() { _files }
_seller_mirror() {
  local path_='' i
  local -a found
  for ((i = 2; i < CURRENT; i++)); do
    case "$path_|$words[i]" in
    ${PATH_CASES(places)}) path_="\${path_:+$path_ }$words[i]" ;;
    esac
  done
  case "$path_|$words[CURRENT-1]" in
${valueCases(places, (values) => `compadd -- ${values.map(quoted).join(' ')}`)}  esac
  case "$path_" in
${wordCases.join('')}  esac
  (( $#found )) && _describe 'seller-mirror' found
}
compdef _seller_mirror seller-mirror
`;
}

function fish(places: readonly Place[]): string {
  const lines = places.flatMap(({ path, commands, choices, options, takesFile }) => {
    const at = `complete -c seller-mirror -n ${quoted(`__seller_mirror_at ${path}`.trim())}`;
    return [
      ...commands.map(({ text, about }) => `${at} -a ${text} -d ${quoted(about)}`),
      ...(choices.length === 0 ? [] : [`${at} -a ${quoted(choices.join(' '))}`]),
      ...(takesFile ? [`${at} -F`] : []),
      ...options.map(({ names, about, value }) => {
        const spelt = names.map((name) =>
          name.startsWith('--') ? `-l ${name.slice(2)}` : `-s ${name.slice(1)}`,
        );
        const takes =
          value === null
            ? ''
            : value === 'file'
              ? ' -r -F'
              : value === 'any'
                ? ' -x'
                : ` -x -a ${quoted(value.join(' '))}`;
        return `${at} ${spelt.join(' ')}${takes} -d ${quoted(about)}`;
      }),
    ];
  });
  const paths = places.filter(({ path }) => path !== '').map(({ path }) => quoted(path));
  return `# Completion of seller-mirror in fish.
function __seller_mirror_at
    set -l path
    for word in (commandline -opc)[2..-1]
        set -l longer (string trim -- "$path $word")
        contains -- $longer ${paths.join(' ')}; and set path $longer
    end
    test "$path" = "$argv"
end
complete -c seller-mirror -f
${lines.join('\n')}
`;
}

const SCRIPTS: Readonly<Record<Shell, (places: readonly Place[]) => string>> = { bash, zsh, fish };
