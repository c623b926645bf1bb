/** A response body of any size, rendered while it is sent. */
export interface Body {
  chunks(): Iterable<Uint8Array> | AsyncIterable<Uint8Array>;
  /** Length in bytes; null if only rendering would show it. */
  readonly length: number | null;
}

type Headers = Readonly<Record<string, string>>;

export interface Answer {
  readonly status: number;
  readonly headers: Headers;
  readonly body: Body;
}

export function textAnswer(status: number, text: string, headers: Headers = {}): Answer {
  const bytes = Buffer.from(text);
  return { status, headers, body: { length: bytes.length, chunks: () => [bytes] } };
}

export function jsonAnswer(status: number, text: string, headers: Headers = {}): Answer {
  return textAnswer(status, text, { 'Content-Type': 'application/json', ...headers });
}

export function htmlAnswer(status: number, title: string, headers: Headers = {}): Answer {
  const page = `<!DOCTYPE html>
<html lang="en"><head><meta charset="utf-8"><title>${title}</title><style>body{margin:0}</style></head>
<body><h1>${title}</h1><script>window.app = {"status": "page"};</script></body></html>
`;
  return textAnswer(status, page, { 'Content-Type': 'text/html; charset=UTF-8', ...headers });
}

export function redirectAnswer(status: number, location: string): Answer {
  return htmlAnswer(status, 'Redirecting', { Location: location });
}

/** An error of the framework, not of the API: `message` instead of `msg` (servers: outages). */
export function frameworkError(
  status: number,
  message: string,
  wantsJson: boolean,
  headers: Headers = {},
): Answer {
  if (!wantsJson) return htmlAnswer(status, message || 'Not Found', headers);
  return jsonAnswer(status, JSON.stringify({ message }), headers);
}

/** An error in Laravel's debug mode. @param echo parts of the request to include */
export function serverError(status: number, body: 'json' | 'html', echo: object = {}): Answer {
  const error = {
    message: 'SQLSTATE[HY000] [2002] Connection refused',
    exception: 'PDOException',
    file: '/var/www/app/Db.php',
    line: 7,
    trace: [
      { file: '/var/www/app/Http/Kernel.php', line: 142, function: 'handle', class: 'Kernel' },
    ],
    ...echo,
  };
  return body === 'json'
    ? jsonAnswer(status, JSON.stringify(error))
    : htmlAnswer(status, `${error.message} with ${JSON.stringify(echo)}`);
}

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
