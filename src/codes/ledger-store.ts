/**
 * The ledger of a check in PostgreSQL: what was asked and answered, what follows for the check and for each code. It is the
 * only record of a check: a process that is killed loses the answers of the last moment, and nothing else.
 */

import type { Db } from '../db/db.js';
import { LATEST_BELIEVED } from '../db/moments.js';
import { formsOf } from '../marketplace/code.js';
import { MS } from './codes-store.js';
import type { UnprovenReason } from './evidence.js';
import { DENIED_PER_STEP } from './plan.js';
import { recordResults, UNLISTED } from './record-store.js';
import { faded, type Verdict, type Chance } from './rules.js';
import { FOUND_EVER } from './situation-store.js';
import type { AuditState } from './types.js';
import {
  type CheckFacts,
  type CodeResult,
  type DeniedCode,
  type FoundProof,
  NO_CHANCE,
  type OpenCode,
  resultOf,
} from './ledger.js';
import { FRESH_MEMORY, type Memory, pastOf } from './situation.js';

export interface LedgerOptions {
  readonly auditId: bigint;
  readonly sellerId: string;
  /** HTTP requests made so far; the check counts them. */
  readonly callCount: () => number;
  /** Called with each verdict that is recorded. */
  readonly onVerdict?: ((verdict: Verdict) => void) | undefined;
}

export class Ledger {
  readonly #db: Db;
  readonly #options: LedgerOptions;
  readonly #ended = new AbortController();
  #countedCalls: number;
  /** Which of its forms the code had that was found last: most codes of a list are dressed alike. */
  #usualForm = 0;
  /** Of the check, at the last look or write. */
  state: AuditState = 'running';
  /** Calls made for the check by all processes, at the last write. */
  totalCalls = 0;

  constructor(db: Db, options: LedgerOptions) {
    this.#db = db;
    this.#options = options;
    this.#countedCalls = options.callCount();
  }

  /** Aborted once the check is found to run no longer: somebody cancelled it. */
  get ended(): AbortSignal {
    return this.#ended.signal;
  }

  /**
   * Moments more than a minute ahead were recorded while a clock was wrong. A denial was made by now at the latest, so the
   * code waits from now on; a verdict from the future would stay until then, whatever the marketplace says.
   */
  async forgetFuture(): Promise<void> {
    const { auditId, sellerId } = this.#options;
    await this.#db.pool.query(
      `UPDATE mirror.audit_codes
          SET first_denied_at = least(first_denied_at, now()), denied_at = least(denied_at, now()),
              asked_at = least(asked_at, now())
        WHERE audit_id = $1 AND verdict IS NULL AND denied_at IS NOT NULL
          AND greatest(first_denied_at, denied_at, asked_at) > ${LATEST_BELIEVED}`,
      [auditId],
    );
    await this.#db.pool.query(
      `UPDATE mirror.purchase_codes
          SET last_checked_at = now(), found_at = least(found_at, now()),
              purchase_seen_at = least(purchase_seen_at, now()), verdict_since = least(verdict_since, now())
        WHERE seller_id = $1 AND verdict IS NOT NULL AND last_checked_at > ${LATEST_BELIEVED}`,
      [sellerId],
    );
  }

  async facts(): Promise<CheckFacts> {
    const { auditId } = this.#options;
    const { rows } = await this.#db.pool.query<FactsRow>(FACTS, [auditId, DENIED_PER_STEP]);
    const row = rows[0];
    if (row === undefined) throw new Error(`there is no audit ${auditId}`);
    const { open, denied, calls, missed, seller, foundEver, deniedCodes } = row;
    this.#note(row.state);
    return {
      open,
      denied,
      deniedCodes,
      chance: { calls, denied: missed },
      sellerChance: seller === null ? NO_CHANCE : faded(seller, this.#db.clock.now() - seller.asOf),
      foundEver,
    };
  }

  /** The next codes after this position that were not answered yet, in list order. */
  async open(after: number, limit: number): Promise<readonly OpenCode[]> {
    const values = [this.#options.auditId, after, limit];
    const { rows } = await this.#db.pool.query<OpenRow>(OPEN, values);
    return rows.map(({ position, attempts, listed, found }) => {
      const forms = this.#inOrder(formsOf(listed));
      return {
        position,
        attempts,
        forms: [...new Set(found === null ? forms : [found, ...forms])],
      };
    });
  }

  /** Records results with the calls made since the last write. */
  async record(results: readonly CodeResult[]): Promise<void> {
    const { callCount, onVerdict } = this.#options;
    const calls = callCount();
    const newCalls = calls - this.#countedCalls;
    const { state, totalCalls, settled } = await recordResults(
      this.#db,
      this.#options,
      results,
      newCalls,
    );
    this.#countedCalls = calls;
    this.totalCalls = totalCalls;
    for (const { listed, form, verdict } of settled) {
      if (verdict === 'valid') this.#noteForm(listed, form);
      onVerdict?.(verdict);
    }
    this.#note(state);
  }

  /** Notes that known-valid codes were found as proofs of the key. */
  async proven(found: readonly FoundProof[]): Promise<void> {
    await this.#db.pool.query(
      `UPDATE mirror.purchase_codes p SET found_at = f.at
         FROM unnest($1::bigint[], $2::timestamptz[]) AS f (code_id, at)
        WHERE p.code_id = f.code_id AND coalesce(p.found_at < f.at, true)`,
      [found.map(({ codeId }) => codeId), found.map(({ at }) => new Date(at))],
    );
  }

  /** Every code without a verdict becomes unproven. @param reasonOf a code, from the reason of its last check */
  async giveUp(reasonOf: (last: string | null) => UnprovenReason): Promise<void> {
    for (;;) {
      const { rows } = await this.#db.pool.query<{ position: number; last: string | null }>(
        `SELECT c.position, k.reason AS last
           FROM mirror.audit_codes c LEFT JOIN mirror.code_checks k ON k.check_id = c.check_id
          WHERE c.audit_id = $1 AND c.verdict IS NULL ORDER BY c.position LIMIT $2`,
        [this.#options.auditId, GIVEN_UP_AT_A_TIME],
      );
      if (rows.length === 0) return;
      await this.record(
        rows.map(({ position, last }) =>
          resultOf({ position }, { verdict: 'unproven', reason: reasonOf(last) }),
        ),
      );
    }
  }

  async memory(): Promise<Memory> {
    const { rows } = await this.#db.pool.query<{ memory: Partial<Memory> | null }>(
      'SELECT memory FROM mirror.audits WHERE audit_id = $1',
      [this.#options.auditId],
    );
    // An earlier version may have known less.
    return pastOf({ ...FRESH_MEMORY, ...rows[0]?.memory }, this.#db.clock.now());
  }

  async remember(memory: Memory): Promise<void> {
    await this.#db.pool.query('UPDATE mirror.audits SET memory = $2 WHERE audit_id = $1', [
      this.#options.auditId,
      JSON.stringify(memory),
    ]);
  }

  #note(state: AuditState): void {
    this.state = state;
    if (state !== 'running') this.#ended.abort(new Error('the audit has ended'));
  }

  #inOrder(forms: readonly string[]): readonly string[] {
    const usual = forms[this.#usualForm];
    return usual === undefined ? forms : [usual, ...forms];
  }

  #noteForm(listed: string, form: string | null): void {
    const at = form === null ? -1 : formsOf(listed).indexOf(form);
    if (at >= 0) this.#usualForm = at;
  }
}

