/**
 * The second check: denied codes are asked again in proven windows.
 *
 * A window proves the key, asks, and proves the key again, one call after the other on one connection: so both proofs were
 * answered by the machine that denied. A code that is denied once more is then asked on another connection, twice, while the
 * marketplace is little known or was seen to deny valid codes. Those calls come after all codes were asked once: a moment's
 * fault does not meet one code three times.
 */

import { meaningOf } from '../marketplace/reply.js';
import { ProofCodes } from './known-valid.js';
import {
  askAgain,
  faultOf,
  isPause,
  lookAtAccount,
  prove,
  proveAgain,
  type Proof,
} from './prove.js';
import {
  asksInWindow,
  codesInWindow,
  denialsNeeded,
  longestWindowMs,
  SILENCES_LIKE_OUTAGE,
  verdictOf,
  WINDOW_CODES,
  type Chance,
  type DenialFigures,
} from './rules.js';
import type { CodeAnswer } from './market.js';
import {
  afterBad,
  afterGood,
  type BadProof,
  type GoodProof,
  isOutage,
  isProven,
  type Memory,
  type Situation,
} from './situation.js';
import {
  addChance,
  type CheckFacts,
  type CodeCheck,
  type CodeResult,
  type DeniedCode,
  evidenceOf,
  isUnlisted,
  NOTHING,
  resultOf,
  type ProofBy,
  type ProvenBetween,
} from './ledger.js';

/** The second proof of a window is the first of the next one if that begins within this time, or these calls. */
const OPENING_MS = 10_000;
const OPENING_CALLS = 4;
const OTHER_CONNECTION = true;
/** A step ends with the first window that ends after this time: other checks want their turn. */
const STEP_MS = 10_000;
/** A window that repeats so many codes proves the key in between as well. */
export const PROOF_BETWEEN_CODES = 3;

/** What chance requires, as this step knows it. */
interface Required {
  readonly chance: Chance;
  readonly sellerChance: Chance;
  readonly foundEver: number;
}

export function neededBy({
  chance,
  sellerChance,
}: Pick<CheckFacts, 'chance' | 'sellerChance'>): number {
  return denialsNeeded(chance, sellerChance);
}

/** How many codes the next window holds. */
export function windowSize(
  facts: Required,
  { windowCodes, wasInDoubt }: Pick<Memory, 'windowCodes' | 'wasInDoubt'>,
  { spacingMs }: Pick<Situation, 'spacingMs'>,
): number {
  const asks = asksInWindow(neededBy(facts), 0, facts.foundEver, wasInDoubt);
  return Math.min(windowCodes, codesInWindow(spacingMs, asks));
}

/**
 * Checks denied codes again, a window at a time, in random order, for about ten seconds. Each window is recorded when it
 * ends.
 * @param codes those that are due
 */
export async function secondCheck(
  codes: readonly DeniedCode[],
  facts: CheckFacts,
  situation: Situation,
  memory: Memory,
): Promise<Memory> {
  const proofCodes = new ProofCodes(situation);
  const waiting = [
    ...codes.filter(isUnlisted),
    ...shuffled(
      codes.filter((code) => !isUnlisted(code)),
      situation.dice,
    ),
  ];
  for (const { form } of facts.deniedCodes.filter(isUnlisted)) proofCodes.doubt(form);
  let required: Required = facts;
  let now: Memory = { ...memory, hold: null };
  const until = situation.now() + STEP_MS;
  while (waiting.length > 0 && now.hold === null && !situation.isClosing()) {
    const some = waiting.splice(0, windowSize(required, now, situation));
    const window = new Window(some, required, situation, proofCodes);
    now = await window.run(now);
    required = window.required;
    if (situation.now() >= until) break;
  }
  return now;
}

/** What was asked about one code in a window. */
interface Asked {
  readonly code: DeniedCode;
  denied: number;
  /** The last answer. */
  answer: CodeAnswer | null;
}

class Window {
  required: Required;
  readonly #asked: readonly Asked[];
  readonly #needed: number;
  readonly #situation: Situation;
  readonly #proofCodes: ProofCodes;

  constructor(
    codes: readonly DeniedCode[],
    required: Required,
    situation: Situation,
    proofCodes: ProofCodes,
  ) {
    this.#asked = codes.map((code) => ({ code, denied: 0, answer: null }));
    this.required = required;
    this.#needed = neededBy(required);
    this.#situation = situation;
    this.#proofCodes = proofCodes;
  }

