import type { SellerConfig } from '../../config/index.js';
import { auditCost, type AuditCost } from '../../domain/codes/cost.js';
import { callsAtOnce } from '../../jobs/codes/pace.js';
import { moment } from '../../domain/moment.js';
import { duration, plural } from '../output/index.js';

/**
 * What it costs to ask for so many codes of this seller.
 * @param chunkSize codes of a chunk
 * @param now milliseconds since 1970
 */
export function costOf(
  { requestsPerMinute }: Pick<SellerConfig, 'requestsPerMinute'>,
  toAsk: number,
  chunkSize: number,
  now: number,
): AuditCost {
  const concurrency = callsAtOnce(requestsPerMinute);
  return auditCost({ toAsk, requestsPerMinute, chunkSize, concurrency }, now);
}

/**
 * What an audit will cost, in one line: `10,034 calls at 60 a minute: about 2 h 47 min, …`.
 * @param codes of the audit, known ones too
 */
export function costText(cost: AuditCost, requestsPerMinute: number, codes: number): string {
  if (codes === 0) return 'nothing to ask: no line holds a code';
  if (cost.codeCalls === 0) return 'nothing to ask: every verdict is known';
  const pace = requestsPerMinute === 0 ? 'without a limit' : `at ${requestsPerMinute} a minute`;
  const proofs =
    cost.proofCalls === 0 ? '' : ` (${plural(cost.proofCalls, 'proof')} of the API key included)`;
  const calls = `${plural(cost.calls, 'call')}${proofs} ${pace}`;
  // Without a limit the marketplace decides how long it takes, and nobody knows its speed yet.
  if (requestsPerMinute === 0) return `${calls}; how long they take is shown on the way`;
  const until = moment(new Date(cost.finishAt));
  return `${calls}: about ${duration(cost.leastMs)}, until ${until}; up to one call more for each denied code`;
}
