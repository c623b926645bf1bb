/**
 * The first pass: every code is asked once, several at a time. A found purchase makes its code valid, once account details
 * show that the key opens the seller's account. A denial decides nothing.
 */

import { meaningOf } from '../marketplace/reply.js';
import { ProofCodes } from './known-valid.js';
import { askAgain, askTwice, faultOf, isPause, lookAtAccount, prove, type Proof } from './prove.js';
import {
  FIRST_GUARD,
  FOUND_PER_LOOK,
  KEY_FRESH_MS,
  MAX_ATTEMPTS,
  NEXT_GUARD,
  pauseBeforeRetry,
  SILENCES_LIKE_OUTAGE,
} from './rules.js';
import { together, type CodeAnswer, type Market } from './market.js';
import {
  afterBad,
  afterGood,
  holdAfter,
  isChallenge,
  isOutage,
  type Memory,
  type Situation,
} from './situation.js';
import { type CodeResult, evidenceOf, NOTHING, type OpenCode, resultOf } from './ledger.js';

/** Lists with at least so many codes begin with a look at the account, which saves the calls that a bad key would waste. */
export const LOOK_FIRST_CODES = 200;
/** Lists with at least so many codes look at the account at the first few purchases, so that verdicts show early. */
export const EARLY_LOOK_CODES = 50;
/** So many purchases. */
export const EARLY_LOOK = 10;
/** A purchase waits no longer for the look that makes its code valid, milliseconds: with a small budget there are few. */
export const LONGEST_WAIT_MS = 75_000;
/** Bot protection answers so many codes in a row: asking on makes it worse. */
const CHALLENGES = 2;

type Good = Extract<Proof, { readonly good: unknown }>;

/**
 * Asks open codes once each.
 * @param codes the next ones after `memory.after`; none: the list was gone through
 */
export async function firstPass(
  codes: readonly OpenCode[],
  situation: Situation,
  memory: Memory,
): Promise<Memory> {
  if (codes.length + memory.found.length === 0) return gonePast(memory, situation);
  const like = codes[0]?.forms[0] ?? '';
  const ready = await makeReady(like, situation, { ...memory, hold: null });
  if (ready.hold !== null || ready.findsEverything) return ready;
  const pass = new FirstPass(codes, situation, ready);
  return pass.run();
}

/** All were asked once. Those without an answer are tried again later. */
function gonePast(memory: Memory, { now }: Situation): Memory {
  const passes = memory.passes + 1;
  return { ...memory, after: -1, passes, retryAt: now() + pauseBeforeRetry(passes) };
}

/**
 * Asks the negative control, if it is due, and looks at the account before a long list, or before look-ups where the last
 * look is too old.
 * @param like a code whose shape the random ones have
 */
export async function makeReady(
  like: string,
  situation: Situation,
  memory: Memory,
): Promise<Memory> {
  const { now, waitMs, vouchMs } = situation;
  let ready = memory;
  if (ready.controlAt === null || now() - ready.controlAt > KEY_FRESH_MS) {
    ready = await control(like, situation, ready);
    if (ready.hold !== null || ready.findsEverything) return ready;
  }
  const isBeginning = ready.after < 0 && ready.passes === 0;
  const isLong = isBeginning && situation.codes >= LOOK_FIRST_CODES;
  if (vouchMs > 0 ? isVouched(ready, situation) : !isLong) return ready;
  const look = await lookAtAccount(situation.market, situation.account ?? ready.account);
  if ('bad' in look) return afterBad(ready, look.bad, waitMs, false);
  return afterLook(ready, look, new ProofCodes(situation));
}

/** Whether a good look at the account speaks for a purchase that is found now. */
function isVouched({ lookedAt }: Memory, { vouchMs, now }: Situation): boolean {
  // A clock that was set back makes a look no younger.
  return lookedAt !== null && Math.abs(now() - lookedAt) < vouchMs;
}

/**
 * The negative control: a random code must be denied. If it is found, and two more are, this marketplace finds everything.
 * @param like a code whose shape the random ones have
 */
async function control(
  like: string,
  { dice, waitMs, market }: Situation,
  memory: Memory,
): Promise<Memory> {
  for (let found = 0; found < 3; found++) {
    const answer = await askTwice(market, () => controlCode(like, dice));
    const meaning = meaningOf(answer.reply);
    if (meaning.kind === 'denied') return { ...memory, controlAt: answer.at };
    if (meaning.kind === 'found') continue;
    if (meaning.kind === 'silent') {
      const fault = faultOf(answer);
      const times = memory.bad?.reason === fault.reason ? memory.bad.times + 1 : 1;
      // Counted, or a marketplace whose answers can't be read would be asked forever.
      const bad = { reason: fault.reason, times };
      return { ...holdAfter(memory, fault, waitMs, false), bad };
    }
    return afterBad(memory, faultOf(answer), waitMs, false);
  }
  return { ...memory, findsEverything: true };
}

