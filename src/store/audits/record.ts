import type { Pool, PoolClient } from 'pg';
import type { Verdict } from '../../domain/codes/verdict.js';
import type { Json } from '../../domain/item.js';
import { isObject } from '../../domain/values.js';
import { inTransaction } from '../transaction.js';
import { KNOWN_COLUMNS, knownIn, purchaseColumns, type KnownRow } from './known-row.js';
import {
  planRecord,
  type CodeBefore,
  type CodeUpdate,
  type FeedEntry,
  type RecordPlan,
} from './plan-record.js';
import { LARGEST_JSON, LONGEST_TEXT, storable, storableJsonText } from './text.js';
import type { AuditState, CodeResult, Recorded } from './types.js';

/**
 * A statement that each connection parses and plans once: with few results at a time that takes
 * longer than carrying it out.
 */
function named(name: string, text: string): { readonly name: string; readonly text: string } {
  return { name: `audits-${name}`, text };
}

/**
 * Both rows of a code: results of one audit may come from two processes. In one order, so that audits
 * that share codes wait for each other and never in a circle. The range of positions says nothing new,
 * but keeps the planner from reading all codes of an audit of which it has no figures yet.
 */
const LOCK = named(
  'lock',
  `
  SELECT a.position, a.code_id, a.verdict IS NOT NULL AS settled, a.attempts,
         a.ctid AS entry_place, p.ctid AS code_place, ${KNOWN_COLUMNS}
    FROM mirror.audit_codes a JOIN mirror.purchase_codes p ON p.code_id = a.code_id
   WHERE a.audit_id = $1 AND a.position = ANY($2::int[]) AND a.position BETWEEN $3 AND $4
   ORDER BY p.code_id FOR NO KEY UPDATE OF p, a`,
);

interface LockedRow extends KnownRow {
  readonly position: number;
  readonly code_id: string;
  readonly settled: boolean;
  readonly attempts: number;
  /** Where the rows are; they stay there as long as they are locked. */
  readonly entry_place: string;
  readonly code_place: string;
}

const RECORDED = named(
  'recorded',
  `
  SELECT code_id, checked_at FROM mirror.code_checks
   WHERE code_id = ANY($2::bigint[]) AND audit_id = $1`,
);

/**
 * Everything but the counts. The numbers of checks are given under the locks: of a code they ascend.
 * The locked rows are fetched by their places: any other way the planner, which does not know how large
 * the tables are when a list has just been loaded, reads the whole list for every few results.
 */
const WRITE = named(
  'write',
  `
  WITH incoming AS MATERIALIZED (
    SELECT c.*, nextval('mirror.code_checks_check_id_seq') AS check_id
      FROM json_to_recordset($2) AS c (
        place int, code_id bigint, checked_at timestamptz, verdict mirror.code_verdict, reason text,
        proof text, http_status int, message text, raw_hash bytea)
  ), checks AS (
    INSERT INTO mirror.code_checks (check_id, seller_id, code_id, audit_id, checked_at, verdict,
                                    reason, proof, http_status, message, raw_hash)
    SELECT i.check_id, a.seller_id, i.code_id, a.audit_id, i.checked_at, i.verdict, i.reason, i.proof,
           i.http_status, i.message, i.raw_hash
      FROM incoming i JOIN mirror.audits a ON a.audit_id = $1
  ), codes AS (
    UPDATE mirror.purchase_codes p
       SET verdict = i.verdict, proof = i.proof, last_checked_at = i.checked_at,
           last_check_id = i.check_id, changed_seq = nextval('mirror.item_changes_seq_seq'),
           verdict_since = CASE WHEN n.turned THEN i.checked_at ELSE p.verdict_since END,
           first_checked_at = coalesce(p.first_checked_at, i.checked_at),
           purchase_seen_at = CASE WHEN n.answered THEN i.checked_at ELSE p.purchase_seen_at END,
           raw = CASE WHEN n.answered THEN n.raw ELSE p.raw END,
           answered_code = n.answered_code, license_type = n.license_type, price = n.price,
           currency = n.currency, item_id = n.item_id, item_name = n.item_name, item_url = n.item_url,
           item_preview_url = n.item_preview_url, item_full = coalesce(n.item_full, false),
           supported_until = n.supported_until, downloaded = n.downloaded,
           purchased_at = n.purchased_at
      FROM json_to_recordset($3) AS n (
        code_id bigint, place int, turned boolean, answered boolean, raw jsonb, answered_code text,
        license_type text, price numeric, currency text, item_id bigint, item_name text, item_url text,
        item_preview_url text, item_full boolean, supported_until timestamptz, downloaded boolean,
        purchased_at timestamptz)
      JOIN incoming i ON i.place = n.place
     WHERE p.ctid = ANY($6::tid[]) AND p.code_id = n.code_id
    RETURNING 1
  ), feed AS (
    INSERT INTO mirror.code_transitions (seller_id, code_id, check_id, happened_at, kind, old_value, new_value)
    SELECT a.seller_id, f.code_id, i.check_id, f.at, f.kind, f.old_value, f.new_value
      FROM json_to_recordset($4) AS f (
        turn int, code_id bigint, place int, at timestamptz, kind text, old_value text,
        new_value text)
      JOIN incoming i ON i.place = f.place JOIN mirror.audits a ON a.audit_id = $1
     ORDER BY f.turn
  ), entries AS (
    UPDATE mirror.audit_codes c
       SET verdict = s.verdict, check_id = i.check_id, attempts = c.attempts + s.attempts
      FROM json_to_recordset($5) AS s (
        position int, place int, verdict mirror.code_verdict, attempts int)
      JOIN incoming i ON i.place = s.place
     WHERE c.ctid = ANY($7::tid[]) AND c.audit_id + 0 = $1 AND c.position = s.position
    RETURNING 1
  )
  SELECT (SELECT count(*) FROM codes)::int AS codes, (SELECT count(*) FROM entries)::int AS entries`,
);

