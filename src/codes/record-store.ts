/**
 * Records the results of a check: its verdicts, the history of each code, and all counts, in one transaction. Everything
 * that changes a verdict is here.
 */

import { setImmediate as turn } from 'node:timers/promises';
import type { PoolClient } from 'pg';
import { inTransaction, type Db } from '../db/db.js';
import { LONGEST_TEXT, storable } from '../db/stored-text.js';
import { KNOWN, mergeSpellings, MS } from './codes-store.js';
import { updateKnownCode, type KnownCode, type KnownCodeUpdate } from './known-code.js';
import type { Chance, Verdict } from './rules.js';
import type { AuditState } from './types.js';
import { addChance, type CodeResult, NO_CHANCE } from './ledger.js';

/** A code that got its verdict. */
export interface Settled {
  /** As the list spells it, and as it was asked last. */
  readonly listed: string;
  readonly form: string | null;
  readonly verdict: Verdict;
}

export interface Recorded {
  readonly state: AuditState;
  /** Calls made for the check by all processes. */
  readonly totalCalls: number;
  readonly settled: readonly Settled[];
}

/** @param newCalls made for the check since the last write of this process */
export async function recordResults(
  db: Db,
  { auditId, sellerId }: { readonly auditId: bigint; readonly sellerId: string },
  results: readonly CodeResult[],
  newCalls: number,
): Promise<Recorded> {
  const now = new Date(db.clock.now());
  const { written, codes } = await inTransaction(
    db,
    async (client) => {
      const codes = await lockCodes(client, auditId, await place(client, auditId, results));
      codes.forEach(applyResult);
      if (codes.length > 0) await writeRows(client, auditId, codes);
      const chance = codes.reduce((sum, { result }) => addChance(sum, result.chance), NO_CHANCE);
      const written = await updateCounts(client, auditId, codes, chance, newCalls);
      await addToChance(client, sellerId, chance, now);
      return { written, codes };
    },
    INDEX_SCANS_ONLY,
  );
  const found = codes.filter(({ after }) => after.verdict === 'valid');
  const foundIds = found.map(({ before }) => before.code_id);
  await mergeSpellings(db, sellerId, foundIds);
  const settled = codes.flatMap(({ before, result, after }): Settled[] => {
    const { verdict } = after;
    return verdict === null ? [] : [{ listed: before.listed, form: result.form, verdict }];
  });
  return { ...written, settled };
}

/** Forces index scans. Without statistics of a new list the planner would read all codes for every few results. */
const INDEX_SCANS_ONLY = 'SET LOCAL enable_seqscan = off';

/** A prepared statement. For few results, parsing and planning takes longer than running it. */
function named(name: string, text: string): { readonly name: string; readonly text: string } {
  return { name: `audits-${name}`, text };
}

type PlacedResult = CodeResult & {
  readonly position: number;
  /** The code was denied as a proof although it is denied already: only its check is recorded. */
  readonly isRepeated: boolean;
};

/**
 * Finds the positions of known-valid codes that were denied as proofs, and gives those that the check does not have a
 * negative one, so that they are checked like its codes.
 */
async function place(
  client: PoolClient,
  auditId: bigint,
  results: readonly CodeResult[],
): Promise<readonly PlacedResult[]> {
  const placed: PlacedResult[] = [];
  const proofs = new Map<string, CodeResult>();
  for (const result of results) {
    if ('codeId' in result.of) proofs.set(result.of.codeId, result);
    else placed.push({ ...result, position: result.of.position, isRepeated: false });
  }
  if (proofs.size === 0) return placed;
  const { rows } = await client.query<{ position: number; codeId: string; isRepeated: boolean }>(
    `WITH audit AS MATERIALIZED (
       SELECT audit_id, seller_id FROM mirror.audits WHERE audit_id = $1 FOR UPDATE
     ), known AS MATERIALIZED (
       SELECT DISTINCT ON (c.code_id) c.position, c.code_id, c.denied_at IS NOT NULL AS repeated
         FROM audit a JOIN mirror.audit_codes c ON c.audit_id = a.audit_id
        WHERE c.code_id = ANY($2::bigint[]) AND c.verdict IS NULL ORDER BY c.code_id, c.position
     ), added AS (
       INSERT INTO mirror.audit_codes (audit_id, position, seller_id, code_id, reused)
       SELECT a.audit_id,
              (SELECT least(min(position), 0) FROM mirror.audit_codes WHERE audit_id = $1 AND position < 0)
                - row_number() OVER (ORDER BY p.code_id),
              a.seller_id, p.code_id, false
         FROM audit a JOIN mirror.purchase_codes p ON p.code_id = ANY($2::bigint[])
        WHERE NOT EXISTS (SELECT FROM known k WHERE k.code_id = p.code_id)
       RETURNING position, code_id
     )
     SELECT position, code_id::text AS "codeId", repeated AS "isRepeated" FROM known
     UNION ALL SELECT position, code_id::text, false FROM added`,
    [auditId, [...proofs.keys()]],
  );
  const found = rows.flatMap(({ position, codeId, isRepeated }): PlacedResult[] => {
    const result = proofs.get(codeId);
    return result === undefined ? [] : [{ ...result, position, isRepeated }];
  });
  return [...placed, ...found];
}

