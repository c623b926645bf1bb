import { close, constants, createReadStream, open } from 'node:fs';
import { stat } from 'node:fs/promises';
import { Socket } from 'node:net';
import type { Readable } from 'node:stream';
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

/** Opens a file, device or pipe. @throws UserError when the path can't be read */
export async function openFile(path: string): Promise<Readable> {
  try {
    const found = await stat(path);
    if (found.isDirectory()) throw Object.assign(new Error('is a folder'), { code: 'EISDIR' });
    return found.isFIFO() ? await openPipe(path) : await openStream(path);
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

/** Reads a list to its end. @throws UserError when it is larger than `MOST_BYTES` */
export async function readBytes(source: AsyncIterable<Uint8Array>): Promise<Buffer> {
  const parts: Uint8Array[] = [];
  let size = 0;
  for await (const part of source) {
    parts.push(part);
    size += part.length;
    if (size > MOST_BYTES) throw tooLarge(`${MOST_BYTES / 1024 ** 2} MB`);
  }
  return Buffer.concat(parts);
}
