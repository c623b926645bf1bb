import type {
  CodeCheck,
  CodeResult,
  DeniedCode,
  Ledger,
  LedgerCounts,
  OpenCode,
} from './ledger.js';
import type { UnprovenReason } from './evidence.js';
import type { Verdict } from './rules.js';

interface Row {
  readonly position: number;
  readonly code: string;
  /** False for a known valid code that was denied as a proof. */
  readonly isListed: boolean;
  attempts: number;
  counted: number;
  /** Milliseconds since 1970; null: not denied. */
  deniedAt: number | null;
  last: CodeCheck | null;
}

/** A code with its verdict. */
export interface SettledCode {
  readonly code: string;
  readonly verdict: Verdict;
  readonly reason: 'answered' | 'denied' | UnprovenReason;
  /** The last check; null: the code was never sent. */
  readonly check: CodeCheck | null;
}

/**
 * Keeps the state of a list in memory. Codes are read from their source no faster than they are swept, and leave when
 * they are settled.
 */
export class MemoryLedger implements Ledger {
  readonly #source: AsyncIterator<string>;
  readonly #knownValid: readonly string[];
  readonly #onRecorded: (settled: readonly SettledCode[]) => Promise<void>;
  #settled: SettledCode[] = [];
  readonly #rows = new Map<number, Row>();
  #isRead = false;
  #read = 0;
  #extra = 0;
  #valid = 0;
  #overturned = 0;

  /**
   * @param source distinct codes
   * @param knownValid codes of the seller that are known to be valid
   * @param onRecorded called after each record; work goes on once it resolves
   */
  constructor(
    source: AsyncIterator<string>,
    knownValid: readonly string[],
    onRecorded: (settled: readonly SettledCode[]) => Promise<void>,
  ) {
    this.#source = source;
    this.#knownValid = knownValid;
    this.#onRecorded = onRecorded;
  }

  /** Codes that have no verdict, with their last check. */
  get left(): readonly { readonly code: string; readonly last: CodeCheck | null }[] {
    return [...this.#rows.values()].filter(({ isListed }) => isListed);
  }

  async open(after: number, limit: number): Promise<readonly OpenCode[]> {
    const open = [...this.#rows.values()].filter(
      ({ position, deniedAt }) => position > after && deniedAt === null,
    );
    while (open.length < limit && !this.#isRead) {
      const next = await this.#source.next();
      if (next.done === true) this.#isRead = true;
      else open.push(this.#add(this.#read++, next.value, true));
    }
    return open.slice(0, limit).map(openCode);
  }

  denied(below: number, limit: number, from = 0): Promise<readonly DeniedCode[]> {
    const denied = shuffle([...this.#rows.values()])
      .flatMap((row) => (row.deniedAt === null ? [] : [{ ...openCode(row), ...deniedPart(row) }]))
      .filter(({ counted }) => counted >= from && counted < below)
      .sort((a, b) => a.counted - b.counted);
    return Promise.resolve(denied.slice(0, limit));
  }

  record(results: readonly CodeResult[]): Promise<void> {
    for (const result of results) this.#record(result);
    return this.#onRecorded(this.#settled.splice(0));
  }

  counts(): Promise<LedgerCounts> {
    const rows = [...this.#rows.values()];
    const denied = rows.filter(({ deniedAt }) => deniedAt !== null).length;
    const open = rows.length - denied + Number(!this.#isRead);
    const [valid, overturned] = [this.#valid, this.#overturned];
    return Promise.resolve({ open, denied, valid, overturned });
  }

  knownValid(limit: number): Promise<readonly string[]> {
    return Promise.resolve(this.#knownValid.slice(0, limit));
  }

  #add(position: number, code: string, isListed: boolean): Row {
    const nothing = { attempts: 0, counted: 0, deniedAt: null, last: null };
    const row: Row = { position, code, isListed, ...nothing };
    this.#rows.set(position, row);
    return row;
  }

  #record({ position, code, check, verdict, reason }: CodeResult): void {
    const isKnown = [...(position === null ? this.#rows.values() : [])].some(
      (row) => row.code === code && row.deniedAt !== null,
    );
    if (isKnown) return;
    const row =
      position === null ? this.#add(-++this.#extra, code, false) : this.#rows.get(position);
    if (row === undefined) return;
    if (check !== null) {
      row.last = check;
      if (check.outcome === 'unanswered') row.attempts++;
      if (check.outcome === 'denied') {
        row.deniedAt = check.at;
        if (check.proven !== null) row.counted++;
      }
    }
    if (verdict === null) return;
    this.#rows.delete(row.position);
    if (verdict === 'valid') {
      if (row.deniedAt !== null) this.#overturned++;
      if (row.isListed) this.#valid++;
    }
    if (!row.isListed) return;
    const word = verdict === 'valid' ? 'answered' : verdict === 'invalid' ? 'denied' : reason;
    this.#settled.push({ code, verdict, reason: word ?? 'unconfirmed', check: row.last });
  }
}

function openCode({ position, code, attempts }: Row): OpenCode {
  return { position, code, known: null, attempts };
}

function deniedPart({ counted, deniedAt }: Row): Pick<DeniedCode, 'counted' | 'deniedAt'> {
  return { counted, deniedAt: deniedAt ?? 0 };
}

function shuffle<T>(values: T[]): T[] {
  for (let i = values.length - 1; i > 0; i--) {
    const j = Math.floor(Math.random() * (i + 1));
    [values[i], values[j]] = [values[j] as T, values[i] as T];
  }
  return values;
}