  async run(memory: Memory): Promise<Memory> {
    const { account, market, waitMs } = this.#situation;
    const owner = account ?? memory.account;
    const opening = this.#usable(memory.opening);
    const first: Proof =
      opening === null ? await prove(market, this.#proofCodes, owner) : { good: opening };
    if ('bad' in first) return afterBad(memory, first.bad, waitMs, false);
    const before = first.good;
    let now = afterGood(memory, before);
    const interruption = await this.#ask(before, now.wasInDoubt);
    const asked = this.#asked.filter(({ answer }) => answer !== null);
    if (interruption !== null) return this.#voided(now, asked, interruption);
    if (asked.length === 0) return now;
    const isAnyDenied = asked.some(({ denied }) => denied > 0);
    const last = isAnyDenied
      ? await prove(market, this.#proofCodes, before.account)
      : await lookAtAccount(market, before.account);
    if ('bad' in last) return this.#voided(now, asked, last.bad);
    const after = last.good;
    now = afterGood(now, after);
    if (after.at - before.beganAt > longestWindowMs(this.#situation.spacingMs)) {
      return this.#tooSlow(now, asked, true);
    }
    await this.#record(asked, isAnyDenied ? { before, after } : null, now);
    const windowCodes = Math.min(WINDOW_CODES, 2 * now.windowCodes);
    return { ...now, windowCodes, opening: isAnyDenied ? after : null };
  }

  /**
   * The proof after the last window may serve if it is fresh, and began after the last denial of each code, so that the key
   * is proven between any two denials of a code.
   */
  #usable(opening: GoodProof | null): GoodProof | null {
    if (opening === null) return null;
    const isWeak = opening.by === 'account' && this.#proofCodes.canFind;
    const isAfterAll = this.#asked.every(({ code }) => code.askedAt < opening.beganAt);
    const { spacingMs, now } = this.#situation;
    const isFresh = now() - opening.at <= Math.max(OPENING_MS, OPENING_CALLS * spacingMs);
    return isAfterAll && isFresh && !isWeak ? opening : null;
  }

  /** @returns what ends the window early */
  async #ask(before: GoodProof, wasInDoubt: boolean): Promise<BadProof | null> {
    const { isClosing, market } = this.#situation;
    const { foundEver } = this.required;
    let waiting: readonly Asked[] = this.#asked;
    let silences = 0;
    for (let time = 1; waiting.length > 0; time++) {
      for (const asked of waiting) {
        if (isClosing()) return null;
        let answer = await market.code(asked.code.form, time > 1 && OTHER_CONNECTION);
        if (this.#proofCodes.strangeItem(answer.reply) !== null) {
          const again = await askAgain(
            market,
            answer,
            asked.code.form,
            this.#proofCodes,
            before.account,
          );
          if ('bad' in again) return again.bad;
          answer = again.answer;
        }
        const { kind } = meaningOf(answer.reply);
        // A denial that came before stays the answer if there is none on another connection.
        if (kind !== 'silent' || asked.answer === null) asked.answer = answer;
        if (kind === 'denied') asked.denied++;
        if (kind === 'doubt' || isPause(answer)) return faultOf(answer);
        silences = kind === 'silent' ? silences + 1 : 0;
        if (silences >= SILENCES_LIKE_OUTAGE) return faultOf(answer);
      }
      // In the same order: a fault that lasts for some calls meets no code three times, unless it meets this proof, too.
      waiting = waiting.filter(({ code, denied }) => {
        const asks = asksInWindow(this.#needed, code.counted, foundEver, wasInDoubt);
        return denied === time && time < asks;
      });
      if (time > 1 || waiting.length < PROOF_BETWEEN_CODES || !this.#proofCodes.canFind) continue;
      const between = await proveAgain(market, this.#proofCodes, before);
      if ('bad' in between) return between.bad;
    }
    // If nothing at all was answered, it is an outage.
    const last = this.#asked.at(-1)?.answer ?? null;
    return last !== null && this.#asked.every(isSilent) ? faultOf(last) : null;
  }

  /**
   * The key came into doubt, or the marketplace gave no answers: nothing counts. What was found is asked again: it may be
   * another seller's.
   */
  async #voided(memory: Memory, asked: readonly Asked[], bad: BadProof): Promise<Memory> {
    const { waitMs } = this.#situation;
    // Limits and outages use up no code's tries.
    if (isOutage(bad)) {
      const now = await this.#tooSlow(memory, asked, false);
      return afterBad(now, bad, waitMs, asked.length > 1);
    }
    await this.#record(asked.filter(isOpen), null, memory);
    return afterBad(memory, bad, waitMs, true);
  }

  /**
   * No denial counts, and the next window is smaller. Only a code that was alone has had its try.
   * @param isSellers what was found is the seller's
   */
  async #tooSlow(memory: Memory, asked: readonly Asked[], isSellers: boolean): Promise<Memory> {
    const isAlone = asked.length === 1;
    await this.#record(
      asked.filter((one) => (isOpen(one) ? isAlone : isSellers)),
      null,
      memory,
    );
    return { ...memory, opening: null, windowCodes: Math.max(1, asked.length >> 1) };
  }

  /** @param around the proofs around the window; null: none was needed, one was bad, or it took too long */
  async #record(asked: readonly Asked[], around: Around | null, memory: Memory): Promise<void> {
    const proven = around === null ? null : between(around);
    const results: CodeResult[] = [];
    // What was found decides with the rest how many denials are needed.
    for (const one of asked) {
      if (!isOpen(one)) results.push(this.#found(one, proven !== null, memory));
    }
    for (const { chance } of results) {
      const { chance: seen, sellerChance, foundEver } = this.required;
      this.required = {
        chance: addChance(seen, chance),
        sellerChance: addChance(sellerChance, chance),
        foundEver: foundEver + 1,
      };
    }
    for (const one of asked) {
      if (isOpen(one)) results.push(this.#open(one, proven));
    }
    if (results.length > 0) await this.#situation.market.record(results);
  }

  #found({ code, denied, answer }: Asked, counts: boolean, memory: Memory): CodeResult {
    const { reply, at } = answer as CodeAnswer;
    const { position, form, counted, firstDeniedAt } = code;
    const first = Number(isProven(memory, firstDeniedAt));
    const denials = counted + first + (counts ? denied : 0);
    this.#proofCodes.found(form, at);
    return resultOf(
      { position },
      {
        check: evidenceOf(reply, at),
        form,
        verdict: 'valid',
        adds: { ...NOTHING, rounds: 1 },
        chance: { calls: denials + 1, denied: denials },
      },
    );
  }

  #open({ code, denied, answer }: Asked, proven: ProvenBetween | null): CodeResult {
    const { reply, at } = answer as CodeAnswer;
    const counts = proven !== null && denied > 0;
    const adds = {
      ...NOTHING,
      counted: counts ? denied : 0,
      rounds: 1,
      uncounted: counts ? 0 : 1,
    };
    const figures = {
      counted: code.counted + adds.counted,
      rounds: code.rounds + adds.rounds,
      uncounted: code.uncounted + adds.uncounted,
    };
    const check = evidenceOf(reply, at, counts ? proven : null);
    const { isAnyDoubtful } = this.#proofCodes;
    const end = endOf(code, figures, neededBy(this.required), isAnyDoubtful, check.reason);
    if (end !== null) this.#proofCodes.settle(code.form, end.verdict);
    return resultOf({ position: code.position }, { check, form: code.form, adds, ...end });
  }
}

