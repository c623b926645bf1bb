import type { IncomingMessage } from 'node:http';

type Placement = 'query' | 'form' | 'json' | 'header';

/** A request's parameters, wherever they travelled (field notes: query, form body or JSON alike). */
export interface Parameters {
  /** Trimmed, as the server does; undefined when missing or empty. */
  get(name: string): string | undefined;
  /** Where a parameter was found. */
  seenIn(name: string): Placement | null;
  /** All but the key, for the log. */
  withoutKey(): Record<string, string>;
  /** Where parameters were at all. */
  readonly placement: Placement | 'mixed' | 'none';
}

const MAX_BODY = 4 * 1024 * 1024;

/** Reads query and body, and the key from a header when the server is told to look there. */
export async function readParameters(
  request: IncomingMessage,
  query: URLSearchParams,
  keyHeader: string | null,
): Promise<Parameters> {
  const found = new Map<string, { value: string; placement: Placement }>();
  for (const [name, value] of query) found.set(name, { value, placement: 'query' });
  const body = await readBody(request);
  for (const [name, value, placement] of await bodyFields(body, request)) {
    found.set(name, { value, placement });
  }
  const header = keyHeader === null ? undefined : request.headers[keyHeader.toLowerCase()];
  if (typeof header === 'string') {
    const value = header.replace(/^Bearer /i, '');
    found.set('api_key', { value, placement: 'header' });
  }
  return view(found);
}

function view(found: ReadonlyMap<string, { value: string; placement: Placement }>): Parameters {
  const places = [...new Set([...found.values()].map(({ placement }) => placement))];
  return {
    get: (name) => found.get(name)?.value.trim() || undefined,
    seenIn: (name) => found.get(name)?.placement ?? null,
    withoutKey: () =>
      Object.fromEntries(
        [...found].filter(([name]) => name !== 'api_key').map(([name, { value }]) => [name, value]),
      ),
    placement: places.length > 1 ? 'mixed' : (places[0] ?? 'none'),
  };
}

async function readBody(request: IncomingMessage): Promise<Buffer> {
  const parts: Buffer[] = [];
  let size = 0;
  for await (const part of request as AsyncIterable<Buffer>) {
    size += part.length;
    if (size <= MAX_BODY) parts.push(part);
  }
  return Buffer.concat(parts);
}

async function bodyFields(
  body: Buffer,
  request: IncomingMessage,
): Promise<[string, string, Placement][]> {
  const type = request.headers['content-type'] ?? '';
  if (type.includes('json')) return jsonFields(body);
  if (type.includes('urlencoded')) return formFields(new URLSearchParams(body.toString()));
  if (!type.includes('multipart')) return [];
  // A form that cannot be read carries no parameters, as with a server.
  const form = new Response(body, { headers: { 'content-type': type } }).formData();
  return formFields(await form.catch(() => []));
}

function formFields(form: Iterable<[string, unknown]>): [string, string, Placement][] {
  return [...form].map(([name, value]) => [name, typeof value === 'string' ? value : '', 'form']);
}

function jsonFields(body: Buffer): [string, string, Placement][] {
  const value = parse(body.toString());
  if (typeof value !== 'object' || value === null) return [];
  return Object.entries(value).map(([name, field]) => [
    name,
    typeof field === 'string' ? field : JSON.stringify(field),
    'json',
  ]);
}

function parse(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    // As the server does: a body that is no JSON carries no parameters.
    return null;
  }
}
