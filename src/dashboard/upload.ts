import type { MiddlewareHandler } from 'hono';
import { bodyLimit } from 'hono/body-limit';
import { type DashboardEnv, Problem } from './context.js';

/** Largest pasted list in bytes. */
const MAX_PASTED_BYTES = 8 * 1024 * 1024;
/** Bytes of a form beside its list. */
const OTHER_BYTES = 64 * 1024;
const MAX_NAME_CHARS = 200;

/** Refuses uploads that are too large, alone or together with others under way: they are held in memory. */
export function limitUploads(maxBytes: number): MiddlewareHandler<DashboardEnv> {
  const maxSize = maxBytes + OTHER_BYTES;
  let held = 0;
  const limit = bodyLimit({
    maxSize,
    onError: () => Promise.reject(tooLarge(maxBytes)),
  });
  return async (c, next) => {
    const length = Number(c.req.header('content-length') ?? 0);
    if (held > 0 && held + length > maxSize) {
      throw new Problem(
        'Too many lists are uploaded at once',
        'Send the list again in a minute.',
        409,
      );
    }
    held += length;
    try {
      return await limit(c, next);
    } finally {
      held -= length;
    }
  };
}

/**
 * The list in a form: a file or pasted text.
 * @returns also its name without folders, or `pasted list`
 * @throws {Problem} when there is none or it is too large
 */
export async function uploadedList(
  { file, list }: Readonly<Record<string, unknown>>,
  maxBytes: number,
): Promise<{ readonly name: string; readonly content: Buffer }> {
  const isFile = file instanceof File && (file.size > 0 || file.name !== '');
  const content = isFile
    ? Buffer.from(await file.arrayBuffer())
    : Buffer.from(typeof list === 'string' ? list.trim() : '');
  if (content.length > (isFile ? maxBytes : MAX_PASTED_BYTES)) throw tooLarge(maxBytes);
  if (isFile) return { name: baseName(file.name) || 'list', content };
  if (content.length > 0) return { name: 'pasted list', content };
  throw new Problem('No list was sent', 'Choose a file or paste the codes.');
}

function tooLarge(maxBytes: number): Problem {
  const [most, pasted] = [maxBytes, MAX_PASTED_BYTES].map((n) => Math.floor(n / 1024 ** 2));
  return new Problem(
    'The list is too large',
    `Files may have up to ${most} MB, pasted lists ${pasted} MB. Send a longer one as several files.`,
    413,
  );
}

/** Removes folders and invisible characters from an untrusted file name. */
function baseName(name: string): string {
  const last = name.toWellFormed().split(/[/\\]/).at(-1) ?? '';
  return last
    .replace(/[\p{Cc}\p{Cf}\u2028\u2029]/gu, '')
    .trim()
    .slice(-MAX_NAME_CHARS);
}
