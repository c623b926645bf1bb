import { readFileSync } from 'node:fs';
import { dirname } from 'node:path';
import { z } from 'zod';
import type { Json } from '../domain/item.js';
import { isObject } from '../domain/values.js';
import { nearest } from './nearest.js';
import { absolutePath, codeOf, type Reader } from './reader.js';

/** A JSON file with a list of named entries: `{"sellers": […]}`. */
export interface ListFile<Entry extends z.ZodObject> {
  /** The setting that names the file. */
  readonly setting: 'SELLERS_FILE' | 'FEEDS_FILE';
  readonly list: string;
  /** What one entry is called. */
  readonly one: string;
  readonly entry: Entry;
  /** What to say of a field that there is none of, when more can be said than which ones there are. */
  readonly unknownField?: (field: string) => string | null;
  /** Names that this makes the same are the same; without it, only equal ones are. */
  readonly sameName?: (name: string) => string;
}

/** The entries of a file and its folder, which relative paths in it are relative to. */
export interface ListRead<Entry> {
  readonly entries: readonly Entry[];
  readonly folder: string;
}

/** Where an entry of a file is, for messages. */
export function placeIn({ setting, list }: Pick<ListFile<z.ZodObject>, 'setting' | 'list'>) {
  return (index: number): string => `${setting} ${list}[${index}]`;
}

/**
 * Reads the file that a setting names. All that is wrong with it is reported, and no entry of a file
 * with a fault is returned.
 * @returns null when the setting is not given
 */
export function readListFile<Entry extends z.ZodObject>(
  reader: Reader,
  file: ListFile<Entry>,
): ListRead<z.infer<Entry>> | null {
  const { setting, list, one, sameName = String } = file;
  const given = reader.given(setting);
  if (given === null) return null;
  const { findings } = reader;
  const path = absolutePath(reader.options.cwd, given.text);
  const problem = (message: string): ListRead<z.infer<Entry>> => {
    findings.problem({ where: setting, text: path }, message);
    return { entries: [], folder: dirname(path) };
  };
  let json: Json;
  try {
    json = JSON.parse(readFileSync(path, 'utf8').replace(/^\uFEFF/, '')) as Json;
  } catch (error) {
    // The parser's own message quotes the text around the fault, which may be a secret.
    return error instanceof SyntaxError
      ? problem('is not valid JSON: check it with a JSON editor; comments are not allowed')
      : problem(
          `can't be read (${codeOf(error) ?? 'unknown reason'}): name a JSON file that this user may read`,
        );
  }
  if (!isObject(json)) {
    return problem(`is no object: write {"${list}": […]}, with the ${list} in the list`);
  }
  const schema = z.strictObject({ [list]: z.array(file.entry) });
  const parsed = schema.safeParse(json);
  if (!parsed.success) {
    for (const issue of parsed.error.issues) reportIssue(issue, file, reader);
    return { entries: [], folder: dirname(path) };
  }
  const entries = parsed.data[list] as (z.infer<Entry> & { readonly name: string })[];
  if (entries.length === 0) {
    return problem(`lists no ${one}: add one to "${list}", or take the setting away`);
  }
  for (const [index, { name }] of entries.entries()) {
    const first = entries.findIndex((other) => sameName(other.name) === sameName(name));
    if (first === index) continue;
    findings.problem(
      { where: `${placeIn(file)(index)}.name`, text: name },
      `is the name of ${placeIn(file)(first)} too: give every ${one} a name of its own`,
    );
  }
  return { entries, folder: dirname(path) };
}

function reportIssue(
  issue: z.core.$ZodIssue,
  { setting, list, entry, unknownField }: ListFile<z.ZodObject>,
  { findings }: Reader,
): void {
  const path = issue.path.map((part) =>
    typeof part === 'number' ? `[${part}]` : `.${String(part)}`,
  );
  const where = `${setting} ${path.join('').slice(1)}`.trim();
  if (issue.code === 'unrecognized_keys') {
    const isInEntry = path.length > 0;
    const known = isInEntry ? Object.keys(entry.shape) : [list];
    for (const key of issue.keys) {
      const told = isInEntry ? (unknownField?.(key) ?? null) : null;
      const meant = nearest(key, known);
      const remedy =
        meant === null ? `the fields are ${known.join(', ')}` : `did you mean ${meant}?`;
      if (told !== null) findings.problem(where, told);
      else findings.problem({ where, text: key }, `is no field: ${remedy}`);
    }
  } else if (issue.code === 'invalid_type') {
    const article = /^[aeio]/.test(issue.expected) ? 'an' : 'a';
    findings.problem(
      where,
      `is missing or no ${issue.expected}: give ${article} ${issue.expected}`,
    );
  } else if (issue.code === 'invalid_value') {
    findings.problem(where, `is not known: choose one of ${issue.values.join(', ')}`);
  } else {
    findings.problem(where, issue.message);
  }
}
