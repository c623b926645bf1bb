import { open } from 'node:fs/promises';
import { errorCode, IntakeError } from './error.js';
import { shown } from './shown.js';

const PROBLEMS: Readonly<Record<string, readonly [problem: string, remedy: string]>> = {
  ENOENT: ['there is no such file', 'Check the path.'],
  ENOTDIR: ['there is no such file', 'Check the path.'],
  EISDIR: ['is a folder, not a file', 'Name a file in it.'],
  EACCES: ['this user may not read it', 'Give the user leave to read it.'],
  EPERM: ['this user may not read it', 'Give the user leave to read it.'],
  ELOOP: ['its links lead in a circle', 'Name the file itself.'],
  EMFILE: ['too many files are open', 'Check fewer lists at once.'],
};

/**
 * The bytes of a file or named pipe, read as they are asked for. The file is closed at its end and
 * when the reader goes away.
 * @throws IntakeError when there is nothing to read at the path
 */
export async function openSource(path: string): Promise<AsyncIterable<Uint8Array>> {
  try {
    const file = await open(path, 'r');
    if ((await file.stat()).isDirectory()) {
      await file.close();
      throw Object.assign(new Error('is a folder'), { code: 'EISDIR' });
    }
    return file.createReadStream({ highWaterMark: 64 * 1024 });
  } catch (error) {
    const [problem, remedy] = PROBLEMS[errorCode(error)] ?? [
      `it can't be read (${errorCode(error) || 'for no known reason'})`,
      'Check the file and its disk.',
    ];
    throw new IntakeError(`${shown(path, 200)}: ${problem}`, remedy, { cause: error });
  }
}
