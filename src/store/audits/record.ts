import { setImmediate as turn } from 'node:timers/promises';
import type { PoolClient } from 'pg';
import type { Verdict } from '../../domain/codes/proof.js';
import {
  updateKnownCode,
  type KnownCode,
  type KnownPurchase,
  type KnownCodeUpdate,
} from '../../domain/codes/known-code.js';
import type { Json } from '../../domain/item.js';
import { isObject } from '../../domain/values.js';
import { checkpointColumns, LONGEST_TEXT, storable, storableJsonText, KNOWN } from './columns.js';
import { type Db, inTransaction } from '../db.js';
import type { AuditState, CodeResult } from './types.js';

/** Forces index scans. Without statistics of a new list the planner would read all codes for every few results. */
const INDEX_SCANS_ONLY = 'SET LOCAL enable_seqscan = off';

/**
 * Records results of an audit in one transaction: checks, the known state of the codes, transitions, the audit's codes and
 * counts. Ignores results that are recorded already, so that a failed call may be repeated. Results count in every
 * state of the audit, since their calls were made.
 * @param apiCalls marketplace calls made for these results, checkpoints included
 * @returns the audit's state afterwards
 */
export async function recordResults(
  db: Db,
  auditId: bigint,
  results: readonly CodeResult[],
  apiCalls: number,
): Promise<AuditState> {
  return inTransaction(
    db,
    async (client) => {
      const codes = await lockCodes(client, auditId, results);
      const checks = applyResults(codes, results);
      if (checks.length > 0) await writeRows(client, auditId, codes, checks);
      return updateCounts(client, auditId, codes, apiCalls);
    },
    INDEX_SCANS_ONLY,
  );
}

interface LockedRow {
  readonly position: number;
  readonly code_id: bigint;
  readonly settled: boolean;
  readonly attempts: number;
  readonly denials: number;
  readonly known: KnownCode | null;
  /** Physical row locations (ctid), which are stable while the rows are locked. */
  readonly audit_code_place: string;
  readonly code_place: string;
}

/** A locked code of an audit, and how the results change it. */
interface LockedCode {
  readonly before: LockedRow;
  /** Times of its unproven checks in this audit, milliseconds since 1970. */
  readonly checkTimes: Set<number>;
  /** The last result that counts. Its values go into the code's rows. */
  newest: CodeResult | null;
  /** Null if the code remains to be checked. */
  verdict: Verdict | null;
  /** New unproven answers that are no denials. */
  attempts: number;
  /** New denials that count, but don't settle the code yet. */
  denials: number;
  /** Time of the last of these denials. */
  deniedAt: Date | null;
  /** The new known state of the code, or null if it doesn't change. */
  update: (KnownCodeUpdate & { readonly known: KnownCode }) | null;
}

/** A prepared statement. For few results, parsing and planning takes longer than running it. */
function named(name: string, text: string): { readonly name: string; readonly text: string } {
  return { name: `audits-${name}`, text };
}

/**
 * Locks both rows of each code, since two processes may record results of one audit. A fixed order avoids deadlocks
 * between audits that share codes. The range of positions is redundant, but without statistics the planner would
 * otherwise read all codes of the audit.
 */
const LOCK = named(
  'lock',
  `
  SELECT a.position, a.code_id, a.verdict IS NOT NULL AS settled, a.attempts, a.denials,
         ${KNOWN} AS known, a.ctid AS audit_code_place, p.ctid AS code_place
    FROM mirror.audit_codes a JOIN mirror.purchase_codes p ON p.code_id = a.code_id
   WHERE a.audit_id = $1 AND a.position = ANY($2::int[]) AND a.position BETWEEN $3 AND $4
   ORDER BY p.code_id FOR NO KEY UPDATE OF p, a`,
);

const RECORDED = named(
  'recorded',
  `
  SELECT code_id, checked_at FROM mirror.code_checks
   WHERE code_id = ANY($2::bigint[]) AND audit_id = $1`,
);

