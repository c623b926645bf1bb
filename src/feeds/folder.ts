import { createHash, randomBytes } from 'node:crypto';
import { access, constants, open, readdir, readFile, rename, rm, stat } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { setTimeout as pause } from 'node:timers/promises';
import { z } from 'zod';
import { errorCode } from '../domain/error-code.js';
import { exportChunks, type ExportFormat } from '../export/index.js';
import { makeFolders } from '../store/embedded/place.js';
import type { TextRow } from '../store/text-cursor.js';
import { rowsOf, someOf } from './lines.js';
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
/** What a view's manifest says. Readers take the parts that it lists, in their order. */
type Manifest = z.infer<typeof MANIFEST>;

/** What is known of a load; readers do not look at it. */
const LOAD = COMMON.extend({ id: z.string(), after: TEXTS });
type LoadState = z.infer<typeof LOAD>;

/**
 * A folder as the target of a feed: `VIEW/DATE/part-SEQ-HASH.EXT`, each written whole, and
 * `VIEW/manifest.json`, which lists them and is replaced last. The first parts hold all rows, later ones
 * the rows that changed, with `_deleted`.
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
      let place = this.folder;
      while (!(await isThere(place)) && dirname(place) !== place) place = dirname(place);
      await access(place, constants.W_OK);
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

  ensure({ view }: ViewShape): Promise<boolean> {
    return this.#attempt(async () => (await this.#manifest(view)) !== null);
  }

  cursor(view: string): Promise<Position> {
    return this.#attempt(async () => {
      const [manifest, state] = [await this.#manifest(view), await this.#load(view)];
      const parts = state?.parts ?? [];
      const kept = await Promise.all(parts.map(({ path }) => isThere(join(this.folder, path))));
      return positionOf(
        manifest === null ? null : deliveredOf(manifest),
        kept.includes(false) ? null : state,
      );
    });
  }

  begin({ view }: ViewShape, position: Position, loading: Loading): Promise<Position> {
    return this.#attempt(() =>
      this.#locked(view, position, () => this.#note(view, position, { ...loading, parts: [] })),
    );
  }

  load(
    shape: ViewShape,
    position: Position,
    lines: Lines,
    after: () => readonly string[] | null,
  ): Promise<Position> {
    return this.#attempt(async () => {
      const { view, key } = shape;
      const { parts, ...state } = stateOf(view, position);
      const rows = key === null ? rowsIn : withFlag;
      const part = await this.#write(shape, lines, rows, parts.length + 1);
      const next: LoadState = {
        ...state,
        after: after() ?? state.after,
        rows: state.rows + (part?.rows ?? 0),
        parts: part === null ? parts : [...parts, part],
      };
      return this.#locked(view, position, () => this.#note(view, position, next));
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
      const changes = await this.#write(shape, lines, rowsIn, parts.length + 1);
      const all = changes === null ? parts : [...parts, changes];
      await this.#locked(shape.view, position, async () => {
        await this.#deliver(shape, next(), all, rows);
        await this.#removeOthers(shape.view, all);
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
      const part = await this.#write(shape, lines, rowsIn, parts.length + 1);
      const all = part === null ? parts : [...parts, part];
      const rows = part?.rows ?? 0;
      await this.#locked(shape.view, position, () => this.#deliver(shape, next(), all, rows));
      return rows;
    });
  }

  forget(view: string): Promise<void> {
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
          `folder ${this.folder}: it is a file, or in one`,
          'name a folder in the feed',
        );
      }
      throw new TargetError(
        `folder ${this.folder}: ${code}`,
        'make the folder writable for this user, and see that its disk has room',
      );
    }
  }

  /** Does something while no other process writes the view's state. @throws {MovedError} */
  async #locked<T>(view: string, { token }: Position, work: () => Promise<T>): Promise<T> {
    await makeFolders(join(this.folder, view));
    const lock = join(this.folder, view, '.lock');
    while (!(await takeLock(lock))) await pause(LOOK_EVERY_MS);
    try {
      const now = await this.cursor(view);
      if (now.token !== token) throw new MovedError(`somebody else delivers ${view}`);
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
      throw new TargetError(`${path} is damaged`, 'delete it: the view is then delivered whole');
    }
  }

  /** Notes how far a load is. */
  async #note(view: string, { delivered }: Position, state: LoadState): Promise<Position> {
    await this.#replace(view, LOAD_FILE, state);
    return positionOf(delivered, state);
  }

  /** Replaces a file, so that readers see the old one or the new one. */
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

  /** Writes rows into a new part. @returns null when there are none: then there is no part */
  async #write(
    { view, columns, key }: ViewShape,
    lines: Lines,
    rows: typeof rowsIn,
    number: number,
  ): Promise<Part | null> {
    const some = await someOf(lines);
    if (some === null) return null;
    const place = join(view, new Date().toISOString().slice(0, 10));
    await makeFolders(join(this.folder, place));
    const name = `part-${String(number).padStart(6, '0')}`;
    const shown = key === null ? columns : [...columns, { name: DELETED, type: 'boolean' }];
    const part = await writeDraft(join(this.folder, place, `.${name}`), async (draft) => {
      const written = await writeFile(draft, shown, rows(some), this.format);
      // Two processes never write different rows into files of one name.
      const path = join(place, `${name}-${written.sha256.slice(0, 8)}.${this.format}`);
      await rename(draft, join(this.folder, path)).catch((error: unknown) => {
        // Another process has ended its load, and removed what it does not know.
        throw errorCode(error) === 'ENOENT' ? new MovedError(`${path} is gone`) : error;
      });
      return { path, ...written };
    });
    await syncFolder(join(this.folder, place));
    return part;
  }

  /** Removes parts that the manifest no longer lists, and what killed processes left. */
  async #removeOthers(view: string, parts: readonly Part[]): Promise<void> {
    const kept = new Set(parts.map(({ path }) => path));
    const names = await readdir(join(this.folder, view), { recursive: true }).catch(() => []);
    for (const name of names) {
      if (!OURS.test(name) || kept.has(join(view, name))) continue;
      await rm(join(this.folder, view, name), { force: true }).catch(() => undefined);
    }
  }
}

