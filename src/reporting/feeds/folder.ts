import { UserError } from '../../domain/user-error.js';
import { createHash, randomBytes } from 'node:crypto';
import { createReadStream } from 'node:fs';
import {
  access,
  constants,
  open,
  readdir,
  readFile,
  rename,
  rm,
  rmdir,
  stat,
} from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { z } from 'zod';
import { makeFolders } from '../../db/embedded/place.js';
import type { TextRow } from '../../db/text-cursor.js';
import { errorCode } from '../../domain/error-code.js';
import { exportChunks, type ExportFormat } from '../export.js';
import { rowsOf } from './lines.js';
import type { Content } from '../views.js';
import type { Owner, Sums } from './plan.js';
import {
  takenProblem,
  type Changes,
  type Found,
  type Lines,
  type Target,
  type TokenStep,
} from './target.js';

/** Says which store fills which files. */
const STATE_FILE = '_seller_mirror.json';

const VIEW_STATE = z.object({
  token: z.string(),
  deliveredAt: z.iso.datetime(),
  /** Null until the first file is complete. */
  file: z
    .object({
      name: z.string(),
      bytes: z.number(),
      sha256: z.string(),
      rows: z.number(),
      /** Sum of the rows' hashes, and the columns in order. */
      sum: z.string(),
      columns: z.string(),
    })
    .nullable(),
});
const STATE = z.object({ views: z.record(z.string(), VIEW_STATE) });
type State = z.infer<typeof STATE>;
type ViewState = z.infer<typeof VIEW_STATE>;

/** What an earlier version left: parts in folders by day, listed by a manifest. */
const OLD_MANIFEST = z.object({ parts: z.array(z.object({ path: z.string() })) });

/** A folder as the target of a feed: one whole file for each view, replaced by rename when its content differs. */
export function folderTarget(folder: string, format: ExportFormat, feed: string): Target {
  return new FolderTarget(folder, format, feed);
}

class FolderTarget implements Target {
  readonly isWhole = true;

  constructor(
    readonly folder: string,
    readonly format: ExportFormat,
    readonly feed: string,
  ) {}

  valueSql(this: void, _: unknown, value: string): string {
    return value;
  }

