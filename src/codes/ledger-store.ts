import { setImmediate as turn } from 'node:timers/promises';
import type { PoolClient } from 'pg';
import type { Json } from '../domain/item.js';
import { isObject } from '../domain/values.js';
import { inTransaction, type Db } from '../db/db.js';
import { readCanaries, KNOWN, mergeSpellings } from './codes-store.js';
import { LONGEST_TEXT, storable, storableJsonText } from '../db/stored-text.js';
import {
  updateKnownCode,
  type KnownCode,
  type KnownCodeUpdate,
  type KnownPurchase,
} from './known-code.js';
import type { CodeResult, DeniedCode, Ledger, LedgerCounts, OpenCode } from './ledger.js';
import { foundForm } from './evidence.js';
import type { Verdict } from './rules.js';
import type { AuditState } from './types.js';

export interface StoredLedgerOptions {
  readonly auditId: bigint;
  readonly sellerId: string;
  /** A code that the user says is valid. */
  readonly knownValid: string | null;
  /** HTTP requests made so far; the audit counts them. */
  readonly callCount: () => number;
  /** Called with each verdict that is recorded. */
  readonly onVerdict?: ((verdict: Verdict) => void) | undefined;
}

/** The state of an audit in PostgreSQL. */
export class StoredLedger implements Ledger {
  readonly #db: Db;
  readonly #options: StoredLedgerOptions;
  readonly #ended = new AbortController();
  #countedCalls: number;
  /** Of the audit, at the last write. */
  state: AuditState = 'running';
  /** Calls made for the audit by all processes, at the last write. */
  totalCalls = 0;
  /** The first denial that made a valid code invalid here, milliseconds since 1970; null: none did. */
  revokedSince: number | null = null;

  constructor(db: Db, options: StoredLedgerOptions) {
    this.#db = db;
    this.#options = options;
    this.#countedCalls = options.callCount();
  }

  /** Aborted once a write finds that the audit is no longer running. */
  get ended(): AbortSignal {
    return this.#ended.signal;
  }

  async open(after: number, limit: number): Promise<readonly OpenCode[]> {
    const { rows } = await this.#db.pool.query<OpenCode>(OPEN, [
      this.#options.auditId,
      after,
      limit,
    ]);
    return rows;
  }

  async denied(below: number, limit: number, from = 0): Promise<readonly DeniedCode[]> {
    const most = Math.min(below, 1_000_000);
    const values = [this.#options.auditId, most, limit, from];
    const { rows } = await this.#db.pool.query<DeniedCode>(DENIED, values);
    return rows;
  }

  /** Records results, with the calls made since the last write, in one transaction. */
  async record(results: readonly CodeResult[]): Promise<void> {
    const { auditId, callCount, onVerdict } = this.#options;
    const calls = callCount();
    const newCalls = calls - this.#countedCalls;
    const verdicts: Verdict[] = [];
    let revokedAt = Infinity;
    const found: bigint[] = [];
    const written = await inTransaction(
      this.#db,
      async (client) => {
        const codes = await lockCodes(
          client,
          auditId,
          await withPositions(client, auditId, results),
        );
        for (const code of codes) {
          applyResult(code);
          if (code.after.verdict === 'valid') found.push(code.before.code_id);
          if (code.after.verdict !== null) verdicts.push(code.after.verdict);
          const { update } = code.after;
          if (update?.transitions.some(({ kind }) => kind === 'became-invalid')) {
            revokedAt = Math.min(revokedAt, update.known.checkedAt);
          }
        }
        if (codes.length > 0) await writeRows(client, auditId, codes);
        return updateCounts(client, auditId, codes, newCalls);
      },
      INDEX_SCANS_ONLY,
    );
    if (found.length > 0) await mergeSpellings(this.#db, this.#options.sellerId, found);
    this.#countedCalls = calls;
    this.state = written.state;
    this.totalCalls = written.totalCalls;
    if (revokedAt !== Infinity) {
      this.revokedSince = Math.min(this.revokedSince ?? Infinity, revokedAt);
    }
    for (const verdict of verdicts) onVerdict?.(verdict);
    if (this.state !== 'running') this.#ended.abort(new Error('the audit has ended'));
  }

  async counts(): Promise<LedgerCounts> {
    const { rows } = await this.#db.pool.query<LedgerCounts & { state: AuditState }>(COUNTS, [
      this.#options.auditId,
    ]);
    const { state, ...counts } = rows[0] ?? NO_CODES;
    this.state = state;
    return counts;
  }

  async knownValid(limit: number): Promise<readonly string[]> {
    const { knownValid, sellerId } = this.#options;
    const known = await readCanaries(this.#db, sellerId, limit);
    return [
      ...(knownValid === null ? [] : [knownValid]),
      ...known.filter((code) => code !== knownValid),
    ];
  }
}

