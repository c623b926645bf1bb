import type { IncomingMessage } from 'node:http';

/** By name, wherever they travelled (field notes: query, form body or JSON alike). */
export type Parameters = Readonly<Record<string, string>>;

/** Trimmed, as the server does; undefined when missing or empty. */
export function parameter(parameters: Parameters, name: string): string | undefined {
  return parameters[name]?.trim() || undefined;
}

const MAX_BODY_BYTES = 4 * 1024 * 1024;

export async function readParameters(
  request: IncomingMessage,
  query: URLSearchParams,
): Promise<Parameters> {
  const parts: Buffer[] = [];
  let size = 0;
  for await (const part of request as AsyncIterable<Buffer>) {
    size += part.length;
    if (size <= MAX_BODY_BYTES) parts.push(part);
  }
  const body = Buffer.concat(parts).toString();
  return Object.fromEntries([...query, ...bodyFields(body, request.headers['content-type'] ?? '')]);
}

/** A body that can't be read carries no parameters, as with a server. */
function bodyFields(body: string, type: string): Iterable<[string, string]> {
  if (type.includes('urlencoded')) return new URLSearchParams(body);
  if (!type.includes('json')) return [];
  let value: unknown;
  try {
    value = JSON.parse(body);
  } catch {
    return [];
  }
  return Object.entries(value ?? {}).map(([name, field]) => [
    name,
    typeof field === 'string' ? field : JSON.stringify(field),
  ]);
}