interface LockedRow {
  readonly position: number;
  readonly code_id: bigint;
  /** As the list spells it. */
  readonly listed: string;
  readonly settled: boolean;
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

/** A locked code of a check, its result, and how that changes it. */
interface LockedCode {
  readonly before: LockedRow;
  readonly result: PlacedResult;
  after: {
    verdict: Verdict | null;
    isDenied: boolean;
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
  SELECT a.position, a.code_id, coalesce(a.spelling, p.code) AS listed, a.verdict IS NOT NULL AS settled, a.counted,
         a.denied_at IS NOT NULL AS is_denied, ${KNOWN} AS known,
         ${MS('k.checked_at')} AS last_at, k.proof AS last_proof,
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
    return [{ before, result, after: { verdict: null, isDenied: before.is_denied, update: null } }];
  });
}

/** Derives what a result changes. A code changes its verdict here, whatever the path. */
function applyResult(code: LockedCode): void {
  const { before, result } = code;
  const { check, verdict } = result;
  const at = check?.at ?? before.last_at ?? 0;
  const finding =
    verdict === 'valid' && check !== null && check.answer !== null
      ? ({ verdict, purchase: check.answer } as const)
      : ({ verdict: verdict === 'invalid' ? 'invalid' : 'unproven' } as const);
  const { known, transitions } = updateKnownCode(before.known, finding, at);
  const wasBought = (before.known?.purchase ?? null) !== null;
  code.after = {
    verdict: verdict === 'invalid' && wasBought ? 'no_longer_valid' : verdict,
    isDenied: before.is_denied || check?.reason === 'denied',
    update: known === null || known === before.known ? null : { known, transitions },
  };
}

/**
 * Writes everything except the counts; the one statement that changes a verdict. Check ids are drawn under the locks, so
 * they ascend for each code. Rows are fetched by ctid. `+ 0` keeps the planner from using an index instead: it plans once,
 * while the tables are small, when reading a whole index looks cheap.
 *
 * The last check of a denied code stays the one that counts.
 */
