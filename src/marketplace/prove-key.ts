import {
  type Reply,
  meaningOf,
  messageOf,
  retryTimeOf,
  type DoubtReason,
  type SilenceReason,
} from './reply.js';
import type { CallOptions } from './types.js';

/** A record that the marketplace must find with a good key: a code known to be valid, or a listed item. */
export interface Witness {
  /** One look-up of the record. */
  ask(options: CallOptions): Promise<Reply<unknown>>;
}

/** Whose key is proven, and by what. */
export interface KeyHolder {
  /** User name of the seller's account; null: take it from the first account details. */
  readonly account: string | null;
  /**
   * The next record to ask for; null: none is known (account details alone must do), or none is left after a denial.
   * Return another one each time, so that neither a cache nor one lucky record vouches for everything.
   */
  nextWitness(): Witness | null;
  /** Called with each reply about a witness. A denied witness may be gone: check it like any other record. */
  onWitness?(witness: Witness, reply: Reply<unknown>, at: number): void;
}

export interface KeyMarket {
  account(options?: CallOptions): Promise<Reply<{ readonly value: { readonly username: string } }>>;
}

export interface GoodProof {
  readonly isGood: true;
  /** What was found beside the account. `account`: no witness was known. */
  readonly by: 'witness' | 'account';
  /** User name of the account that the key opened. */
  readonly account: string;
  /** When the proof was complete, milliseconds since 1970. */
  readonly at: number;
  /** When its first call began, by `performance.now()`. */
  readonly beganAt: number;
}

export interface BadProof {
  readonly isGood: false;
  /** `witness-denied`: the key opened the account, and every witness asked was denied. */
  readonly reason: DoubtReason | SilenceReason | 'witness-denied';
  /** The reply that decided; null for `another-account`. */
  readonly reply: Reply<unknown> | null;
  /** The server's or the client's words, redacted. */
  readonly detail: string | null;
  /** When the server takes requests again, milliseconds since 1970; null if it did not say. */
  readonly retryAt: number | null;
}

export type KeyProof = GoodProof | BadProof;

/** Witnesses asked in one proof. A witness may be gone itself, so one denial is not the last word. */
const WITNESSES_PER_PROOF = 3;

/**
 * Proves the API key: it opens the seller's account and, if any record is known to exist, finds one.
 *
 * A wrong key, and the key of a user who sells nothing, get the same answers as questions about things that don't
 * exist. So the calls are made one after another, and nothing else may be under way between two proofs but what
 * they prove.
 * @throws the signal's reason
 */
export async function proveKey(
  market: KeyMarket,
  holder: KeyHolder,
  options: CallOptions = {},
): Promise<KeyProof> {
  const beganAt = performance.now();
  const reply = await market.account(options);
  if (reply.kind !== 'answered') {
    const meaning = meaningOf(reply);
    // Account details exist for every good key, so a denial is a refusal (API 7).
    return bad(
      meaning.kind === 'doubt' || meaning.kind === 'silent' ? meaning.reason : 'refused',
      reply,
    );
  }
  const { username } = reply.data.value;
  if (holder.account !== null && !isSameAccount(username, holder.account)) {
    const detail = `the API key opened the account "${username}"`;
    return { isGood: false, reason: 'another-account', reply: null, detail, retryAt: null };
  }
  const good = (by: GoodProof['by']): GoodProof => {
    return { isGood: true, by, account: username, at: Date.now(), beganAt };
  };
  let denial: BadProof | null = null;
  for (let asked = 0; asked < WITNESSES_PER_PROOF; asked++) {
    const witness = holder.nextWitness();
    if (witness === null) return denial ?? good('account');
    const answer = await witness.ask(options);
    holder.onWitness?.(witness, answer, Date.now());
    const meaning = meaningOf(answer);
    if (meaning.kind === 'found') return good('witness');
    if (meaning.kind !== 'denied') return bad(meaning.reason, answer);
    denial = bad('witness-denied', answer);
  }
  return denial ?? good('account');
}

function bad(reason: BadProof['reason'], reply: Reply<unknown>): BadProof {
  const [detail, retryAt] = [messageOf(reply), retryTimeOf(reply)];
  return { isGood: false, reason, reply, detail, retryAt };
}

/** Letter case differs between answers for the same account. */
function isSameAccount(a: string, b: string): boolean {
  return a.toLowerCase() === b.toLowerCase();
}