/** The audit's row comes last, since all that record for this audit wait for it. */
const COUNT = named(
  'count',
  `
  WITH settled AS (
    SELECT s.position / a.chunk_size AS chunk, count(*)::int AS codes
      FROM unnest($2::int[]) AS s (position) JOIN mirror.audits a ON a.audit_id = $1
     GROUP BY 1
  ), chunks AS (
    UPDATE mirror.audit_chunks c SET pending = c.pending - s.codes
      FROM settled s WHERE c.audit_id = $1 AND c.chunk = s.chunk
  )
  UPDATE mirror.audits
     SET valid = valid + $3, invalid = invalid + $4, unproven = unproven + $5,
         pending = pending - $3 - $4 - $5, api_calls = api_calls + $6,
         state = CASE WHEN state = 'running' AND pending = $3 + $4 + $5
                      THEN 'finished' ELSE state END,
         finished_at = CASE WHEN state = 'running' AND pending = $3 + $4 + $5
                            THEN clock_timestamp() ELSE finished_at END
   WHERE audit_id = $1
  RETURNING state`,
);

/**
 * Records what came of asking for codes of an audit, in one transaction: the ledger, what is known of
 * the codes, the feed, the audit's codes and counts. What is recorded already is left as it is, so that
 * a call that failed may be repeated. Results count whatever the audit's state, since they were paid for.
 * @param apiCalls calls to the marketplace that were made for them, proofs included
 */
export async function recordResults(
  pool: Pool,
  auditId: bigint,
  results: readonly CodeResult[],
  apiCalls: number,
): Promise<Recorded> {
  return inTransaction(pool, async (client) => {
    const { before, places } = await lockCodes(client, auditId, results);
    const plan = planRecord(before, results);
    if (plan.checks.length > 0) await write(client, auditId, plan, places);
    return count(client, auditId, plan, apiCalls);
  });
}

/** Where the locked rows are, by what they are of. */
interface Places {
  readonly codes: ReadonlyMap<bigint, string>;
  readonly entries: ReadonlyMap<number, string>;
}

async function lockCodes(
  client: PoolClient,
  auditId: bigint,
  results: readonly CodeResult[],
): Promise<{ readonly before: Map<number, CodeBefore>; readonly places: Places }> {
  const positions = [...new Set(results.map(({ position }) => position))];
  if (positions.length === 0)
    return { before: new Map(), places: { codes: new Map(), entries: new Map() } };
  const range = [Math.min(...positions), Math.max(...positions)];
  const { rows } = await client.query<LockedRow>(LOCK, [auditId, positions, ...range]);
  const asked = rows.filter(({ attempts, settled }) => attempts > 0 && !settled);
  const moments = await recordedMoments(client, auditId, asked);
  const before = new Map<number, CodeBefore>();
  const codes = new Map<bigint, string>();
  const entries = new Map<number, string>();
  for (const row of rows) {
    const { position, settled } = row;
    const codeId = BigInt(row.code_id);
    const recordedAt = moments.get(row.code_id) ?? NO_MOMENTS;
    before.set(position, { position, codeId, settled, known: knownIn(row), recordedAt });
    codes.set(codeId, row.code_place);
    entries.set(position, row.entry_place);
  }
  return { before, places: { codes, entries } };
}

const NO_MOMENTS: ReadonlySet<number> = new Set();

