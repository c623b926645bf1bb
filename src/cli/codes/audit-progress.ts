import type { AuditProgress } from '../../store/audits/types.js';
import { count, Progress } from '../output/index.js';
import { verdictCounts } from './audit-view.js';

/** Shows how far an audit is on stderr. */
export class AuditBar {
  #bar: Progress | null = null;
  #problem: string | null = null;
  #hasToldOfOthers = false;

  show(audit: AuditProgress): void {
    const { auditId, codes, reused, pending, denied, problem } = audit;
    // What was fresh was never to be asked for.
    const [done, total] = [codes - reused - pending, codes - reused];
    this.#bar ??= new Progress({
      output: process.stderr,
      label: `audit ${auditId}`,
      total,
      from: done,
    });
    // Denied codes get their verdicts all at once, when the second look is over.
    const isSecondLook = denied > 0 && pending === denied;
    const detail = [
      verdictCounts(audit),
      isSecondLook ? `${count(denied)} denied, second look` : '',
    ]
      .filter((part) => part !== '')
      .join(' · ');
    this.#bar.update(done, { total, detail, paused: problem !== null || isSecondLook });
    if (problem !== null && problem !== this.#problem) {
      this.#bar.note(`${isSecondLook ? 'second look' : 'held up'}: ${problem}`);
    }
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
