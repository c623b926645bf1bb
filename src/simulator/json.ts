/** JSON text written unchanged, such as `19.90`, which no JavaScript number prints. */
export class Literal {
  constructor(readonly text: string) {}
}

/** A value that `toJson` can write. Undefined members of objects are omitted. */
export type Wire =
  string | number | boolean | null | undefined | Literal | readonly Wire[] | WireObject;
export interface WireObject {
  readonly [name: string]: Wire;
}

/** JSON text of a value. @param php escape like PHP: `\/` and `\u00e9` */
export function toJson(value: Wire, php = false): string {
  if (typeof value === 'string') return php ? phpString(value) : JSON.stringify(value);
  if (value === null || typeof value !== 'object') return String(value);
  if (value instanceof Literal) return value.text;
  if (isList(value)) {
    let out = '';
    for (const element of value) out += (out === '' ? '' : ',') + toJson(element, php);
    return `[${out}]`;
  }
  let out = '';
  for (const name of Object.keys(value)) {
    const member = value[name];
    if (member === undefined) continue;
    out += `${out === '' ? '' : ','}${php ? phpString(name) : JSON.stringify(name)}:${toJson(member, php)}`;
  }
  return `{${out}}`;
}

/** Makes any value writable, such as a fork's extra fields. */
export function asWire(value: unknown): Wire {
  if (value === undefined) return undefined;
  return new Literal(JSON.stringify(value));
}

function isList(value: readonly Wire[] | WireObject): value is readonly Wire[] {
  return Array.isArray(value);
}

function phpString(text: string): string {
  return JSON.stringify(text)
    .replaceAll('/', '\\/')
    .replace(
      /[\u0080-\uffff]/g,
      (unit) => `\\u${unit.charCodeAt(0).toString(16).padStart(4, '0')}`,
    );
}
