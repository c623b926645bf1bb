import { Argument, type Command } from 'commander';
import { write } from '../console.js';
import { action } from '../execute.js';
import { describeCommand } from '../options.js';

const SHELLS = ['bash', 'zsh', 'fish'] as const;

export function add(program: Command): void {
  const command = program
    .command('completion')
    .addArgument(new Argument('<shell>', 'the shell').choices(SHELLS));
  describeCommand(command, {
    about:
      'Prints a script that makes bash, zsh or fish complete commands, options and their values on Tab. `seller-mirror` must be on the PATH.',
    examples: [
      'eval "$(seller-mirror completion bash)"    # a line for ~/.bashrc',
      'eval "$(seller-mirror completion zsh)"     # for ~/.zshrc, after compinit',
      'seller-mirror completion fish > ~/.config/fish/completions/seller-mirror.fish',
    ],
  }).action(
    action(async (_, shell: (typeof SHELLS)[number]) => {
      const words = wordsAfter(program, '');
      await write(shell === 'fish' ? fish(words) : `${finder(words)}${WIDGETS[shell]}`);
    }),
  );
}

interface Word {
  /** The commands before it, such as `audits list`; empty for the first word. */
  readonly place: string;
  /** `*` means any file. */
  readonly text: string;
  /** A command, another word, or an option that takes one of some values, a file or any text. */
  readonly kind: 'command' | 'word' | `values ${string}` | 'file' | 'any';
  readonly about: string;
}

function wordsAfter(command: Command, place: string): Word[] {
  const help = command.createHelp();
  const { commands } = command;
  const args = help.visibleArguments(command);
  const takesFile = args.some((one) => namesFile(`${one.name()} ${one.description}`));
  const word = (text: string, kind: Word['kind'], about: string): Word => {
    // A quote would end the script's string, a colon the word's field.
    return { place, text, kind, about: about.replaceAll("'", '’').replaceAll(':', ' –') };
  };
  return [
    ...commands.map((one) => word(one.name(), 'command', one.summary())),
    ...args.flatMap(({ argChoices = [] }) => argChoices.map((text) => word(text, 'word', ''))),
    ...(takesFile ? [word('*', 'word', '')] : []),
    ...help.visibleOptions(command).flatMap((option) => {
      const { short, long, flags, argChoices, required, optional, description } = option;
      const values = argChoices && (`values ${argChoices.join(' ')}` as const);
      const value = values ?? (namesFile(flags) ? 'file' : 'any');
      const kind = required || optional ? value : 'word';
      return [short, long].flatMap((name) => (name ? word(name, kind, description) : []));
    }),
    ...commands.flatMap((one) => wordsAfter(one, `${place} ${one.name()}`.trim())),
  ];
}

function namesFile(text: string): boolean {
  return /\bfiles?\b/.test(text);
}

/**
 * A function for bash and zsh. It gets the words so far and prints those that can follow, each with its
 * description after a colon. The braces are for zsh, which reads `$word:a` as the absolute path of a word.
 */
function finder(words: readonly Word[]): string {
  const lines = words.map(({ place, text, kind, about }) => [place, text, kind, about].join(':'));
  return `# Completion for seller-mirror. Place, word, kind and description:
_seller_mirror_words='
${lines.join('\n')}
'
_seller_mirror_find() {
  local place='' prev='' at word kind about found=''
  for word; do
    case "$_seller_mirror_words" in *"
\${place}:\${word}:command:"*) place="\${place:+$place }$word" ;; esac
    prev=$word
  done
  while IFS=: read -r at word kind about; do
    if [ "$at" != "$place" ] || [ "$word" = '' ]; then continue; fi
    case "\${word}:$kind" in
    "\${prev}:values "*) printf '%s\\n' "\${kind#values }" | tr ' ' '\\n'; return ;;
    "\${prev}:file") echo '*'; return ;;
    "\${prev}:any") return ;;
    esac
    found="$found\${word}:$about
"
  done <<< "$_seller_mirror_words"
  printf '%s' "$found"
}
`;
}

const WIDGETS = {
  bash: `_seller_mirror() {
  local cur=\${COMP_WORDS[COMP_CWORD]} word about
  COMPREPLY=()
  while IFS=: read -r word about; do
    if [[ $word == '*' && $cur != -* ]]; then
      compopt -o filenames 2>/dev/null
      while IFS= read -r word; do COMPREPLY+=("$word"); done < <(compgen -f -- "$cur")
    elif [[ $word == "$cur"* && ( $cur == -* || $word != -* ) && $word != '*' ]]; then
      COMPREPLY+=("$word")
    fi
  done < <(_seller_mirror_find "\${COMP_WORDS[@]:1:COMP_CWORD-1}")
}
complete -F _seller_mirror seller-mirror
`,
  zsh: `_seller_mirror() {
  local line
  local -a found
  for line in "\${(@f)$(_seller_mirror_find "\${(@)words[2,CURRENT-1]}")}"; do
    if [[ $line == '*'* ]]; then
      [[ $words[CURRENT] == -* ]] || _files
    elif [[ -n $line && ( $words[CURRENT] == -* || $line != -* ) ]]; then
      found+=("$line")
    fi
  done
  (( $#found )) && _describe 'seller-mirror' found
}
compdef _seller_mirror seller-mirror
`,
} as const;

function fish(words: readonly Word[]): string {
  const lines = words.map(({ place, text, kind, about }) => {
    const at = `complete -c seller-mirror -n '${`__seller_mirror_at ${place}`.trim()}'`;
    if (text === '*') return `${at} -F`;
    if (!text.startsWith('-')) return `${at} -a ${text} -d '${about}'`;
    const name = text.startsWith('--') ? `-l ${text.slice(2)}` : `-s ${text.slice(1)}`;
    const values = `-x -a '${kind.replace(/^values /, '')}'`;
    const takes = { command: '', word: '', file: '-r -F', any: '-x' }[kind as string] ?? values;
    return `${at} ${name} ${takes} -d '${about}'`;
  });
  const places = new Set(words.map(({ place }) => place).filter(Boolean));
  return `# Completion for seller-mirror in fish.
function __seller_mirror_at
    set -l place
    for word in (commandline -opc)[2..-1]
        set -l longer (string trim -- "$place $word")
        contains -- $longer ${[...places].map((place) => `'${place}'`).join(' ')}; and set place $longer
    end
    test "$place" = "$argv"
end
complete -c seller-mirror -f
${lines.join('\n')}
`;
}