/** Locks the codes of the results. @returns the codes by position */
async function lockCodes(
  client: PoolClient,
  auditId: bigint,
  results: readonly CodeResult[],
): Promise<Map<number, LockedCode>> {
  const positions = [...new Set(results.map(({ position }) => position))].sort((a, b) => a - b);
  const range = [positions[0], positions.at(-1)];
  const { rows } = await client.query<LockedRow>(LOCK, [auditId, positions, ...range]);
  const byId = new Map<bigint, LockedCode>();
  for (const before of rows) {
    byId.set(before.code_id, {
      before,
      checkTimes: new Set(),
      newest: null,
      verdict: null,
      attempts: 0,
      denials: 0,
      deniedAt: null,
      update: null,
    });
  }
  const checkedBefore = rows.filter((row) => row.attempts + row.denials > 0 && !row.settled);
  if (checkedBefore.length > 0) {
    // In a statement after the locks, so that it sees all committed checks.
    const recorded = await client.query<{ code_id: bigint; checked_at: Date }>(RECORDED, [
      auditId,
      checkedBefore.map((row) => row.code_id),
    ]);
    for (const { code_id, checked_at } of recorded.rows) {
      byId.get(code_id)?.checkTimes.add(checked_at.getTime());
    }
  }
  return new Map([...byId.values()].map((code) => [code.before.position, code]));
}

/**
 * Applies results to the codes in order. Ignores results of settled codes, and repeated results: an unproven one is
 * recognized by its time.
 * @returns the results that count
 */
function applyResults(
  codes: ReadonlyMap<number, LockedCode>,
  results: readonly CodeResult[],
): CodeResult[] {
  return results.filter((result) => {
    const { position, codeId, finding, checkedAt, denied } = result;
    const code = codes.get(position);
    if (code?.before.code_id !== codeId) {
      throw new Error(`position ${position} of the audit does not hold code ${codeId}`);
    }
    if (code.before.settled || code.verdict !== null) return false;
    const time = checkedAt.getTime();
    if (finding.verdict === 'unproven') {
      if (code.checkTimes.has(time)) return false;
      code.checkTimes.add(time);
      if (denied === true) {
        code.denials++;
        code.deniedAt = checkedAt;
      } else code.attempts++;
      if (result.final) code.verdict = 'unproven';
    } else {
      code.verdict = finding.verdict;
      const { known, transitions } = updateKnownCode(code.before.known, finding, time);
      if (known !== null && known !== code.before.known) code.update = { known, transitions };
    }
    code.newest = result;
    return true;
  });
}

/**
 * Writes everything except the counts. Check ids are drawn under the locks, so they ascend for each code. Rows are
 * fetched by ctid. `+ 0` keeps the planner from using an index instead: it plans once, while the tables are small, when
 * reading a whole index looks cheap.
 */
