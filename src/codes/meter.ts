import type { Db } from '../db/db.js';
import { writeProgress } from './audits-store.js';
import type { Step } from './plan.js';
import { checkCost, type Pace } from './progress.js';
import { asksInWindow, denialsNeeded, MAX_ROUNDS } from './rules.js';
import type { AskedSoFar, AuditProgress } from './types.js';
import type { CheckFacts } from './ledger.js';

/** How often progress is written, milliseconds. */
const TELL_EVERY_MS = 1_000;

/** Counts what a check asks, and writes it to the check's row once a second. Never throws: it is only told. */
export class Meter {
  readonly #db: Db;
  readonly #audit: AuditProgress;
  readonly #spacingMs: number;
  #state: { phase: AskedSoFar['phase']; before: number; total: number; rounds: number } | null =
    null;
  #facts: CheckFacts | null = null;
  /** Forms of the step that were not asked yet. */
  #waiting = new Set<string>();
  #asked = 0;
  #told = '';
  #timer: NodeJS.Timeout | null = null;
  #telling: Promise<void> = Promise.resolve();

  constructor(db: Db, audit: AuditProgress, { spacingMs }: Pace) {
    this.#db = db;
    this.#audit = audit;
    this.#spacingMs = spacingMs;
  }

  /** A step begins. */
  begin({ kind }: Step, facts: CheckFacts): void {
    if (kind !== 'first-pass' && kind !== 'second-check') return;
    const { codes, reused } = this.#audit;
    const rounds = Math.min(...facts.deniedCodes.map((code) => code.rounds), MAX_ROUNDS);
    this.#facts = facts;
    this.#state =
      kind === 'first-pass'
        ? {
            phase: 'first pass',
            before: codes - reused - facts.open,
            total: codes - reused,
            rounds: MAX_ROUNDS,
          }
        : { phase: 'second check', before: 0, total: facts.denied, rounds: MAX_ROUNDS - rounds };
    this.#asked = 0;
    this.#timer ??= setInterval(() => this.#tell(), TELL_EVERY_MS).unref();
  }

  /** The codes of the step, by the form that is asked first. */
  list(forms: readonly string[]): void {
    this.#waiting = new Set(forms);
  }

  /** A code was asked about. */
  note(form: string): void {
    if (this.#waiting.delete(form)) this.#asked++;
  }

  async end(): Promise<void> {
    if (this.#timer !== null) clearInterval(this.#timer);
    this.#timer = null;
    this.#tell();
    await this.#telling;
  }

  #tell(): void {
    const [state, facts] = [this.#state, this.#facts];
    if (state === null || facts === null) return;
    const progress: AskedSoFar = {
      phase: state.phase,
      asked: state.before + this.#asked,
      total: state.total,
      rounds: state.rounds,
      leftMs: this.#leftMs(facts, state.phase),
    };
    const text = JSON.stringify(progress);
    if (text === this.#told) return;
    this.#told = text;
    this.#telling = writeProgress(this.#db, this.#audit.auditId, text).catch(() => undefined);
  }

  #leftMs(
    { open, denied, chance, sellerChance, foundEver }: CheckFacts,
    phase: AskedSoFar['phase'],
  ): number | null {
    const isFirst = phase === 'first pass';
    const { leastMs } = checkCost(
      {
        toCheck: Math.max(0, open - (isFirst ? this.#asked : 0)),
        denied: Math.max(0, denied - (isFirst ? 0 : this.#asked)),
        requestsPerMinute: this.#spacingMs === 0 ? 0 : 60_000 / this.#spacingMs,
        foundEver,
      },
      0,
    );
    if (leastMs === null || isFirst) return leastMs;
    // Each further denial that chance requires is another round.
    const rounds = Math.ceil(denialsNeeded(chance, sellerChance) / asksInWindow(1, 0, foundEver));
    return leastMs * Math.max(1, Math.min(rounds, MAX_ROUNDS));
  }
}
