/**
 * Answers one code for a caller who waits: from the store if that is young enough, else by the first pass of the look-ups of
 * the day, a check like any other, with this code alone. A denial decides nothing: its second check is shared by all who
 * wait.
 */

import { once } from 'node:events';
import { bindSeller, ensureSeller } from '../catalogue/sellers-store.js';
import type { Db } from '../db/db.js';
import { sameHost } from '../domain/address.js';
import { meaningOf, type Reply } from '../marketplace/reply.js';
import { formsOf } from '../marketplace/code.js';
import type { Marketplace } from '../marketplace/types.js';
import type { UnprovenReason } from './evidence.js';
import type { KnownCode } from './known-code.js';
import { Ledger } from './ledger-store.js';
import { enterLookUp, readLookUp, type LookedUp } from './look-up-store.js';
import { Caller } from './market-runner.js';
import { KEY_FRESH_MS, LOOK_UPS_GATHER_MS, MAX_ATTEMPTS, WAIT_MS } from './rules.js';
import type { LookUpCalls, Market } from './market.js';
import { readSellerSituation } from './situation-store.js';
import { firstPass, makeReady } from './first-pass.js';
import { resultOf, type CodeResult, type FoundProof, type OpenCode } from './ledger.js';
import { FRESH_MEMORY, isForPerson, type Memory, type Situation } from './situation.js';

export interface LookUpDeps {
  readonly db: Db;
  readonly sellerId: string;
  readonly marketplace: Pick<Marketplace, 'account' | 'validate' | 'item' | 'host'>;
  /** Has the denied codes of an audit checked again: a worker does it, for all callers together. */
  readonly confirm: (auditId: bigint) => Promise<void>;
  /** Aborted when no code is looked up any more. */
  readonly signal: AbortSignal;
}

/** Why a denied code has no verdict while a problem keeps the worker from checking it again. */
const PAUSED = 'denied once; the second check is paused, and `seller-mirror audits list` says why';

/** Why a code has no verdict while other work uses the budget: the marketplace was never asked. */
const BUSY = 'other work used the request budget, so the marketplace was not asked';
/** When to ask again then, milliseconds. */
const BUSY_MS = 30_000;

/** The answer to a look-up. */
export type LookUp =
  /**
   * `stale`: older than asked for, because the marketplace gave no answer, or because a denial is being checked again;
   * `againAfterS`: when that is done, if it is known.
   */
  | {
      readonly kind: 'known';
      readonly known: KnownCode;
      readonly stale: boolean;
      readonly againAfterS: number | null;
    }
  /** Denied, and never proven before. The second check decides. */
  | { readonly kind: 'pending'; readonly againAfterS: number }
  | Unproven;

interface Unproven {
  readonly kind: 'unproven';
  readonly reason: UnprovenReason | typeof PAUSED | typeof BUSY;
  readonly retryAt: number | null;
}

/** More sellers than this are not asked one after another about a code. */
export const MOST_SELLERS = 20;

/** Most seconds that an answer may be old. */
export interface MaxAge {
  readonly valid: number;
  readonly invalid: number;
}

const DAY_S = 86_400;
const HOUR_S = 3_600;

/** Codes rarely stop being valid; a code that was typed wrong may be sold tomorrow. */
export const DEFAULT_MAX_AGE: MaxAge = { valid: DAY_S, invalid: HOUR_S };

/** Longest time that a caller waits for the marketplace, and a proof for one answer of it, milliseconds. */
const CALL_TIMEOUT_MS = 15_000;
/** A proof of this age is renewed while callers go on, milliseconds. */
const RENEW_MS = KEY_FRESH_MS / 2;
/** A worker may be busy when the second check is due, seconds. */
const SLACK_S = 5;

/**
 * Answers from what is known, if it is young enough, or if a denial is being checked again. @returns null: the marketplace
 * must be asked
 * @param now milliseconds since 1970
 */
function answerFromStore(
  { known, waiting, problem, resumeAt }: LookedUp,
  maxAge: MaxAge,
  now: number,
): LookUp | null {
  if (known !== null && isYoung(known, maxAge, now)) return fresh(known);
  if (waiting === null) return null;
  const { askedAt, waitMs } = waiting;
  const leftMs = Math.min(waitMs, askedAt + waitMs - now) + LOOK_UPS_GATHER_MS;
  const againAfterS = Math.max(0, Math.ceil(leftMs / 1000)) + SLACK_S;
  if (known !== null) {
    return {
      kind: 'known',
      known,
      stale: true,
      againAfterS: problem === null ? againAfterS : null,
    };
  }
  return problem === null
    ? { kind: 'pending', againAfterS }
    : { kind: 'unproven', reason: PAUSED, retryAt: resumeAt };
}