const WRITE = named(
  'write',
  `
  WITH incoming AS MATERIALIZED (
    SELECT c.*, nextval('mirror.code_checks_check_id_seq') AS check_id
      FROM json_to_recordset($2) AS c (
        code_id bigint, checked_at timestamptz, verdict mirror.code_verdict, reason text, proof text,
        http_status int, message text, raw_hash bytea,
        checkpoint_before timestamptz, checkpoint_after timestamptz,
        audit_code_place tid, position int, settled mirror.code_verdict, attempts int, denials int,
        denied_at timestamptz,
        code_place tid, turned boolean, answered boolean, raw jsonb, transitions json,
        answered_code text, license_type text, price numeric, currency text,
        item_id bigint, item_name text, item_url text, item_preview_url text, item_full boolean,
        supported_until timestamptz, downloaded boolean, purchased_at timestamptz)
  ), checks AS (
    INSERT INTO mirror.code_checks (check_id, seller_id, code_id, audit_id, checked_at, verdict,
                                    reason, proof, http_status, message, raw_hash,
                                    checkpoint_before, checkpoint_after)
    SELECT i.check_id, a.seller_id, i.code_id, a.audit_id, i.checked_at, i.verdict, i.reason, i.proof,
           i.http_status, i.message, i.raw_hash, i.checkpoint_before, i.checkpoint_after
      FROM incoming i JOIN mirror.audits a ON a.audit_id = $1
  ), codes AS (
    UPDATE mirror.purchase_codes p
       SET verdict = i.verdict, proof = i.proof, last_checked_at = i.checked_at,
           last_check_id = i.check_id, changed_seq = nextval('mirror.item_changes_seq_seq'),
           verdict_since = CASE WHEN i.turned THEN i.checked_at ELSE p.verdict_since END,
           first_checked_at = coalesce(p.first_checked_at, i.checked_at), denied_at = NULL,
           purchase_seen_at = CASE WHEN i.answered THEN i.checked_at ELSE p.purchase_seen_at END,
           raw = CASE WHEN i.answered THEN i.raw ELSE p.raw END,
           answered_code = i.answered_code, license_type = i.license_type, price = i.price,
           currency = i.currency, item_id = i.item_id, item_name = i.item_name, item_url = i.item_url,
           item_preview_url = i.item_preview_url, item_full = coalesce(i.item_full, false),
           supported_until = i.supported_until, downloaded = i.downloaded,
           purchased_at = i.purchased_at
      FROM incoming i
     WHERE p.ctid = i.code_place AND p.code_id + 0 = i.code_id
    RETURNING 1
  ), transitions AS (
    INSERT INTO mirror.code_transitions (seller_id, code_id, check_id, happened_at, kind, old_value, new_value)
    SELECT a.seller_id, i.code_id, i.check_id, i.checked_at, f.kind, f.old_value, f.new_value
      FROM incoming i JOIN mirror.audits a ON a.audit_id = $1
     CROSS JOIN LATERAL ROWS FROM (
       json_to_recordset(i.transitions) AS (kind text, "from" text, "to" text)
     ) WITH ORDINALITY AS f (kind, old_value, new_value, turn)
     ORDER BY i.check_id, f.turn
  ), audit_codes AS (
    UPDATE mirror.audit_codes c
       SET verdict = i.settled, check_id = i.check_id, attempts = c.attempts + i.attempts,
           denials = c.denials + i.denials,
           last_denied_at = coalesce(i.denied_at, c.last_denied_at)
      FROM incoming i
     WHERE c.ctid = i.audit_code_place AND c.audit_id + 0 = $1 AND c.position = i.position
    RETURNING 1
  )
  SELECT (SELECT count(*) FROM codes)::int AS codes, (SELECT count(*) FROM audit_codes)::int AS "auditCodes"`,
);

/** Rows serialized before other events get a turn. */
const ROWS_PER_TURN = 16;

/** Sends one JSON row for each check. The newest check of a code carries the new values of the code's rows. */
async function writeRows(
  client: PoolClient,
  auditId: bigint,
  codes: ReadonlyMap<number, LockedCode>,
  checks: readonly CodeResult[],
): Promise<void> {
  const jsonRows: string[] = [];
  for (const result of checks) {
    const code = codes.get(result.position);
    jsonRows.push(checkRow(result, code?.newest === result ? code : null));
    // Let the process read marketplace replies in between.
    if (jsonRows.length % ROWS_PER_TURN === 0) await turn();
  }
  const { rows } = await client.query<{ codes: number; auditCodes: number }>(WRITE, [
    auditId,
    `[${jsonRows.join()}]`,
  ]);
  const all = [...codes.values()];
  const auditCodes = all.filter(({ newest }) => newest !== null).length;
  const updates = all.filter(({ update }) => update !== null).length;
  if (rows[0]?.codes !== updates || rows[0].auditCodes !== auditCodes) {
    throw new Error(`audit ${auditId}: locked rows have moved`);
  }
}

/**
 * A check as JSON text. Omits members without a value and doesn't nest the purchase: PostgreSQL then reads a row in
 * 17 µs instead of 27.
 * @param code the code, if this is its newest check; else null
 */
function checkRow(result: CodeResult, code: LockedCode | null): string {
  const { codeId, checkedAt, checkpoints, finding, reason, proof } = result;
  const { httpStatus, message, rawHash } = result;
  const row = JSON.stringify({
    code_id: String(codeId),
    checked_at: checkedAt,
    verdict: finding.verdict,
    reason: storable(reason, LONGEST_TEXT),
    proof: storable(proof, LONGEST_TEXT),
    http_status: httpStatus ?? undefined,
    message: message === null ? undefined : storable(message, LONGEST_TEXT),
    raw_hash: rawHash === null ? undefined : `\\x${rawHash}`,
    ...checkpointColumns(checkpoints),
    ...(code === null ? null : auditCodeColumns(code)),
    ...(code?.update ? codeColumns(code.before, code.update, finding.verdict === 'valid') : null),
  });
  if (finding.verdict !== 'valid' || !code?.update) return row;
  const raw = storableJsonText(withoutItem(finding.purchase.raw, code.update.known.purchase));
  return raw === null ? row : `${row.slice(0, -1)},"raw":${raw}}`;
}

