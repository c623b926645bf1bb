import { setTimeout as sleep } from 'node:timers/promises';
import { readCode, type CodeFault } from '../../domain/codes/code.js';
import type { UnprovenReason } from '../../domain/codes/unproven.js';
import type { CodeJudgement, Proof, Verdict } from '../../domain/codes/verdict.js';
import type { Json, Purchase } from '../../domain/item.js';
import type { Sourced } from '../../marketplace/types.js';
import { askCodes, type CodeMarketplace } from './ask-codes.js';
import { afterAsking, countsAgainst, isGivenUp } from './chunk-outcome.js';
import { interruptible } from './interruptible.js';
import { endOf, type Carried } from './journal.js';
import { Relay } from './relay.js';
import type { AskReport, SettledCode, Stop, StopReason } from './types.js';

/** What to check, and how. */
export interface CheckCodesOptions {
  /** Its key, its budget and its patience are those it was created with. */
  readonly marketplace: CodeMarketplace;
  /** Purchase codes as a list may hold them; read no faster than they are checked. */
  readonly codes: Iterable<string> | AsyncIterable<string>;
  /** Codes of this seller known to be valid: they make `invalid` the surer. Default none. */
  readonly canaries?: readonly string[];
  /** User name of the seller whose codes these are; default: whoever the key opens first. */
  readonly account?: string;
  /** Calls under way at a time, 1 to 25; default 8. Where there is a budget, it decides. */
  readonly concurrency?: number;
  /** Codes that are in memory at a time, at least 1; default 500. A chunk costs up to four calls besides. */
  readonly chunkSize?: number;
  /** Longest time without an answer to wait out, and longest pause for a server; milliseconds, default 15 minutes. */
  readonly patienceMs?: number;
  readonly signal?: AbortSignal;
}

/** A code with its verdict. */
export interface CheckedCode {
  /** Without what surrounded it, such as white space and quotes. */
  readonly code: string;
  readonly verdict: Verdict;
  /** `answered`, `denied`, or why there is no verdict. */
  readonly reason: 'answered' | 'denied' | UnprovenReason | StopReason | CodeFault;
  readonly proof: Proof;
  /** Null unless the code is valid. */
  readonly purchase: Purchase | null;
  /** The purchase as it was sent, fields of forks included. */
  readonly raw: Json | null;
  /** When the answer came; null when the code was not asked for. */
  readonly checkedAt: Date | null;
  readonly httpStatus: number | null;
  /** What the server or the client said, redacted and bounded. */
  readonly message: string | null;
}

const DEFAULT_CHUNK_SIZE = 500;
const DEFAULT_CONCURRENCY = 8;
const MOST_CONCURRENCY = 25;
const DEFAULT_PATIENCE_MS = 15 * 60_000;
/** Codes found in earlier chunks that serve as canaries for later ones. */
const KEPT_CANARIES = 5;

/**
 * Checks purchase codes and yields each once, as soon as its verdict stands and therefore only about
 * in their order. The same code in several notations is asked for and yielded once.
 *
 * `invalid` is a code that was denied between two proofs of the key. Outages, limits, a refused key
 * and answers that can't be understood make it `unproven`, never `invalid`. Pauses that the server
 * asks for are waited out. When the key is refused, or patience ends, all further codes are yielded
 * as `unproven` and not asked for. Codes are remembered until the end, nothing else is.
 *
 * @example
 * const marketplace = createMarketplace({ baseUrl, key: new Secret(key) });
 * for await (const { code, verdict, purchase } of checkCodes({ marketplace, codes })) {
 *   console.log(code, verdict, purchase?.item?.name ?? '');
 * }
 * await marketplace.close();
 *
 * @throws {RangeError} when a number is out of range
 * @throws {TypeError} when `codes` is a single text, or holds something else than texts
 * @throws the signal's reason, when what was settled until then has been yielded; what `codes` throws
 */
export async function* checkCodes(
  options: CheckCodesOptions,
): AsyncGenerator<CheckedCode, void, undefined> {
  assertSound(options);
  const { codes, chunkSize = DEFAULT_CHUNK_SIZE } = options;
  const checking = new Checking(options);
  const seen = new Set<string>();
  let chunk: string[] = [];
  let place = 0;
  for await (const text of interruptible(codes, checking.signal)) {
    assertText(text, ++place);
    const reading = readCode(text);
    const code = 'code' in reading ? reading.code : text;
    if (seen.has(code)) continue;
    seen.add(code);
    if ('reason' in reading) yield notAsked(code, reading.reason, null);
    else if (chunk.push(code) >= chunkSize) {
      yield* checking.check(chunk);
      chunk = [];
    }
  }
  yield* checking.check(chunk);
}

function assertSound({ codes, chunkSize, concurrency, patienceMs }: CheckCodesOptions): void {
  if (typeof codes === 'string')
    throw new TypeError('codes is a text; give a list, such as [code]');
  const callsAtOnce = concurrency ?? DEFAULT_CONCURRENCY;
  if (!Number.isInteger(callsAtOnce) || callsAtOnce < 1 || callsAtOnce > MOST_CONCURRENCY) {
    throw new RangeError(
      `concurrency is ${concurrency}; it must be a whole number from 1 to ${MOST_CONCURRENCY}`,
    );
  }
  const numbers = { chunkSize, patienceMs };
  for (const [name, value] of Object.entries(numbers)) {
    const least = name === 'patienceMs' ? 0 : 1;
    if (value === undefined || value >= least) continue;
    throw new RangeError(`${name} is ${value}; it must be ${least} or more`);
  }
}

