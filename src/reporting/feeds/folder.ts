import { createHash, randomBytes } from 'node:crypto';
import { access, constants, open, readdir, readFile, rename, rm, stat } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { setTimeout as pause } from 'node:timers/promises';
import { z } from 'zod';
import { errorCode } from '../../domain/error-code.js';
import { exportChunks, type ExportFormat } from '../export.js';
import { makeFolders } from '../../db/embedded/place.js';
import type { TextRow } from '../../db/text-cursor.js';
import { rowsOf, nullIfEmpty } from './lines.js';
import {
  DELETED,
  MovedError,
  TargetError,
  type Delivered,
  type Description,
  type Lines,
  type Loading,
  type NewlyDelivered,
  type Position,
  type Target,
  type ViewShape,
} from './target.js';

/** One file of a view. */
const PART = z.object({
  /** Relative to the folder. */
  path: z.string(),
  rows: z.number(),
  bytes: z.number(),
  sha256: z.string(),
});
type Part = z.infer<typeof PART>;

const TEXTS = z.array(z.string()).readonly().nullable();
const COMMON = z.object({
  epoch: z.string(),
  cursor: z.string().nullable(),
  shape: z.string(),
  rows: z.number(),
  parts: z.array(PART).readonly(),
});

const MANIFEST = COMMON.extend({
  view: z.string(),
  key: TEXTS,
  format: z.string(),
  digest: z.string().nullable(),
  deliveredAt: z.iso.datetime(),
});
/** The manifest of a view. Readers read the parts that it lists, in order. */
type Manifest = z.infer<typeof MANIFEST>;

/** The state of a running load; not for readers. */
const LOAD = COMMON.extend({ id: z.string(), after: TEXTS });
type LoadState = z.infer<typeof LOAD>;

/**
 * A folder as the target of a feed. Files `VIEW/DATE/part-SEQ-HASH.EXT` appear only when complete.
 * `VIEW/manifest.json` lists them and is replaced last. The first parts hold all rows, later ones the rows
 * that changed, with `_deleted`.
 */
export function folderTarget(folder: string, format: ExportFormat): Target {
  return new FolderTarget(folder, format);
}

class FolderTarget implements Target {
  readonly partBytes = 64 * 1024 * 1024;

  constructor(
    readonly folder: string,
    readonly format: ExportFormat,
  ) {}

  valueSql(this: void, _: unknown, value: string): string {
    return value;
  }