/** New values of the code's row in `audit_codes`. */
function auditCodeColumns({ before, verdict, attempts, denials, deniedAt }: LockedCode) {
  return {
    audit_code_place: before.audit_code_place,
    position: before.position,
    settled: verdict ?? undefined,
    attempts,
    denials,
    denied_at: deniedAt ?? undefined,
  };
}

/** New values of the code's row in `purchase_codes`. */
function codeColumns(
  before: LockedRow,
  { known: { verdict, purchase }, transitions }: NonNullable<LockedCode['update']>,
  answered: boolean,
) {
  const item = purchase?.item ?? null;
  return {
    code_place: before.code_place,
    turned: before.known?.verdict !== verdict,
    answered,
    transitions: transitions.length === 0 ? undefined : transitions,
    answered_code: purchase?.purchaseCode ?? undefined,
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

async function updateCounts(
  client: PoolClient,
  auditId: bigint,
  codes: ReadonlyMap<number, LockedCode>,
  apiCalls: number,
): Promise<AuditState> {
  const counts = { valid: 0, invalid: 0, unproven: 0, denied: 0, overturned: 0, apiCalls };
  /** Codes that their chunk no longer needs to check. */
  const positions: number[] = [];
  for (const [position, { before, newest, verdict, denials }] of codes) {
    if (newest === null) continue;
    if (verdict !== null) counts[verdict]++;
    const wasDenied = before.denials > 0;
    const isDenied = wasDenied || denials > 0;
    if (!wasDenied && (isDenied || verdict !== null)) positions.push(position);
    counts.denied += Number(isDenied && verdict === null) - Number(wasDenied);
    if (isDenied && verdict === 'valid') counts.overturned++;
  }
  return addCounts(client, auditId, counts, positions);
}

/** Updates the audit's row last, since all writers of this audit wait for its lock. */
const COUNT = named(
  'count',
  `
  WITH done AS (
    SELECT s.position / a.chunk_size AS chunk, count(*)::int AS codes
      FROM unnest($2::int[]) AS s (position) JOIN mirror.audits a ON a.audit_id = $1
     GROUP BY 1
  ), chunks AS (
    UPDATE mirror.audit_chunks c SET pending = c.pending - d.codes
      FROM done d WHERE c.audit_id = $1 AND c.chunk = d.chunk
  )
  UPDATE mirror.audits
     SET valid = valid + $3, invalid = invalid + $4, unproven = unproven + $5,
         pending = pending - $3 - $4 - $5, api_calls = api_calls + $6,
         denied = denied + $7, overturned = overturned + $8,
         state = CASE WHEN state = 'running' AND pending = $3 + $4 + $5
                      THEN 'finished' ELSE state END,
         finished_at = CASE WHEN state = 'running' AND pending = $3 + $4 + $5
                            THEN clock_timestamp() ELSE finished_at END
   WHERE audit_id = $1
  RETURNING state`,
);

interface Counts {
  readonly valid: number;
  readonly invalid: number;
  readonly unproven: number;
  readonly apiCalls: number;
  readonly denied: number;
  readonly overturned: number;
}

/** Adds to the audit's counts. @param positions codes that their chunk no longer needs to check */
export async function addCounts(
  client: PoolClient,
  auditId: bigint,
  { valid, invalid, unproven, apiCalls, denied, overturned }: Counts,
  positions: readonly number[],
): Promise<AuditState> {
  const values = [auditId, positions, valid, invalid, unproven, apiCalls, denied, overturned];
  const { rows } = await client.query<{ state: AuditState }>(COUNT, values);
  if (rows[0] === undefined) throw new Error(`there is no audit ${auditId}`);
  return rows[0].state;
}
