import type { Chance } from '../../../src/codes/rules.js';
import { DENIED_PER_STEP } from '../../../src/codes/plan.js';
import {
  addChance,
  type CheckFacts,
  type CodeResult,
  type DeniedCode,
  type FoundProof,
  type KnownValid,
  NO_CHANCE,
  type OpenCode,
} from '../../../src/codes/ledger.js';

export interface Row {
  readonly position: number;
  readonly code: string;
  readonly forms: readonly string[];
  verdict: CodeResult['verdict'];
  reason: string | null;
  attempts: number;
  denied: DeniedCode | null;
}

interface Known {
  readonly code: string;
  foundAt: number;
  isLive: boolean;
  isValid: boolean;
}

/** What the ledger in PostgreSQL does, as a model: the plan is tested over it. */
export class ModelLedger {
  readonly rows: Row[];
  readonly known: Known[];
  chance: Chance = NO_CHANCE;
  sellerChance: Chance;
  foundEver: number;
  readonly #beganAt: number;

  constructor(
    codes: readonly (readonly string[])[],
    known: readonly Known[],
    now: number,
    before: { readonly chance?: Chance; readonly foundEver?: number } = {},
  ) {
    this.#beganAt = now;
    this.rows = codes.map((forms, position) => newRow(position, forms));
    this.known = [...known];
    this.sellerChance = before.chance ?? NO_CHANCE;
    this.foundEver = before.foundEver ?? known.length;
  }

  facts(): CheckFacts {
    const denied = this.#denied();
    const { chance, sellerChance, foundEver } = this;
    const open = this.#open().length;
    const deniedCodes = denied.slice(0, DENIED_PER_STEP);
    return { open, denied: denied.length, deniedCodes, chance, sellerChance, foundEver };
  }

  open(after: number, limit: number): readonly OpenCode[] {
    return this.#open()
      .filter(({ position }) => position > after)
      .slice(0, limit);
  }

  knownValid(): readonly KnownValid[] {
    const denied = new Set(this.#denied().map(({ form }) => form));
    return this.known
      .filter(({ isValid }) => isValid)
      .map(({ code, foundAt, isLive }) => ({
        codeId: code,
        form: code,
        foundAt,
        isLive,
        isUsed: foundAt >= this.#beganAt,
        isDenied: denied.has(code),
      }));
  }

  proven(found: readonly FoundProof[]): void {
    for (const { codeId, at } of found) {
      const known = this.known.find(({ code }) => code === codeId);
      if (known !== undefined) known.foundAt = at;
    }
  }

  record(results: readonly CodeResult[]): void {
    for (const result of results) {
      const row = this.#rowOf(result);
      if (row === null || row.verdict !== null) continue;
      this.#apply(row, result);
    }
  }

  giveUp(reason: string): void {
    for (const row of this.rows) {
      if (row.verdict !== null) continue;
      row.verdict = 'unproven';
      row.reason = reason;
    }
  }

  #rowOf({ of }: CodeResult): Row | null {
    if ('position' in of) {
      const listed = this.rows[of.position];
      return listed ?? this.rows.find(({ position }) => position === of.position) ?? null;
    }
    const open = this.rows.find(({ code, verdict }) => code === of.codeId && verdict === null);
    if (open !== undefined) return open.denied === null ? open : null;
    const lowest = Math.min(0, ...this.rows.map(({ position }) => position));
    const row = newRow(lowest - 1, [of.codeId]);
    this.rows.push(row);
    return row;
  }

  #apply(row: Row, { check, form, verdict, reason, adds, chance }: CodeResult): void {
    row.verdict = verdict;
    row.reason = reason;
    row.attempts += adds.attempts;
    this.chance = addChance(this.chance, chance);
    this.sellerChance = addChance(this.sellerChance, chance);
    if (check === null) return this.#noteVerdict(row, verdict, 0);
    const { denied } = row;
    const isDenial = check.reason === 'denied' || adds.rounds > 0;
    if (isDenial && form !== null) {
      row.denied = {
        position: row.position,
        form,
        firstDeniedAt: denied?.firstDeniedAt ?? check.at,
        askedAt: check.at,
        counted: (denied?.counted ?? 0) + adds.counted,
        rounds: (denied?.rounds ?? 0) + adds.rounds,
        uncounted: (denied?.uncounted ?? 0) + adds.uncounted,
      };
    }
    this.#noteVerdict(row, verdict, check.at, form ?? row.code);
  }

  #noteVerdict(row: Row, verdict: Row['verdict'], at: number, form = row.code): void {
    if (verdict !== 'valid' && verdict !== 'invalid') return;
    const known = this.known.find(({ code }) => code === form || code === row.code);
    if (verdict === 'invalid') {
      if (known !== undefined) known.isValid = false;
      return;
    }
    if (known === undefined) {
      this.known.push({ code: form, foundAt: at, isLive: true, isValid: true });
      this.foundEver++;
    } else {
      known.foundAt = at;
      known.isValid = true;
    }
  }

  #open(): readonly Row[] {
    return this.rows.filter(({ verdict, denied }) => verdict === null && denied === null);
  }

  #denied(): readonly DeniedCode[] {
    return this.rows
      .flatMap(({ verdict, denied }) => (verdict === null && denied !== null ? [denied] : []))
      .sort((a, b) => Number(a.position >= 0) - Number(b.position >= 0) || a.askedAt - b.askedAt);
  }
}

function newRow(position: number, forms: readonly string[]): Row {
  const [code = ''] = forms;
  return { position, code, forms, verdict: null, reason: null, attempts: 0, denied: null };
}