  describe(shapes: readonly ViewShape[]): Promise<Description> {
    return this.#attempt(async () => {
      let existing = this.folder;
      while (!(await exists(existing)) && dirname(existing) !== existing)
        existing = dirname(existing);
      await access(existing, constants.W_OK);
      const views: { view: string; plan: string; fits: boolean }[] = [];
      for (const { view } of shapes) {
        const manifest = await this.#manifest(view);
        const parts = manifest?.parts.length ?? 0;
        views.push({
          view,
          plan: parts === 0 ? 'would write the first part' : `${parts} parts`,
          fits: true,
        });
      }
      return { server: `folder, ${this.format}`, clockMs: null, views };
    });
  }

  ensureTable({ view }: ViewShape): Promise<boolean> {
    return this.#attempt(async () => (await this.#manifest(view)) !== null);
  }

  position(view: string): Promise<Position> {
    return this.#attempt(async () => {
      const [manifest, state] = [await this.#manifest(view), await this.#load(view)];
      const parts = state?.parts ?? [];
      const found = await Promise.all(parts.map(({ path }) => exists(join(this.folder, path))));
      return positionOf(
        manifest === null ? null : deliveredOf(manifest),
        found.includes(false) ? null : state,
      );
    });
  }

  beginLoad({ view }: ViewShape, position: Position, loading: Loading): Promise<Position> {
    return this.#attempt(() =>
      this.#withPosition(view, position, () =>
        this.#recordLoad(view, position, { ...loading, parts: [] }),
      ),
    );
  }

  loadPart(
    shape: ViewShape,
    position: Position,
    lines: Lines,
    after: () => readonly string[] | null,
  ): Promise<Position> {
    return this.#attempt(async () => {
      const { view, key } = shape;
      const { parts, ...state } = stateOf(view, position);
      const rows = key === null ? rowsIn : withDeletedFlag;
      const part = await this.#writePart(shape, lines, rows, parts.length + 1);
      const next: LoadState = {
        ...state,
        after: after() ?? state.after,
        rows: state.rows + (part?.rows ?? 0),
        parts: part === null ? parts : [...parts, part],
      };
      return this.#withPosition(view, position, () => this.#recordLoad(view, position, next));
    });
  }

  publish(
    shape: ViewShape,
    position: Position,
    lines: Lines,
    next: () => NewlyDelivered,
  ): Promise<void> {
    return this.#attempt(async () => {
      const { parts, rows } = stateOf(shape.view, position);
      const changes = await this.#writePart(shape, lines, rowsIn, parts.length + 1);
      const all = changes === null ? parts : [...parts, changes];
      await this.#withPosition(shape.view, position, async () => {
        await this.#deliver(shape, next(), all, rows);
        await this.#removeUnlisted(shape.view, all);
      });
    });
  }

  apply(
    shape: ViewShape,
    position: Position,
    lines: Lines,
    next: () => NewlyDelivered,
  ): Promise<number> {
    return this.#attempt(async () => {
      const parts = (await this.#manifest(shape.view))?.parts ?? [];
      const part = await this.#writePart(shape, lines, rowsIn, parts.length + 1);
      const all = part === null ? parts : [...parts, part];
      const rows = part?.rows ?? 0;
      await this.#withPosition(shape.view, position, () => this.#deliver(shape, next(), all, rows));
      return rows;
    });
  }

  reset(view: string): Promise<void> {
    return this.#attempt(async () => {
      await rm(join(this.folder, view, MANIFEST_FILE), { force: true });
      await rm(join(this.folder, view, LOAD_FILE), { force: true });
    });
  }

  close(): Promise<void> {
    return Promise.resolve();
  }

  async #attempt<T>(work: () => Promise<T>): Promise<T> {
    try {
      return await work();
    } catch (error) {
      if (!(error instanceof Error) || !('syscall' in error)) throw error;
      const { code } = error as NodeJS.ErrnoException;
      if (code === 'ENOTDIR') {
        throw new TargetError(
          `folder ${this.folder}: it is a file, or inside one`,
          'name a folder in the feed',
        );
      }
      throw new TargetError(
        `folder ${this.folder}: ${code}`,
        'make the folder writable for this user, and check that its disk has room',
      );
    }
  }

  /** Runs `work` while no other process can change the view's state. @throws {MovedError} */
  async #withPosition<T>(view: string, { token }: Position, work: () => Promise<T>): Promise<T> {
    await makeFolders(join(this.folder, view));
    const lock = join(this.folder, view, '.lock');
    while (!(await takeLock(lock))) await pause(LOCK_RETRY_MS);
    try {
      const now = await this.position(view);
      if (now.token !== token) throw new MovedError(`another process has delivered ${view}`);
      return await work();
    } finally {
      await rm(lock, { force: true });
    }
  }

  #manifest(view: string): Promise<Manifest | null> {
    return this.#read(view, MANIFEST_FILE, MANIFEST);
  }

  #load(view: string): Promise<LoadState | null> {
    return this.#read(view, LOAD_FILE, LOAD);
  }

  async #read<T>(view: string, name: string, type: z.ZodType<T>): Promise<T | null> {
    const path = join(this.folder, view, name);
    try {
      return type.parse(JSON.parse(await readFile(path, 'utf8')));
    } catch (error) {
      if (errorCode(error) === 'ENOENT') return null;
      if (!(error instanceof SyntaxError) && !(error instanceof z.ZodError)) throw error;
      throw new TargetError(
        `${path} is damaged`,
        'delete it: the feed then loads all rows of the view',
      );
    }
  }

  /** Records the progress of a load. */
  async #recordLoad(view: string, { delivered }: Position, state: LoadState): Promise<Position> {
    await this.#replace(view, LOAD_FILE, state);
    return positionOf(delivered, state);
  }

  /** Replaces a file atomically: readers see the old one or the new one. */
  async #replace(view: string, name: string, content: object): Promise<void> {
    const path = join(this.folder, view, name);
    await makeFolders(dirname(path));
    await writeDraft(path, async (draft) => {
      const file = await open(draft, 'w', 0o644);
      try {
        await file.writeFile(JSON.stringify(content, null, 2));
        await file.sync();
      } finally {
        await file.close();
      }
      await rename(draft, path);
    });
    await syncFolder(dirname(path));
  }

  async #deliver(
    { view, key }: ViewShape,
    next: NewlyDelivered,
    parts: readonly Part[],
    rows: number,
  ): Promise<void> {
    const deliveredAt = new Date().toISOString();
    const manifest: Manifest = {
      view,
      key,
      format: this.format,
      ...next,
      rows,
      deliveredAt,
      parts,
    };
    await this.#replace(view, MANIFEST_FILE, manifest);
    await rm(join(this.folder, view, LOAD_FILE), { force: true });
  }

  /** Writes rows to a new part. @returns null if there are no rows, and so no part */
  async #writePart(
    { view, columns, key }: ViewShape,
    lines: Lines,
    rows: typeof rowsIn,
    number: number,
  ): Promise<Part | null> {
    const nonEmpty = await nullIfEmpty(lines);
    if (nonEmpty === null) return null;
    const place = join(view, new Date().toISOString().slice(0, 10));
    await makeFolders(join(this.folder, place));
    const name = `part-${String(number).padStart(6, '0')}`;
    const shown = key === null ? columns : [...columns, { name: DELETED, type: 'boolean' }];
    const part = await writeDraft(join(this.folder, place, `.${name}`), async (draft) => {
      const written = await writeFile(draft, shown, rows(nonEmpty), this.format);
      // The hash keeps two processes from writing different rows to the same name.
      const path = join(place, `${name}-${written.sha256.slice(0, 8)}.${this.format}`);
      await rename(draft, join(this.folder, path)).catch((error: unknown) => {
        // Another process has finished a load and removed unknown drafts.
        throw errorCode(error) === 'ENOENT' ? new MovedError(`${path} is gone`) : error;
      });
      return { path, ...written };
    });
    await syncFolder(join(this.folder, place));
    return part;
  }

  /** Removes parts that the manifest does not list, and drafts of killed processes. */
  async #removeUnlisted(view: string, parts: readonly Part[]): Promise<void> {
    const kept = new Set(parts.map(({ path }) => path));
    const names = await readdir(join(this.folder, view), { recursive: true }).catch(() => []);
    for (const name of names) {
      if (!OURS.test(name) || kept.has(join(view, name))) continue;
      await rm(join(this.folder, view, name), { force: true }).catch(() => undefined);
    }
  }
}

