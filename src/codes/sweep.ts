import { proveKey, type KeyHolder, type KeyProof } from '../marketplace/prove-key.js';
import { type Reply, meaningOf, retryTimeOf } from '../marketplace/reply.js';
import {
  askCode,
  checkOf,
  type CodeReply,
  callOptions,
  endByProof,
  holderOf,
  isChallenge,
  isWorthRepeating,
  pauseAfter,
  unanswered,
  waitToProveAgain,
  type PieceEnd,
  type Work,
} from './piece.js';
import type { CodeResult, Ledger, OpenCode } from './ledger.js';
import {
  FIRST_GUARD,
  FOUND_PER_LOOK,
  NEXT_GUARD,
  PIECE_CODES,
  SILENCES_LIKE_OUTAGE,
} from './rules.js';

/** A piece has more than `PIECE_CODES` if it took less than this, milliseconds. */
const PIECE_MS = 10_000;
/** Codes read at a time while there is no budget. */
const FAST_BATCH = 4_000;
/** Fewer codes waste fewer calls on a bad key than proofs of it cost. */
const GUARDED_CODES = 100;
/** The first look of a piece comes earlier, since somebody may watch: at the default budget, 75 codes take a minute. */
const FOUND_BEFORE_FIRST_LOOK = 10;
/** Results are recorded after this time, milliseconds. A kill loses no more, but for the purchases before a look. */
const EVERY_MS = 200;
/** Or when there are so many. */
const FULL = 500;

/** Sweeps codes, about `PIECE_CODES` of them. @returns null when the list was gone through */
export async function sweep(work: Work): Promise<PieceEnd | null> {
  const { ledger, memory, spacingMs } = work;
  const batch = work.batch ?? (spacingMs === 0 ? FAST_BATCH : PIECE_CODES);
  const writer = new Writer(ledger, batch);
  const sweeper = new Sweeper(work, writer);
  const beganAt = performance.now();
  let codes: readonly OpenCode[] = [];
  try {
    // From a piece that the server's pause ended.
    const end = await sweeper.recordFound();
    if (end !== null) return end;
    for (let swept = 0; ; swept += codes.length) {
      const isOver = swept >= PIECE_CODES && performance.now() - beganAt >= PIECE_MS;
      codes = isOver ? [] : await ledger.open(memory.after, batch);
      if (codes.length === 0) {
        const end = await sweeper.recordFound();
        return end ?? (swept > 0 ? { kind: 'more' } : null);
      }
      const end = await sweeper.run(codes);
      if (end !== null) return end;
    }
  } finally {
    await writer.flush();
  }
}

/** Checks codes once each, several at a time, and guards that calls are not wasted on a bad key. */
class Sweeper {
  readonly #work: Work;
  readonly #writer: Writer;
  readonly #holder: KeyHolder;
  #codes: readonly OpenCode[] = [];
  #next = 0;
  #end: PieceEnd | null = null;
  #guarding: Promise<boolean> | null = null;
  #recording: Promise<void> = Promise.resolve();
  #denialsInRow = 0;
  /** The guard proves the key at this many denials in a row. */
  #guardAt = FIRST_GUARD;
  /** Results without an answer. They are dropped if it was an outage. */
  #silent: CodeResult[] = [];
  #challenges = 0;
  #hasAnswers = false;
  #isFirst = true;
  #foundPerLook = FOUND_BEFORE_FIRST_LOOK;

  constructor(work: Work, writer: Writer) {
    this.#work = work;
    this.#writer = writer;
    this.#holder = holderOf(work, (result) => void writer.add(result).catch(() => undefined));
  }

