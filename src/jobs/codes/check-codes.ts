import { setTimeout as sleep } from 'node:timers/promises';
import { readCode, type CodeFault } from '../../domain/codes/code.js';
import type { Proof, Verdict } from '../../domain/codes/proof.js';
import {
  SECOND_LOOK_DELAY_MS,
  planSecondLook,
  waitBeforeSecondLook,
  type Confirm,
} from '../../domain/codes/second-look.js';
import type { UnprovenReason } from '../../domain/codes/outcome.js';
import type { Json, Purchase } from '../../domain/item.js';
import { Deadline } from '../../marketplace/retry.js';
import { BatchValidator } from './ask-codes.js';
import { nextStep, countsAgainst, isGivenUp } from './chunk-outcome.js';
import type {
  BatchReport,
  BatchState,
  CodeMarketplace,
  SettledCode,
  Stop,
  StopReason,
  UnprovenCode,
} from './types.js';

export interface CheckCodesOptions {
  /** Its key, its budget and its patience are those it was created with. */
  readonly marketplace: CodeMarketplace;
  /** Purchase codes as a list may hold them; read no faster than they are checked. */
  readonly codes: Iterable<string> | AsyncIterable<string>;
  /** Codes of this seller known to be valid: they make `invalid` the surer. Default none. */
  readonly canaries?: readonly string[];
  /**
   * Which denied codes are asked for again, after all others, before they are called invalid. `auto`
   * asks for all where at most 1,000 codes or a tenth of the list were denied, else for one in 12, but
   * at least 1,000; `all` for all, `none` for none. Default `auto`.
   */
  readonly confirm?: Confirm;
  /** Least time from a denial to the second look at it, milliseconds; default a minute. */
  readonly confirmAfterMs?: number;
  /** User name of the seller whose codes these are; default: whoever the key opens first. */
  readonly account?: string;
  /** Calls under way at a time, 1 to 25; default 8. Where there is a budget, it decides. */
  readonly concurrency?: number;
  /** Codes that are in memory at a time, at least 1; default 500. A chunk costs up to four calls besides. */
  readonly chunkSize?: number;
  /**
   * Longest wait for an answer, milliseconds, default 15 minutes: from when a request is sent until
   * any is answered, connection time-outs, repetitions and the server's own pauses included. Waiting
   * for the budget before that does not count. After it the rest is yielded as `unproven`.
   */
  readonly patienceMs?: number;
  readonly signal?: AbortSignal;
}

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
/** When the last try begins, as a part of the patience that is left. */
const LAST_TRY = 0.9;
const OUT_OF_PATIENCE: Stop = {
  reason: 'unavailable',
  notBefore: null,
  detail: 'the marketplace did not answer as long as there was patience',
};
/** Codes found in earlier chunks that serve as canaries for later ones. */
const KEPT_CANARIES = 5;

/**
 * Checks purchase codes and yields each once, as soon as its verdict stands and therefore only about
 * in their order. The same code in several notations is asked for and yielded once.
 *
 * `invalid` is a code that was denied between two proofs of the key, and again when it was asked for
 * after all others: such codes come last. Outages, limits, a refused key and answers that can't be
 * understood make a code `unproven`, never `invalid`. Pauses that the server asks for are waited out.
 * When the key is refused, or patience ends, all further codes are yielded as `unproven` and not asked
 * for. Codes are remembered until the end, and of denied ones what the server said.
 *
 * @example
 * const marketplace = createMarketplace({ baseUrl, key });
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
    if ('reason' in reading) yield unproven(code, reading.reason);
    else if (chunk.push(code) >= chunkSize) {
      yield* checking.check(chunk);
      chunk = [];
    }
  }
  yield* checking.check(chunk);
  yield* checking.lookAgain();
}

function assertSound(options: CheckCodesOptions): void {
  const { codes, chunkSize = 1, concurrency = 1, patienceMs = 1, confirmAfterMs = 0 } = options;
  if (typeof codes === 'string') {
    throw new TypeError('codes is a text; give a list, such as [code]');
  }
  if (!Number.isInteger(concurrency) || concurrency < 1 || concurrency > MOST_CONCURRENCY) {
    throw new RangeError(
      `concurrency is ${concurrency}; it must be a whole number from 1 to ${MOST_CONCURRENCY}`,
    );
  }
  const bounds = [
    ['chunkSize', chunkSize, 1],
    ['patienceMs', patienceMs, 1],
    ['confirmAfterMs', confirmAfterMs, 0],
  ] as const;
  for (const [name, value, least] of bounds) {
    if (!(value >= least)) throw new RangeError(`${name} is ${value}; it must be ${least} or more`);
  }
}

/** Not every caller has types. The value is not told: it may be a customer's data. @param place from 1 */
function assertText(code: unknown, place: number): void {
  if (typeof code === 'string') return;
  const kind = code === null ? 'null' : typeof code;
  throw new TypeError(
    `code ${place} of codes is not a text but ${kind}; give every code as a text`,
  );
}

