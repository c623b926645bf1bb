import { dirname } from 'node:path';
import { z } from 'zod';
import { errorCode } from '../domain/error-code.js';
import type { Json } from '../domain/item.js';
import { isObject } from '../domain/values.js';
import { type Findings, absolutePath, type Reader } from './reader.js';

/** A JSON file with a list of named entries: `{"sellers": […]}`. */
interface ListFile<Entry extends z.ZodObject> {
  /** The setting that names the file. */
  readonly setting: 'SELLERS_FILE' | 'FEEDS_FILE';
  readonly list: string;
  /** The word for one entry, in messages. */
  readonly noun: string;
  readonly entry: Entry;
  /** Makes names comparable; by default names must be equal to collide. */
  readonly nameKey?: (name: string) => string;
}

export interface ListEntry<Entry> {
  /** The position in the file, for messages. */
  readonly where: string;
  readonly entry: Entry;
}

interface ListFileContent<Entry> {
  readonly entries: readonly ListEntry<Entry>[];
  /** Relative paths in the file are relative to this. */
  readonly folder: string;
}

/**
 * Reads the file that a setting names. Reports all its problems, and leaves out entries of a wrong shape.
 * @returns null if the setting is not set
 */
export function readListFile<Entry extends z.ZodObject>(
  reader: Reader,
  file: ListFile<Entry>,
): ListFileContent<z.infer<Entry>> | null {
  const { setting, list, noun, nameKey = String } = file;
  const raw = reader.raw(setting);
  if (raw === null) return null;
  const { findings } = reader;
  const path = absolutePath(reader.options.cwd, raw.text);
  const problem = (message: string): ListFileContent<z.infer<Entry>> => {
    findings.problem(setting, message);
    return { entries: [], folder: dirname(path) };
  };
  let json: Json;
  try {
    json = JSON.parse(
      reader.files
        .read(path)
        .toString()
        .replace(/^\uFEFF/, ''),
    ) as Json;
  } catch (error) {
    // The parser's message quotes the text around the error, which may be a secret.
    return error instanceof SyntaxError
      ? problem('is not valid JSON: check it with a JSON editor; comments are not allowed')
      : problem(
          `can’t be read (${errorCode(error) || 'unknown reason'}): name a JSON file that this user may read`,
        );
  }
  if (!isObject(json)) {
    return problem(`is not an object: write {"${list}": […]}, with the ${list} in the list`);
  }
  const issues = z.strictObject({ [list]: z.array(z.unknown()) }).safeParse(json).error?.issues;
  for (const issue of issues ?? []) reportIssue(issue, issue.path, file, findings);
  const listed = Array.isArray(json[list]) ? (json[list] as unknown[]) : null;
  if (listed?.length === 0) {
    return problem(`lists no ${noun}: add one to "${list}", or remove the setting`);
  }
  const entries: (ListEntry<z.infer<Entry>> & { readonly name: string })[] = [];
  for (const [index, each] of (listed ?? []).entries()) {
    const { data, error } = file.entry.safeParse(each);
    for (const issue of error?.issues ?? []) {
      reportIssue(issue, [list, index, ...issue.path], file, findings);
    }
    if (data === undefined) continue;
    const where = `${setting} ${list}[${index}]`;
    const name = String(data['name']);
    const first = entries.find((other) => nameKey(other.name) === nameKey(name));
    if (first !== undefined) {
      findings.problem(
        `${where}.name`,
        `is also the name of ${first.where}: give every ${noun} its own name`,
      );
    }
    entries.push({ where, name, entry: data });
  }
  return { entries, folder: dirname(path) };
}

function reportIssue(
  issue: z.core.$ZodIssue,
  path: readonly PropertyKey[],
  { setting, list, entry }: ListFile<z.ZodObject>,
  findings: Findings,
): void {
  const place = path.map((part) => (typeof part === 'number' ? `[${part}]` : `.${String(part)}`));
  const where = `${setting} ${place.join('').slice(1)}`.trim();
  findings.problem(where, messageOf(issue, path.length > 0 ? Object.keys(entry.shape) : [list]));
}

function messageOf(issue: z.core.$ZodIssue, known: readonly string[]): string {
  if (issue.code === 'unrecognized_keys') {
    const fields = issue.keys.map((key) => JSON.stringify(key)).join(', ');
    return `has the unknown field ${fields}: the fields are ${known.join(', ')}`;
  }
  if (issue.code === 'invalid_type') {
    return `is missing or of another type: write it as ${issue.expected}`;
  }
  return issue.code === 'invalid_value'
    ? `is not known: choose one of ${issue.values.join(', ')}`
    : issue.message;
}
