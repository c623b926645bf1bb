// Checks codes without a database; the command and the worker use perform-chunk.ts.
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
import { BatchValidator } from './batch-validator.js';
import { nextStep, countsAgainst, isGivenUp } from './chunk-outcome.js';
import { Deadline } from './deadline.js';
import type {
  BatchReport,
  BatchState,
  CodeMarketplace,
  CountedCode,
  DeniedCode,
  Stop,
  StopReason,
  UnprovenCode,
} from './types.js';

export interface CheckCodesOptions {
  /** Keeps the key, budget and timeouts it was created with. */
  readonly marketplace: CodeMarketplace;
  /** Purchase codes as a list may hold them. They are read no faster than they are checked. */
  readonly codes: Iterable<string> | AsyncIterable<string>;
  /** Codes of this seller known to be valid; they make `invalid` more certain. Default none. */
  readonly canaries?: readonly string[];
  /**
   * Which denied codes are checked again, after all others, before they are called invalid: `all`,
   * `none`, or `auto` (the default). `auto` checks all again if at most 1,000 codes or a tenth of the
   * list were denied, otherwise one in 12 but at least 1,000.
   */
  readonly confirm?: Confirm;
  /** Shortest time from a denial to the second check, milliseconds; default a minute. */
  readonly confirmAfterMs?: number;
  /** User name of the seller whose codes these are. Default: that of the first account details. */
  readonly account?: string;
  /** Calls in flight, 1 to 25; default 8. A budget may allow fewer. */
  readonly concurrency?: number;
  /** Codes checked as one batch, at least 1; default 500. A batch costs up to four extra calls. */
  readonly chunkSize?: number;
  /**
   * Longest time without any answer, milliseconds; default 15 minutes. It includes connection timeouts,
   * retries and the pauses that the server asks for, but not the wait for the budget. After it, all
   * remaining codes are yielded as `unproven`.
   */
  readonly patienceMs?: number;
  readonly signal?: AbortSignal;
}

export interface CheckedCode {
  /** Without surrounding white space and quotes. */
  readonly code: string;
  readonly verdict: Verdict;
  /** `answered`, `denied`, or the reason why there is no verdict. */
  readonly reason: 'answered' | 'denied' | UnprovenReason | StopReason | CodeFault;
  readonly proof: Proof;
  /** Null unless the code is valid. */
  readonly purchase: Purchase | null;
  /** The purchase as the server sent it, with fields that forks add. */
  readonly raw: Json | null;
  /** When the answer came; null when the code was not sent. */
  readonly checkedAt: Date | null;
  readonly httpStatus: number | null;
  /** The server's or client's message, redacted and bounded. */
  readonly message: string | null;
}

const DEFAULT_CHUNK_SIZE = 500;
const DEFAULT_CONCURRENCY = 8;
const MOST_CONCURRENCY = 25;
const DEFAULT_PATIENCE_MS = 15 * 60_000;
/** The last try begins after this share of the patience that is left. */
const LAST_TRY_AT = 0.9;
const OUT_OF_PATIENCE: Stop = {
  reason: 'unavailable',
  notBefore: null,
  detail: 'the marketplace did not answer within patienceMs',
};
/** Codes found in earlier batches that are kept as canaries for later ones. */
const MAX_KEPT_CANARIES = 5;

/**
 * Checks purchase codes and yields each once, as soon as its verdict is final, so not quite in order.
 * A code that comes in several notations is checked and yielded once.
 *
 * A code is `invalid` when it was denied between two proofs of the key, and denied again after all
 * other codes were checked. Such codes therefore come last. Outages, limits, a refused key and unreadable
 * answers make a code `unproven`, never `invalid`. Pauses that the server asks for are waited out. When
 * the key is refused or `patienceMs` is over, all remaining codes are yielded as `unproven` without being
 * sent. All codes, and the replies to denied ones, stay in memory until the end.
 *
 * @example
 * const marketplace = createMarketplace({ baseUrl, key });
 * for await (const { code, verdict, purchase } of checkCodes({ marketplace, codes })) {
 *   console.log(code, verdict, purchase?.item?.name ?? '');
 * }
 * await marketplace.close();
 *
 * @throws {RangeError} when a number is out of range
 * @throws {TypeError} when `codes` is a string, or holds anything but strings
 * @throws the signal's reason, after the codes that had a verdict by then were yielded; errors of `codes`
 */