  describe() {
    return this.#attempt(async () => {
      let existing = this.folder;
      while (!(await exists(existing)) && dirname(existing) !== existing)
        existing = dirname(existing);
      await access(existing, constants.W_OK);
      return `folder, ${this.format}`;
    });
  }

  find({ view }: Content): Promise<Found> {
    return this.#attempt(async () => {
      const known = (await this.#state()).views[view];
      const path = this.#path(view);
      const isThere = await exists(path);
      const file = known?.file ?? null;
      // A file that is not recorded yet is ours: of a delivery that was killed.
      const isOurs = known !== undefined && (file === null || file.name === this.#name(view));
      if (isThere && !isOurs) {
        throw new UserError(
          `${path} is a file of yours`,
          `move it, then \`seller-mirror feed run ${this.feed}\``,
          'VIEW',
        );
      }
      const hasFile = isThere && file !== null;
      const owners = ownersOf(known);
      const plan = hasFile ? 'the file is there' : 'would write the first file';
      return { plan, isReady: hasFile, isEmpty: !hasFile, owners };
    });
  }

  prepare(): Promise<void> {
    return this.#attempt(async () => void (await makeFolders(this.folder)));
  }

  own(view: string, token: string, replaced: readonly Owner[]): Promise<void> {
    return this.#attempt(async () => {
      const known = (await this.#state()).views[view];
      const tokens = replaced.map((one) => one.token);
      if (known !== undefined && !tokens.includes(known.token)) {
        throw takenProblem(view, this.feed);
      }
      const deliveredAt = new Date(0).toISOString();
      await this.#record(view, { token, deliveredAt, file: known?.file ?? null });
    });
  }

  /** Of the file as a whole. A file that is gone, or was changed, has none. */
  sums({ view, columns }: Content, isFull: boolean): Promise<Sums> {
    return this.#attempt(async () => {
      const file = (await this.#state()).views[view]?.file ?? null;
      if (file === null || file.name !== this.#name(view)) return new Map();
      const path = this.#path(view);
      const found = await stat(path).catch(() => null);
      const isSame =
        found?.size === file.bytes &&
        file.columns === columnsText(columns) &&
        (!isFull || (await sha256Of(path)) === file.sha256);
      if (!isSame) return new Map([[CHANGED_BUCKET, { rows: 1, sum: '' }]]);
      return file.rows === 0 ? new Map() : new Map([[0, { rows: file.rows, sum: file.sum }]]);
    });
  }

  write(content: Content, changes: Changes | null, token: TokenStep): Promise<number> {
    return this.#attempt(async () => {
      const { view } = content;
      const written = changes && (await changes.lines((lines) => this.#draft(content, lines)));
      const known = (await this.#state()).views[view];
      if (known?.token !== token.from) throw takenProblem(view, this.feed);
      if (written !== null) {
        const isOther = known.file !== null && known.file.name !== written.file.name;
        if (isOther) await this.#record(view, { ...known, file: null });
        await rename(written.draft, this.#path(view));
        await syncFolder(this.folder);
      }
      const file = written?.file ?? known.file;
      // A file in another format.
      if (known.file !== null && known.file.name !== file?.name) {
        await rm(join(this.folder, known.file.name), { force: true });
      }
      const deliveredAt = new Date().toISOString();
      await this.#record(view, { token: token.to, deliveredAt, file });
      await this.#removeParts(view);
      return written?.file.rows ?? 0;
    });
  }

  close(): Promise<void> {
    return Promise.resolve();
  }

  #name(view: string): string {
    return `${view}.${this.format}`;
  }

  #path(view: string): string {
    return join(this.folder, this.#name(view));
  }

  /** Writes the rows to a file that readers don't see yet. */
  async #draft({ view, columns }: Content, lines: Lines) {
    const prefix = `.${view}.`;
    for (const name of await readdir(this.folder)) {
      // Of a killed process.
      if (name.startsWith(prefix) && DRAFT.test(name)) await rm(join(this.folder, name));
    }
    const draft = join(this.folder, `${prefix}${this.format}.${randomBytes(4).toString('hex')}`);
    let rows = 0;
    let sum = 0n;
    const batches = async function* (): AsyncGenerator<readonly TextRow[]> {
      for await (const chunk of lines) {
        const batch = rowsOf(chunk);
        for (const row of batch) sum += BigInt(row.at(-2) ?? 0);
        rows += batch.length;
        yield batch.map((row) => row.slice(0, columns.length));
      }
    };
    try {
      const content = exportChunks({ columns, batches: batches() }, this.format, { raw: true });
      const { bytes, sha256 } = await writeNew(draft, content);
      const name = this.#name(view);
      const text = columnsText(columns);
      return { draft, file: { name, bytes, sha256, rows, sum: String(sum), columns: text } };
    } catch (error) {
      await rm(draft, { force: true });
      throw error;
    }
  }

  async #state(): Promise<State> {
    const path = join(this.folder, STATE_FILE);
    try {
      return STATE.parse(JSON.parse(await readFile(path, 'utf8')));
    } catch (error) {
      if (errorCode(error) === 'ENOENT') return { views: {} };
      if (!(error instanceof SyntaxError) && !(error instanceof z.ZodError)) throw error;
      throw new UserError(
        `${path} is damaged`,
        `delete it and the files of the feed, then \`seller-mirror feed run ${this.feed}\``,
        'TARGET',
      );
    }
  }

  async #record(view: string, state: ViewState): Promise<void> {
    const path = join(this.folder, STATE_FILE);
    const { views } = await this.#state();
    const draft = `${path}.${randomBytes(4).toString('hex')}`;
    try {
      await writeNew(draft, [JSON.stringify({ views: { ...views, [view]: state } }, null, 2)]);
      await rename(draft, path);
    } finally {
      await rm(draft, { force: true });
    }
    await syncFolder(this.folder);
  }

  /** Removes the parts that an earlier version wrote; other files in their folders stay. */
  async #removeParts(view: string): Promise<void> {
    const manifest = join(this.folder, view, 'manifest.json');
    const text = await readFile(manifest, 'utf8').catch(() => null);
    if (text === null) return;
    const { data } = OLD_MANIFEST.safeParse(JSON.parse(text));
    if (data === undefined) return;
    const folders = new Set<string>();
    for (const { path } of data.parts) {
      if (!OLD_PART.test(path)) continue;
      await rm(join(this.folder, path), { force: true });
      folders.add(join(this.folder, dirname(path)));
    }
    await rm(join(this.folder, view, '.load.json'), { force: true });
    await rm(manifest);
    for (const folder of [...folders, join(this.folder, view)]) {
      await rmdir(folder).catch(() => undefined);
    }
  }

  async #attempt<T>(work: () => Promise<T>): Promise<T> {
    try {
      return await work();
    } catch (error) {
      if (!(error instanceof Error) || !('syscall' in error)) throw error;
      const { code } = error as NodeJS.ErrnoException;
      if (code === 'ENOTDIR') {
        throw new UserError(
          `folder ${this.folder}: it is a file, or inside one`,
          'name a folder in the feed',
          'TARGET',
        );
      }
      throw new UserError(
        `folder ${this.folder}: ${code}`,
        'make the folder writable for this user, and check that its disk has room',
        'TARGET',
      );
    }
  }
}

const DRAFT = /^\.\w+\.(?:csv|ndjson|parquet)\.[\da-f]{8}$/;

function ownersOf(known: ViewState | undefined): Owner[] {
  return known === undefined
    ? []
    : [{ token: known.token, deliveredAt: new Date(known.deliveredAt) }];
}

/** The bucket of a file that differs from what was written. */
const CHANGED_BUCKET = -1;

const OLD_PART = /^\w+[/\\]\d{4}-\d\d-\d\d[/\\]part-\d{6,}-[\da-f]{8}\.[a-z]+$/;

function columnsText(columns: Content['columns']): string {
  return columns.map(({ name, type }) => `${name} ${type}`).join(', ');
}

function exists(path: string): Promise<boolean> {
  return access(path).then(
    () => true,
    () => false,
  );
}

/** Writes a new file and syncs it to disk. */
async function writeNew(
  path: string,
  content: AsyncIterable<string | Uint8Array> | Iterable<string>,
): Promise<{ bytes: number; sha256: string }> {
  let bytes = 0;
  const hash = createHash('sha256');
  const file = await open(path, 'wx', 0o644);
  try {
    for await (const chunk of content) {
      hash.update(chunk);
      bytes += Buffer.byteLength(chunk);
      await file.writeFile(chunk);
    }
    await file.sync();
  } finally {
    await file.close();
  }
  return { bytes, sha256: hash.digest('hex') };
}

async function sha256Of(path: string): Promise<string> {
  const hash = createHash('sha256');
  for await (const chunk of createReadStream(path)) hash.update(chunk as Buffer);
  return hash.digest('hex');
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
