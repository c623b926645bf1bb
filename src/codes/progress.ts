import { countedDenialsNeeded } from './rules.js';
import type { AuditProgress } from './types.js';

type Counts = Pick<
  AuditProgress,
  'codes' | 'reused' | 'pending' | 'denied' | 'confirmed' | 'valid' | 'overturned'
> & { readonly resumeAt: Date | number | null };

/** What a running audit does, and how far it is. */
export interface Phase {
  readonly name: 'sweep' | 'confirm';
  readonly done: number;
  readonly total: number;
  /** `sweep 1,204 of 5,000 · 97 denied` or `confirm 40 of 97, next window in 12 s`. */
  readonly text: string;
}

/** @param now milliseconds since 1970 */
export function phaseOf(audit: Counts, now: number): Phase {
  const { codes, reused, pending, denied, confirmed, resumeAt } = audit;
  const open = pending - denied;
  if (open > 0 || denied === 0) {
    const [done, total] = [codes - reused - open, codes - reused];
    const note = denied === 0 ? '' : ` · ${number(denied)} denied`;
    return { name: 'sweep', done, total, text: `sweep ${number(done)} of ${number(total)}${note}` };
  }
  const total = denied * (countedDenialsNeeded(audit) ?? 1);
  const done = Math.min(total, confirmed);
  const waitMs = resumeAt === null ? 0 : Number(resumeAt) - now;
  const wait = waitMs <= 0 ? '' : `, next window in ${Math.ceil(waitMs / 1000)} s`;
  const text = `confirm ${number(done)} of ${number(total)}${wait}`;
  return { name: 'confirm', done, total, text };
}

function number(value: number): string {
  return value.toLocaleString('en-US');
}
