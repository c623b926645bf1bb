import { createHash } from 'node:crypto';
import { access, constants, mkdir, open, readdir, readFile, rename, rm } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { exportChunks, type ExportFormat } from '../export/index.js';
import type { TextRow } from '../store/text-cursor.js';
import { rowsOf } from './lines.js';
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

/** What is known of a load; readers do not look at it. */
interface LoadState extends Loading {
  readonly parts: readonly Part[];
}

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
      const told = manifest === null ? null : deliveredOf(manifest);
      const kept = await Promise.all(
        (state?.parts ?? []).map(({ path }) => isThere(join(this.folder, path))),
      );
      const loading = kept.includes(false) ? null : state;
      return { delivered: told, loading, token: JSON.stringify([told, state?.id, state?.rows]) };
    });
  }

  begin({ view }: ViewShape, position: Position, loading: Loading): Promise<Position> {
    return this.#attempt(async () => {
      await this.#assertAt(view, position);
      const state: LoadState = { ...loading, parts: [] };
      await this.#replace(view, LOAD, state);
      return this.cursor(view);
    });
  }

  load(
    shape: ViewShape,
    position: Position,
    lines: Lines,
    after: () => readonly string[] | null,
  ): Promise<Position> {
    return this.#attempt(async () => {
      const { view, key } = shape;
      const state = position.loading as LoadState | null;
      if (state === null) throw new MovedError(`no load of ${view} is under way`);
      const rows = key === null ? rowsIn(lines) : withFlag(rowsIn(lines));
      const part = await this.#write(shape, rows, state.parts.length + 1);
      await this.#assertAt(view, position);
      const parts = part === null ? state.parts : [...state.parts, part];
      const loaded = state.rows + (part?.rows ?? 0);
      const next: LoadState = { ...state, parts, after: after() ?? state.after, rows: loaded };
      await this.#replace(view, LOAD, next);
      return this.cursor(view);
    });
  }

  publish(
    shape: ViewShape,
    position: Position,
    lines: Lines,
    next: () => NewlyDelivered,
  ): Promise<void> {
    return this.#attempt(async () => {
      const { view } = shape;
      const state = position.loading as LoadState | null;
      if (state === null) throw new MovedError(`no load of ${view} is under way`);
      const changes = await this.#write(shape, rowsIn(lines), state.parts.length + 1);
      await this.#assertAt(view, position);
      const parts = changes === null ? state.parts : [...state.parts, changes];
      await this.#deliver(shape, next(), parts, state.rows);
      await this.#removeOthers(view, parts);
    });
  }

  apply(
    shape: ViewShape,
    position: Position,
    lines: Lines,
    next: () => NewlyDelivered,
  ): Promise<number> {
    return this.#attempt(async () => {
      const { view } = shape;
      const before = (await this.#manifest(view))?.parts ?? [];
      const part = await this.#write(shape, rowsIn(lines), before.length + 1);
      await this.#assertAt(view, position);
      const parts = part === null ? before : [...before, part];
      await this.#deliver(shape, next(), parts, part?.rows ?? 0);
      return part?.rows ?? 0;
    });
  }

  forget(view: string): Promise<void> {
    return this.#attempt(async () => {
      await rm(join(this.folder, view, MANIFEST), { force: true });
      await rm(join(this.folder, view, LOAD), { force: true });
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
      throw new TargetError(
        `folder ${this.folder}: ${code}`,
        'make the folder writable for this user, and see that its disk has room',
      );
    }
  }

  /** @throws {MovedError} */
  async #assertAt(view: string, { token }: Position): Promise<void> {
    const now = await this.cursor(view);
    if (now.token !== token) throw new MovedError(`somebody else delivers ${view}`);
  }

  #manifest(view: string): Promise<Manifest | null> {
    return this.#read<Manifest>(view, MANIFEST);
  }

  #load(view: string): Promise<LoadState | null> {
    return this.#read<LoadState>(view, LOAD);
  }

  async #read<T>(view: string, name: string): Promise<T | null> {
    try {
      return JSON.parse(await readFile(join(this.folder, view, name), 'utf8')) as T;
    } catch (error) {
      if ((error as NodeJS.ErrnoException).code === 'ENOENT') return null;
      if (!(error instanceof SyntaxError)) throw error;
      throw new TargetError(
        `${join(this.folder, view, name)} is not valid JSON`,
        'delete it: the view is then delivered whole',
      );
    }
  }

  /** Replaces a file, so that readers see the old one or the new one. */
  async #replace(view: string, name: string, content: object): Promise<void> {
    const path = join(this.folder, view, name);
    await mkdir(dirname(path), { recursive: true });
    const draft = `${path}.${process.pid}`;
    const file = await open(draft, 'w', 0o644);
    try {
      await file.writeFile(JSON.stringify(content, null, 2));
      await file.sync();
    } finally {
      await file.close();
    }
    await rename(draft, path);
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
    await this.#replace(view, MANIFEST, manifest);
    await rm(join(this.folder, view, LOAD), { force: true });
  }

  /** Writes rows into a new part. @returns null when there are none: then there is no part */
  async #write(
    { view, columns, key }: ViewShape,
    batches: AsyncIterable<readonly TextRow[]>,
    number: number,
  ): Promise<Part | null> {
    const place = join(view, new Date().toISOString().slice(0, 10));
    await mkdir(join(this.folder, place), { recursive: true });
    const name = `part-${String(number).padStart(6, '0')}`;
    const draft = join(this.folder, place, `.${name}.${process.pid}`);
    const shown = key === null ? columns : [...columns, { name: DELETED, type: 'boolean' }];
    const written = await writeFile(draft, shown, batches, this.format);
    if (written.rows === 0) {
      await rm(draft, { force: true });
      return null;
    }
    // Two processes never write different rows into files of one name.
    const path = join(place, `${name}-${written.sha256.slice(0, 8)}.${this.format}`);
    await rename(draft, join(this.folder, path));
    await syncFolder(join(this.folder, place));
    return { path, ...written };
  }

  /** Removes parts that the manifest no longer lists, and what killed processes left. */
  async #removeOthers(view: string, parts: readonly Part[]): Promise<void> {
    const kept = new Set(parts.map(({ path }) => path));
    const names = await readdir(join(this.folder, view), { recursive: true }).catch(() => []);
    for (const name of names) {
      if (!/(?:^|[/\\])\.?part-\d/.test(name) || kept.has(join(view, name))) continue;
      await rm(join(this.folder, view, name), { force: true }).catch(() => undefined);
    }
  }
}

const MANIFEST = 'manifest.json';
const LOAD = '.load.json';

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

async function* withFlag(
  batches: AsyncIterable<readonly TextRow[]>,
): AsyncGenerator<readonly TextRow[]> {
  for await (const batch of batches) yield batch.map((row) => [...row, 'f']);
}

/** Writes rows into a new file, down to the disk. */
async function writeFile(
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
