import { parseArgs } from 'node:util';

export interface Options {
  readonly items: number;
  /** Also measure memory with ten times the items. */
  readonly million: boolean;
  readonly markdown: boolean;
  readonly only: 'mirror' | 'codes' | 'reporting' | null;
  /** Repetitions of what takes seconds, and of what takes a second or two. */
  readonly loads: number;
  readonly nights: number;
}

export const USAGE = `npm run bench -- [options]
  --items N    items in the catalogue, about 1 KB of JSON each (default 100000)
  --quick      20000 items, fewer repetitions and no verdicts, for trying things out
  --million    also the memory at ten times the items; needs 13 GB of disk for a while
  --only PART  mirror, codes or reporting (default: all)
  --markdown   print the table as Markdown`;

const PARTS = ['mirror', 'codes', 'reporting'] as const;

/** @throws when the arguments can't be understood */
export function readOptions(args: readonly string[]): Options | null {
  const { values } = parseArgs({
    args: [...args],
    options: {
      items: { type: 'string' },
      quick: { type: 'boolean', default: false },
      million: { type: 'boolean', default: false },
      only: { type: 'string' },
      markdown: { type: 'boolean', default: false },
      help: { type: 'boolean', short: 'h', default: false },
    },
  });
  if (values.help) return null;
  const items = Number(values.items ?? (values.quick ? 20_000 : 100_000));
  if (!Number.isInteger(items) || items < 1)
    throw new Error(`--items ${values.items} is no number`);
  const { million, markdown, quick } = values;
  const only = PARTS.find((part) => part === values.only) ?? null;
  if (only === null && values.only !== undefined)
    throw new Error(`--only ${values.only} is no part`);
  return { only, items, million, markdown, loads: quick ? 1 : 3, nights: quick ? 3 : 5 };
}
