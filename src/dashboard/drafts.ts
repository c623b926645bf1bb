import { createWriteStream, mkdtempSync, rmSync } from 'node:fs';
import { rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { Readable } from 'node:stream';
import { pipeline } from 'node:stream/promises';
import type { ReadableStream } from 'node:stream/web';
import { setTimeout as wait } from 'node:timers/promises';
import { Busboy, type BusboyFileStream } from '@fastify/busboy';
import { Problem, type DashboardParts } from './context.js';
import { newToken } from './doors.js';

/** Largest list that can be pasted, bytes. */
const MOST_PASTED = 8 * 1024 * 1024;
const MOST_FIELD = 2_000;
/** Drafts kept for one session, and in all; the oldest goes. */
const DRAFTS_A_SESSION = 3;
const DRAFTS_IN_ALL = 20;
const KEPT_MS = 60 * 60_000;
const SWEEP_MS = 60_000;
/** Who asked for work on a list waits so long (ms) for its end; most lists take less. */
const ANSWER_MS = 2_000;

/** A list that was sent: it is read, waits for its start, and is started. */
export interface Draft<List, Facts> {
  readonly id: string;
  /** Of the session that sent it; nobody else sees it. */
  readonly owner: string;
  readonly path: string;
  readonly madeAt: number;
  readonly list: List;
  /** What it came to; null until it was read. */
  facts: Facts | null;
  /** Where what it became is shown; null until it was started. */
  startedAs: string | null;
  /** What is being done with it; null: nothing. */
  work: DraftWork | null;
  /** Why the last work on it failed. */
  problem: Error | null;
  readonly dropped: AbortController;
}

/** Work on a list, which goes on while its page waits for it, however often that is loaded. */
interface DraftWork {
  /** Lines read so far. */
  lines: number;
}

/** A form with a list, as it came in. */
export interface SentList {
  readonly fields: ReadonlyMap<string, string>;
  /** The file's name without folders; `pasted list` for a text. */
  readonly name: string;
  readonly path: string;
}

/** Keeps lists that were sent in files of this process, until they are started, an hour at most. */
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
   * Writes the list of a form to a file of its own.
   * @param mayRead asked with the fields that came before the list: false refuses it unread
   * @returns null when it was refused
   * @throws {Problem} when there is no list, or it is too large
   */
  async receive(
    contentType: string,
    body: ReadableStream<Uint8Array> | null,
    mayRead: (fields: ReadonlyMap<string, string>) => boolean,
  ): Promise<SentList | null> {
    const path = join(this.#place(), newToken());
    const fields = new Map<string, string>();
    const source = Readable.fromWeb(body ?? new Blob([]).stream());
    const refusal = new Error('refused');
    const cut = new AbortController();
    let isCutOff = false;
    let hasFile = false;
    let name = '';
    const writing: Promise<void>[] = [];
    const keep = async (file: BusboyFileStream): Promise<void> => {
      const bytes = await writeOwn(path, file, cut.signal);
      isCutOff ||= file.truncated;
      hasFile = bytes > 0 || name !== '';
    };
    try {
      const busboy = new Busboy({
        headers: { 'content-type': contentType },
        limits: {
          fieldSize: MOST_PASTED,
          fields: 10,
          files: 1,
          parts: 11,
          headerPairs: 20,
          fileSize: this.#uploads.mostBytes,
          fieldNameSize: 100,
        },
      });
      busboy.on('field', (field, value, _nameIsCut, valueIsCut) => {
        if (!mayRead(new Map([...fields, [field, value]]))) {
          source.destroy(refusal);
          return;
        }
        isCutOff ||= valueIsCut || (field !== 'list' && value.length > MOST_FIELD);
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
        writing.push(keep(file));
        file.once('limit', () => source.destroy(this.#tooLarge()));
      });
      for (const event of ['partsLimit', 'filesLimit', 'fieldsLimit'] as const) {
        busboy.on(event, () => (isCutOff = true));
      }
      await pipeline(source, busboy);
      await Promise.all(writing);
      if (isCutOff) throw this.#tooLarge();
      if (hasFile) return { fields, name: name === '' ? 'list' : name, path };
      const pasted = fields.get('list') ?? '';
      if (pasted.trim() === '') {
        throw new Problem('There is no list', 'Choose a file, or paste the codes.');
      }
      await rm(path, { force: true });
      await writeOwn(path, Readable.from([Buffer.from(pasted)]), cut.signal);
      return { fields, name: PASTED, path };
    } catch (error) {
      // What did not arrive whole has no end that its writing could wait for.
      cut.abort();
      await Promise.allSettled(writing);
      await rm(path, { force: true });
      if (error === refusal) return null;
      if (error instanceof Problem) throw error;
      throw new Problem('The list did not arrive whole', 'Send it again.');
    }
  }

  /** Keeps a list that has come in. */
  add(owner: string, path: string, list: List): Draft<List, Facts> {
    const draft: Draft<List, Facts> = {
      id: newToken(),
      owner,
      path,
      list,
      madeAt: Date.now(),
      facts: null,
      startedAs: null,
      work: null,
      problem: null,
      dropped: new AbortController(),
    };
    this.#drafts.set(draft.id, draft);
    const own = [...this.#drafts.values()].filter((one) => one.owner === owner);
    for (const one of own.slice(0, -DRAFTS_A_SESSION)) void this.drop(one);
    for (const one of [...this.#drafts.values()].slice(0, -DRAFTS_IN_ALL)) void this.drop(one);
    this.#timer ??= setInterval(() => this.#sweep(), SWEEP_MS).unref();
    return draft;
  }

  /** A list of this session. @throws {Problem} when it is not there any more */
  get(owner: string, id: unknown): Draft<List, Facts> {
    this.#sweep();
    const draft = typeof id === 'string' ? this.#drafts.get(id) : undefined;
    if (draft !== undefined && draft.owner === owner) return draft;
    throw new Problem(
      'This list is not here any more',
      'Lists are kept for an hour, and until the dashboard is restarted. If you had started it, Audits lists it; otherwise send it again.',
      404,
    );
  }

  /**
   * Works on a list, also after the answer to who asked for it: proxies wait a minute for an answer, but
   * millions of lines take longer.
   * @param work ends early at its signal: the list is dropped, or the dashboard ends
   */
  async work(
    draft: Draft<List, Facts>,
    work: (signal: AbortSignal, onLines: (lines: number) => void) => Promise<void>,
  ): Promise<void> {
    const signal = AbortSignal.any([this.#uploads.ended, draft.dropped.signal]);
    const done = work(signal, (lines) => {
      if (draft.work !== null) draft.work.lines = lines;
    })
      .catch((error: unknown) => {
        draft.problem = error instanceof Error ? error : new Error(String(error));
      })
      .finally(() => {
        draft.work = null;
      });
    draft.problem = null;
    draft.work = { lines: 0 };
    await Promise.race([done, wait(ANSWER_MS, undefined, { ref: false })]);
  }

  /** Forgets a list, and deletes its file. */
  async drop(draft: Draft<List, Facts>): Promise<void> {
    this.#drafts.delete(draft.id);
    draft.dropped.abort();
    await rm(draft.path, { force: true });
  }

  #close(): void {
    if (this.#timer !== null) clearInterval(this.#timer);
    this.#drafts.clear();
    if (this.#folder !== null) rmSync(this.#folder, { recursive: true, force: true });
    this.#folder = null;
  }

  #sweep(): void {
    const before = Date.now() - KEPT_MS;
    for (const draft of this.#drafts.values()) if (draft.madeAt < before) void this.drop(draft);
  }

  /** A folder that only this user may enter. */
  #place(): string {
    this.#folder ??= mkdtempSync(join(tmpdir(), 'seller-mirror-lists-'));
    return this.#folder;
  }

  #tooLarge(): Problem {
    const most = Math.floor(this.#uploads.mostBytes / 1024 ** 2);
    return new Problem(
      'The list is too large',
      `A file may have ${most} MB, a pasted text ${MOST_PASTED / 1024 ** 2} MB. Use \`seller-mirror codes check\` for larger lists, or compress it with gzip.`,
      413,
    );
  }
}

/** What a list that was pasted is called. */
const PASTED = 'pasted list';

const LONGEST_NAME = 200;

/** A file's name as browsers and attackers send it: without folders and what turns or hides text. */
function baseName(name: string | undefined): string {
  const last = (name ?? '').toWellFormed().split(/[/\\]/).at(-1) ?? '';
  return last
    .replace(/[\p{Cc}\p{Cf}\u2028\u2029]/gu, '')
    .trim()
    .slice(-LONGEST_NAME);
}

/** @returns how many bytes were written */
async function writeOwn(path: string, source: Readable, signal: AbortSignal): Promise<number> {
  const into = createWriteStream(path, { flags: 'wx', mode: 0o600 });
  await pipeline(source, into, { signal });
  return into.bytesWritten;
}
