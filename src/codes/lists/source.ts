import { close, constants, createReadStream, open } from 'node:fs';
import { stat } from 'node:fs/promises';
import { Socket } from 'node:net';
import { addAbortSignal, type Readable } from 'node:stream';
import { promisify } from 'node:util';
import { fileError, type FileProblems } from '../../listing/file-error.js';
import { MOST_BYTES, tooLarge } from './types.js';

const NO_FILE = ['there is no such file', 'Check the path.'] as const;
const NOT_READABLE = ['this user may not read it', 'Give the user read permission.'] as const;

const PROBLEMS: FileProblems = {
  ENOENT: NO_FILE,
  ENOTDIR: NO_FILE,
  EISDIR: ['is a folder, not a file', 'Name a file in it.'],
  EACCES: NOT_READABLE,
  EPERM: NOT_READABLE,
  ELOOP: ['its links form a loop', 'Name the file itself.'],
  EMFILE: ['too many files are open', 'Check fewer lists at once.'],
};

/**
 * Opens a file, device or pipe.
 * @param signal ends the stream, also while a pipe is silent
 * @returns its bytes, and its size if it is an ordinary file
 * @throws FileError when the path can't be read
 */
export async function openFile(
  path: string,
  signal?: AbortSignal,
): Promise<{ readonly bytes: Readable; readonly size: number | null }> {
  try {
    const found = await stat(path);
    if (found.isDirectory()) throw Object.assign(new Error('is a folder'), { code: 'EISDIR' });
    const bytes = found.isFIFO() ? await openPipe(path) : await openStream(path);
    if (signal !== undefined) addAbortSignal(signal, bytes);
    return { bytes, size: found.isFile() ? found.size : null };
  } catch (error) {
    throw fileError(path, error, PROBLEMS, ['it can’t be read', 'Check the file and its disk.']);
  }
}

const openDescriptor = promisify(open);

async function openStream(path: string): Promise<Readable> {
  const fd = await openDescriptor(path, 'r');
  return createReadStream(path, { fd });
}

/** Opening or reading a pipe as a file blocks a thread until its writer acts, and the process can't end before. */
async function openPipe(path: string): Promise<Readable> {
  const fd = await openDescriptor(path, constants.O_RDONLY | constants.O_NONBLOCK);
  try {
    return new Socket({ fd, readable: true, writable: false });
  } catch (error) {
    close(fd);
    throw error;
  }
}

const LIMIT = `${MOST_BYTES / 1024 ** 2} MB`;

/**
 * Reads a list to its end.
 * @param onRead called with the number of bytes read so far
 * @throws FileError when it is larger than `MOST_BYTES`
 */
export async function readBytes(
  source: AsyncIterable<Uint8Array>,
  onRead: (bytes: number) => void = () => undefined,
): Promise<Buffer> {
  const parts: Uint8Array[] = [];
  let size = 0;
  for await (const part of source) {
    parts.push(part);
    size += part.length;
    if (size > MOST_BYTES) throw tooLarge(LIMIT);
    onRead(size);
  }
  return Buffer.concat(parts);
}