export async function* checkCodes(
  options: CheckCodesOptions,
): AsyncGenerator<CheckedCode, void, undefined> {
  assertSound(options);
  const { codes, chunkSize = DEFAULT_CHUNK_SIZE } = options;
  const checker = new CodeChecker(options);
  const seen = new Set<string>();
  let chunk: string[] = [];
  let place = 0;
  for await (const text of interruptible(codes, checker.signal)) {
    assertText(text, ++place);
    const reading = readCode(text);
    const code = 'code' in reading ? reading.code : text;
    if (seen.has(code)) continue;
    seen.add(code);
    if ('reason' in reading) yield unproven(code, reading.reason);
    else if (chunk.push(code) >= chunkSize) {
      yield* checker.check(chunk);
      chunk = [];
    }
  }
  yield* checker.check(chunk);
  yield* checker.takeSecondLook();
}

function assertSound(options: CheckCodesOptions): void {
  const { codes, chunkSize = 1, concurrency = 1, patienceMs = 1, confirmAfterMs = 0 } = options;
  if (typeof codes === 'string') {
    throw new TypeError('codes is a string; give a list, such as [code]');
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

/** For callers without types. The message omits the value, which may be customer data. @param place from 1 */
function assertText(code: unknown, place: number): void {
  if (typeof code === 'string') return;
  const kind = code === null ? 'null' : typeof code;
  throw new TypeError(
    `code ${place} of codes is not a string but ${kind}; give every code as a string`,
  );
}

/**
 * Yields the values of a source, and stops waiting for the next one when the signal is aborted: a source
 * may be idle for hours.
 * @throws the signal's reason; errors of the source
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
    // After an abort, don't wait: the source may close late or never.
    const closed = Promise.resolve(values.return?.());
    if (signal.aborted) closed.catch(() => undefined);
    else await closed;
  }
}

interface RoundReport extends BatchReport {
  /** Codes that were found, or denied so that it counts. */
  readonly counted: number;
}

/** The last denial of a code, and how many there were. */
type Denied = DeniedCode & { readonly denials: number };

class CodeChecker {
  readonly #options: CheckCodesOptions;
  readonly signal: AbortSignal;
  #account: string | null;
  #canaries: readonly string[];
  #state: BatchState | null = null;
  readonly #patienceMs: number;
  readonly #deadline: Deadline;
  readonly #marketplace: CodeMarketplace;
  /** When a code was last found, or denied so that it counts. */
  #countedAt = Date.now();
  /** The last pause was shortened so that one more try fits into the patience. */
  #isLastTry = false;
  /** Why no more requests are made; null: they are. */
  #end: Stop | null = null;
  readonly #denied = new Map<string, Denied>();
  readonly #counts = { checked: 0, valid: 0, overturned: 0 };

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
      account: (call) => deadline.limit((limited) => marketplace.account(limited), call),
      validate: (code, call) =>
        deadline.limit((limited) => marketplace.validate(code, limited), call),
    };
  }

  async *check(codes: readonly string[]): AsyncGenerator<CheckedCode, void, undefined> {
    const rounds = new Map<string, number>();
    let open = codes;
    // The time that the list took to deliver these codes does not count.
    this.#countedAt = Date.now();
    this.#deadline.stop();
    while (open.length > 0 && this.#end === null) {
      const round = yield* this.#validate(open);
      this.signal.throwIfAborted();
      const retries: string[] = [];
      for (const [code, one] of round.unproven) {
        const failed = (rounds.get(code) ?? 0) + Number(countsAgainst(one.reason, round.stop));
        rounds.set(code, failed);
        if (isGivenUp(failed, round.stop)) yield this.#giveUp(code, one);
        else retries.push(code);
      }
      open = [...round.left, ...retries];
      await this.#pause(round, open.length);
    }
    const end = this.#end;
    if (end === null) return;
    for (const code of open) {
      this.#denied.delete(code);
      yield unproven(code, end.reason, { message: end.detail });
    }
  }

  /** Checks denied codes again until each was denied as often as `invalid` requires. */
  async *takeSecondLook(): AsyncGenerator<CheckedCode, void, undefined> {
    const { confirm = 'auto', confirmAfterMs = SECOND_LOOK_DELAY_MS } = this.#options;
    let sample: ReadonlySet<string> | null = null;
    for (;;) {
      const denied = [...this.#denied.values()];
      const plan = planSecondLook({ confirm, ...this.#counts, denied: denied.length });
      if (plan.kind === 'unproven' || this.#end !== null) {
        for (const { code, ...last } of denied) {
          yield this.#giveUp(code, { ...last, reason: 'unconfirmed' });
        }
        return;
      }
      const { denials, oneIn } = plan;
      if (oneIn > 1) sample ??= sampleOf(denied, oneIn);
      const again = denied.filter(
        (one) => one.denials < denials && (oneIn === 1 || sample?.has(one.code) === true),
      );
      if (again.length === 0) {
        for (const one of denied) yield checkedCode(one);
        return;
      }
      const deniedAt = again.map(({ at }) => at);
      await this.#sleep(
        waitBeforeSecondLook(deniedAt, confirmAfterMs, this.#counts.overturned, Date.now()),
      );
      yield* this.check(again.map(({ code }) => code));
    }
  }

  #giveUp(code: string, { reason, evidence, at }: UnprovenCode): CheckedCode {
    this.#denied.delete(code);
    return unproven(code, reason, { ...evidence, checkedAt: new Date(at) });
  }

  /** Validates one batch and yields found codes as they come; denied ones wait for the second look. */
  async *#validate(codes: readonly string[]): AsyncGenerator<CheckedCode, RoundReport, undefined> {
    const { concurrency = DEFAULT_CONCURRENCY } = this.#options;
    const validator = new BatchValidator(this.#marketplace, {
      account: this.#account,
      codes,
      canaries: this.#canaries,
      startState: this.#state,
      concurrency,
      spacingMs: 0,
      now: Date.now,
      signal: this.signal,
    });
    const listed = new Set(codes);
    const found: string[] = [];
    let counted = 0;
    for await (const results of validator) {
      for (const one of results) {
        const { code } = one;
        // The validator also reports canaries that were denied before. They are no codes of this batch.
        if (!listed.has(code)) continue;
        counted++;
        const before = this.#denied.get(code);
        if (before === undefined) this.#counts.checked++;
        if (one.kind === 'denied') {
          this.#denied.set(code, { ...one, denials: (before?.denials ?? 0) + 1 });
          continue;
        }
        this.#denied.delete(code);
        this.#counts.valid++;
        if (before !== undefined) this.#counts.overturned++;
        if (found.length < MAX_KEPT_CANARIES) found.push(code);
        yield checkedCode(one);
      }
    }
    const { report } = validator;
    this.#account = report.account;
    this.#state = report.endState;
    const { lostCanaries } = report;
    const kept = this.#canaries.filter((code) => !lostCanaries.includes(code));
    const most = MAX_KEPT_CANARIES + (this.#options.canaries?.length ?? 0);
    this.#canaries = [...new Set([...kept, ...found, ...lostCanaries])].slice(0, most);
    return { ...report, counted };
  }

  /** Pauses before the next round, or ends the check if a retry can't help or patience is over. */
  async #pause({ stop, counted }: RoundReport, open: number): Promise<void> {
    const now = Date.now();
    if (counted > 0) {
      this.#countedAt = now;
      this.#isLastTry = false;
    }
    const next = nextStep({ stop, done: counted, open, failedRounds: 0 }, now, Math.random());
    if (next.kind === 'done') return;
    const delayMs = next.kind === 'later' ? this.#delay(stop, next.delayMs, now) : null;
    if (delayMs === null) this.#end = stop ?? OUT_OF_PATIENCE;
    else await this.#sleep(delayMs);
  }

  /** Returns the pause in milliseconds; null: patience is over. Makes one last try before it ends. */
  #delay(stop: Stop | null, delayMs: number, now: number): number | null {
    if (this.#deadline.isOver) return null;
    const patience = this.#countedAt + this.#patienceMs - now;
    if (stop === null || delayMs < patience) return delayMs;
    if (this.#isLastTry || stop.notBefore !== null) return null;
    this.#isLastTry = true;
    return Math.max(0, patience * LAST_TRY_AT);
  }

  /** @throws the signal's reason */
  async #sleep(ms: number): Promise<void> {
    if (ms > 0) await sleep(ms, undefined, { signal: this.signal }).catch(() => undefined);
    this.signal.throwIfAborted();
  }
}

/** Picks one code at random from each run of `oneIn`. */
function sampleOf(denied: readonly Denied[], oneIn: number): ReadonlySet<string> {
  const sample = new Set<string>();
  for (let from = 0; from < denied.length; from += oneIn) {
    const block = denied.slice(from, from + oneIn);
    const one = block[Math.floor(Math.random() * block.length)];
    if (one !== undefined) sample.add(one.code);
  }
  return sample;
}

function checkedCode(one: CountedCode): CheckedCode {
  const { code, proof, evidence, at } = one;
  const reply = { checkedAt: new Date(at), ...evidence };
  if (one.kind === 'denied') {
    return {
      code,
      verdict: 'invalid',
      reason: 'denied',
      proof,
      purchase: null,
      raw: null,
      ...reply,
    };
  }
  const { value: purchase, raw } = one.answer;
  return { code, verdict: 'valid', reason: 'answered', proof, purchase, raw, ...reply };
}

function unproven(
  code: string,
  reason: CheckedCode['reason'],
  facts: Partial<CheckedCode> = {},
): CheckedCode {
  const nothing = { purchase: null, raw: null, checkedAt: null, httpStatus: null, message: null };
  return { code, verdict: 'unproven', reason, proof: 'none', ...nothing, ...facts };
}
