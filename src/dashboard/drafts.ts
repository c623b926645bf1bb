import { createWriteStream, mkdtempSync, rmSync } from 'node:fs';
import { rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { Readable } from 'node:stream';
import { pipeline } from 'node:stream/promises';
import type { ReadableStream } from 'node:stream/web';
import { setTimeout as wait } from 'node:timers/promises';
import { Busboy, type BusboyFileStream } from '@fastify/busboy';
import { type DashboardParts, Problem } from './context.js';
import { newToken } from './security.js';

/** Largest pasted list in bytes. */
const MAX_PASTED_BYTES = 8 * 1024 * 1024;
const MAX_FIELD_CHARS = 2_000;
/** Above these limits, the oldest drafts are deleted. */
const MAX_DRAFTS_PER_SESSION = 3;
const MAX_DRAFTS = 20;
const MAX_AGE_MS = 60 * 60_000;
const SWEEP_MS = 60_000;
/** How long a request waits for work on a list (ms). Slower work goes on in the background. */
const WAIT_MS = 2_000;

/** An uploaded list whose audit was not started yet. */
export interface Draft<List, Facts> {
  readonly id: string;
  /** Form token of the session that uploaded it. Other sessions can't see it. */
  readonly owner: string;
  readonly path: string;
  readonly createdAt: number;
  readonly list: List;
  /** What reading the list found; null until it was read. */
  facts: Facts | null;
  /** URL of the started audit; null until it was started. */
  startedAs: string | null;
  /** Lines handled so far by the work in progress; null when there is none. */
  linesDone: number | null;
  /** Why the last work on it failed. */
  problem: Error | null;
  readonly dropped: AbortController;
}

/** An uploaded form with a list. */
interface UploadedList {
  readonly fields: ReadonlyMap<string, string>;
  /** File name without folders, or `pasted list`. */
  readonly name: string;
  readonly path: string;
}

/** Keeps uploaded lists in temporary files for up to an hour, until their audits start. */
export class Drafts<List, Facts> {
  readonly #drafts = new Map<string, Draft<List, Facts>>();
  readonly #uploads: DashboardParts['uploads'];
  #folder: string | null = null;
  #timer: NodeJS.Timeout | null = null;

  constructor(uploads: DashboardParts['uploads']) {
    this.#uploads = uploads;
    uploads.ended.addEventListener('abort', () => this.#close(), { once: true });
  }

  /**
   * Writes the list of an uploaded form to a file.
   * @param mayRead decides by the fields before the list whether to read on
   * @returns null when `mayRead` refused the upload
   * @throws {Problem} when the list is missing, too large or incomplete
   */
  async receive(
    contentType: string,
    body: ReadableStream<Uint8Array> | null,
    mayRead: (fields: ReadonlyMap<string, string>) => boolean,
  ): Promise<UploadedList | null> {
    const path = join(this.#ownFolder(), newToken());
    const fields = new Map<string, string>();
    const source = Readable.fromWeb(body ?? new Blob([]).stream());
    const refusal = new Error('refused');
    const failed = new AbortController();
    let isTruncated = false;
    let hasFile = false;
    let name = '';
    const writing: Promise<void>[] = [];
    const save = async (file: BusboyFileStream): Promise<void> => {
      const bytes = await writePrivate(path, file, failed.signal);
      isTruncated ||= file.truncated;
      hasFile = bytes > 0 || name !== '';
    };
    try {
      const busboy = new Busboy({
        headers: { 'content-type': contentType },
        limits: {
          fieldSize: MAX_PASTED_BYTES,
          fields: 10,
          files: 1,
          parts: 11,
          headerPairs: 20,
          fileSize: this.#uploads.maxBytes,
          fieldNameSize: 100,
        },
      });
      busboy.on('field', (field, value, _nameIsCut, valueIsCut) => {
        if (!mayRead(new Map([...fields, [field, value]]))) {
          source.destroy(refusal);
          return;
        }
        isTruncated ||= valueIsCut || (field !== 'list' && value.length > MAX_FIELD_CHARS);
        fields.set(field, value);
      });
      busboy.on('file', (field, file: BusboyFileStream, filename) => {
        if (!mayRead(fields)) {
          file.resume();
          source.destroy(refusal);
          return;
        }
        if (field !== 'file') {
          file.resume();
          return;
        }
        name = baseName(filename);
        writing.push(save(file));
        file.once('limit', () => source.destroy(this.#tooLarge()));
      });
      for (const event of ['partsLimit', 'filesLimit', 'fieldsLimit'] as const) {
        busboy.on(event, () => (isTruncated = true));
      }
      await pipeline(source, busboy);
      await Promise.all(writing);
      if (isTruncated) throw this.#tooLarge();
      if (hasFile) return { fields, name: name === '' ? 'list' : name, path };
      const pasted = fields.get('list') ?? '';
      if (pasted.trim() === '') {
        throw new Problem('No list was sent', 'Choose a file or paste the codes.');
      }
      await rm(path, { force: true });
      await writePrivate(path, Readable.from([Buffer.from(pasted)]), failed.signal);
      return { fields, name: 'pasted list', path };
    } catch (error) {
      // The stream of an incomplete upload never ends, so stop writing first.
      failed.abort();
      await Promise.allSettled(writing);
      await rm(path, { force: true });
      if (error === refusal) return null;
      if (error instanceof Problem) throw error;
      throw new Problem('The upload was incomplete', 'Send the list again.');
    }
  }

  /** Adds an uploaded list. Deletes the oldest drafts above the limits. */
  add(owner: string, path: string, list: List): Draft<List, Facts> {
    const draft: Draft<List, Facts> = {
      id: newToken(),
      owner,
      path,
      list,
      createdAt: Date.now(),
      facts: null,
      startedAs: null,
      linesDone: null,
      problem: null,
      dropped: new AbortController(),
    };
    this.#drafts.set(draft.id, draft);
    const own = [...this.#drafts.values()].filter((one) => one.owner === owner);
    for (const one of own.slice(0, -MAX_DRAFTS_PER_SESSION)) void this.drop(one, replaced());
    for (const one of [...this.#drafts.values()].slice(0, -MAX_DRAFTS)) {
      void this.drop(one, replaced());
    }
    this.#timer ??= setInterval(() => this.#sweep(), SWEEP_MS).unref();
    return draft;
  }

  /** Returns a draft of this session. @throws {Problem} (404) when it no longer exists */
  get(owner: string, id: unknown): Draft<List, Facts> {
    this.#sweep();
    const draft = typeof id === 'string' ? this.#drafts.get(id) : undefined;
    if (draft !== undefined && draft.owner === owner) return draft;
    throw gone();
  }

  /**
   * Works on a list. Returns early when that takes long; the work goes on. Proxies wait about a minute
   * for a response, but millions of lines take longer.
   * @param work must stop when its signal aborts: the draft was dropped or the dashboard stops
   */
  async work(
    draft: Draft<List, Facts>,
    work: (signal: AbortSignal, onLines: (lines: number) => void) => Promise<void>,
  ): Promise<void> {
    const signal = AbortSignal.any([this.#uploads.ended, draft.dropped.signal]);
    draft.problem = null;
    draft.linesDone = 0;
    const done = work(signal, (lines) => {
      if (draft.linesDone !== null) draft.linesDone = lines;
    })
      .catch((error: unknown) => {
        const dropped = draft.dropped.signal;
        const cause: unknown = dropped.aborted ? dropped.reason : error;
        draft.problem = cause instanceof Error ? cause : new Error(String(cause));
      })
      .finally(() => {
        draft.linesDone = null;
      });
    await Promise.race([done, wait(WAIT_MS, undefined, { ref: false })]);
  }

  /** Deletes a draft and its file. @param reason shown to a request that still waits for the list */
  async drop(draft: Draft<List, Facts>, reason = gone()): Promise<void> {
    this.#drafts.delete(draft.id);
    draft.dropped.abort(reason);
    await rm(draft.path, { force: true });
  }

  #close(): void {
    if (this.#timer !== null) clearInterval(this.#timer);
    this.#drafts.clear();
    if (this.#folder !== null) rmSync(this.#folder, { recursive: true, force: true });
    this.#folder = null;
  }

  #sweep(): void {
    const before = Date.now() - MAX_AGE_MS;
    for (const draft of this.#drafts.values()) if (draft.createdAt < before) void this.drop(draft);
  }

  /** A folder that only this user may read. */
  #ownFolder(): string {
    this.#folder ??= mkdtempSync(join(tmpdir(), 'seller-mirror-lists-'));
    return this.#folder;
  }

  #tooLarge(): Problem {
    const most = Math.floor(this.#uploads.maxBytes / 1024 ** 2);
    return new Problem(
      'The list is too large',
      `Files may have up to ${most} MB, pasted lists ${MAX_PASTED_BYTES / 1024 ** 2} MB. Send a longer one as several files.`,
      413,
    );
  }
}

function gone(): Problem {
  return new Problem(
    'This list is no longer available',
    'Lists are deleted after an hour and when the dashboard restarts. If you started the check, find it under Checks. Otherwise upload the list again.',
    404,
  );
}

function replaced(): Problem {
  return new Problem(
    'This list was replaced by newer uploads',
    `Only ${MAX_DRAFTS_PER_SESSION} lists wait for their start at the same time. Start or discard those, then upload this one again.`,
    409,
  );
}

const MAX_NAME_CHARS = 200;

/** Removes folders and invisible characters from an untrusted file name. */
function baseName(name: string | undefined): string {
  const last = (name ?? '').toWellFormed().split(/[/\\]/).at(-1) ?? '';
  return last
    .replace(/[\p{Cc}\p{Cf}\u2028\u2029]/gu, '')
    .trim()
    .slice(-MAX_NAME_CHARS);
}

/** Writes a new file that only this user may read. @returns bytes written */
async function writePrivate(path: string, source: Readable, signal: AbortSignal): Promise<number> {
  const into = createWriteStream(path, { flags: 'wx', mode: 0o600 });
  await pipeline(source, into, { signal });
  return into.bytesWritten;
}