const NO_CODES = { open: 0, denied: 0, valid: 0, overturned: 0, state: 'cancelled' as const };

/** Forces index scans. Without statistics of a new list the planner would read all codes for every few results. */
const INDEX_SCANS_ONLY = 'SET LOCAL enable_seqscan = off';

const COLUMNS = `
  a.position, p.code, CASE WHEN p.last_checked_at IS NOT NULL THEN p.verdict END AS known, a.attempts`;

/** A prepared statement. For few results, parsing and planning takes longer than running it. */
function named(name: string, text: string): { readonly name: string; readonly text: string } {
  return { name: `audits-${name}`, text };
}

const OPEN = `
  SELECT ${COLUMNS}
    FROM mirror.audit_codes a JOIN mirror.purchase_codes p ON p.code_id = a.code_id
   WHERE a.audit_id = $1 AND a.position > $2 AND a.position >= 0
     AND a.verdict IS NULL AND a.denied_at IS NULL
   ORDER BY a.position LIMIT $3`;

const DENIED = `
  SELECT ${COLUMNS}, a.counted, floor(extract(epoch FROM a.denied_at) * 1000)::float8 AS "deniedAt"
    FROM mirror.audit_codes a JOIN mirror.purchase_codes p ON p.code_id = a.code_id
   WHERE a.audit_id = $1 AND a.verdict IS NULL AND a.denied_at IS NOT NULL
     AND a.counted < $2 AND a.counted >= $4
   ORDER BY a.counted, random() LIMIT $3`;

/** Denied canaries of an audit that have no verdict yet. */
const OPEN_CANARIES = `
  SELECT FROM mirror.audit_codes WHERE audit_id = $1 AND position < 0 AND verdict IS NULL`;

const COUNTS = `
  SELECT state, pending - denied AS open, valid, overturned,
         denied + (SELECT count(*) FROM (${OPEN_CANARIES}) c)::int AS denied
    FROM mirror.audits WHERE audit_id = $1`;

type PlacedResult = CodeResult & { readonly position: number };

/**
 * Gives denied canaries a negative position in the audit, so that they are checked like its codes. Drops those that
 * the audit checks already, and codes that were never proven to be valid.
 */
async function withPositions(
  client: PoolClient,
  auditId: bigint,
  results: readonly CodeResult[],
): Promise<readonly PlacedResult[]> {
  const placed: PlacedResult[] = [];
  const canaries = new Map<string, CodeResult>();
  for (const result of results) {
    if (result.position === null) canaries.set(result.code, result);
    else placed.push({ ...result, position: result.position });
  }
  if (canaries.size === 0) return placed;
  const { rows } = await client.query<{ position: number; code: string }>(
    `WITH audit AS (
       SELECT audit_id, seller_id FROM mirror.audits WHERE audit_id = $1 FOR UPDATE
     ), denied AS (
       INSERT INTO mirror.audit_codes (audit_id, position, seller_id, code_id, reused)
       SELECT a.audit_id,
              (SELECT least(min(position), 0) FROM mirror.audit_codes WHERE audit_id = $1 AND position < 0)
                - row_number() OVER (ORDER BY p.code_id),
              a.seller_id, p.code_id, false
         FROM audit a JOIN mirror.purchase_codes p ON p.seller_id = a.seller_id
              AND (p.code = ANY($2::text[]) OR p.answered_code = ANY($2::text[]) AND p.answered_code <> p.code)
        WHERE p.verdict = 'valid'
          AND NOT EXISTS (SELECT FROM mirror.audit_codes c
                           WHERE c.audit_id = $1 AND c.verdict IS NULL AND c.code_id = p.code_id)
       RETURNING position, code_id
     )
     SELECT d.position, coalesce(p.found_form, p.code) AS code FROM denied d JOIN mirror.purchase_codes p USING (code_id)`,
    [auditId, [...canaries.keys()]],
  );
  const added = rows.flatMap(({ position, code }): PlacedResult[] => {
    const result = canaries.get(code);
    return result === undefined ? [] : [{ ...result, position }];
  });
  return [...placed, ...added];
}

