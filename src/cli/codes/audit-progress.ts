import type { AuditProgress } from '../../store/audits/types.js';
import { Progress } from '../output/index.js';
import { verdictCounts } from './audit-view.js';

/** Shows how far an audit is on stderr. */
export class AuditBar {
  #bar: Progress | null = null;
  #problem: string | null = null;
  #hasToldOfOthers = false;

  show(audit: AuditProgress): void {
    const { auditId, codes, reused, pending, problem } = audit;
    // What was fresh was never to be asked for.
    const [done, total] = [codes - reused - pending, codes - reused];
    this.#bar ??= new Progress({
      output: process.stderr,
      label: `audit ${auditId}`,
      total,
      from: done,
    });
    this.#bar.update(done, { total, detail: verdictCounts(audit) });
    if (problem !== null && problem !== this.#problem) this.#bar.note(`held up: ${problem}`);
    this.#problem = problem;
  }

  /** Says, once, that other processes do the work. */
  others(): void {
    if (this.#hasToldOfOthers) return;
    this.#hasToldOfOthers = true;
    this.#bar?.note('Another process works on it; this one only watches.');
  }

  finish(): void {
    this.#bar?.finish();
    this.#bar = null;
  }
}
