import { createHash } from 'node:crypto';
import { access, constants, mkdir, readdir, readFile, rename, rm, open } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { exportChunks, type ExportFormat } from '../export/index.js';
import type { TextRow } from '../store/text-cursor.js';
import { DELETED, TargetError, TargetMovedError, type Delivered, type Target } from './target.js';

/** One file of a view. */
interface Part {
  /** Relative to the folder. */
  readonly path: string;
  readonly rows: number;
  readonly bytes: number;
  readonly sha256: string;
}

/** What a view's manifest says. Readers take the parts that it lists, in their order. */
interface Manifest extends Omit<Delivered, 'deliveredAt'> {
  readonly view: string;
  readonly key: readonly string[] | null;
  readonly format: ExportFormat;
  readonly deliveredAt: string;
  readonly parts: readonly Part[];
}

/**
 * A folder as the target of a feed: `VIEW/DATE/part-SEQ.EXT`, each written whole, and `VIEW/manifest.json`,
 * which lists them and is replaced last. A part holds the rows that changed, with `_deleted`; a first part
 * holds all of them.
 */
export function folderTarget(folder: string, format: ExportFormat): Target {
  const manifestPath = (view: string): string => join(folder, view, 'manifest.json');

  const read = async (view: string): Promise<Manifest | null> => {
    try {
      return JSON.parse(await readFile(manifestPath(view), 'utf8')) as Manifest;
    } catch (error) {
      if ((error as NodeJS.ErrnoException).code === 'ENOENT') return null;
      throw failed(error);
    }
  };
  const failed = (error: unknown): TargetError => {
    if (error instanceof TargetError) return error;
    const words = error instanceof Error ? error.message : 'failed';
    return new TargetError(
      `folder ${folder}: ${'code' in (error as object) ? String((error as NodeJS.ErrnoException).code) : words}`,
      'make the folder writable for this user, and see that its disk has room',
    );
  };
  const told = (manifest: Manifest | null): Delivered | null => {
    if (manifest === null) return null;
    const { epoch, cursor, shape, digest, rows, deliveredAt } = manifest;
    return { epoch, cursor, shape, digest, rows, deliveredAt: new Date(deliveredAt) };
  };

  return {
    async check() {
      try {
        await mkdir(folder, { recursive: true });
        await access(folder, constants.W_OK);
        return `folder ${folder}, ${format}`;
      } catch (error) {
        throw failed(error);
      }
    },
    delivered: async (view) => told(await read(view)),
    async deliver({ shape, kind, batches, from, next }) {
      const { view, columns, key } = shape;
      const before = await read(view);
      const withDeleted = key === null || kind === 'changes' ? batches : withFlag(batches);
      const shown = key === null ? columns : [...columns, { name: DELETED, type: 'boolean' }];
      const day = new Date().toISOString().slice(0, 10);
      const number = String(1 + (before?.parts.length ?? 0)).padStart(6, '0');
      try {
        const place = join(view, day);
        await mkdir(join(folder, place), { recursive: true });
        const draft = join(folder, place, `.part-${number}.${process.pid}`);
        const part = await writePart(draft, shown, withDeleted, format);
        if (JSON.stringify(told(await read(view))) !== JSON.stringify(from)) {
          await rm(draft, { force: true });
          throw new TargetMovedError(`somebody else delivers ${view}`);
        }
        const old = kind === 'all' ? [] : (before?.parts ?? []);
        const isEmpty = part.rows === 0 && kind === 'changes';
        // A new first part never takes the name of an old one, which somebody may be reading.
        const stamp = kind === 'all' ? `-${Date.now()}` : '';
        const path = join(place, `part-${number}${stamp}.${format}`);
        if (isEmpty) await rm(draft, { force: true });
        else await rename(draft, join(folder, path));
        const parts = isEmpty ? old : [...old, { path, ...part }];
        const manifest: Manifest = {
          ...{ view, key, format, ...next(), rows: part.rows },
          ...{ deliveredAt: new Date().toISOString(), parts },
        };
        await writeWhole(manifestPath(view), JSON.stringify(manifest, null, 2));
        if (kind === 'all') await removeOthers(view, parts);
        return part.rows;
      } catch (error) {
        if (error instanceof TargetMovedError) throw error;
        throw failed(error);
      }
    },
    async forget(view) {
      await rm(manifestPath(view), { force: true }).catch((error: unknown) => {
        throw failed(error);
      });
    },
    close: () => Promise.resolve(),
  };

  /** Removes parts that the manifest no longer lists, and what killed processes left. */
  async function removeOthers(view: string, parts: readonly Part[]): Promise<void> {
    const kept = new Set(parts.map(({ path }) => path));
    const entries = await readdir(join(folder, view), { recursive: true }).catch(() => []);
    for (const name of entries) {
      if (!/(?:^|[/\\])\.?part-\d/.test(name) || kept.has(join(view, name))) continue;
      await rm(join(folder, view, name), { force: true }).catch(() => undefined);
    }
  }
}

async function* withFlag(
  batches: AsyncIterable<readonly TextRow[]>,
): AsyncGenerator<readonly TextRow[]> {
  for await (const batch of batches) yield batch.map((row) => [...row, 'f']);
}

/** Writes rows into a new file, down to the disk. */
async function writePart(
  path: string,
  columns: Parameters<typeof exportChunks>[0]['columns'],
  batches: AsyncIterable<readonly TextRow[]>,
  format: ExportFormat,
): Promise<Omit<Part, 'path'>> {
  let [rows, bytes] = [0, 0];
  const counted = async function* (): AsyncGenerator<readonly TextRow[]> {
    for await (const batch of batches) {
      rows += batch.length;
      yield batch;
    }
  };
  const hash = createHash('sha256');
  const file = await open(path, 'w', 0o644);
  try {
    for await (const chunk of exportChunks({ columns, batches: counted() }, format, {
      raw: true,
    })) {
      hash.update(chunk);
      bytes += Buffer.byteLength(chunk);
      await file.writeFile(chunk);
    }
    await file.sync();
  } finally {
    await file.close();
  }
  return { rows, bytes, sha256: hash.digest('hex') };
}

/** Replaces a file, so that readers see the old one or the new one. */
async function writeWhole(path: string, text: string): Promise<void> {
  await mkdir(dirname(path), { recursive: true });
  const draft = `${path}.${process.pid}`;
  const file = await open(draft, 'w', 0o644);
  try {
    await file.writeFile(text);
    await file.sync();
  } finally {
    await file.close();
  }
  await rename(draft, path);
}