/** Codes of a check that are given up in one transaction. */
const GIVEN_UP_AT_A_TIME = 2_000;

interface FactsRow extends Pick<CheckFacts, 'open' | 'denied' | 'foundEver'> {
  readonly state: AuditState;
  readonly calls: number;
  readonly missed: number;
  readonly seller: (Chance & { readonly asOf: number }) | null;
  readonly deniedCodes: readonly DeniedCode[];
}

/** The open denied codes of a check, those asked longest ago first. */
const DENIED = (where: string): string => `
  (SELECT c.position, coalesce(c.denied_form, c.spelling, p.code) AS form,
          ${MS('c.first_denied_at')} AS "firstDeniedAt", ${MS('c.asked_at')} AS "askedAt",
          c.counted, c.rounds, c.uncounted
     FROM mirror.audit_codes c JOIN mirror.purchase_codes p ON p.code_id = c.code_id
    WHERE c.audit_id = $1 AND c.verdict IS NULL AND c.denied_at IS NOT NULL AND ${where}
    ORDER BY c.asked_at LIMIT $2)`;

const FACTS = `
  SELECT a.state, a.pending - a.denied AS open, a.denied + (SELECT count(*) FROM (${UNLISTED}) u)::int AS denied,
         a.chance_calls AS calls, a.chance_denied AS missed,
         (SELECT json_build_object('calls', s.calls, 'denied', s.denied, 'asOf', ${MS('s.as_of')})
            FROM mirror.code_chances s WHERE s.seller_id = a.seller_id) AS seller,
         ${FOUND_EVER('a.seller_id')} AS "foundEver",
         (SELECT coalesce(json_agg(d), '[]')
            FROM (${DENIED('c.position < 0')} UNION ALL ${DENIED('c.position >= 0')}) d) AS "deniedCodes"
    FROM mirror.audits a WHERE a.audit_id = $1`;

interface OpenRow {
  readonly position: number;
  readonly attempts: number;
  /** As the list spells it. */
  readonly listed: string;
  /** As the marketplace found it last; null: it never did. */
  readonly found: string | null;
}

const OPEN = `
  SELECT a.position, a.attempts, coalesce(a.spelling, p.code) AS listed,
         CASE WHEN p.purchase_seen_at IS NOT NULL THEN coalesce(p.found_form, p.code) END AS found
    FROM mirror.audit_codes a JOIN mirror.purchase_codes p ON p.code_id = a.code_id
   WHERE a.audit_id = $1 AND a.position > $2 AND a.position >= 0
     AND a.verdict IS NULL AND a.denied_at IS NULL
   ORDER BY a.position LIMIT $3`;
