/** A decoded record of a JSON list. */
export type JsonValue =
  | { readonly kind: 'text'; readonly text: string }
  | { readonly kind: 'object'; readonly fields: ReadonlyMap<string, Field> }
  | { readonly kind: 'unfit'; readonly reason: string };

/** A field as the text of a cell. */
export interface Field {
  readonly text: string;
  /** Nested values are cells of JSON, but no codes. */
  readonly nested: boolean;
}

/** Levels of nesting that a record may have. */
const MAX_DEPTH = 64;

/** Decodes one record; a text, or the fields of an object as texts. */
export function decodeJson(json: string): JsonValue {
  if (isTooDeep(json)) return { kind: 'unfit', reason: `nests deeper than ${MAX_DEPTH} levels` };
  let value: unknown;
  try {
    value = JSON.parse(withExactNumbers(json));
  } catch {
    return { kind: 'unfit', reason: 'is no sound JSON' };
  }
  if (typeof value === 'string') return { kind: 'text', text: value };
  if (typeof value === 'number') return { kind: 'text', text: String(value) };
  if (typeof value !== 'object' || value === null || Array.isArray(value)) {
    return { kind: 'unfit', reason: 'is neither a text nor an object' };
  }
  return {
    kind: 'object',
    fields: new Map(Object.entries(value).map(([name, field]) => [name, fieldOf(field)])),
  };
}

function fieldOf(value: unknown): Field {
  if (value === null || value === undefined) return { text: '', nested: false };
  const text = typeof value === 'string' ? value : JSON.stringify(value);
  return { text, nested: typeof value === 'object' };
}

const TEXT_OR_BRACKET = /"[^"\\]*(?:\\.[^"\\]*)*"|[[\]{}]/g;

function isTooDeep(json: string): boolean {
  let depth = 0;
  for (const [part] of json.matchAll(TEXT_OR_BRACKET)) {
    if (part === '[' || part === '{') depth++;
    else if (part === ']' || part === '}') depth--;
    if (depth > MAX_DEPTH) return true;
  }
  return false;
}

const TEXT_OR_NUMBER = /"[^"\\]*(?:\\.[^"\\]*)*"|-?\d+(?:\.\d+)?(?:[eE][+-]?\d+)?/g;

/**
 * Numbers that would come back otherwise than they were written (`1.10`, an id of 20 digits) become
 * texts, since cells are handed on as they are.
 */
function withExactNumbers(json: string): string {
  return json.replaceAll(TEXT_OR_NUMBER, (part) =>
    part.startsWith('"') || !/^-?(?:0|[1-9]\d*)(?:\D|$)/.test(part) || String(Number(part)) === part
      ? part
      : `"${part}"`,
  );
}
