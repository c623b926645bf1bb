import { Readable, type Writable } from 'node:stream';
import { pipeline } from 'node:stream/promises';

/**
 * Makes a reader that goes away (`| head`) an ordinary end instead of a crash, and any other
 * failure of stdout, such as a full disk, one line on stderr and exit code 1.
 * @param onClosed told once, when nobody reads any more; by default the process ends quietly
 */
export function guardStdout(
  onClosed: () => void = () => process.exit(process.exitCode ?? 0),
): void {
  let closed = false;
  process.stdout.on('error', (error: NodeJS.ErrnoException) => {
    if (!isGone(error)) {
      process.stderr.write(`The output can't be written: ${error.message}\n`);
      process.exit(1);
    }
    if (closed) return;
    closed = true;
    onClosed();
  });
  // Without stderr there is nobody to tell; the work goes on.
  process.stderr.on('error', () => undefined);
}

const CHUNK_CHARACTERS = 64 * 1024;

/**
 * Writes lines as fast as they are read and no faster, so that any number of them needs little
 * memory. Returns early when the reader goes away; the stream stays open otherwise.
 * @returns false when the reader went away
 */
export async function writeAll(
  output: Writable,
  lines: Iterable<string> | AsyncIterable<string | Uint8Array>,
): Promise<boolean> {
  let gone = false;
  const onError = (error: Error): void => {
    gone = isGone(error);
  };
  output.on('error', onError);
  try {
    await pipeline(Readable.from(inChunks(lines), { highWaterMark: 1 }), output, { end: false });
    return true;
  } catch (error) {
    // The source may have failed with the same code: only the output's own failure is a quiet end.
    if (gone || (output.destroyed && isGone(error))) return false;
    throw error;
  } finally {
    output.off('error', onError);
  }
}

async function* inChunks(
  lines: Iterable<string> | AsyncIterable<string | Uint8Array>,
): AsyncGenerator<string | Uint8Array, void, undefined> {
  let chunk = '';
  for await (const line of lines) {
    if (typeof line !== 'string') {
      yield line;
      continue;
    }
    chunk += line;
    if (chunk.length >= CHUNK_CHARACTERS) {
      yield chunk;
      chunk = '';
    }
  }
  if (chunk !== '') yield chunk;
}

function isGone(error: unknown): boolean {
  const code = (error as NodeJS.ErrnoException).code;
  return (
    code === 'EPIPE' || code === 'ERR_STREAM_DESTROYED' || code === 'ERR_STREAM_PREMATURE_CLOSE'
  );
}