function fresh(known: KnownCode): LookUp {
  return { kind: 'known', known, stale: false, againAfterS: null };
}

function isYoung({ verdict, checkedAt }: KnownCode, maxAge: MaxAge, now: number): boolean {
  const seconds = verdict === 'valid' ? maxAge.valid : maxAge.invalid;
  return Math.abs(now - checkedAt) <= seconds * 1000;
}

/** Reads what the store can answer. `answer` null: the marketplace must be asked. */
export async function lookUpStored(
  db: Db,
  sellerId: string,
  code: string,
  maxAge: MaxAge,
): Promise<{ readonly answer: LookUp | null; readonly stored: LookedUp }> {
  const stored = await readLookUp(db, sellerId, code);
  return { answer: answerFromStore(stored, maxAge, db.clock.now()), stored };
}

/** What a caller wants to know of a look-up. */
export interface LookUpEvents {
  /** Called once the answer is recorded. */
  readonly onCalls?: (calls: LookUpCalls) => void;
  /** If given, a denial is not recorded, but handed over: another seller may have sold the code. */
  readonly onDenied?: ((record: () => Promise<LookUp>) => void) | undefined;
}

/** What is known of the key: callers share it. */
interface Key {
  readonly memory: Memory;
  readonly situation: Omit<Situation, 'market'>;
}

/** A question to the marketplace: what it showed, and what the store will keep of it. */
interface Question {
  memory: Memory;
  readonly results: CodeResult[];
  readonly found: FoundProof[];
  /** Other look-ups share the client, so its own count of calls would be theirs, too. */
  calls: number;
  /** Calls of the proof that this question began. They count as its own once something is recorded. */
  proofCalls: number;
}

/** Makes calls, and records nothing yet: a worker would ask about a code that waits without a denial. */
class Asker extends Caller implements Market {
  readonly concurrency = 1;
  readonly #question: Pick<Question, 'results' | 'found'>;

  constructor(
    question: Pick<Question, 'results' | 'found'>,
    options: ConstructorParameters<typeof Caller>[0],
  ) {
    super(options);
    this.#question = question;
  }

  record(results: readonly CodeResult[]): Promise<void> {
    this.#question.results.push(...results);
    return Promise.resolve();
  }

  proven(found: readonly FoundProof[]): Promise<void> {
    this.#question.found.push(...found);
    return Promise.resolve();
  }
}

/** Looks up codes of one seller. */
export class SellerLookUps {
  readonly #deps: LookUpDeps;
  /** Null: the next caller waits until the key is proven. */
  #key: Key | null = null;
  #proving: Promise<Key> | null = null;
  /** Requests of the proof that were sent since its last answer: while the client waits to try again, there is none. */
  #unanswered = 0;

  constructor(deps: LookUpDeps) {
    this.#deps = deps;
  }