/** Not every caller has types. The value is not told: it may be a customer's data. @param place from 1 */
function assertText(code: unknown, place: number): void {
  if (typeof code === 'string') return;
  const kind = code === null ? 'null' : typeof code;
  throw new TypeError(`code ${place} of codes is no text but ${kind}; give every code as a text`);
}

/** What one round came to. */
interface Round extends AskReport {
  readonly settled: number;
}

class Checking {
  readonly #options: CheckCodesOptions;
  readonly signal: AbortSignal;
  #account: string | null;
  #canaries: readonly string[];
  #carried: Carried | null = null;
  /** When anything was settled last. */
  #settledAt = Date.now();
  /** Why nothing more is asked for. */
  #end: Stop | null = null;

  constructor(options: CheckCodesOptions) {
    this.#options = options;
    this.signal = options.signal ?? new AbortController().signal;
    this.#account = options.account ?? null;
    this.#canaries = options.canaries ?? [];
  }

  async *check(codes: readonly string[]): AsyncGenerator<CheckedCode, void, undefined> {
    const rounds = new Map<string, number>();
    let open = codes;
    // However long the list took to come to them.
    this.#settledAt = Date.now();
    while (open.length > 0 && this.#end === null) {
      const round = yield* this.#ask(open);
      this.signal.throwIfAborted();
      const again: string[] = [];
      for (const [code, judgement] of round.judgements) {
        if (judgement.verdict !== 'unproven') continue;
        const inVain =
          (rounds.get(code) ?? 0) + Number(countsAgainst(judgement.reason, round.stop));
        rounds.set(code, inVain);
        if (isGivenUp(inVain, round.stop)) yield checked(code, judgement, null);
        else again.push(code);
      }
      // Those whose turn did not come go first.
      open = [...round.left, ...again];
      await this.#pause(round, open.length);
    }
    const end = this.#end;
    if (end !== null) for (const code of open) yield notAsked(code, end.reason, end.detail);
  }

  /** Asks for codes and yields verdicts as they come. A reader that leaves ends the asking. */
  async *#ask(codes: readonly string[]): AsyncGenerator<CheckedCode, Round, undefined> {
    const { marketplace, concurrency = DEFAULT_CONCURRENCY } = this.#options;
    const relay = new Relay<SettledCode>();
    const leaving = new AbortController();
    const asking = askCodes(marketplace, {
      account: this.#account,
      codes,
      canaries: this.#canaries,
      concurrency,
      spacingMs: 0,
      carried: this.#carried,
      now: Date.now,
      signal: AbortSignal.any([this.signal, leaving.signal]),
      onSettled: (settled) => relay.put(settled),
    }).finally(() => relay.close());
    // The reader may be busy with a value when it fails, and is told when it comes back.
    asking.catch(() => undefined);
    const found: string[] = [];
    let settled = 0;
    try {
      for await (const { code, judgement, answer } of relay.read()) {
        settled++;
        if (judgement.verdict === 'valid' && found.length < KEPT_CANARIES) found.push(code);
        yield checked(code, judgement, answer);
      }
      const report = await asking;
      this.#learn(report, found);
      return { ...report, settled };
    } finally {
      leaving.abort();
      relay.close();
      await asking.catch(() => undefined);
    }
  }

  #learn({ account, carried, lostCanaries }: AskReport, found: readonly string[]): void {
    this.#account = account;
    this.#carried = carried;
    const kept = this.#canaries.filter((code) => !lostCanaries.includes(code));
    const most = KEPT_CANARIES + (this.#options.canaries?.length ?? 0);
    const all = [...new Set([...kept, ...found, ...lostCanaries])];
    this.#canaries = all.slice(0, most);
  }

  /** Waits for what may pass; what does not, or takes longer than there is patience for, is the end. */
  async #pause({ stop, settled }: Round, open: number): Promise<void> {
    const now = Date.now();
    const { patienceMs = DEFAULT_PATIENCE_MS } = this.#options;
    if (settled > 0) this.#settledAt = now;
    const next = afterAsking({ stop, settled, open, roundsToWait: 0 }, now, Math.random());
    if (next.kind === 'done') return;
    const patience = this.#settledAt + patienceMs - now;
    const delayMs = next.kind === 'later' ? this.#delay(stop, next.delayMs, patience) : null;
    if (delayMs === null) this.#end = stop;
    else await sleep(delayMs, undefined, { signal: this.signal }).catch(() => undefined);
    this.signal.throwIfAborted();
  }

  /** Where the server did not say when to come back, the last try is at the end of patience; null: none. */
  #delay(stop: Stop | null, delayMs: number, patience: number): number | null {
    if (stop === null || delayMs <= patience) return delayMs;
    return stop.notBefore === null && patience > 0 ? patience : null;
  }
}

function checked(
  code: string,
  { verdict, reason, proof, evidence, call }: CodeJudgement,
  answer: Sourced<Purchase> | null,
): CheckedCode {
  return {
    ...{ code, verdict, reason, proof, ...evidence },
    purchase: verdict === 'valid' && answer !== null ? answer.value : null,
    raw: verdict === 'valid' && answer !== null ? answer.raw : null,
    checkedAt: new Date(endOf(call)),
  };
}

function notAsked(
  code: string,
  reason: CheckedCode['reason'],
  message: string | null,
): CheckedCode {
  return {
    ...{ code, verdict: 'unproven', reason, proof: 'none', message },
    ...{ purchase: null, raw: null, checkedAt: null, httpStatus: null },
  };
}