/** A part, or one that was not completed. People may have files of their own beside them. */
const OURS = /^\d{4}-\d\d-\d\d[/\\](?:part-\d{6,}-[\da-f]{8}\.[a-z]+|\.part-\d{6,}\.\w+)$/;

const MANIFEST_FILE = 'manifest.json';
const LOAD_FILE = '.load.json';

/** A lock is held for some milliseconds; one that is older is that of a killed process (ms). */
const LOCK_MS = 30_000;
const LOOK_EVERY_MS = 20;

async function takeLock(path: string): Promise<boolean> {
  try {
    await (await open(path, 'wx')).close();
    return true;
  } catch (error) {
    if (errorCode(error) !== 'EEXIST') throw error;
    const found = await stat(path).catch(() => null);
    if (found !== null && Date.now() - found.mtimeMs > LOCK_MS) await rm(path, { force: true });
    return false;
  }
}

/** @throws {MovedError} */
function stateOf(view: string, { loading }: Position): LoadState {
  if (loading === null) throw new MovedError(`no load of ${view} is under way`);
  return loading as LoadState;
}

/** Has a file written under a name that nothing else has. It is gone afterwards: a full disk gets its room back. */
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

function isThere(path: string): Promise<boolean> {
  return access(path).then(
    () => true,
    () => false,
  );
}

async function* rowsIn(lines: Lines): AsyncGenerator<readonly TextRow[]> {
  for await (const chunk of lines) yield rowsOf(chunk);
}

async function* withFlag(lines: Lines): AsyncGenerator<readonly TextRow[]> {
  for await (const batch of rowsIn(lines)) yield batch.map((row) => [...row, 'f']);
}

/** Writes rows into a new file, down to the disk. */
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

/** Makes names in a folder last, where the system can. */
async function syncFolder(path: string): Promise<void> {
  try {
    const folder = await open(path, 'r');
    await folder.sync();
    await folder.close();
  } catch {
    // Windows has no such thing.
  }
}