/** Names of parts and their drafts. Other files in the folder belong to the user. */
const OURS = /^\d{4}-\d\d-\d\d[/\\](?:part-\d{6,}-[\da-f]{8}\.[a-z]+|\.part-\d{6,}\.\w+)$/;

const MANIFEST_FILE = 'manifest.json';
const LOAD_FILE = '.load.json';

/** Age (ms) of a lock file that a killed process left behind. Locks are held for milliseconds. */
const STALE_LOCK_MS = 30_000;
const LOCK_RETRY_MS = 20;

async function takeLock(path: string): Promise<boolean> {
  try {
    await (await open(path, 'wx')).close();
    return true;
  } catch (error) {
    if (errorCode(error) !== 'EEXIST') throw error;
    const found = await stat(path).catch(() => null);
    if (found !== null && Date.now() - found.mtimeMs > STALE_LOCK_MS)
      await rm(path, { force: true });
    return false;
  }
}

/** @throws {MovedError} */
function stateOf(view: string, { loading }: Position): LoadState {
  if (loading === null) throw new MovedError(`no load of ${view} is running`);
  return loading as LoadState;
}

/** Calls `write` with a unique file name, and removes that file afterwards, also after an error. */
async function writeDraft<T>(path: string, write: (draft: string) => Promise<T>): Promise<T> {
  const draft = `${path}.${randomBytes(4).toString('hex')}`;
  try {
    return await write(draft);
  } finally {
    await rm(draft, { force: true });
  }
}

function positionOf(delivered: Delivered | null, loading: LoadState | null): Position {
  const { id, rows, after } = loading ?? {};
  return { delivered, loading, token: JSON.stringify([delivered, id, rows, after]) };
}

function deliveredOf({ epoch, cursor, shape, digest, rows, deliveredAt }: Manifest): Delivered {
  return { epoch, cursor, shape, digest, rows, deliveredAt: new Date(deliveredAt) };
}

function exists(path: string): Promise<boolean> {
  return access(path).then(
    () => true,
    () => false,
  );
}

async function* rowsIn(lines: Lines): AsyncGenerator<readonly TextRow[]> {
  for await (const chunk of lines) yield rowsOf(chunk);
}

async function* withDeletedFlag(lines: Lines): AsyncGenerator<readonly TextRow[]> {
  for await (const batch of rowsIn(lines)) yield batch.map((row) => [...row, 'f']);
}

/** Writes rows to a new file and syncs it to disk. */
async function writeFile(
  path: string,
  columns: Parameters<typeof exportChunks>[0]['columns'],
  batches: AsyncIterable<readonly TextRow[]>,
  format: ExportFormat,
): Promise<Omit<Part, 'path'>> {
  let rows = 0;
  let bytes = 0;
  const counted = async function* (): AsyncGenerator<readonly TextRow[]> {
    for await (const batch of batches) {
      rows += batch.length;
      yield batch;
    }
  };
  const hash = createHash('sha256');
  const file = await open(path, 'w', 0o644);
  try {
    const chunks = exportChunks({ columns, batches: counted() }, format, { raw: true });
    for await (const chunk of chunks) {
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

/** Syncs a folder to disk, so that new names survive a power failure. */
async function syncFolder(path: string): Promise<void> {
  try {
    const folder = await open(path, 'r');
    await folder.sync();
    await folder.close();
  } catch {
    // Not supported on this system.
  }
}
