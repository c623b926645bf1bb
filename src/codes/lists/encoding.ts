import { isAscii, isUtf8 } from 'node:buffer';
import type { Encoding } from './types.js';

/** The characters 0x80 to 0x9F of Windows-1252. The five unassigned ones stay unchanged. */
const WINDOWS_1252 = '€\x81‚ƒ„…†‡ˆ‰Š‹Œ\x8dŽ\x8f\x90‘’“”•–—˜™š›œ\x9džŸ';

export interface Decoded {
  readonly text: string;
  readonly encoding: Encoding;
  readonly bom: boolean;
  readonly reason: string;
  readonly notes: readonly string[];
}

/** Decodes a text in UTF-8, UTF-16 or Windows-1252, without its byte order mark. */
export function decode(bytes: Buffer): Decoded {
  const { encoding, bomLength, reason } = findEncoding(bytes);
  const content = bytes.subarray(bomLength);
  const found = { encoding, bom: bomLength > 0, reason, notes: [] };
  if (encoding.startsWith('utf-16')) {
    return { ...found, text: new TextDecoder(encoding, { ignoreBOM: true }).decode(content) };
  }
  if (isAscii(content)) return { ...found, text: content.toString('latin1') };
  const text = content.toString('utf8');
  if (isUtf8(content)) return { ...found, text };
  if (bomLength === 0 && isMostlyDamaged(text)) {
    return {
      ...found,
      text: fromWindows1252(content),
      encoding: 'windows-1252',
      reason: 'The encoding is probably windows-1252, since the bytes aren’t valid utf-8.',
    };
  }
  return { ...found, text, notes: ['Some bytes are not valid utf-8: they are read as \uFFFD.'] };
}

interface EncodingFound {
  readonly encoding: Encoding;
  /** Length of the byte order mark in bytes. */
  readonly bomLength: number;
  readonly reason: string;
}

function findEncoding(bytes: Buffer): EncodingFound {
  if (bytes[0] === 0xef && bytes[1] === 0xbb && bytes[2] === 0xbf) return withBom('utf-8', 3);
  if (bytes[0] === 0xff && bytes[1] === 0xfe) return withBom('utf-16le', 2);
  if (bytes[0] === 0xfe && bytes[1] === 0xff) return withBom('utf-16be', 2);
  const reason = 'The encoding is utf-8, since the bytes are valid utf-8.';
  return { encoding: 'utf-8', bomLength: 0, reason };
}

function withBom(encoding: Encoding, bomLength: number): EncodingFound {
  return { encoding, bomLength, reason: `The encoding is ${encoding}, by its byte order mark.` };
}

/** True if at least half of the characters beyond ASCII are bytes that were not valid UTF-8. */
function isMostlyDamaged(text: string): boolean {
  let [foreign, damaged] = [0, 0];
  for (let at = 0; at < text.length; at++) {
    const code = text.charCodeAt(at);
    if (code < 0x80) continue;
    foreign++;
    if (code === 0xfffd) damaged++;
  }
  return damaged * 2 >= foreign;
}

// In several supported versions, Node's TextDecoder reads this encoding as Latin-1.
function fromWindows1252(bytes: Buffer): string {
  return bytes
    .toString('latin1')
    .replaceAll(/[\x80-\x9f]/g, (char) => WINDOWS_1252[char.charCodeAt(0) - 0x80] ?? char);
}
