import type { Db } from '../db/db.js';
import { askCode, checkOf, type CodeMarket } from './ask.js';
import type { KnownCode } from './known-code.js';
import { StoredLedger } from './ledger-store.js';
import type { CodeResult } from './ledger.js';
import { enterLookUp, readLookUp, type LookedUp } from './look-up-store.js';
import type { UnprovenReason } from './reasons.js';
import { CONFIRM_AFTER_MS } from './rules.js';

export interface LookUpDeps {
  readonly db: Db;
  readonly sellerId: string;
  readonly marketplace: Pick<CodeMarket, 'validate'>;
  /** Has the denied codes of an audit confirmed: a worker does it, for all callers together. */
  readonly confirm: (auditId: bigint) => Promise<void>;
}

/** Calls of a look-up, retries included. */
export interface LookUpCalls {
  /** The look-ups of the day. */
  readonly auditId: bigint;
  readonly own: number;
  /** Of all look-ups of the day, with the second checks of denied codes, in all processes. */
  readonly total: number;
}

/** The answer to a look-up. */
export type LookUp =
  /** `stale`: older than asked for, because the marketplace gave no answer. */
  | { readonly kind: 'known'; readonly known: KnownCode; readonly stale: boolean }
  /** Denied once. A second denial, a minute later, makes it invalid. */
  | { readonly kind: 'pending'; readonly known: KnownCode | null; readonly againAfterS: number }
  | {
      readonly kind: 'unproven';
      readonly reason: UnprovenReason;
      readonly retryAt: number | null;
    };

/** Most seconds that an answer may be old. */
export interface MaxAge {
  readonly valid: number;
  readonly invalid: number;
}

const DAY_S = 86_400;
const HOUR_S = 3_600;

/** Codes rarely stop being valid; a code that was typed wrong may be sold tomorrow. */
export const DEFAULT_MAX_AGE: MaxAge = { valid: DAY_S, invalid: HOUR_S };

/** Longest time that a caller waits for the marketplace, milliseconds. */
const CALL_TIMEOUT_MS = 15_000;
/** A worker may be busy when the second denial is due, seconds. */
const SLACK_S = 5;

/**
 * Answers from what is known, if it is young enough. @returns null: the marketplace must be asked
 * @param now milliseconds since 1970
 */
export function answerFromStore(
  { known, deniedAt }: LookedUp,
  maxAge: MaxAge,
  now: number,
): LookUp | null {
  if (known !== null && isYoung(known, maxAge, now)) return { kind: 'known', known, stale: false };
  if (deniedAt === null) return null;
  // The clock may have been set back since.
  const leftMs = Math.min(CONFIRM_AFTER_MS, deniedAt + CONFIRM_AFTER_MS - now);
  return { kind: 'pending', known, againAfterS: Math.max(0, Math.ceil(leftMs / 1000)) + SLACK_S };
}

function isYoung({ verdict, checkedAt }: KnownCode, maxAge: MaxAge, now: number): boolean {
  return Math.abs(now - checkedAt) <= maxAge[verdict] * 1000;
}

/** Reads what the store can answer. @returns null: the marketplace must be asked */
export async function lookUpStored(
  db: Db,
  sellerId: string,
  code: string,
  maxAge: MaxAge,
): Promise<{ readonly answer: LookUp | null; readonly known: KnownCode | null }> {
  const found = await readLookUp(db, sellerId, code);
  return { answer: answerFromStore(found, maxAge, Date.now()), known: found.known };
}

/**
 * Asks the marketplace once about a code, and records the answer. A purchase makes the code valid. A denial decides
 * nothing yet, unless the code was invalid before (`rules.ts`). Without an answer the last verdict is returned, marked
 * as stale.
 * @param onCalls called once the answer is recorded
 * @throws errors of the store
 */
export async function lookUpNow(
  { db, sellerId, marketplace, confirm }: LookUpDeps,
  code: string,
  known: KnownCode | null,
  signal: AbortSignal,
  onCalls?: (calls: LookUpCalls) => void,
): Promise<LookUp> {
  const { auditId, position } = await enterLookUp(db, sellerId, code);
  // Other look-ups share the client, so its own count of calls would be theirs, too.
  let own = 0;
  const ledger = new StoredLedger(db, { auditId, sellerId, canary: null, callCount: () => own });
  const record = async (result: CodeResult): Promise<void> => {
    await ledger.record([result]);
    onCalls?.({ auditId, own, total: ledger.totalCalls });
  };
  const limit = AbortSignal.any([signal, AbortSignal.timeout(CALL_TIMEOUT_MS)]);
  const common = { position, code };
  const giveUp = (reason: UnprovenReason, retryAt: number | null): LookUp =>
    known === null ? { kind: 'unproven', reason, retryAt } : { kind: 'known', known, stale: true };
  const onRequest = () => {
    own++;
    return () => undefined;
  };
  const options = { signal: limit, priority: 'audit', onRequest } as const;
  const reply = await askCode(marketplace, code, options).catch((error: unknown) => {
    if (!limit.aborted) throw error;
    return null;
  });
  if (reply === null) {
    const check = { ...NO_REPLY, at: Date.now() };
    await record({ ...common, check, verdict: 'unproven', reason: 'unavailable' });
    return giveUp('unavailable', null);
  }
  const check = checkOf(code, reply, Date.now());
  switch (check.outcome) {
    case 'found':
      await record({ ...common, check, verdict: 'valid' });
      break;
    case 'denied': {
      const wasInvalid = known?.verdict === 'invalid';
      await record({ ...common, check, verdict: wasInvalid ? 'invalid' : null });
      if (!wasInvalid) {
        // Without the queue, `watchAudits` finds it within a minute.
        await confirm(auditId).catch(() => undefined);
        return { kind: 'pending', known, againAfterS: CONFIRM_AFTER_MS / 1000 + SLACK_S };
      }
      break;
    }
    case 'unanswered': {
      const reason =
        check.reason === 'answered' || check.reason === 'denied' ? 'unreadable' : check.reason;
      await record({ ...common, check, verdict: 'unproven', reason });
      return giveUp(reason, 'retryAt' in reply ? reply.retryAt : null);
    }
  }
  const { known: now } = await readLookUp(db, sellerId, code);
  return now === null ? giveUp('unreadable', null) : { kind: 'known', known: now, stale: false };
}

/** The evidence of a call that ended without a reply. */
const NO_REPLY = {
  outcome: 'unanswered',
  reason: 'unavailable',
  httpStatus: null,
  message: `no answer within ${CALL_TIMEOUT_MS / 1000} s`,
  answer: null,
  proven: null,
} as const;