/** When codes were asked for in this audit before, by code; a statement after the locks sees it all. */
async function recordedMoments(
  client: PoolClient,
  auditId: bigint,
  asked: readonly LockedRow[],
): Promise<Map<string, Set<number>>> {
  const moments = new Map<string, Set<number>>();
  if (asked.length === 0) return moments;
  const { rows } = await client.query<{ code_id: string; checked_at: Date }>(RECORDED, [
    auditId,
    asked.map((row) => row.code_id),
  ]);
  for (const { code_id, checked_at } of rows) {
    const known = moments.get(code_id);
    if (known === undefined) moments.set(code_id, new Set([checked_at.getTime()]));
    else known.add(checked_at.getTime());
  }
  return moments;
}

async function write(
  client: PoolClient,
  auditId: bigint,
  plan: RecordPlan,
  places: Places,
): Promise<void> {
  const { checks, codes, feed, auditCodes } = plan;
  const { rows } = await client.query<{ codes: number; entries: number }>(WRITE, [
    auditId,
    JSON.stringify(checks.map(checkRow)),
    `[${codes.map(codeRow).join()}]`,
    JSON.stringify(feed.map(feedRow)),
    JSON.stringify(auditCodes.map(({ check, ...rest }) => ({ ...rest, place: check }))),
    codes.map(({ codeId }) => places.codes.get(codeId)),
    auditCodes.map(({ position }) => places.entries.get(position)),
  ]);
  const [written] = rows;
  if (written?.codes !== codes.length || written.entries !== auditCodes.length) {
    throw new Error(`rows of audit ${auditId} are not where they were locked`);
  }
}

function checkRow(result: CodeResult, place: number): object {
  const { codeId, checkedAt, news, reason, proof, httpStatus, message, rawHash } = result;
  return {
    place,
    code_id: String(codeId),
    checked_at: checkedAt,
    verdict: news.verdict,
    reason: storable(reason, LONGEST_TEXT),
    proof: storable(proof, LONGEST_TEXT),
    http_status: httpStatus,
    message: message === null ? null : storable(message, LONGEST_TEXT),
    raw_hash: rawHash === null ? null : `\\x${hexOf(rawHash)}`,
  };
}

function hexOf({ buffer, byteOffset, byteLength }: Uint8Array): string {
  return Buffer.from(buffer, byteOffset, byteLength).toString('hex');
}

/** The row's JSON text: the purchase is in it as it is, which is most of the text. */
function codeRow({ codeId, known, turned, check, raw }: CodeUpdate): string {
  const purchase = known.purchase === null ? {} : purchaseColumns(known.purchase);
  const answered = raw !== undefined;
  const row = { code_id: String(codeId), place: check, turned, answered, ...purchase };
  const kept = answered ? keptText(withoutItem(raw, known.purchase?.item !== null)) : null;
  return `${JSON.stringify(row).slice(0, -1)},"raw":${kept ?? 'null'}}`;
}

/** JSON text for the store; null when it is too large to be kept. */
function keptText(json: Json): string | null {
  const text = JSON.stringify(json);
  // What the store can't hold is written as an escape, and a number beyond all bounds as null.
  if (text.includes('\\u') || (text.includes('null') && isBoundless(json))) {
    return storableJsonText(json);
  }
  return text.length > LARGEST_JSON ? null : text;
}

function isBoundless(json: Json): boolean {
  if (typeof json === 'number') return !Number.isFinite(json);
  return typeof json === 'object' && json !== null && Object.values(json).some(isBoundless);
}

/** Items are in the mirror, and those of a million purchases are mostly the same few. */
function withoutItem(raw: Json, wasRead: boolean): Json {
  if (!wasRead || !isObject(raw)) return raw;
  const { item: _, ...rest } = raw;
  return rest;
}

function feedRow({ codeId, at, check, kind, from, to }: FeedEntry, turn: number): object {
  return { turn, code_id: String(codeId), place: check, at, kind, old_value: from, new_value: to };
}

async function count(
  client: PoolClient,
  auditId: bigint,
  { checks, auditCodes }: RecordPlan,
  apiCalls: number,
): Promise<Recorded> {
  const settled = auditCodes.filter(({ verdict }) => verdict !== null);
  const of = (verdict: Verdict): number => settled.filter((c) => c.verdict === verdict).length;
  const positions = settled.map(({ position }) => position);
  const { rows } = await client.query<{ state: AuditState }>(COUNT, [
    ...[auditId, positions, of('valid'), of('invalid'), of('unproven'), apiCalls],
  ]);
  const state = rows[0]?.state;
  if (state === undefined) throw new Error(`there is no audit ${auditId}`);
  const finished = settled.length > 0 && state === 'finished';
  return { recorded: checks.length, settled: settled.length, state, finished };
}