interface LockedRow {
  readonly position: number;
  readonly code_id: bigint;
  readonly settled: boolean;
  readonly attempts: number;
  readonly counted: number;
  readonly is_denied: boolean;
  readonly known: KnownCode | null;
  /** Its last check in this audit: time in milliseconds since 1970, and proof. */
  readonly last_at: number | null;
  readonly last_proof: string | null;
  /** Physical row locations (ctid), which are stable while the rows are locked. */
  readonly audit_code_place: string;
  readonly code_place: string;
}

/** A locked code of an audit, its result, and how that changes it. */
interface LockedCode {
  readonly before: LockedRow;
  readonly result: PlacedResult;
  readonly after: {
    verdict: Verdict | null;
    attempts: number;
    counted: number;
    deniedAt: Date | null;
    /** The new known state of the code, or null if it doesn't change. */
    update: (KnownCodeUpdate & { readonly known: KnownCode }) | null;
  };
}

/**
 * Locks both rows of each code, since two processes may record results of one audit. A fixed order avoids deadlocks
 * between audits that share codes. The range of positions is redundant, but without statistics the planner would
 * otherwise read all codes of the audit.
 */
const LOCK = named(
  'lock',
  `
  SELECT a.position, a.code_id, a.verdict IS NOT NULL AS settled, a.attempts, a.counted,
         a.denied_at IS NOT NULL AS is_denied, ${KNOWN} AS known,
         floor(extract(epoch FROM k.checked_at) * 1000)::float8 AS last_at, k.proof AS last_proof,
         a.ctid AS audit_code_place, p.ctid AS code_place
    FROM mirror.audit_codes a JOIN mirror.purchase_codes p ON p.code_id = a.code_id
    LEFT JOIN mirror.code_checks k ON k.check_id = a.check_id
   WHERE a.audit_id = $1 AND a.position = ANY($2::int[]) AND a.position BETWEEN $3 AND $4
   ORDER BY p.code_id FOR NO KEY UPDATE OF p, a`,
);

/** Locks the codes of results. Leaves out those that have a verdict. */
async function lockCodes(
  client: PoolClient,
  auditId: bigint,
  results: readonly PlacedResult[],
): Promise<readonly LockedCode[]> {
  if (results.length === 0) return [];
  const byPosition = new Map(results.map((result) => [result.position, result]));
  const positions = [...byPosition.keys()].sort((a, b) => a - b);
  const range = [positions[0], positions.at(-1)];
  const { rows } = await client.query<LockedRow>(LOCK, [auditId, positions, ...range]);
  return rows.flatMap((before): LockedCode[] => {
    const result = byPosition.get(before.position);
    if (result === undefined || before.settled) return [];
    const after = { verdict: null, attempts: 0, counted: 0, deniedAt: null, update: null };
    return [{ before, result, after }];
  });
}

