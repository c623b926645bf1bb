import type { Config, SellerConfig } from '../../config/index.js';
import { auditCost, type AuditCost } from '../../domain/codes/cost.js';
import { callsAtOnce } from '../../jobs/codes/pace.js';
import { moment } from '../moment.js';
import { duration, plural } from '../output/index.js';

/**
 * What it costs to ask for so many codes in this installation.
 * @param chunkSize codes of a chunk
 * @param now milliseconds since 1970
 */
export function costOf(
  { workerConcurrency }: Pick<Config, 'workerConcurrency'>,
  { requestsPerMinute }: Pick<SellerConfig, 'requestsPerMinute'>,
  toAsk: number,
  chunkSize: number,
  now: number,
): AuditCost {
  const chunksAtOnce = Math.max(1, Math.min(workerConcurrency, Math.ceil(toAsk / chunkSize)));
  const concurrency = callsAtOnce(requestsPerMinute) * chunksAtOnce;
  return auditCost({ toAsk, requestsPerMinute, chunkSize, concurrency, chunksAtOnce }, now);
}

/** What an audit will cost, in one line: `10,034 calls at 60 a minute: at least 2 h 47 min, …`. */
export function costText(cost: AuditCost, requestsPerMinute: number): string {
  if (cost.codeCalls === 0) return 'nothing to ask: every verdict is known';
  const pace = requestsPerMinute === 0 ? 'without a limit' : `at ${requestsPerMinute} a minute`;
  const proofs =
    cost.proofCalls === 0 ? '' : ` (${plural(cost.proofCalls, 'proof')} of the API key included)`;
  const calls = `${plural(cost.calls, 'call')}${proofs} ${pace}`;
  return `${calls}: about ${duration(cost.leastMs)}, until ${moment(new Date(cost.finishAt))}`;
}
