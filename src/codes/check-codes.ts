// Checks codes without a database. Audits do the same work over `ledger-store.ts`.
import { setTimeout as sleep } from 'node:timers/promises';
import { readCell, type CodeFault } from '../marketplace/code.js';
import type { Json, Purchase } from '../domain/item.js';
import type { CodeMarket } from './piece.js';
import { MemoryLedger, type SettledCode } from './memory-ledger.js';
import { WorkMemory, type Stop } from './piece.js';
import type { UnprovenReason } from './evidence.js';
import { CONFIRM_AFTER_MS, type Proof, type Verdict } from './rules.js';
import { workPiece } from './work.js';

export interface CheckCodesOptions {
  /** Keeps the key, budget and timeouts it was created with. */
  readonly marketplace: CodeMarket;
  /** Purchase codes as a list may hold them. They are read no faster than they are checked. */
  readonly codes: Iterable<string> | AsyncIterable<string>;
  /** Codes of this seller known to be valid; they make `invalid` more certain. Default none. */
  readonly knownValid?: readonly string[];
  /** Shortest time from a denial to the second check, milliseconds; default a minute. */
  readonly confirmAfterMs?: number;
  /** User name of the seller whose codes these are. Default: that of the first account details. */
  readonly account?: string;
  /** Calls under way at a time, 1 to 25; default 8. A budget may allow fewer. */
  readonly concurrency?: number;
  /**
   * How long an outage or a limit is waited out, milliseconds; default 15 minutes. A call under way still ends by its
   * own timeout. Then all remaining codes are yielded as `unproven`.
   */
  readonly patienceMs?: number;
  readonly signal?: AbortSignal;
}

export interface CheckedCode {
  /** Without surrounding white space and quotes. */
  readonly code: string;
  readonly verdict: Verdict;
  /** `answered`, `denied`, or the reason why there is no verdict. */
  readonly reason: 'answered' | 'denied' | UnprovenReason | 'challenge' | CodeFault;
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

const DEFAULT_CONCURRENCY = 8;
const MOST_CONCURRENCY = 25;
const DEFAULT_PATIENCE_MS = 15 * 60_000;
const NO_ANSWER: Stop = {
  reason: 'unavailable',
  notBefore: null,
  detail: 'the marketplace did not answer within patienceMs',
};
/** Codes read ahead, and verdicts that wait for the consumer. */
const BATCH = 100;
/**
 * Checks purchase codes and yields each once, as soon as its verdict is final, so not quite in order.
 * A code that comes in several notations is checked and yielded once.
 *
 * A code is `invalid` after two denials at least a minute apart, the second one between two proofs of the key
 * (`rules.ts`). Such codes therefore come last. Outages, limits, a refused key and unreadable answers make a code
 * `unproven`, never `invalid`. Pauses that the server asks for are waited out. When the key is refused or
 * `patienceMs` is over, all remaining codes are yielded as `unproven` without being sent. Denied codes stay in memory
 * until the end.
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
  const stopped = new AbortController();
  const signal = AbortSignal.any([
    stopped.signal,
    ...(options.signal === undefined ? [] : [options.signal]),
  ]);
  const outlet = new Outlet();
  const checking = check(options, signal, outlet).then(
    () => outlet.end(null),
    (error: unknown) => outlet.end({ error }),
  );
  try {
    yield* outlet;
  } finally {
    stopped.abort(new Error('the consumer of checkCodes has stopped'));
    outlet.discard();
    await checking;
  }
}

/** Carries checked codes to the consumer. Who gives more waits while the consumer is busy. */
class Outlet implements AsyncIterable<CheckedCode> {
  readonly #codes: CheckedCode[] = [];
  #ended: { readonly failure: { readonly error: unknown } | null } | null = null;
  #isDiscarded = false;
  #given = (): void => undefined;
  #taken = (): void => undefined;