  /** @returns why the sweep must end; null: it may go on */
  async run(codes: readonly OpenCode[]): Promise<PieceEnd | null> {
    const { memory, concurrency, isBrief = false } = this.#work;
    this.#codes = codes;
    this.#next = 0;
    if (this.#isFirst && codes.length >= GUARDED_CODES && !isBrief) await this.#guard();
    this.#isFirst = false;
    const lanes = Array.from({ length: concurrency }, (_, lane) => this.#lane(lane));
    const ends = await Promise.allSettled(lanes);
    const failed = ends.find((end) => end.status === 'rejected');
    if (failed !== undefined) throw failed.reason;
    if (this.#end === null) await this.#recordSilent();
    // While the server wants a pause, what was found waits in memory.
    if (this.#end?.kind === 'closed') await this.recordFound();
    else await this.#recording;
    memory.after = codes[this.#next - 1]?.position ?? memory.after;
    return this.#end;
  }

  async #lane(lane: number): Promise<void> {
    const { market, memory, closing } = this.#work;
    for (;;) {
      if (this.#guarding !== null) await this.#guarding;
      if (closing?.aborted === true) this.#end ??= { kind: 'closed' };
      const isOver = this.#end !== null || (memory.isSerial && lane > 0);
      const open = isOver ? undefined : this.#codes[this.#next];
      if (open === undefined) return;
      this.#next++;
      try {
        const reply = await askCode(market, open.code, callOptions(this.#work));
        await this.#take(open, reply, Date.now());
      } catch (error) {
        this.#end ??= { kind: 'closed' };
        throw error;
      }
    }
  }

  async #take(open: OpenCode, reply: CodeReply, at: number): Promise<void> {
    const { memory, isBrief = false } = this.#work;
    const { position, code } = open;
    const check = checkOf(code, reply, at);
    if (check.reason === 'mixed-up') memory.isSerial = true;
    if (check.outcome === 'unanswered') return this.#takeSilence(unanswered(open, check), reply);
    this.#hasAnswers = true;
    this.#challenges = 0;
    await this.#recordSilent();
    if (check.outcome === 'denied') {
      // A code that is checked itself can't vouch for the others.
      memory.canaries.drop(code);
      const isInvalid = open.known !== null && open.known !== 'valid';
      const verdict = isInvalid ? 'invalid' : null;
      await this.#writer.add({ position, code, check, verdict });
      if (++this.#denialsInRow >= this.#guardAt) await this.#guard();
      return;
    }
    this.#denialsInRow = 0;
    this.#guardAt = FIRST_GUARD;
    memory.canaries.found(code);
    const result: CodeResult = { position, code, check, verdict: 'valid' };
    if (isBrief) return this.#writer.add(result);
    memory.found.push(result);
    if (memory.found.length < this.#foundPerLook) return;
    this.#foundPerLook = FOUND_PER_LOOK;
    void this.recordFound().catch(() => undefined);
  }

  async #takeSilence(result: CodeResult, reply: Reply<unknown>): Promise<void> {
    const isFirst = this.#silent.push(result) === 1;
    this.#work.memory.unanswered = result.reason ?? null;
    this.#end ??= this.#endBySilence(reply);
    const isOutage = this.#silent.length >= SILENCES_LIKE_OUTAGE;
    const isOdd = isFirst && meaningOf(reply).kind === 'doubt';
    if (this.#end !== null || (!isOutage && !isOdd)) return;
    // A good key means that only these codes have no answer.
    if ((await this.#guard()) && isOutage) await this.#recordSilent();
  }

  /**
   * Records the purchases that were found, once account details show that the key still opens the seller's account.
   * Otherwise their codes stay open.
   * @returns why the sweep must end; null: it may go on
   */
  recordFound(): Promise<PieceEnd | null> {
    const found = this.#work.memory.found.splice(0);
    this.#recording = this.#recording.then(() => this.#recordProven(found));
    return this.#recording.then(() => this.#end);
  }

  async #recordProven(found: readonly CodeResult[]): Promise<void> {
    if (found.length === 0) return;
    const { memory } = this.#work;
    const { account } = this.#holder;
    const proof = await this.#proveAgain({ account, nextWitness: () => null });
    if (proof.isGood) {
      memory.account ??= proof.account;
      for (const result of found) await this.#writer.add(result);
      return;
    }
    for (const { code } of found) memory.canaries.drop(code);
    this.#end ??= endByProof(proof, this.#hasAnswers);
  }

  /** Proves the key, and once more if it was bad but may be good in a moment. */
  async #proveAgain(holder: KeyHolder): Promise<KeyProof> {
    const { market } = this.#work;
    const options = callOptions(this.#work);
    const proof = await proveKey(market, holder, options);
    if (proof.isGood || !isWorthRepeating(proof)) return proof;
    await waitToProveAgain(this.#work);
    return proveKey(market, holder, options);
  }

  async #recordSilent(): Promise<void> {
    for (const result of this.#silent.splice(0)) await this.#writer.add(result);
  }

  #endBySilence(reply: Reply<unknown>): PieceEnd | null {
    if (isChallenge(reply) && ++this.#challenges >= 2) return pauseAfter(reply, this.#hasAnswers);
    const isPause = reply.kind === 'limited' || retryTimeOf(reply) !== null;
    return isPause ? pauseAfter(reply, this.#hasAnswers) : null;
  }

  /** Proves the key. Several callers at a time share one proof. @returns whether it is good */
  #guard(): Promise<boolean> {
    this.#guarding ??= this.#prove().finally(() => (this.#guarding = null));
    return this.#guarding;
  }

  async #prove(): Promise<boolean> {
    const { memory } = this.#work;
    this.#guardAt = this.#denialsInRow + NEXT_GUARD;
    const proof = await this.#proveAgain(this.#holder);
    if (proof.isGood) {
      memory.account ??= proof.account;
      return true;
    }
    // Until many codes are denied as well, the known valid codes may be gone and the key good.
    const isEarly = proof.reason === 'witness-denied' && this.#denialsInRow < NEXT_GUARD;
    if (!isEarly) this.#end ??= endByProof(proof, this.#hasAnswers);
    return false;
  }
}

/** Records the results of a sweep many at a time. */
class Writer {
  readonly #ledger: Pick<Ledger, 'record'>;
  readonly #full: number;
  #buffer: CodeResult[] = [];
  #timer: NodeJS.Timeout | null = null;
  #writing: Promise<void> = Promise.resolve();
  #hasFailed = false;

  /** @param most results to buffer */
  constructor(ledger: Pick<Ledger, 'record'>, most: number) {
    this.#ledger = ledger;
    this.#full = Math.min(most, FULL);
  }

  /** Buffers a result. Resolves when more may come. @throws the error of an earlier write */
  async add(result: CodeResult): Promise<void> {
    this.#buffer.push(result);
    if (this.#buffer.length >= this.#full || this.#hasFailed) return this.flush();
    this.#timer ??= setTimeout(() => {
      this.flush().catch(() => (this.#hasFailed = true));
    }, EVERY_MS);
  }

  /** Records everything, after the writes that are under way. @throws the error of a write */
  flush(): Promise<void> {
    if (this.#timer !== null) clearTimeout(this.#timer);
    this.#timer = null;
    this.#writing = this.#writeAfter(this.#writing);
    return this.#writing;
  }

  async #writeAfter(earlier: Promise<void>): Promise<void> {
    await earlier;
    if (this.#buffer.length > 0) await this.#ledger.record(this.#buffer.splice(0));
  }
}
