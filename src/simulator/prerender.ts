import { createReadStream, mkdtempSync } from 'node:fs';
import { open, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { Body } from './answer.js';

interface Rendering {
  readonly revision: string;
  readonly body: Promise<Body>;
  readonly path: string;
  readonly formerPath: string | null;
}

/** Lists rendered to temporary files, so that a benchmark measures its client and not this server. */
export class Prerendered {
  readonly #folder = mkdtempSync(join(tmpdir(), 'seller-mirror-simulator-'));
  readonly #renderings = new Map<object, Rendering>();
  #count = 0;

  /** The body from its file, rendered again when the revision is another than the last time. */
  async body(owner: object, revision: string, source: Body): Promise<Body> {
    const known = this.#renderings.get(owner);
    if (known?.revision === revision) return known.body;
    const path = join(this.#folder, `${++this.#count}.json`);
    const body = render(path, source);
    this.#renderings.set(owner, { revision, body, path, formerPath: known?.path ?? null });
    // The former file may still be read by somebody; the one before it hardly.
    if (known?.formerPath) await rm(known.formerPath, { force: true });
    return body;
  }

  /** Removes the files. */
  async close(): Promise<void> {
    await rm(this.#folder, { recursive: true, force: true });
  }
}

async function render(path: string, source: Body): Promise<Body> {
  const file = await open(path, 'w');
  let length = 0;
  try {
    for await (const chunk of source.chunks()) {
      await file.writeFile(chunk);
      length += chunk.length;
    }
  } finally {
    await file.close();
  }
  return { length, chunks: () => createReadStream(path, { highWaterMark: 1024 * 1024 }) };
}