/** Derives what a result changes. A code changes its verdict here, whatever the path. */
function applyResult({ before, result, after }: LockedCode): void {
  const { check, verdict } = result;
  after.verdict =
    verdict === 'invalid' && (before.known?.purchase ?? null) !== null
      ? 'no_longer_valid'
      : verdict;
  if (check?.outcome === 'unanswered') after.attempts = 1;
  if (check?.outcome === 'denied') {
    after.deniedAt = new Date(check.at);
    after.counted = Number(check.proven !== null);
  }
  const at = check?.at ?? before.last_at ?? 0;
  const finding =
    verdict === 'valid' && check?.answer !== undefined && check.answer !== null
      ? ({ verdict, purchase: { value: check.answer.value, raw: check.answer.raw } } as const)
      : ({ verdict: verdict === 'invalid' ? 'invalid' : 'unproven' } as const);
  const { known, transitions } = updateKnownCode(before.known, finding, at);
  if (known !== null && known !== before.known) after.update = { known, transitions };
}

/**
 * Writes everything except the counts. Check ids are drawn under the locks, so they ascend for each code. Rows are
 * fetched by ctid. `+ 0` keeps the planner from using an index instead: it plans once, while the tables are small, when
 * reading a whole index looks cheap.
 *
 * The last check of a denied code stays the one that counts. An invalid code that is denied again keeps its proof.
 */
const WRITE = named(
  'write',
  `
  WITH incoming AS MATERIALIZED (
    SELECT c.*, CASE WHEN c.reason IS NOT NULL THEN nextval('mirror.code_checks_check_id_seq') END AS check_id
      FROM json_to_recordset($2) AS c (
        code_id bigint, checked_at timestamptz, verdict mirror.code_verdict, reason text, proof text,
        http_status int, message text, raw_hash bytea,
        proven_before timestamptz, proven_after timestamptz,
        audit_code_place tid, position int, settled mirror.code_verdict, attempts int, counted int,
        denied_at timestamptz, keeps_check boolean,
        code_place tid, turned boolean, keeps_proof boolean, answered boolean, raw jsonb, transitions json,
        known mirror.code_verdict, proven_by text, proven_at timestamptz,
        answered_code text, found_form text, license_type text, price numeric, currency text,
        item_id bigint, item_name text, item_url text, item_preview_url text, item_full boolean,
        supported_until timestamptz, downloaded boolean, purchased_at timestamptz)
  ), checks AS (
    INSERT INTO mirror.code_checks (check_id, seller_id, code_id, audit_id, checked_at, verdict,
                                    reason, proof, http_status, message, raw_hash,
                                    proven_before, proven_after)
    SELECT i.check_id, a.seller_id, i.code_id, a.audit_id, i.checked_at, i.verdict, i.reason, i.proof,
           i.http_status, i.message, i.raw_hash, i.proven_before, i.proven_after
      FROM incoming i JOIN mirror.audits a ON a.audit_id = $1 WHERE i.check_id IS NOT NULL
  ), audit_codes AS (
    UPDATE mirror.audit_codes c
       SET verdict = i.settled, attempts = c.attempts + i.attempts, counted = c.counted + i.counted,
           check_id = CASE WHEN i.keeps_check THEN c.check_id ELSE coalesce(i.check_id, c.check_id) END,
           denied_at = coalesce(i.denied_at, c.denied_at),
           first_denied_at = coalesce(c.first_denied_at, i.denied_at)
      FROM incoming i
     WHERE c.ctid = i.audit_code_place AND c.audit_id + 0 = $1 AND c.position = i.position
    RETURNING c.code_id, c.check_id
  ), codes AS (
    UPDATE mirror.purchase_codes p
       SET verdict = i.known, last_checked_at = i.proven_at,
           proof = CASE WHEN i.keeps_proof THEN p.proof ELSE i.proven_by END,
           last_check_id = CASE WHEN i.keeps_proof THEN p.last_check_id ELSE c.check_id END,
           changed_seq = nextval('mirror.item_changes_seq_seq'),
           verdict_since = CASE WHEN i.turned THEN i.proven_at ELSE p.verdict_since END,
           first_checked_at = coalesce(p.first_checked_at, i.proven_at),
           found_at = CASE WHEN i.answered THEN i.proven_at ELSE p.found_at END,
           found_form = CASE WHEN i.answered THEN i.found_form ELSE p.found_form END,
           purchase_seen_at = CASE WHEN i.answered THEN i.proven_at ELSE p.purchase_seen_at END,
           raw = CASE WHEN i.answered THEN i.raw ELSE p.raw END,
           answered_code = i.answered_code, license_type = i.license_type, price = i.price,
           currency = i.currency, item_id = i.item_id, item_name = i.item_name, item_url = i.item_url,
           item_preview_url = i.item_preview_url, item_full = coalesce(i.item_full, false),
           supported_until = i.supported_until, downloaded = i.downloaded,
           purchased_at = i.purchased_at
      FROM incoming i JOIN audit_codes c USING (code_id)
     WHERE p.ctid = i.code_place AND p.code_id + 0 = i.code_id
    RETURNING 1
  ), transitions AS (
    INSERT INTO mirror.code_transitions (seller_id, code_id, check_id, happened_at, kind, old_value, new_value)
    SELECT a.seller_id, i.code_id, c.check_id, i.proven_at, f.kind, f.old_value, f.new_value
      FROM incoming i JOIN mirror.audits a ON a.audit_id = $1 JOIN audit_codes c USING (code_id)
     CROSS JOIN LATERAL ROWS FROM (
       json_to_recordset(i.transitions) AS (kind text, "from" text, "to" text)
     ) WITH ORDINALITY AS f (kind, old_value, new_value, turn)
     ORDER BY c.check_id, f.turn
  )
  SELECT (SELECT count(*) FROM codes)::int AS codes, (SELECT count(*) FROM audit_codes)::int AS "auditCodes"`,
);