/**
 * What the plan remembers after a good look at the account.
 * @param since when a purchase was found that it vouches for: the purchase proves the key as well as a known-valid code.
 *   Null: none was found; then the look is a whole proof only if nothing more could be asked.
 */
function afterLook(
  memory: Memory,
  { good }: Good,
  proofCodes: ProofCodes,
  since: number | null = null,
): Memory {
  if (since !== null) return afterGood(memory, good, since);
  const isWhole = good.by !== 'account' || !proofCodes.canFind;
  const account = memory.account ?? good.account;
  return isWhole ? afterGood(memory, good) : { ...memory, account, lookedAt: good.beganAt };
}

/** One piece of the first pass. Several codes are asked at a time, and share what they learn here. */
class FirstPass {
  readonly #codes: readonly OpenCode[];
  readonly #situation: Situation;
  readonly #proofCodes: ProofCodes;
  readonly #market: Market;
  #memory: Memory;
  #next = 0;
  /** Purchases that wait for a look at the account. */
  #found: CodeResult[] = [];
  /** A proof was bad: what was found may be another seller's, and is asked again. */
  #isDoubted = false;
  #isLooking = false;
  #looks = 0;
  #denialsInRow = 0;
  #denialsSinceGuard = 0;
  #guardAt = FIRST_GUARD;
  #wantsGuard = false;
  #isGuarding = false;
  /** Codes without an answer. Dropped if it was an outage, so that they stay open without a try. */
  #silent: CodeResult[] = [];
  #challenges = 0;
  #hasAnswers = false;

  constructor(codes: readonly OpenCode[], situation: Situation, memory: Memory) {
    this.#codes = codes;
    this.#situation = situation;
    this.#market = situation.market;
    this.#memory = memory;
    this.#proofCodes = new ProofCodes(situation);
    this.#found = [...memory.found];
  }

