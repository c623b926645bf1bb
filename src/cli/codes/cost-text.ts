import type { AuditCost } from '../../domain/codes/cost.js';
import { moment } from '../moment.js';
import { duration, plural } from '../output/index.js';

/** What an audit will cost, in one line: `10,034 calls at 60 a minute: at least 2 h 47 min, …`. */
export function costText(cost: AuditCost, requestsPerMinute: number): string {
  if (cost.codeCalls === 0) return 'nothing to ask: every verdict is known';
  const pace = requestsPerMinute === 0 ? 'without a limit' : `at ${requestsPerMinute} a minute`;
  const proofs =
    cost.proofCalls === 0 ? '' : ` (${plural(cost.proofCalls, 'proof')} of the API key included)`;
  const calls = `${plural(cost.calls, 'call')}${proofs} ${pace}`;
  return `${calls}: about ${duration(cost.leastMs)}, until ${moment(new Date(cost.finishAt))}`;
}