/**
 * The values of a source, of which none is waited for once the signal is aborted: a source may have
 * nothing to give for hours.
 * @throws the signal's reason; what the source throws
 */
async function* interruptible<T>(
  source: Iterable<T> | AsyncIterable<T>,
  signal: AbortSignal,
): AsyncGenerator<T, void, undefined> {
  if (!(Symbol.asyncIterator in source)) {
    yield* source;
    return;
  }
  const values = source[Symbol.asyncIterator]();
  try {
    for (;;) {
      const next = await new Promise<IteratorResult<T>>((resolve, reject) => {
        signal.throwIfAborted();
        const onAbort = (): void => reject(signal.reason as Error);
        signal.addEventListener('abort', onAbort, { once: true });
        const forget = (): void => signal.removeEventListener('abort', onAbort);
        values.next().then(resolve, reject).finally(forget);
      });
      if (next.done === true) return;
      yield next.value;
    }
  } finally {
    // One that is waited for still closes when it comes to that, if ever.
    const closed = Promise.resolve(values.return?.());
    if (signal.aborted) closed.catch(() => undefined);
    else await closed;
  }
}

interface Round extends BatchReport {
  readonly settled: number;
}

/** A code that was denied so many times, with the last denial. */
type Denied = SettledCode & { readonly denials: number };

class Checking {
  readonly #options: CheckCodesOptions;
  readonly signal: AbortSignal;
  #account: string | null;
  #canaries: readonly string[];
  #state: BatchState | null = null;
  readonly #patienceMs: number;
  readonly #deadline: Deadline;
  readonly #marketplace: CodeMarketplace;
  /** When anything was settled last. */
  #settledAt = Date.now();
  /** The last pause was cut short by the end of patience. */
  #isLastTry = false;
  /** Why nothing more is asked for. */
  #end: Stop | null = null;
  readonly #denied = new Map<string, Denied>();
  readonly #counts = { asked: 0, valid: 0, overturned: 0 };

  constructor(options: CheckCodesOptions) {
    const { marketplace, account, canaries, patienceMs, signal } = options;
    this.#options = options;
    this.signal = signal ?? new AbortController().signal;
    this.#account = account ?? null;
    this.#canaries = canaries ?? [];
    this.#patienceMs = patienceMs ?? DEFAULT_PATIENCE_MS;
    const deadline = new Deadline(this.#patienceMs);
    this.#deadline = deadline;
    this.#marketplace = {
      account: (call) => marketplace.account({ ...call, deadline }),
      validate: (code, call) => marketplace.validate(code, { ...call, deadline }),
    };
  }

  async *check(codes: readonly string[]): AsyncGenerator<CheckedCode, void, undefined> {
    const rounds = new Map<string, number>();
    let open = codes;
    // However long the list took to come to them.
    this.#settledAt = Date.now();
    this.#deadline.stop();
    while (open.length > 0 && this.#end === null) {
      const round = yield* this.#ask(open);
      this.signal.throwIfAborted();
      const again: string[] = [];
      for (const [code, one] of round.unproven) {
        const inVain = (rounds.get(code) ?? 0) + Number(countsAgainst(one.reason, round.stop));
        rounds.set(code, inVain);
        if (isGivenUp(inVain, round.stop)) yield this.#givenUp(code, one);
        else again.push(code);
      }
      // Those whose turn did not come go first.
      open = [...round.left, ...again];
      await this.#pause(round, open.length);
    }
    const end = this.#end;
    if (end === null) return;
    for (const code of open) {
      this.#denied.delete(code);
      yield unproven(code, end.reason, { message: end.detail });
    }
  }

