import { copyFile, open, stat, truncate } from 'node:fs/promises';
import { stripVTControlCharacters } from 'node:util';
import { files } from './place.js';

const MAX_BYTES = 8 * 1024 * 1024;
const TAIL_BYTES = 16 * 1024;

/** Bytes in the log now: what is written later begins here. */
export async function logSize(location: string): Promise<number> {
  return (await stat(files.log(location)).catch(() => null))?.size ?? 0;
}

/** The end of the log from byte `since` on, at most 16 KiB, fit to be printed. */
export async function logSince(location: string, since: number): Promise<string> {
  const file = await open(files.log(location), 'r').catch(() => null);
  if (file === null) return '';
  try {
    const { size } = await file.stat();
    const from = Math.max(since > size ? 0 : since, size - TAIL_BYTES);
    const { buffer, bytesRead } = await file.read(Buffer.alloc(size - from), 0, size - from, from);
    return stripVTControlCharacters(buffer.toString('utf8', 0, bytesRead)).trim();
  } finally {
    await file.close();
  }
}

/** The last lines that tell of trouble; of anything, when none does. One line, for a message. */
export function lastWords(log: string): string {
  const lines = log.split('\n');
  const trouble = lines.filter((line) => /(FATAL|PANIC|ERROR|HINT|keeper):/.test(line));
  return (trouble.length > 0 ? trouble : lines).slice(-3).join(' | ');
}

/**
 * Keeps the log within 8 MiB and one older part of the same size. Writers append, so the file can be cut under
 * them.
 */
export async function boundLog(location: string): Promise<void> {
  if ((await logSize(location)) <= MAX_BYTES) return;
  await copyFile(files.log(location), `${files.log(location)}.1`);
  await truncate(files.log(location), 0);
}
