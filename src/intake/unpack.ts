import { Readable } from 'node:stream';
import { createGunzip } from 'node:zlib';
import { pipeline } from 'node:stream';
import { errorCode, IntakeError } from './error.js';
import type { Peekable } from './head.js';

const MAX_UNPACKED_BYTES = 4 * 1024 ** 3;

/** True when the bytes are the beginning of a gzip file. */
export function isGzip(head: Buffer): boolean {
  return head[0] === 0x1f && head[1] === 0x8b;
}

/**
 * The bytes inside a gzip file.
 * @param most bytes it may unpack to, so that a small file can't fill a disk or run for days
 * @throws IntakeError when it unpacks to more, or is broken
 */
export async function* unpacked(
  source: Peekable,
  most = MAX_UNPACKED_BYTES,
): AsyncGenerator<Uint8Array, void, undefined> {
  const gunzip = createGunzip({ chunkSize: 64 * 1024 });
  // The callback only takes note: what goes wrong reaches the loop below as well.
  pipeline(Readable.from(source.read()), gunzip, () => undefined);
  let size = 0;
  try {
    for await (const bytes of gunzip as AsyncIterable<Buffer>) {
      size += bytes.length;
      if (size > most) {
        throw new IntakeError(
          `the compressed list unpacks to more than ${most} bytes`,
          'If that is right, unpack it first and check the file that comes out.',
        );
      }
      yield bytes;
    }
  } catch (error) {
    throw explained(error);
  } finally {
    gunzip.destroy();
    await source.close();
  }
}

function explained(error: unknown): unknown {
  const code = errorCode(error);
  if (!/^(?:Z_|ERR_BUFFER_TOO_LARGE)/.test(code)) return error;
  const cut = code === 'Z_BUF_ERROR';
  return new IntakeError(
    `the compressed list ${cut ? 'ends in the middle' : 'is damaged'}`,
    'Copy or export it again; `gzip -t` tells whether it is whole.',
    { cause: error },
  );
}