  /**
   * Asks the marketplace about a code, and records the answer. A purchase makes the code valid. Without an answer the last
   * verdict is returned, marked as stale.
   * @param stored what is known, which did not suffice
   * @throws errors of the store
   */
  async ask(code: string, stored: LookedUp, events: LookUpEvents = {}): Promise<LookUp> {
    const { db, signal } = this.#deps;
    const giveUp = (reason: Unproven['reason'], retryAt: number | null = null): LookUp =>
      stored.known === null
        ? { kind: 'unproven', reason, retryAt }
        : { kind: 'known', known: stored.known, stale: true, againAfterS: null };
    // A worker that met a bad key knows more than a proof of ten minutes ago.
    if (stored.problem !== null) this.#key = null;
    const question: Question = {
      memory: FRESH_MEMORY,
      results: [],
      found: [],
      calls: 0,
      proofCalls: 0,
    };
    const isAnswered = await inTime(signal, (limit, endAfter) => {
      endAfter(CALL_TIMEOUT_MS);
      return this.#ask(code, stored, question, limit);
    });
    if (!isAnswered && question.calls + this.#unanswered === 0) {
      return giveUp(BUSY, db.clock.now() + BUSY_MS);
    }
    // What went wrong may have been about the key.
    if (!isAnswered && question.calls > 0) this.#key = null;
    const result = isAnswered ? resultIn(question) : null;
    if (result === null) {
      const [reason, retryAt] = isAnswered ? faultIn(question.memory) : LATE;
      if (question.calls > 0) {
        const nothing = { httpStatus: null, message: null, answer: null, proven: null };
        const check = { at: db.clock.now(), reason, ...nothing };
        const missing = resultOf({ position: POSITION }, { check, verdict: 'unproven', reason });
        await this.#record(code, { ...question, results: [missing] }, missing, events);
      }
      return giveUp(reason, retryAt);
    }
    const record = async (): Promise<LookUp> =>
      (await this.#record(code, question, result, events)) ??
      giveUp(result.reason ?? 'unconfirmed');
    if (result.check?.reason !== 'denied' || events.onDenied === undefined) return record();
    events.onDenied(record);
    return giveUp('unconfirmed');
  }

  /** Proves the key if that is due, and lets the first pass ask for the code in each of its forms. */
  async #ask(
    code: string,
    { foundForm }: LookedUp,
    question: Question,
    signal: AbortSignal,
  ): Promise<void> {
    const { memory, situation } = await this.#proven(code, question);
    question.memory = memory;
    if (memory.hold !== null || memory.findsEverything) return;
    const forms = formsOf(code);
    const open: OpenCode = {
      position: POSITION,
      forms: foundForm === null ? forms : [...new Set([foundForm, ...forms])],
      // A caller waits, so one try without an answer is the last.
      attempts: MAX_ATTEMPTS - 1,
    };
    const { db, marketplace } = this.#deps;
    const onRequest = () => {
      question.calls++;
      return () => undefined;
    };
    const market = new Asker(question, { db, marketplace, signal, onRequest });
    question.memory = await firstPass([open], { ...situation, market }, memory);
    if (isAboutKey(question.memory)) this.#key = null;
  }

  /**
   * What is known of the key. Callers wait only if it was proven more than ten minutes ago, or came into doubt; from half of
   * that time on it is proven again in the background. They share a proof, which goes on when one of them waits no longer.
   * @param like a code whose shape the negative control has
   * @param question whose calls those of a new proof are
   */
  #proven(like: string, question: Question): Promise<Key> {
    const key = this.#key;
    const provenAt = key?.memory.lookedAt ?? -Infinity;
    const ageMs = Math.abs(this.#deps.db.clock.now() - provenAt);
    if (key !== null && ageMs < RENEW_MS) return Promise.resolve(key);
    this.#proving ??= this.#prove(like, question).finally(() => {
      this.#proving = null;
      this.#unanswered = 0;
    });
    if (key === null || ageMs >= KEY_FRESH_MS) return this.#proving;
    this.#proving.catch(() => undefined);
    return Promise.resolve(key);
  }

  /** A proof that waits too long for an answer ends, and the next caller begins another one. */
  async #prove(like: string, question: Question): Promise<Key> {
    const { db, sellerId, marketplace, signal } = this.#deps;
    const { host } = marketplace;
    const bound = await ensureSeller(db, sellerId, host);
    const known = await readSellerSituation(db, sellerId, null, null);
    const now = (): number => db.clock.now();
    const situation = { ...LOOK_UP, ...known, now, account: bound.username };
    if (bound.username !== null && !sameHost(bound.marketplace, host)) {
      const stop = { reason: 'another-marketplace', detail: null } as const;
      return { situation, memory: { ...FRESH_MEMORY, hold: { stop, until: null } } };
    }
    let memory = SILENT_MEMORY;
    await inTime(signal, async (limit, endAfter) => {
      const onRequest = () => {
        question.proofCalls++;
        this.#unanswered++;
        endAfter(CALL_TIMEOUT_MS);
        return (reply: Reply<unknown> | null) => {
          // The wait for the budget is free.
          endAfter(null);
          if (isAnswer(reply)) this.#unanswered = 0;
        };
      };
      const options = { db, marketplace, signal: limit, onRequest };
      const market = new Asker({ results: [], found: [] }, options);
      memory = await makeReady(like, { ...situation, market }, FRESH_MEMORY);
    });
    const account = bound.username ?? memory.account;
    const key = { memory, situation: { ...situation, account } };
    if (isAboutKey(memory)) this.#key = null;
    if (memory.hold !== null) return key;
    if (bound.username === null && account !== null) {
      await bindSeller(db, sellerId, { username: account, marketplace: host });
    }
    this.#key = key;
    return key;
  }

  /**
   * Enters the code in the look-ups of the day, with what the first pass found out.
   * @returns null: there is no verdict
   */
  async #record(
    code: string,
    { results, found, calls, proofCalls }: Question,
    { check, verdict }: CodeResult,
    { onCalls }: LookUpEvents,
  ): Promise<LookUp | null> {
    const { db, sellerId, confirm } = this.#deps;
    const { auditId, position } = await enterLookUp(db, sellerId, code);
    let counted = 0;
    const ledger = new Ledger(db, { auditId, sellerId, callCount: () => counted });
    counted = calls + proofCalls;
    await ledger.record(results.map((one) => placed(one, position)));
    await ledger.proven(found);
    onCalls?.({ auditId, own: counted, total: ledger.totalCalls });
    if (verdict === 'valid') {
      const { known } = await readLookUp(db, sellerId, code);
      return known && fresh(known);
    }
    if (check?.reason !== 'denied') return null;
    // Without the queue, the next look for what is due finds it within a minute.
    await confirm(auditId).catch(() => undefined);
    return (await lookUpStored(db, sellerId, code, { valid: -1, invalid: -1 })).answer;
  }
}