  async give(codes: readonly CheckedCode[]): Promise<void> {
    this.#codes.push(...codes);
    this.#given();
    while (this.#codes.length > BATCH && !this.#isDiscarded) {
      await new Promise<void>((resolve) => (this.#taken = resolve));
    }
  }

  end(failure: { readonly error: unknown } | null): void {
    this.#ended ??= { failure };
    this.#given();
  }

  discard(): void {
    this.#isDiscarded = true;
    this.#taken();
  }

  async *[Symbol.asyncIterator](): AsyncGenerator<CheckedCode, void, undefined> {
    for (;;) {
      const code = this.#codes.shift();
      if (code !== undefined) {
        this.#taken();
        yield code;
      } else if (this.#ended !== null) {
        if (this.#ended.failure !== null) throw this.#ended.failure.error;
        return;
      } else await new Promise<void>((resolve) => (this.#given = resolve));
    }
  }
}

async function check(
  options: CheckCodesOptions,
  signal: AbortSignal,
  outlet: Outlet,
): Promise<void> {
  const { marketplace, knownValid = [], confirmAfterMs = CONFIRM_AFTER_MS } = options;
  const { patienceMs = DEFAULT_PATIENCE_MS, concurrency = DEFAULT_CONCURRENCY } = options;
  const source = distinctCodes(options.codes, signal, outlet);
  let answeredAt = performance.now();
  const ledger = new MemoryLedger(source, knownValid, async (settled) => {
    await outlet.give(settled.map(checkedCode));
    // The time that the consumer takes does not count.
    answeredAt = performance.now();
  });
  const work = {
    market: marketplace,
    ledger,
    memory: new WorkMemory(),
    account: options.account ?? null,
    concurrency,
    spacingMs: 0,
    confirmAfterMs,
    batch: BATCH,
    signal,
  };
  let end: Stop | null = null;
  while (end === null) {
    const piece = await workPiece(work);
    signal.throwIfAborted();
    if (piece.kind === 'done') return;
    if (piece.kind === 'more') continue;
    if (piece.kind === 'blocked') end = piece.stop;
    else if (piece.kind === 'wait' && piece.until === 'confirm') {
      answeredAt += piece.delayMs;
      await pause(piece.delayMs, signal);
    } else if (piece.kind === 'wait' || piece.kind === 'pause') {
      const stop = piece.kind === 'wait' ? NO_ANSWER : piece.stop;
      const leftMs = answeredAt + patienceMs - performance.now();
      // One more try when the time is over, unless the server asks for a longer pause.
      if (leftMs <= 0 || (piece.delayMs > leftMs && stop.notBefore !== null)) end = stop;
      else await pause(Math.min(piece.delayMs, leftMs), signal);
    }
    signal.throwIfAborted();
  }
  const { reason, detail: message } = end;
  await outlet.give(
    ledger.left.map(({ code, last }) =>
      // A code's own answer says more.
      last?.outcome === 'unanswered'
        ? unproven(code, last.reason, { message: last.message, httpStatus: last.httpStatus })
        : unproven(code, reason, { message }),
    ),
  );
  for await (const code of { [Symbol.asyncIterator]: () => source }) {
    await outlet.give([unproven(code, reason, { message })]);
  }
}

/** Waits, but not beyond an abort. */
async function pause(ms: number, signal: AbortSignal): Promise<void> {
  await sleep(ms, undefined, { signal }).catch(() => undefined);
}

/** Yields each code once. Texts that are no code go to the outlet at once. */
async function* distinctCodes(
  codes: CheckCodesOptions['codes'],
  signal: AbortSignal,
  outlet: Outlet,
): AsyncGenerator<string, void, undefined> {
  const seen = new Set<string>();
  let place = 0;
  for await (const text of interruptible(codes, signal)) {
    assertText(text, ++place);
    const reading = readCell(text);
    const code = 'code' in reading ? reading.code : text;
    if (seen.has(code)) continue;
    seen.add(code);
    if ('reason' in reading) await outlet.give([unproven(code, reading.reason)]);
    else yield code;
  }
}

function assertSound(options: CheckCodesOptions): void {
  const { codes, concurrency = 1, patienceMs = 1, confirmAfterMs = 0 } = options;
  if (typeof codes === 'string') {
    throw new TypeError('codes is a string; give a list, such as [code]');
  }
  if (!Number.isInteger(concurrency) || concurrency < 1 || concurrency > MOST_CONCURRENCY) {
    throw new RangeError(
      `concurrency is ${concurrency}; it must be a whole number from 1 to ${MOST_CONCURRENCY}`,
    );
  }
  const bounds = [
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

function checkedCode({ code, verdict, reason, check: last }: SettledCode): CheckedCode {
  const { at = null, httpStatus = null, message = null, answer = null, proven = null } = last ?? {};
  const proof =
    verdict === 'valid'
      ? 'purchase'
      : verdict === 'invalid' || verdict === 'no_longer_valid'
        ? proven?.by
        : 'none';
  return {
    code,
    verdict,
    reason,
    proof: proof ?? 'none',
    purchase: answer?.value ?? null,
    raw: answer?.raw ?? null,
    checkedAt: at === null ? null : new Date(at),
    httpStatus,
    message,
  };
}

function unproven(
  code: string,
  reason: CheckedCode['reason'],
  facts: Partial<CheckedCode> = {},
): CheckedCode {
  const nothing = { purchase: null, raw: null, checkedAt: null, httpStatus: null, message: null };
  return { code, verdict: 'unproven', reason, proof: 'none', ...nothing, ...facts };
}