/**
 * What follows from a code's denials: a verdict, or that it is given up.
 * @param figures the last window included
 * @param isAnyDoubtful no listed code becomes invalid while a known-valid one is in doubt: see `ProofCodes`
 * @param last what the last answer said
 * @returns null: it is asked again
 */
export function endOf(
  code: DeniedCode,
  figures: DenialFigures,
  needed: number,
  isAnyDoubtful: boolean,
  last: CodeCheck['reason'],
): (Pick<CodeResult, 'reason'> & { readonly verdict: 'invalid' | 'unproven' }) | null {
  const end = verdictOf(figures, needed);
  if (end === null) return null;
  if (end === 'invalid') {
    return isAnyDoubtful && !isUnlisted(code) ? null : { verdict: end, reason: null };
  }
  const given = last === 'denied' || last === 'answered' ? 'key-not-proven' : last;
  return { verdict: 'unproven', reason: end === 'contradicted' ? end : given };
}

/** Whether the answer leaves the code without a verdict. */
function isOpen({ answer }: Asked): boolean {
  return answer === null || meaningOf(answer.reply).kind !== 'found';
}

function isSilent({ answer }: Asked): boolean {
  return answer !== null && meaningOf(answer.reply).kind === 'silent';
}

interface Around {
  readonly before: GoodProof;
  readonly after: GoodProof;
}

const STRENGTH: readonly ProofBy[] = ['known-valid', 'item', 'account'];

function between({ before, after }: Around): ProvenBetween {
  const weaker = Math.max(STRENGTH.indexOf(before.by), STRENGTH.indexOf(after.by));
  return { by: STRENGTH[weaker] ?? 'account', before: before.at, after: after.at };
}

function shuffled<T>(values: readonly T[], dice: () => number): T[] {
  const out = [...values];
  for (let left = out.length; left > 1; left--) {
    const place = Math.floor(dice() * left);
    [out[left - 1], out[place]] = [out[place] as T, out[left - 1] as T];
  }
  return out;
}
