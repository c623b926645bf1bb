import type { Verdict } from '../../domain/codes/proof.js';
import { settle, type CodeTransition, type KnownCode } from '../../domain/codes/transition.js';
import type { Json } from '../../domain/item.js';
import type { CodeResult } from './types.js';

/** A code of an audit as it is before its results are recorded. */
export interface CodeBefore {
  readonly position: number;
  readonly codeId: bigint;
  /** The audit has settled it: nothing more is recorded. */
  readonly settled: boolean;
  /** Times the audit saw it denied. */
  readonly denials: number;
  readonly known: KnownCode | null;
  /** Moments of the checks that the audit has recorded of it, milliseconds since 1970. */
  readonly recordedAt: ReadonlySet<number>;
}

/** The new state of a code, and the check it comes from. */
export interface CodeUpdate {
  readonly codeId: bigint;
  readonly known: KnownCode;
  /** Whether this is another verdict than before, or the first. */
  readonly turned: boolean;
  readonly result: CodeResult;
  /** The check that says so, as an index of `checks`. */
  readonly check: number;
  /** The answer's purchase; undefined when it held none. */
  readonly raw: Json | undefined;
}

export interface FeedEntry extends CodeTransition {
  /** The check that showed it, as an index of `checks`. */
  readonly check: number;
}

/** The new state of a code within its audit. */
export interface AuditCodeUpdate {
  readonly position: number;
  /** Null when it stays to be asked. */
  readonly verdict: Verdict | null;
  /** Its newest check. */
  readonly check: number;
  /** Answers without a proven verdict. */
  readonly attempts: number;
  /** Denials that count, without a verdict yet. */
  readonly denials: number;
  /** Of the newest of these. */
  readonly deniedAt: Date | null;
}

/** The rows to write when results are recorded. */
export interface RecordPlan {
  readonly checks: readonly CodeResult[];
  readonly codes: readonly CodeUpdate[];
  readonly feed: readonly FeedEntry[];
  readonly auditCodes: readonly AuditCodeUpdate[];
}

/**
 * Plans what becomes of codes by results, in their order. Nothing of a code that the audit has settled
 * is recorded, and no result twice: that of an unproven answer is told by its moment.
 */
export function planRecord(
  before: ReadonlyMap<number, CodeBefore>,
  results: readonly CodeResult[],
): RecordPlan {
  const checks: CodeResult[] = [];
  const codes = new Map<bigint, CodeUpdate>();
  const feed: FeedEntry[] = [];
  const auditCodes = new Map<number, AuditCodeUpdate>();
  /** Moments of answers without a verdict. */
  const recorded = new Set<string>();
  for (const result of results) {
    const { position, codeId, news, checkedAt } = result;
    const code = before.get(position);
    if (code?.codeId !== codeId) {
      throw new Error(`position ${position} of the audit does not hold code ${codeId}`);
    }
    const earlier = auditCodes.get(position);
    if (code.settled || (earlier?.verdict ?? null) !== null) continue;
    const isProven = news.verdict !== 'unproven';
    if (!isProven) {
      const moment = `${position} ${checkedAt.getTime()}`;
      if (recorded.has(moment) || code.recordedAt.has(checkedAt.getTime())) continue;
      recorded.add(moment);
    }
    const check = checks.push(result) - 1;
    const isDenied = result.denied === true;
    auditCodes.set(position, {
      position,
      verdict: isProven || result.final ? news.verdict : null,
      check,
      attempts: (earlier?.attempts ?? 0) + (isProven || isDenied ? 0 : 1),
      denials: (earlier?.denials ?? 0) + (isDenied ? 1 : 0),
      deniedAt: isDenied ? checkedAt : (earlier?.deniedAt ?? null),
    });
    const known = codes.get(codeId)?.known ?? code.known;
    const settlement = settle(known, news, checkedAt.getTime());
    if (settlement.known === null || settlement.known === known) continue;
    const turned = known?.verdict !== settlement.known.verdict;
    const raw = news.verdict === 'valid' ? news.purchase.raw : undefined;
    codes.set(codeId, { codeId, known: settlement.known, turned, result, check, raw });
    for (const entry of settlement.transitions) feed.push({ ...entry, check });
  }
  return {
    checks,
    codes: [...codes.values()],
    feed,
    auditCodes: [...auditCodes.values()],
  };
}