/** Rows serialized before other events get a turn. */
const ROWS_PER_TURN = 16;

async function writeRows(
  client: PoolClient,
  auditId: bigint,
  codes: readonly LockedCode[],
): Promise<void> {
  const rows: string[] = [];
  for (const code of codes) {
    rows.push(jsonRow(code));
    // Let the process read marketplace replies in between.
    if (rows.length % ROWS_PER_TURN === 0) await turn();
  }
  const written = await client.query<{ codes: number; auditCodes: number }>(WRITE, [
    auditId,
    `[${rows.join()}]`,
  ]);
  const updates = codes.filter(({ after }) => after.update !== null).length;
  const { codes: updated = 0, auditCodes = 0 } = written.rows[0] ?? {};
  if (updated !== updates || auditCodes !== codes.length) {
    throw new Error(`audit ${auditId}: locked rows have moved`);
  }
}

/** A result as JSON text. Omits members without a value and nests nothing: PostgreSQL reads such rows faster. */
function jsonRow(code: LockedCode): string {
  const { before, result, after } = code;
  const row = JSON.stringify({
    code_id: String(before.code_id),
    ...checkColumns(code),
    audit_code_place: before.audit_code_place,
    position: before.position,
    settled: after.verdict ?? undefined,
    attempts: after.attempts,
    counted: after.counted,
    denied_at: after.deniedAt ?? undefined,
    keeps_check: before.counted > 0 && after.verdict !== 'valid' && after.counted === 0,
    ...(after.update === null ? null : codeColumns(code, after.update)),
  });
  const raw = result.check?.answer?.raw;
  if (raw === undefined || after.update === null) return row;
  const json = storableJsonText(withoutItem(raw, after.update.known.purchase));
  return json === null ? row : `${row.slice(0, -1)},"raw":${json}}`;
}

/** New row of `code_checks`; none if the verdict rests on earlier checks. */
function checkColumns({ result: { check }, after }: LockedCode) {
  if (check === null) return null;
  const { at, reason, httpStatus, message, answer, proven } = check;
  return {
    checked_at: new Date(at),
    verdict: after.verdict ?? 'unproven',
    reason: storable(reason, LONGEST_TEXT),
    proof: answer !== null ? 'purchase' : (proven?.by ?? 'none'),
    http_status: httpStatus ?? undefined,
    message: message === null ? undefined : storable(message, LONGEST_TEXT),
    raw_hash: answer === null ? undefined : `\\x${answer.sha256}`,
    proven_before: proven === null ? undefined : new Date(proven.before),
    proven_after: proven === null ? undefined : new Date(proven.after),
  };
}

