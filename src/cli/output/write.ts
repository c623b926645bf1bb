import { Readable, type Writable } from 'node:stream';
import { pipeline } from 'node:stream/promises';

/**
 * Lets the command continue when the reader of stdout goes away (`| head`): a sync must not stop half-way. Any
 * other failure of stdout, such as a full disk, ends the process with one line on stderr and exit code 1.
 */
export function guardStdout(): void {
  process.stdout.on('error', (error: NodeJS.ErrnoException) => {
    if (isGone(error)) return;
    process.stderr.write(`error: can’t write to stdout: ${error.message}\n`);
    process.exit(1);
  });
  // The command continues without stderr.
  process.stderr.on('error', () => undefined);
}

const CHUNK_CHARACTERS = 64 * 1024;

/**
 * Writes lines with backpressure. Leaves the stream open.
 * @returns false if the reader went away
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
    // Only a failure of the output: the source may fail with the same code, which is an error.
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
  const { code = '' } = error as NodeJS.ErrnoException;
  return /^(?:EPIPE|ERR_STREAM_(?:DESTROYED|PREMATURE_CLOSE))$/.test(code);
}
