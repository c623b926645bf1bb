import { hash } from 'node:crypto';
import { sameHost } from '../../domain/address.js';
import type { PurchaseReading } from '../../domain/codes/purchase.js';
import { LOOK_AFTER_MS, type Confirm } from '../../domain/codes/second-look.js';
import { askAgain } from '../../domain/codes/outcome.js';
import type { Purchase } from '../../domain/item.js';
import { isObject } from '../../domain/values.js';
import type { Sourced } from '../../marketplace/types.js';
import type { Store } from '../../store/store.js';
import type {
  AuditState,
  CodeResult,
  DeniedCanary,
  HeldChunk,
  PendingCode,
} from '../../store/audits/types.js';
import type { Binding } from '../../store/sellers.js';
import { askCodes } from './ask-codes.js';
import { countsAgainst, isGivenUp, type ChunkResult } from './chunk-outcome.js';
import type { AuditDeps } from './perform-chunk.js';
import type { AskReport, SettledCode, Stop, UnprovenCode } from './types.js';

/** Canaries known from before that a chunk may try. */
const CANARIES = 20;
/** Canaries denied earlier that are asked for again beside the codes of a second look. */
const DENIED_CANARIES = 20;
/** Audits that are taken to share the budget of their marketplace at most. */
const MOST_SHARING = 50;

/** Asks for the given codes of an audit and records what comes of it. */
export async function workOnCodes(
  deps: AuditDeps,
  held: HeldChunk,
  pending: readonly PendingCode[],
  confirm: Confirm,
  signal: AbortSignal,
): Promise<ChunkResult> {
  const { auditId } = held;
  const { audits } = deps.store;
  const [audit, binding] = await Promise.all([
    audits.get(auditId),
    deps.store.sellers.ensure(deps.sellerId, deps.marketplace.host),
  ]);
  const nothing = { stop: null, settled: 0, open: 0, roundsToWait: 0, isFirst: false };
  if (audit === null || pending.length === 0) {
    return { ...nothing, state: audit?.state ?? 'running' };
  }
  const work = new Work(deps, held, inTurn(pending, audit.problem !== null), confirm);
  const stop = movedTo(deps, binding) ?? (await work.ask(binding.username, signal));
  const isFirst = audit.valid + audit.invalid + audit.denied === audit.reused;
  const { settled, roundsToWait, state } = work;
  return { stop, settled, open: pending.length - settled, roundsToWait, isFirst, state };
}

/**
 * Codes in the order in which they are asked for: those with failed attempts come last. Where the audit
 * was held up it begins at a random place: the codes that came first may have caused it.
 */
function inTurn(pending: readonly PendingCode[], wasHeldUp: boolean): readonly PendingCode[] {
  const first = wasHeldUp ? Math.floor(Math.random() * pending.length) : 0;
  const byPosition = [...pending].sort((a, b) => a.position - b.position);
  const rotated = [...byPosition.slice(first), ...byPosition.slice(0, first)];
  return rotated.sort((a, b) => a.attempts - b.attempts);
}

/** A seller's codes are those of one marketplace. */
function movedTo(
  { sellerId, marketplace }: AuditDeps,
  { username, ...bound }: Binding,
): Stop | null {
  if (username === null || sameHost(bound.marketplace, marketplace.host)) return null;
  const detail = `seller "${sellerId}" is of the marketplace ${bound.marketplace}, not of ${marketplace.host}`;
  return { reason: 'account-changed', notBefore: null, detail };
}

/** The work on some codes of an audit, with where they are recorded. */
class Work {
  readonly #deps: AuditDeps;
  readonly #held: HeldChunk;
  readonly #confirm: Confirm;
  readonly #pending: ReadonlyMap<string, PendingCode>;
  readonly #recorder: Recorder;
  readonly #ended = new AbortController();
  /** Codes that were found, denied or given up, and so are not asked for again in this asking. */
  settled = 0;
  /** As in `ChunkResult`. */
  roundsToWait = 0;
  /** Of the audit, as last seen. */
  state: AuditState = 'running';