/** New values of the code's row in `purchase_codes`. */
function codeColumns(
  { before, result }: LockedCode,
  {
    known: { verdict, purchase, checkedAt },
    transitions,
  }: NonNullable<LockedCode['after']['update']>,
) {
  const item = purchase?.item ?? null;
  const answered = (result.check?.answer ?? null) !== null;
  return {
    code_place: before.code_place,
    known: verdict,
    proven_at: new Date(checkedAt),
    proven_by: answered ? 'purchase' : (before.last_proof ?? 'none'),
    turned: before.known?.verdict !== verdict,
    // Denied once more, without a proof of its own.
    keeps_proof: verdict !== 'valid' && before.known?.verdict === verdict && result.check !== null,
    answered,
    transitions: transitions.length === 0 ? undefined : transitions,
    answered_code: purchase?.purchaseCode ?? undefined,
    found_form: foundForm({ code: result.code, verdict: 'valid', purchase }) ?? undefined,
    license_type: purchase?.licenseType ?? undefined,
    price: purchase?.price ?? undefined,
    currency: purchase?.currency ?? undefined,
    item_id: item?.id ?? undefined,
    item_name: item?.name ?? undefined,
    item_url: item?.url ?? undefined,
    item_preview_url: item?.previewImageUrl ?? undefined,
    item_full: item?.full,
    supported_until: purchase?.supportedUntil ?? undefined,
    downloaded: purchase?.downloaded ?? undefined,
    purchased_at: purchase?.purchasedAt ?? undefined,
  };
}

/** Drops the item from an answer if its id identifies it in the mirror: a million purchases share few items. */
function withoutItem(raw: Json, purchase: KnownPurchase | null): Json {
  if (!isObject(raw) || (purchase?.item?.id ?? null) === null) return raw;
  const { item: _, ...rest } = raw;
  return rest;
}

/** Updates the audit's row last, since all writers of this audit wait for its lock. */
const COUNT = named(
  'count',
  `
  UPDATE mirror.audits
     SET valid = valid + $2, invalid = invalid + $3, unproven = unproven + $4,
         no_longer_valid = no_longer_valid + $9, pending = pending - $2 - $3 - $4 - $9, api_calls = api_calls + $5,
         denied = denied + $6, confirmed = confirmed + $7, overturned = overturned + $8,
         state = CASE WHEN state = 'running' AND pending = $2 + $3 + $4 + $9 AND NOT EXISTS (${OPEN_CANARIES})
                      THEN 'finished' ELSE state END,
         finished_at = CASE WHEN state = 'running' AND pending = $2 + $3 + $4 + $9 AND NOT EXISTS (${OPEN_CANARIES})
                            THEN clock_timestamp() ELSE finished_at END
   WHERE audit_id = $1
  RETURNING state, api_calls AS "totalCalls"`,
);

interface Written {
  readonly state: AuditState;
  readonly totalCalls: number;
}

async function updateCounts(
  client: PoolClient,
  auditId: bigint,
  codes: readonly LockedCode[],
  apiCalls: number,
): Promise<Written> {
  const verdicts = { valid: 0, invalid: 0, no_longer_valid: 0, unproven: 0 };
  const counts = { denied: 0, confirmed: 0, overturned: 0 };
  for (const { before, after } of codes) {
    if (before.is_denied && after.verdict === 'valid') counts.overturned++;
    // Denied canaries are no codes of the list.
    if (before.position < 0) continue;
    if (after.verdict !== null) verdicts[after.verdict]++;
    const isDenied = after.verdict === null && (before.is_denied || after.deniedAt !== null);
    counts.denied += Number(isDenied) - Number(before.is_denied);
    counts.confirmed += (isDenied ? before.counted + after.counted : 0) - before.counted;
  }
  const { valid, invalid, no_longer_valid: gone, unproven } = verdicts;
  const { denied, confirmed, overturned } = counts;
  const values = [auditId, valid, invalid, unproven, apiCalls, denied, confirmed, overturned, gone];
  const { rows } = await client.query<Written>(COUNT, values);
  if (rows[0] === undefined) throw new Error(`there is no audit ${auditId}`);
  return rows[0];
}
