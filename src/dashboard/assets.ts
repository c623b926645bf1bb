import { createHash } from 'node:crypto';
import { readFileSync } from 'node:fs';

/** A static file. Its path contains a hash of its bytes, so browsers may cache it forever. */
interface Asset {
  readonly path: string;
  readonly type: string;
  readonly bytes: Uint8Array<ArrayBuffer>;
}

const ICON = `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 24 24"><path fill="#0f766e" d="M4 5h7v14H4z"/><path fill="#99d5cd" d="M13 5h7v14h-7z"/></svg>`;

function asset(name: string, type: string, bytes: Uint8Array): Asset {
  const hash = createHash('sha256').update(bytes).digest('hex').slice(0, 12);
  return { path: `/assets/${hash}/${name}`, type, bytes: new Uint8Array(bytes) };
}

/** Reads a file from `dist/dashboard`, also when this module runs from `src`. */
function built(path: string): Uint8Array {
  return readFileSync(new URL(`../../dist/dashboard/${path}`, import.meta.url));
}

export const ASSETS = {
  styles: asset('styles.css', 'text/css; charset=utf-8', built('styles.css')),
  script: asset('main.js', 'text/javascript; charset=utf-8', built('client/main.js')),
  icon: asset('icon.svg', 'image/svg+xml', new TextEncoder().encode(ICON)),
} as const;