/** The situation of every code that is looked up: it is alone, and is asked once. */
const LOOK_UP = {
  waitMs: WAIT_MS,
  gatherMs: 0,
  heldUntil: 0,
  vouchMs: KEY_FRESH_MS,
  spacingMs: 0,
  codes: 1,
  dice: Math.random,
  isClosing: () => false,
} as const satisfies Partial<Situation>;

/** Where the first pass has the code, until it gets a place in the look-ups of the day. */
const POSITION = 0;

function placed(result: CodeResult, position: number): CodeResult {
  return 'position' in result.of ? { ...result, of: { position } } : result;
}

/** What the first pass found out about the code; null: it asks later. */
function resultIn({ results }: Question): CodeResult | null {
  return results.find(({ of }) => 'position' in of) ?? null;
}

/** The marketplace was asked, and did not answer in time. */
const LATE = ['unavailable', null] as const;
const SILENT_MEMORY: Memory = {
  ...FRESH_MEMORY,
  hold: { stop: { reason: 'unavailable', detail: null }, until: null },
};

/** Whether the marketplace said something of what it was asked for. */
function isAnswer(reply: Reply<unknown> | null): boolean {
  return reply !== null && ['found', 'denied'].includes(meaningOf(reply).kind);
}

/** Why the first pass asks later: the key is bad, or the marketplace asks for a pause. */
function faultIn({ hold, findsEverything }: Memory): readonly [UnprovenReason, number | null] {
  if (findsEverything) return ['finds-everything', null];
  const reason = hold?.stop.reason ?? 'unavailable';
  // Only a person can change that.
  if (isForPerson(reason)) return [reason, null];
  return [reason === 'challenge' ? 'unavailable' : reason, hold?.until ?? null];
}

/** Whether the plan waits because of the key: outages, limits and odd answers say nothing of it. */
function isAboutKey(memory: Memory): boolean {
  return !['limited', 'unavailable', 'unreadable'].includes(faultIn(memory)[0]);
}

/**
 * @param work is given a function that ends it after some milliseconds from now; null: no longer
 * @returns false: the time is up, or the parent signal was aborted
 * @throws errors of the work before that
 */
async function inTime(
  parent: AbortSignal,
  work: (limit: AbortSignal, endAfter: (ms: number | null) => void) => Promise<void>,
): Promise<boolean> {
  // No `AbortSignal.any`: it would stay with its parent, which lives as long as the process.
  const limit = new AbortController();
  const abort = (): void => limit.abort(new Error('no answer in time'));
  let timer: NodeJS.Timeout | undefined;
  const endAfter = (ms: number | null): void => {
    clearTimeout(timer);
    timer = ms === null || limit.signal.aborted ? undefined : setTimeout(abort, ms);
  };
  parent.addEventListener('abort', abort, { once: true });
  const late = once(limit.signal, 'abort').then(() => false);
  try {
    if (parent.aborted) abort();
    return await Promise.race([work(limit.signal, endAfter).then(() => true), late]);
  } catch (error) {
    if (limit.signal.aborted) return false;
    throw error;
  } finally {
    clearTimeout(timer);
    parent.removeEventListener('abort', abort);
  }
}
