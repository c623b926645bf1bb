import { hash } from 'node:crypto';
import type { PurchaseReading } from '../../domain/codes/purchase.js';
import type { UnprovenJudgement } from '../../domain/codes/verdict.js';
import type { Purchase } from '../../domain/item.js';
import { isObject } from '../../domain/values.js';
import type { Sourced } from '../../marketplace/types.js';
import type { CodeResult, PendingCode } from '../../store/audits/types.js';
import type { SettledCode } from './types.js';

/** What is recorded of a code that got a verdict. */
export function settledResult(
  { judgement, at, answer }: SettledCode,
  { position, codeId }: PendingCode,
): CodeResult {
  const { verdict, reason, proof, evidence } = judgement;
  const news =
    verdict === 'valid' && answer !== null
      ? { verdict, purchase: leanReading(answer) }
      : { verdict: 'invalid' as const };
  return {
    position,
    codeId,
    news,
    reason,
    proof,
    httpStatus: evidence.httpStatus,
    message: evidence.message,
    checkedAt: new Date(at),
    rawHash: answer === null ? null : hash('sha256', answer.text),
    final: true,
  };
}

/** What is recorded of a code that was asked for in vain. @param at milliseconds since 1970 */
export function unprovenResult(
  { reason, proof, evidence }: UnprovenJudgement,
  { position, codeId }: PendingCode,
  at: number,
  final: boolean,
): CodeResult {
  return {
    ...{ position, codeId, reason, proof, ...evidence, final },
    news: { verdict: 'unproven' },
    checkedAt: new Date(at),
    rawHash: null,
  };
}

/**
 * What is recorded of a purchase. The item it is of is most of what was answered: where its id was
 * read it is let go here, since results may wait for a while until they are written.
 */
function leanReading({ value, raw }: Sourced<Purchase>): PurchaseReading {
  if ((value.item?.id ?? null) === null || !isObject(raw)) return { value, raw };
  const { item: _, ...rest } = raw;
  return { value, raw: rest };
}