const WRITE = named(
  'write',
  `
  WITH incoming AS MATERIALIZED (
    SELECT c.*, CASE WHEN c.checked_at IS NOT NULL THEN nextval('mirror.code_checks_check_id_seq') END AS check_id
      FROM json_to_recordset($2) AS c (
        code_id bigint, checked_at timestamptz, verdict mirror.code_verdict, reason text, proof text,
        http_status int, message text, raw_hash bytea, proven_before timestamptz, proven_after timestamptz,
        audit_code_place tid, position int, settled mirror.code_verdict, attempts int, counted int, rounds int,
        uncounted int, denied_at timestamptz, asked_at timestamptz, denied_form text, unproven text,
        keeps_check boolean,
        code_place tid, turned boolean, answered boolean, raw jsonb, transitions json,
        known mirror.code_verdict, proven_by text, proven_at timestamptz, found_form text,
        answered_code text, license_type text, price numeric, currency text,
        item_id bigint, item_name text, item_url text, item_preview_url text, item_full boolean,
        supported_until timestamptz, support_unreadable boolean, downloaded boolean, purchased_at timestamptz)
  ), checks AS (
    INSERT INTO mirror.code_checks (check_id, seller_id, code_id, audit_id, checked_at, verdict,
                                    reason, proof, http_status, message, raw_hash, proven_before, proven_after)
    SELECT i.check_id, a.seller_id, i.code_id, a.audit_id, i.checked_at, i.verdict, i.reason, i.proof,
           i.http_status, i.message, i.raw_hash, i.proven_before, i.proven_after
      FROM incoming i JOIN mirror.audits a ON a.audit_id = $1 WHERE i.check_id IS NOT NULL
  ), audit_codes AS (
    UPDATE mirror.audit_codes c
       SET verdict = i.settled, reason = i.unproven, attempts = c.attempts + i.attempts,
           counted = c.counted + i.counted, rounds = c.rounds + i.rounds, uncounted = c.uncounted + i.uncounted,
           check_id = CASE WHEN i.keeps_check THEN c.check_id ELSE coalesce(i.check_id, c.check_id) END,
           denied_at = coalesce(i.denied_at, c.denied_at),
           first_denied_at = coalesce(c.first_denied_at, i.denied_at),
           asked_at = coalesce(i.asked_at, c.asked_at), denied_form = coalesce(i.denied_form, c.denied_form)
      FROM incoming i
     WHERE c.ctid = i.audit_code_place AND c.audit_id + 0 = $1 AND c.position = i.position
    RETURNING c.position, c.check_id
  ), codes AS (
    UPDATE mirror.purchase_codes p
       SET verdict = i.known, last_checked_at = i.proven_at, proof = i.proven_by, last_check_id = c.check_id,
           changed_seq = nextval('mirror.item_changes_seq_seq'),
           verdict_since = CASE WHEN i.turned THEN i.proven_at ELSE p.verdict_since END,
           first_checked_at = coalesce(p.first_checked_at, i.proven_at),
           purchase_seen_at = CASE WHEN i.answered THEN i.proven_at ELSE p.purchase_seen_at END,
           found_at = CASE WHEN i.answered THEN i.proven_at ELSE p.found_at END,
           found_form = CASE WHEN NOT i.answered THEN p.found_form WHEN i.found_form <> p.code THEN i.found_form END,
           raw = CASE WHEN i.answered THEN i.raw ELSE p.raw END,
           answered_code = i.answered_code, license_type = i.license_type, price = i.price,
           currency = i.currency, item_id = i.item_id, item_name = i.item_name, item_url = i.item_url,
           item_preview_url = i.item_preview_url, item_full = coalesce(i.item_full, false),
           supported_until = i.supported_until, support_unreadable = coalesce(i.support_unreadable, false),
           downloaded = i.downloaded, purchased_at = i.purchased_at
      FROM incoming i JOIN audit_codes c USING (position)
     WHERE p.ctid = i.code_place AND p.code_id + 0 = i.code_id
    RETURNING 1
  ), transitions AS (
    INSERT INTO mirror.code_transitions (seller_id, code_id, check_id, happened_at, kind, old_value, new_value)
    SELECT a.seller_id, i.code_id, c.check_id, i.proven_at, f.kind, f.old_value, f.new_value
      FROM incoming i JOIN mirror.audits a ON a.audit_id = $1 JOIN audit_codes c USING (position)
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
  // Two positions of a list may spell one code: its row is then updated once.
  const updates = new Set(
    codes.filter(({ after }) => after.update !== null).map(({ before }) => before.code_id),
  );
  const { codes: updated = 0, auditCodes = 0 } = written.rows[0] ?? {};
  if (updated !== updates.size || auditCodes !== codes.length) {
    throw new Error(`audit ${auditId}: locked rows have moved`);
  }
}

/** A result as JSON text. Omits members without a value and nests nothing: PostgreSQL reads such rows faster. */
function jsonRow(code: LockedCode): string {
  const { before, result, after } = code;
  const { check, adds, form, isRepeated } = result;
  const isDenial = check?.reason === 'denied' && !isRepeated;
  const isAsked = isDenial || adds.rounds > 0;
  const at = check === null ? undefined : new Date(check.at);
  const row = JSON.stringify({
    code_id: String(before.code_id),
    ...checkColumns(code),
    audit_code_place: before.audit_code_place,
    position: before.position,
    settled: after.verdict ?? undefined,
    unproven: after.verdict === 'unproven' ? (result.reason ?? undefined) : undefined,
    ...adds,
    denied_at: isDenial ? at : undefined,
    asked_at: isAsked ? at : undefined,
    denied_form: isDenial && form !== null && form !== before.listed ? form : undefined,
    keeps_check:
      isRepeated || (before.counted > 0 && after.verdict !== 'valid' && adds.counted === 0),
    ...(after.update === null ? null : codeColumns(code, after.update)),
  });
  const raw = after.update === null ? null : (check?.answer?.raw ?? null);
  return raw === null ? row : `${row.slice(0, -1)},"raw":${raw}}`;
}

/** New row of `code_checks`; none if the verdict rests on earlier checks. */
function checkColumns({ before, result: { check, form }, after }: LockedCode) {
  if (check === null) return null;
  const { at, reason, httpStatus, answer, proven } = check;
  const isAsListed = answer === null || form === null || form === before.listed;
  const message = isAsListed ? check.message : `found as ${form}`;
  return {
    checked_at: new Date(at),
    verdict: after.verdict ?? 'unproven',
    reason,
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
  { before, result: { check, form } }: LockedCode,
  {
    known: { verdict, purchase, checkedAt },
    transitions,
  }: NonNullable<LockedCode['after']['update']>,
) {
  const item = purchase?.item ?? null;
  const answer = check?.answer ?? null;
  return {
    code_place: before.code_place,
    known: verdict,
    proven_at: new Date(checkedAt),
    proven_by: answer !== null ? 'purchase' : (check?.proven?.by ?? before.last_proof ?? 'none'),
    turned: before.known?.verdict !== verdict,
    answered: answer !== null,
    transitions: transitions.length === 0 ? undefined : transitions,
    found_form: form ?? undefined,
    // A marketplace that leaves the code out knows it in the form in which it was found.
    answered_code:
      purchase?.purchaseCode ?? (form !== null && form !== before.listed ? form : undefined),
    license_type: purchase?.licenseType ?? undefined,
    price: purchase?.price ?? undefined,
    currency: purchase?.currency ?? undefined,
    item_id: item?.id ?? undefined,
    item_name: item?.name ?? undefined,
    item_url: item?.url ?? undefined,
    item_preview_url: item?.previewImageUrl ?? undefined,
    item_full: item?.full,
    supported_until: purchase?.supportedUntil ?? undefined,
    support_unreadable: purchase?.isSupportUnknown,
    downloaded: purchase?.downloaded ?? undefined,
    purchased_at: purchase?.purchasedAt ?? undefined,
  };
}

/** Known-valid codes that were denied as proofs, have no verdict, and are not listed. $1 is the audit. */
export const UNLISTED = `SELECT FROM mirror.audit_codes WHERE audit_id = $1 AND position < 0 AND verdict IS NULL`;

const IS_OVER = `state = 'running' AND pending = $2 + $3 + $4 + $5 AND NOT EXISTS (${UNLISTED})`;

/** Updates the audit's row last, since all writers of this audit wait for its lock. */
const COUNT = named(
  'count',
  `
  UPDATE mirror.audits
     SET valid = valid + $2, invalid = invalid + $3, no_longer_valid = no_longer_valid + $4, unproven = unproven + $5,
         pending = pending - $2 - $3 - $4 - $5, denied = denied + $6,
         api_calls = api_calls + $7, chance_calls = chance_calls + $8, chance_denied = chance_denied + $9,
         state = CASE WHEN ${IS_OVER} THEN 'finished' ELSE state END,
         problem = CASE WHEN ${IS_OVER} THEN NULL ELSE problem END,
         resume_at = CASE WHEN ${IS_OVER} THEN NULL ELSE resume_at END,
         finished_at = CASE WHEN ${IS_OVER} THEN clock_timestamp() ELSE finished_at END
   WHERE audit_id = $1
  RETURNING state, api_calls AS "totalCalls"`,
);

async function updateCounts(
  client: PoolClient,
  auditId: bigint,
  codes: readonly LockedCode[],
  chance: Chance,
  apiCalls: number,
): Promise<Omit<Recorded, 'settled'>> {
  const verdicts = { valid: 0, invalid: 0, no_longer_valid: 0, unproven: 0 };
  let denied = 0;
  for (const { before, after } of codes) {
    // Known-valid codes that were denied as proofs are no codes of the list.
    if (before.position < 0) continue;
    if (after.verdict !== null) verdicts[after.verdict]++;
    denied += Number(after.verdict === null && after.isDenied) - Number(before.is_denied);
  }
  const { rows } = await client.query<Omit<Recorded, 'settled'>>(COUNT, [
    auditId,
    ...[verdicts.valid, verdicts.invalid, verdicts.no_longer_valid, verdicts.unproven],
    ...[denied, apiCalls, chance.calls, chance.denied],
  ]);
  if (rows[0] === undefined) throw new Error(`there is no audit ${auditId}`);
  return rows[0];
}

/** Adds to what is known of the seller's marketplace, which fades by half each week. */
async function addToChance(
  client: PoolClient,
  sellerId: string,
  { calls, denied }: Chance,
  now: Date,
): Promise<void> {
  if (calls === 0 && denied === 0) return;
  const left = `power(0.5, greatest(0, extract(epoch FROM excluded.as_of - c.as_of)) / 604800)`;
  await client.query(
    `INSERT INTO mirror.code_chances AS c (seller_id, calls, denied, as_of) VALUES ($1, $2, $3, $4)
     ON CONFLICT (seller_id) DO UPDATE
        SET calls = c.calls * ${left} + excluded.calls, denied = c.denied * ${left} + excluded.denied,
            as_of = greatest(c.as_of, excluded.as_of)`,
    [sellerId, calls, denied, now],
  );
}
