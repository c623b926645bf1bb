import { sameHost } from '../../domain/address.js';
import { askAgain } from '../../domain/codes/unproven.js';
import type { AuditState, CodeResult, HeldChunk, PendingCode } from '../../store/audits/types.js';
import type { Binding } from '../../store/sellers.js';
import { askCodes } from './ask-codes.js';
import { countsAgainst, isGivenUp, type ChunkResult } from './chunk-outcome.js';
import type { AuditDeps } from './perform-chunk.js';
import { endOf } from './journal.js';
import { Recorder } from './recorder.js';
import { settledResult, unprovenResult } from './results.js';
import type { AskReport, Stop } from './types.js';

/** Canaries known from before that a chunk may try. */
const CANARIES = 5;
/** A code that was valid is denied so often before that is believed: a key may be bad for one call. */
const DENIALS_OF_VALID = 2;

/** Asks for the open codes of a chunk and records what comes of it. */
export async function workOnChunk(
  deps: AuditDeps,
  held: HeldChunk,
  signal: AbortSignal,
): Promise<ChunkResult> {
  const { auditId, chunk } = held;
  const { audits } = deps.store;
  const [audit, pending, binding] = await Promise.all([
    audits.get(auditId),
    audits.pendingOf(auditId, chunk),
    deps.store.ensureSeller(deps.sellerId, deps.marketplace.host),
  ]);
  if (audit === null || pending.length === 0) return nothingOpen(audit?.state ?? 'running');
  const work = new ChunkWork(deps, held, inTurn(pending, audit.problem !== null));
  const stop = movedTo(deps, binding) ?? (await work.ask(binding.username, signal));
  const isFirst = audit.valid + audit.invalid === audit.reused;
  const { settled, roundsToWait, state } = work;
  return { stop, settled, open: pending.length - settled, roundsToWait, isFirst, state };
}

function nothingOpen(state: AuditState): ChunkResult {
  return { stop: null, settled: 0, open: 0, roundsToWait: 0, isFirst: false, state };
}

/**
 * Codes in the order in which they are asked for: those that were in vain come last. Where the audit
 * was held up, with any of the others first: it may have been because of the very codes that began.
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

/** The work on one chunk: its codes with where they are recorded. */
class ChunkWork {
  readonly #deps: AuditDeps;
  readonly #held: HeldChunk;
  readonly #pending: ReadonlyMap<string, PendingCode>;
  readonly #recorder: Recorder;
  readonly #ended = new AbortController();
  /** Codes that got a verdict, or were given up. */
  settled = 0;
  /** As in `ChunkResult`. */
  roundsToWait = 0;
  /** Of the audit, as last seen. */
  state: AuditState = 'running';

  constructor(deps: AuditDeps, held: HeldChunk, pending: readonly PendingCode[]) {
    this.#deps = deps;
    this.#held = held;
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
    const report = await askCodes(marketplace, {
      account,
      codes: [...this.#pending.keys()],
      canaries: await this.#canaries(),
      denialsNeeded: (code) =>
        this.#pending.get(code)?.known?.verdict === 'valid' ? DENIALS_OF_VALID : 1,
      concurrency,
      spacingMs,
      carried: carried.last(sellerId),
      now: Date.now,
      signal: AbortSignal.any([signal, this.#held.lost, this.#ended.signal]),
      ...(closing === undefined ? {} : { closing }),
      onSettled: (news) => {
        this.settled += news.length;
        for (const { judgement } of news) this.#deps.onVerdict?.(judgement.verdict);
        return this.#recorder.add(news.map((one) => settledResult(one, this.#code(one.code))));
      },
    });
    carried.put(sellerId, report);
    await this.#recordVain(report);
    if (account === null && report.account !== null) {
      const binding = { username: report.account, marketplace: marketplace.host };
      await store.bindSeller(sellerId, binding);
    }
    return report.stop;
  }

  async #canaries(): Promise<readonly string[]> {
    const { store, sellerId, carried } = this.#deps;
    const { canary } = this.#held;
    const lost = carried.lost(sellerId);
    const known = await store.audits.canariesOf(sellerId, CANARIES, lost);
    // Those that were lost may be found again, as when the key was bad.
    const again = known.length < CANARIES && lost.length > 0;
    if (again) known.push(...(await store.audits.canariesOf(sellerId, CANARIES)));
    const all = new Set([...(canary === null ? [] : [canary]), ...known.map(({ code }) => code)]);
    return [...all].sort((a, b) => Number(lost.includes(a)) - Number(lost.includes(b)));
  }

  async #recordVain({ judgements, stop }: AskReport): Promise<void> {
    const results: CodeResult[] = [];
    for (const [code, judgement] of judgements) {
      if (judgement.verdict !== 'unproven' || !countsAgainst(judgement.reason, stop)) continue;
      const pending = this.#code(code);
      const rounds = pending.attempts + 1;
      const isFinal = isGivenUp(rounds, stop);
      results.push(unprovenResult(judgement, pending, endOf(judgement.call), isFinal));
      if (isFinal) {
        this.settled++;
        this.#deps.onVerdict?.('unproven');
      } else if (askAgain(judgement.reason) === 'later') {
        this.roundsToWait = Math.max(this.roundsToWait, rounds);
      }
    }
    if (results.length > 0) await this.#recorder.add(results);
    await this.#recorder.flush();
  }

  #code(code: string): PendingCode {
    return this.#pending.get(code) as PendingCode;
  }

  #see(state: AuditState): void {
    this.state = state;
    if (state !== 'running') this.#ended.abort();
  }
}