  async run(): Promise<Memory> {
    await together(this.#market.concurrency, () => this.#begin());
    if (!this.#isOver && this.#wantsGuard) await this.#guard();
    if (!this.#isOver && (this.#found.length > 0 || this.#isFirstLookDue)) await this.#look();
    if (!this.#isOver) await this.#recordSilent();
    const passed = this.#codes[this.#next - 1]?.position ?? this.#memory.after;
    return { ...this.#memory, after: passed, found: this.#isDoubted ? [] : this.#found };
  }

  /** A short list looks at the account once, so that a refused key is told at once and not a minute later. */
  get #isFirstLookDue(): boolean {
    if (isVouched(this.#memory, this.#situation)) return false;
    const { passes } = this.#memory;
    return passes === 0 && this.#looks === 0 && this.#situation.codes < LOOK_FIRST_CODES;
  }

  get #isOver(): boolean {
    return this.#memory.hold !== null;
  }

  /** Begins what is due now; null: nothing more. */
  #begin(): Promise<void> | null {
    if (this.#isOver) return null;
    if (this.#wantsGuard && !this.#isGuarding) return this.#guard();
    if (this.#isLookDue && !this.#isLooking) return this.#look();
    const code = this.#situation.isClosing() ? undefined : this.#codes[this.#next];
    if (code === undefined) return null;
    this.#next++;
    return this.#ask(code);
  }

  get #isLookDue(): boolean {
    const [first] = this.#found;
    if (first === undefined) return false;
    const isLate = this.#situation.now() - (first.check?.at ?? 0) >= LONGEST_WAIT_MS;
    return isLate || this.#found.length >= (this.#isEarly ? EARLY_LOOK : FOUND_PER_LOOK);
  }

  /** No purchase of the list was recorded yet. */
  get #isEarly(): boolean {
    const isBeginning = this.#memory.after < 0 && this.#memory.passes === 0;
    return isBeginning && this.#looks === 0 && this.#situation.codes >= EARLY_LOOK_CODES;
  }

  /** Asks for a code in each of its forms, until one is found. Denied means: each was denied. */
  async #ask(code: OpenCode): Promise<void> {
    let denial: CodeAnswer | null = null;
    for (const form of code.forms) {
      const answer: CodeAnswer = await this.#market.code(form);
      const { kind } = meaningOf(answer.reply);
      if (kind === 'found') return this.#takeFound(code, form, answer);
      if (kind !== 'denied') return this.#takeSilence(code, answer);
      denial = answer;
    }
    if (denial !== null) await this.#takeDenial(code, denial);
  }

  async #takeFound(code: OpenCode, form: string, answer: CodeAnswer): Promise<void> {
    this.#answered();
    this.#denialsInRow = 0;
    const chance = { calls: 1, denied: 0 };
    const found = resultOfAnswer(code, form, answer, { verdict: 'valid', chance });
    if (this.#proofCodes.strangeItem(answer.reply) === null) {
      if (isVouched(this.#memory, this.#situation)) await this.#market.record([found]);
      else this.#found.push(found);
      return;
    }
    const again = await askAgain(this.#market, answer, form, this.#proofCodes, this.#account);
    if ('bad' in again) return this.#end(again);
    if (this.#isDoubted) return;
    this.#memory = afterGood(this.#memory, again.good);
    const { kind } = meaningOf(again.answer.reply);
    if (kind === 'found') await this.#market.record([found]);
    else if (kind === 'denied') await this.#takeDenial(code, again.answer);
    else this.#takeSilence(code, again.answer);
  }

  async #takeDenial(code: OpenCode, answer: CodeAnswer): Promise<void> {
    this.#answered();
    for (const tried of code.forms) this.#proofCodes.denied(tried);
    this.#denialsInRow++;
    this.#denialsSinceGuard++;
    const isRow = this.#denialsInRow >= FIRST_GUARD;
    if (isRow && this.#denialsSinceGuard >= this.#guardAt) this.#wantsGuard = true;
    const form = code.forms.at(-1) ?? null;
    await this.#recordSilent();
    await this.#market.record([resultOfAnswer(code, form, answer)]);
  }

  #takeSilence(code: OpenCode, answer: CodeAnswer): void {
    const { waitMs } = this.#situation;
    const meaning = meaningOf(answer.reply);
    const isLast = code.attempts + 1 >= MAX_ATTEMPTS;
    const reason = meaning.kind === 'silent' || meaning.kind === 'doubt' ? meaning.reason : null;
    const end = isLast ? ({ verdict: 'unproven', reason } as const) : {};
    const adds = { ...NOTHING, attempts: 1 };
    this.#silent.push(resultOfAnswer(code, null, answer, { adds, ...end }));
    if (isChallenge(answer.reply)) this.#challenges++;
    if (isPause(answer) && (!isChallenge(answer.reply) || this.#challenges >= CHALLENGES)) {
      this.#memory = holdAfter(this.#memory, faultOf(answer), waitMs, this.#hasAnswers);
      return;
    }
    const isOutage = this.#silent.length >= SILENCES_LIKE_OUTAGE;
    const isFirstDoubt = this.#silent.length === 1 && meaning.kind === 'doubt';
    if (isOutage || isFirstDoubt) this.#wantsGuard = true;
  }

  #answered(): void {
    this.#hasAnswers = true;
    this.#challenges = 0;
  }

  async #recordSilent(): Promise<void> {
    const results = this.#silent.splice(0);
    if (results.length > 0) await this.#market.record(results);
  }

  /** Proves the key, because of many denials or answers that are none. A good key means that only these codes have none. */
  async #guard(): Promise<void> {
    this.#isGuarding = true;
    this.#wantsGuard = false;
    this.#denialsSinceGuard = 0;
    this.#guardAt = NEXT_GUARD;
    this.#looks++;
    const proof = await prove(this.#market, this.#proofCodes, this.#account);
    this.#isGuarding = false;
    if ('good' in proof) {
      this.#memory = afterGood(this.#memory, proof.good);
      await this.#recordSilent();
      return;
    }
    this.#end(proof);
  }

  /** Records what was found so far, once account details show that the key opens the seller's account. */
  async #look(): Promise<void> {
    this.#isLooking = true;
    this.#looks++;
    const found = this.#found.splice(0);
    const look = await lookAtAccount(this.#market, this.#account);
    this.#isLooking = false;
    if ('bad' in look) {
      this.#found.unshift(...found);
      return this.#end(look);
    }
    if (this.#isDoubted) return;
    this.#memory = afterLook(this.#memory, look, this.#proofCodes, found[0]?.check?.at);
    if (found.length > 0) await this.#market.record(found);
  }

  get #account(): string | null {
    return this.#situation.account ?? this.#memory.account;
  }

  #end(proof: Exclude<Proof, Good>): void {
    if (!isOutage(proof.bad)) this.#isDoubted = true;
    if (this.#isOver) return;
    const { waitMs } = this.#situation;
    this.#memory = afterBad(this.#memory, proof.bad, waitMs, this.#hasAnswers);
  }
}

/** What an answer says about a code. */
function resultOfAnswer(
  { position }: OpenCode,
  form: string | null,
  { reply, at }: CodeAnswer,
  parts: Partial<CodeResult> = {},
): CodeResult {
  return resultOf({ position }, { check: evidenceOf(reply, at), form, ...parts });
}

const HEX = '0123456789abcdef';
const UUID = 'xxxxxxxx-xxxx-4xxx-yxxx-xxxxxxxxxxxx';

/**
 * A random code, which no marketplace can have sold: of the shape of another code if that is a UUID or hex digits, else a
 * UUID.
 * @param dice in [0, 1)
 */
export function controlCode(like: string, dice: () => number): string {
  const shape = /^[0-9a-f]{32,128}$/i.test(like) ? 'x'.repeat(like.length) : UUID;
  const code = shape.replace(/[xy]/g, (place) => {
    const digit = Math.floor(dice() * 16);
    return HEX[place === 'x' ? digit : 8 + (digit % 4)] ?? '0';
  });
  const isUpper = like === like.toUpperCase() && like !== like.toLowerCase();
  return isUpper ? code.toUpperCase() : code;
}
