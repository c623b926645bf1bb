import type { ExportFormat } from '../../export/index.js';
import { writeWhole } from '../../intake/index.js';
import { print } from '../console.js';
import { safeJson, safeLines, writeAll } from '../output/index.js';
import type { Place } from './request.js';

type Chunks = AsyncIterable<string | Uint8Array>;

/**
 * Writes an export to its place: a file whole or not at all, stdout as it comes.
 * @returns how many bytes; null when the reader of stdout went away before the end
 */
export async function writeOut(
  chunks: Chunks,
  { path, format }: Place,
  signal: AbortSignal,
): Promise<number | null> {
  let bytes = 0;
  const counted = async function* (): Chunks {
    for await (const chunk of chunks) {
      bytes += Buffer.byteLength(chunk);
      yield chunk;
    }
  };
  if (path !== null) {
    await writeWhole(path, counted(), { signal });
    return bytes;
  }
  const isTaken = await writeAll(process.stdout, forTerminal(counted(), format));
  // What is written last may still wait to be taken.
  if (isTaken) await print('');
  return isTaken ? bytes : null;
}

/** On a terminal nothing that a marketplace wrote takes effect. */
async function* forTerminal(chunks: Chunks, format: ExportFormat): Chunks {
  for await (const chunk of chunks) {
    if (typeof chunk !== 'string' || !process.stdout.isTTY) yield chunk;
    else yield format === 'ndjson' ? safeJson(chunk) : safeLines(chunk);
  }
}