  constructor(deps: AuditDeps, held: HeldChunk, pending: readonly PendingCode[], confirm: Confirm) {
    this.#deps = deps;
    this.#held = held;
    this.#confirm = confirm;
    this.#pending = new Map(pending.map((code) => [code.code, code]));
    this.#recorder = new Recorder({
      audits: deps.store.audits,
      auditId: held.auditId,
      callCount: deps.callCount,
      onState: (state) => this.#see(state),
    });
  }

  /** Asks until all is settled, or something ends it; returns when everything is recorded. */
  async ask(account: string | null, signal: AbortSignal): Promise<Stop | null> {
    const { store, marketplace, sellerId, carried, concurrency, spacingMs, closing } = this.#deps;
    const { lookAfterMs = LOOK_AFTER_MS } = this.#deps;
    const known = await store.audits.canariesOf(sellerId, CANARIES);
    const given = this.#held.canary;
    const canaries = [...(given === null ? [] : [given]), ...known];
    // A code that is asked for anyway says nothing of itself.
    const others = canaries.filter((code) => !this.#pending.has(code));
    const earlier = await store.audits.deniedCanaries(sellerId, lookAfterMs, DENIED_CANARIES);
    const sharing = await store.audits.countRunning(marketplace.host);
    const denied: DeniedCanary[] = [];
    const found: string[] = [];
    const report = await askCodes(marketplace, {
      account,
      codes: [...this.#pending.keys()],
      also: earlier.filter((code) => !this.#pending.has(code)),
      canaries: [...new Set(others.length > 0 ? others : canaries)],
      concurrency,
      // Audits of the same marketplace take turns, so that the calls of each lie further apart.
      spacingMs: spacingMs * Math.min(Math.max(1, sharing), MOST_SHARING),
      carried: carried.get(sellerId) ?? null,
      now: Date.now,
      signal: AbortSignal.any([signal, this.#held.lost, this.#ended.signal]),
      ...(closing === undefined ? {} : { closing }),
      onSettled: (news) => {
        const results: CodeResult[] = [];
        for (const one of news) {
          const pending = this.#pending.get(one.code);
          if (pending !== undefined) results.push(this.#resultOf(one, pending));
          else if (one.kind === 'denied') denied.push(deniedCanary(one));
          else found.push(one.code);
        }
        return this.#recorder.add(results);
      },
    });
    carried.set(sellerId, report.carried);
    await store.audits.recordDeniedCanaries(sellerId, denied, found, lookAfterMs);
    await this.#recordUnproven(report);
    if (account === null && report.account !== null) {
      const binding = { username: report.account, marketplace: marketplace.host };
      await store.sellers.bind(sellerId, binding);
    }
    return report.stop;
  }

  #resultOf(one: SettledCode, { position, codeId }: PendingCode): CodeResult {
    const { kind, proof, evidence, at, answer } = one;
    this.settled++;
    const isWaiting = kind === 'denied' && this.#confirm !== 'none';
    if (!isWaiting) this.#deps.onVerdict?.(kind === 'found' ? 'valid' : 'invalid');
    const common = { position, codeId, proof, ...evidence, checkedAt: new Date(at) };
    if (isWaiting) {
      const news = { verdict: 'unproven' } as const;
      return { ...common, news, reason: 'unconfirmed', rawHash: null, final: false, denied: true };
    }
    if (kind === 'denied' || answer === null) {
      const news = { verdict: 'invalid' } as const;
      return { ...common, news, reason: 'denied', rawHash: null, final: true };
    }
    const news = { verdict: 'valid', purchase: leanReading(answer) } as const;
    const rawHash = hash('sha256', answer.text);
    return { ...common, news, reason: 'answered', rawHash, final: true };
  }

  async #recordUnproven({ unproven, stop }: AskReport): Promise<void> {
    const results: CodeResult[] = [];
    for (const [code, one] of unproven) {
      if (!countsAgainst(one.reason, stop)) continue;
      const pending = this.#pending.get(code) as PendingCode;
      const rounds = pending.attempts + 1;
      const isFinal = isGivenUp(rounds, stop);
      results.push(unprovenResult(one, pending, isFinal));
      if (isFinal) {
        this.settled++;
        this.#deps.onVerdict?.('unproven');
      } else if (askAgain(one.reason) === 'later') {
        this.roundsToWait = Math.max(this.roundsToWait, rounds);
      }
    }
    if (results.length > 0) await this.#recorder.add(results);
    await this.#recorder.flush();
  }

  #see(state: AuditState): void {
    this.state = state;
    if (state !== 'running') this.#ended.abort();
  }
}

function unprovenResult(
  { reason, evidence, at }: UnprovenCode,
  { position, codeId }: PendingCode,
  final: boolean,
): CodeResult {
  const news = { verdict: 'unproven' } as const;
  const checkedAt = new Date(at);
  return {
    position,
    codeId,
    news,
    reason,
    proof: 'none',
    ...evidence,
    checkedAt,
    rawHash: null,
    final,
  };
}

function deniedCanary({ code, proof, evidence, at }: SettledCode): DeniedCanary {
  return { code, proof, ...evidence, checkedAt: new Date(at) };
}

/**
 * What is recorded of a purchase. The item it is of is most of what was answered: where its id was
 * read it is let go here, since results may wait for a while until they are written.
 */
function leanReading({ value, raw }: Sourced<Purchase>): PurchaseReading {
  if ((value.item?.id ?? null) === null || !isObject(raw)) return { value, raw };
  const { item: _, ...rest } = raw;
  return { value, raw: rest };
}

/** Writing may take a tenth of the time: the pause after a write is so many times as long as it took. */
const PAUSE_SHARE = 9;
/** Longest pause between two writes. */
const LONGEST_PAUSE_MS = 1_000;
/** So many results are written without a pause, while the next are asked for: their number makes up for it. */
const WORTH_A_WRITE = 100;
/** Results that may wait for a write before asking waits too. */
const MOST_WAITING = 1_000;

/** Where results go to, and who counts the calls that were made for them. */
export interface Recording {
  readonly audits: Pick<Store['audits'], 'record'>;
  readonly auditId: bigint;
  /** Requests made so far. */
  readonly callCount: () => number;
  /** Told of the audit's state after each write. */
  readonly onState: (state: AuditState) => void;
}

/**
 * Writes results into the store while codes are asked for. A result is written at once when the last
 * write is past; the faster they come, the more of them go into one write, so that an audit without
 * a budget is not held up by writing. A kill loses what came since the last write began.
 */
export class Recorder {
  readonly #recording: Recording;
  #waiting: CodeResult[] = [];
  #countedCalls: number;
  #writing: Promise<void> | null = null;
  #timer: NodeJS.Timeout | null = null;
  #nextAt = -Infinity;
  #failure: { readonly error: unknown } | null = null;

  constructor(recording: Recording) {
    this.#recording = recording;
    this.#countedCalls = recording.callCount();
  }

  /**
   * Takes results; the promise is fulfilled when more may come.
   * @throws what an earlier write threw
   */
  async add(results: readonly CodeResult[]): Promise<void> {
    if (this.#failure !== null) throw this.#failure.error;
    this.#waiting.push(...results);
    if (this.#waiting.length > MOST_WAITING) await this.flush();
    else this.#plan();
  }

  /** Returns when everything is written, the calls made too. @throws what a write threw */
  async flush(): Promise<void> {
    do {
      if (this.#timer !== null) clearTimeout(this.#timer);
      this.#timer = null;
      await this.#write();
    } while (this.#failure === null && this.#hasMore);
    if (this.#failure !== null) throw this.#failure.error;
  }

  get #hasMore(): boolean {
    return this.#waiting.length > 0 || this.#recording.callCount() > this.#countedCalls;
  }

  #plan(): void {
    if (this.#writing !== null) return;
    if (this.#waiting.length >= WORTH_A_WRITE) {
      if (this.#timer !== null) clearTimeout(this.#timer);
      this.#timer = null;
      void this.#write();
      return;
    }
    if (this.#timer !== null) return;
    const waitMs = Math.max(0, this.#nextAt - performance.now());
    this.#timer = setTimeout(() => {
      this.#timer = null;
      void this.#write();
    }, waitMs);
  }

  #write(): Promise<void> {
    this.#writing ??= this.#writeWaiting().finally(() => {
      this.#writing = null;
      if (this.#waiting.length > 0 && this.#failure === null) this.#plan();
    });
    return this.#writing;
  }

  async #writeWaiting(): Promise<void> {
    if (this.#failure !== null || !this.#hasMore) return;
    const { audits, auditId, callCount, onState } = this.#recording;
    const calls = callCount();
    const newCalls = calls - this.#countedCalls;
    const began = performance.now();
    const results = this.#waiting;
    this.#waiting = [];
    try {
      const { state } = await audits.record(auditId, results, newCalls);
      this.#countedCalls = calls;
      onState(state);
    } catch (error) {
      this.#failure = { error };
    }
    const ended = performance.now();
    this.#nextAt = ended + Math.min(PAUSE_SHARE * (ended - began), LONGEST_PAUSE_MS);
  }
}
