import { describeDenials, type Denials } from '../../domain/codes/second-look.js';
import { supportAt } from '../../domain/codes/purchase.js';
import type { Purchase } from '../../domain/item.js';
import type { ResultColumn, ResultRow } from '../../intake/index.js';
import type { AuditResult } from '../../store/audits/types.js';
import { whyUnproven } from './unproven-text.js';

/** What came of asking for a code, or of finding that it was asked for lately. */
export interface CodeFacts {
  readonly verdict: 'valid' | 'invalid' | 'unproven';
  /** In a word for programs. */
  readonly reason: string;
  /** `purchase`, `canary`, `account` or `none`. */
  readonly proof: string;
  /** Of an invalid code the denials that made it so; null where they are not known. */
  readonly denials: Denials | null;
  /** The last one seen; that of an invalid code is from when it was valid. */
  readonly purchase: Purchase | null;
  readonly checkedAt: Date | null;
}

/** What there is to say of a record of a list. */
export type RecordFacts =
  | CodeFacts
  /** It holds no code. */
  | { readonly verdict: 'rejected'; readonly why: string }
  /** It was not asked for yet. */
  | { readonly verdict: 'pending' };

/** What an audit has to say of a record. */
export function factsOf(result: AuditResult): RecordFacts {
  const { code, rejected, verdict, reason, proof, denials, purchase, checkedAt } = result;
  if (code === null) return { verdict: 'rejected', why: rejected ?? 'it holds no code' };
  if (verdict === null) return { verdict: 'pending' };
  return { verdict, reason: reason ?? '', proof: proof ?? 'none', denials, purchase, checkedAt };
}

/** The lines of a result. @param now for the state of support, milliseconds since 1970 */
export async function* resultRows(
  results: AsyncIterable<AuditResult>,
  now: number,
): AsyncGenerator<ResultRow, void, undefined> {
  for await (const one of results) {
    yield { columns: one.columns, result: resultOf(factsOf(one), now) };
  }
}

export type Result = Readonly<Record<ResultColumn, string | number | null>>;

const NOTHING: Omit<Result, 'verdict'> = {
  license_type: null,
  item_id: null,
  item_name: null,
  price: null,
  currency: null,
  purchased_at: null,
  supported_until: null,
  support: null,
  checked_at: null,
  proof: null,
};

/**
 * The result columns of a record. Where there is no verdict, `proof` says why after `none: `, and
 * nothing is said of a purchase that was not proven this time. Of an invalid code `proof` says after
 * its word how often and when it was denied, and the purchase of before is told, but no support.
 * @param now for the state of support, milliseconds since 1970
 */
export function resultOf(facts: RecordFacts, now: number): Result {
  switch (facts.verdict) {
    case 'pending':
      return { verdict: 'pending', ...NOTHING };
    case 'rejected':
      return { verdict: 'rejected', ...NOTHING, proof: `none: ${facts.why}` };
    case 'unproven':
      return {
        verdict: 'unproven',
        ...NOTHING,
        checked_at: stamp(facts.checkedAt),
        proof: `none: ${whyUnproven(facts.reason)}`,
      };
    default:
      return provenResult(facts, now);
  }
}

function provenResult(facts: CodeFacts, now: number): Result {
  const { verdict, purchase, checkedAt, denials } = facts;
  const proof = denials === null ? facts.proof : `${facts.proof}: ${describeDenials(denials)}`;
  const proven = { verdict, ...NOTHING, checked_at: stamp(checkedAt), proof };
  if (purchase === null) return proven;
  return {
    ...proven,
    license_type: purchase.licenseType,
    item_id: purchase.item?.id ?? null,
    item_name: purchase.item?.name ?? null,
    price: purchase.price,
    currency: purchase.currency,
    purchased_at: purchase.purchasedAt,
    supported_until: purchase.supportedUntil,
    support: verdict === 'valid' ? supportAt(purchase, now) : null,
  };
}

function stamp(at: Date | null): string | null {
  return at === null ? null : at.toISOString();
}