  /** Asks for denied codes again, until they were denied as often as it takes to call them invalid. */
  async *lookAgain(): AsyncGenerator<CheckedCode, void, undefined> {
    const { confirm = 'auto', confirmAfterMs = SECOND_LOOK_DELAY_MS } = this.#options;
    let sample: ReadonlySet<string> | null = null;
    for (;;) {
      const denied = [...this.#denied.values()];
      const plan = planSecondLook({ confirm, ...this.#counts, denied: denied.length });
      if (plan.kind === 'unproven' || this.#end !== null) {
        for (const { code, ...last } of denied) {
          yield this.#givenUp(code, { ...last, reason: 'unconfirmed' });
        }
        return;
      }
      const { denials, oneIn } = plan;
      if (oneIn > 1) sample ??= sampleOf(denied, oneIn);
      const again = denied.filter(
        (one) => one.denials < denials && (oneIn === 1 || sample?.has(one.code) === true),
      );
      if (again.length === 0) {
        for (const one of denied) yield answered(one);
        return;
      }
      const deniedAt = again.map(({ at }) => at);
      await this.#sleep(
        waitBeforeSecondLook(deniedAt, confirmAfterMs, this.#counts.overturned, Date.now()),
      );
      yield* this.check(again.map(({ code }) => code));
    }
  }

  #givenUp(code: string, { reason, evidence, at }: UnprovenCode): CheckedCode {
    this.#denied.delete(code);
    return unproven(code, reason, { ...evidence, checkedAt: new Date(at) });
  }

  /** Asks for codes and yields verdicts as they come. A reader that leaves ends the asking. */
  async *#ask(codes: readonly string[]): AsyncGenerator<CheckedCode, Round, undefined> {
    const { concurrency = DEFAULT_CONCURRENCY } = this.#options;
    const asking = new BatchValidator(this.#marketplace, {
      account: this.#account,
      codes,
      canaries: this.#canaries,
      startState: this.#state,
      concurrency,
      spacingMs: 0,
      now: Date.now,
      signal: this.signal,
    });
    const found: string[] = [];
    let settled = 0;
    for await (const news of asking) {
      settled += news.length;
      for (const one of news) {
        const { code } = one;
        const before = this.#denied.get(code);
        if (before === undefined) this.#counts.asked++;
        if (one.kind === 'denied') {
          this.#denied.set(code, { ...one, denials: (before?.denials ?? 0) + 1 });
          continue;
        }
        this.#denied.delete(code);
        this.#counts.valid++;
        if (before !== undefined) this.#counts.overturned++;
        if (found.length < KEPT_CANARIES) found.push(code);
        yield answered(one);
      }
    }
    const { report } = asking;
    this.#account = report.account;
    this.#state = report.endState;
    const { lostCanaries } = report;
    const kept = this.#canaries.filter((code) => !lostCanaries.includes(code));
    const most = KEPT_CANARIES + (this.#options.canaries?.length ?? 0);
    this.#canaries = [...new Set([...kept, ...found, ...lostCanaries])].slice(0, most);
    return { ...report, settled };
  }

  /** Waits for what may pass; what does not, or takes longer than there is patience for, is the end. */
  async #pause({ stop, settled }: Round, open: number): Promise<void> {
    const now = Date.now();
    if (settled > 0) {
      this.#settledAt = now;
      this.#isLastTry = false;
    }
    const next = nextStep({ stop, settled, open, failedRounds: 0 }, now, Math.random());
    if (next.kind === 'done') return;
    const delayMs = next.kind === 'later' ? this.#delay(stop, next.delayMs, now) : null;
    if (delayMs === null) this.#end = stop ?? OUT_OF_PATIENCE;
    else await this.#sleep(delayMs);
  }

  /** Where the server did not say when to come back, the last try is before patience ends; null: none. */
  #delay(stop: Stop | null, delayMs: number, now: number): number | null {
    if (this.#deadline.isOver) return null;
    const patience = this.#settledAt + this.#patienceMs - now;
    if (stop === null || delayMs < patience) return delayMs;
    if (this.#isLastTry || stop.notBefore !== null) return null;
    this.#isLastTry = true;
    return Math.max(0, patience * LAST_TRY);
  }

  /** @throws the signal's reason */
  async #sleep(ms: number): Promise<void> {
    if (ms > 0) await sleep(ms, undefined, { signal: this.signal }).catch(() => undefined);
    this.signal.throwIfAborted();
  }
}

/** One of each `oneIn` codes in their order, by chance. */
function sampleOf(denied: readonly Denied[], oneIn: number): ReadonlySet<string> {
  const sample = new Set<string>();
  for (let from = 0; from < denied.length; from += oneIn) {
    const block = denied.slice(from, from + oneIn);
    const one = block[Math.floor(Math.random() * block.length)];
    if (one !== undefined) sample.add(one.code);
  }
  return sample;
}

function checked(
  code: string,
  facts: Pick<CheckedCode, 'verdict' | 'reason'> & Partial<CheckedCode>,
): CheckedCode {
  const nothing = { purchase: null, raw: null, checkedAt: null, httpStatus: null, message: null };
  return { code, proof: 'none', ...nothing, ...facts };
}

function answered({ code, proof, evidence, at, answer }: SettledCode): CheckedCode {
  const facts = { proof, ...evidence, checkedAt: new Date(at) };
  return answer === null
    ? checked(code, { verdict: 'invalid', reason: 'denied', ...facts })
    : checked(code, {
        verdict: 'valid',
        reason: 'answered',
        ...facts,
        purchase: answer.value,
        raw: answer.raw,
      });
}

const unproven = (
  code: string,
  reason: CheckedCode['reason'],
  facts: Partial<CheckedCode> = {},
): CheckedCode => checked(code, { verdict: 'unproven', reason, ...facts });
