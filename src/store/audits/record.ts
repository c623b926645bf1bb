import { setImmediate as turn } from 'node:timers/promises';
import type { Pool, PoolClient } from 'pg';
import type { Verdict } from '../../domain/codes/proof.js';
import type { Json, Purchase } from '../../domain/item.js';
import { isObject } from '../../domain/values.js';
import { inTransaction } from '../pools.js';
import { purchaseColumns, readKnown } from './known-row.js';
import {
  type AuditCodeUpdate,
  type CodeBefore,
  type CodeUpdate,
  planRecord,
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
  SELECT a.position, a.code_id, a.verdict IS NOT NULL AS settled, a.attempts, a.denials,
         p.verdict IS NOT NULL AS is_known, a.ctid AS entry_place, p.ctid AS code_place
    FROM mirror.audit_codes a JOIN mirror.purchase_codes p ON p.code_id = a.code_id
   WHERE a.audit_id = $1 AND a.position = ANY($2::int[]) AND a.position BETWEEN $3 AND $4
   ORDER BY p.code_id FOR NO KEY UPDATE OF p, a`,
);

interface LockedRow {
  readonly position: number;
  readonly code_id: string;
  readonly settled: boolean;
  readonly attempts: number;
  readonly denials: number;
  readonly is_known: boolean;
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
 * The locked rows are fetched by their places, and not by an index, which `+ 0` keeps out of the way: to
 * the planner, who plans once and for tables that are small then, reading all of one may look cheap.
 */
const WRITE = named(
  'write',
  `
  WITH incoming AS MATERIALIZED (
    SELECT c.*, nextval('mirror.code_checks_check_id_seq') AS check_id
      FROM json_to_recordset($2) AS c (
        place int, code_id bigint, checked_at timestamptz, verdict mirror.code_verdict, reason text,
        proof text, http_status int, message text, raw_hash bytea,
        code_place tid, entry_place tid, position int, settled mirror.code_verdict, attempts int,
        denials int, denied_at timestamptz, turned boolean, answered boolean, raw jsonb, answered_code text, license_type text,
        price numeric, currency text, item_id bigint, item_name text, item_url text,
        item_preview_url text, item_full boolean, supported_until timestamptz, downloaded boolean,
        purchased_at timestamptz)
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
           verdict_since = CASE WHEN i.turned THEN i.checked_at ELSE p.verdict_since END,
           first_checked_at = coalesce(p.first_checked_at, i.checked_at),
           purchase_seen_at = CASE WHEN i.answered THEN i.checked_at ELSE p.purchase_seen_at END,
           raw = CASE WHEN i.answered THEN i.raw ELSE p.raw END,
           answered_code = i.answered_code, license_type = i.license_type, price = i.price,
           currency = i.currency, item_id = i.item_id, item_name = i.item_name, item_url = i.item_url,
           item_preview_url = i.item_preview_url, item_full = coalesce(i.item_full, false),
           supported_until = i.supported_until, downloaded = i.downloaded,
           purchased_at = i.purchased_at, denied_at = NULL
      FROM incoming i
     WHERE p.ctid = i.code_place AND p.code_id + 0 = i.code_id
    RETURNING 1
  ), feed AS (
    INSERT INTO mirror.code_transitions (seller_id, code_id, check_id, happened_at, kind, old_value, new_value)
    SELECT a.seller_id, i.code_id, i.check_id, i.checked_at, f.kind, f.old_value, f.new_value
      FROM json_to_recordset($3) AS f (
        turn int, place int, kind text, old_value text, new_value text)
      JOIN incoming i ON i.place = f.place JOIN mirror.audits a ON a.audit_id = $1
     ORDER BY f.turn
  ), entries AS (
    UPDATE mirror.audit_codes c
       SET verdict = i.settled, check_id = i.check_id, attempts = c.attempts + i.attempts,
           denials = c.denials + i.denials,
           first_denied_at = coalesce(c.first_denied_at, i.denied_at),
           last_denied_at = coalesce(i.denied_at, c.last_denied_at)
      FROM incoming i
     WHERE c.ctid = i.entry_place AND c.audit_id + 0 = $1 AND c.position = i.position
    RETURNING 1
  )
  SELECT (SELECT count(*) FROM codes)::int AS codes, (SELECT count(*) FROM entries)::int AS entries`,
);

/** The audit's row comes last, since all that record for this audit wait for it. */
const COUNT = named(
  'count',
  `
  WITH asked AS (
    SELECT s.position / a.chunk_size AS chunk, count(*)::int AS codes
      FROM unnest($2::int[]) AS s (position) JOIN mirror.audits a ON a.audit_id = $1
     GROUP BY 1
  ), chunks AS (
    UPDATE mirror.audit_chunks c SET pending = c.pending - s.codes
      FROM asked s WHERE c.audit_id = $1 AND c.chunk = s.chunk
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

/**
 * All rows are reached one by one. The planner, which does not know how large the tables are when a list
 * has just been loaded, would rather read all codes for every few results.
 */
const ONE_BY_ONE = 'SET LOCAL enable_seqscan = off';

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
  return inTransaction(
    pool,
    async (client) => {
      const { before, places } = await lockCodes(client, auditId, results);
      const plan = planRecord(before, results);
      if (plan.checks.length > 0) await write(client, auditId, plan, places);
      return count(client, auditId, plan, before, apiCalls);
    },
    ONE_BY_ONE,
  );
}

async function lockCodes(
  client: PoolClient,
  auditId: bigint,
  results: readonly CodeResult[],
): Promise<{ readonly before: Map<number, CodeBefore>; readonly places: Places }> {
  const before = new Map<number, CodeBefore>();
  const codes = new Map<bigint, string>();
  const entries = new Map<number, string>();
  const places = { codes, entries };
  const positions = [...new Set(results.map(({ position }) => position))];
  if (positions.length === 0) return { before, places };
  const range = [
    positions.reduce((least, position) => Math.min(least, position)),
    positions.reduce((most, position) => Math.max(most, position)),
  ];
  const { rows } = await client.query<LockedRow>(LOCK, [auditId, positions, ...range]);
  const known = await readKnown(client, rows);
  const moments = await recordedMoments(client, auditId, rows);
  for (const { position, settled, denials, code_id, code_place, entry_place } of rows) {
    const codeId = BigInt(code_id);
    const recordedAt = moments.get(code_id) ?? NO_MOMENTS;
    before.set(position, {
      position,
      codeId,
      settled,
      denials,
      known: known.get(code_id) ?? null,
      recordedAt,
    });
    codes.set(codeId, code_place);
    entries.set(position, entry_place);
  }
  return { before, places };
}

const NO_MOMENTS: ReadonlySet<number> = new Set();

/** When codes were asked for in this audit before, by code; a statement after the locks sees it all. */
async function recordedMoments(
  client: PoolClient,
  auditId: bigint,
  locked: readonly LockedRow[],
): Promise<ReadonlyMap<string, ReadonlySet<number>>> {
  const moments = new Map<string, Set<number>>();
  const asked = locked.filter(
    ({ attempts, denials, settled }) => attempts + denials > 0 && !settled,
  );
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
  const { codes, auditCodes } = plan;
  const { rows } = await client.query<{ codes: number; entries: number }>(WRITE, [
    auditId,
    await checkRows(plan, places),
    feedRows(plan),
  ]);
  const [written] = rows;
  if (written?.codes !== codes.length || written.entries !== auditCodes.length) {
    throw new Error(`rows of audit ${auditId} are not where they were locked`);
  }
}

async function count(
  client: PoolClient,
  auditId: bigint,
  { checks, auditCodes }: RecordPlan,
  before: ReadonlyMap<number, CodeBefore>,
  apiCalls: number,
): Promise<Recorded> {
  const settled = auditCodes.filter(({ verdict }) => verdict !== null);
  const of = (verdict: Verdict): number => settled.filter((c) => c.verdict === verdict).length;
  /** Codes that their chunk need not ask for any more. */
  const positions: number[] = [];
  let [denied, overturned] = [0, 0];
  for (const { position, verdict, denials } of auditCodes) {
    const wasDenied = (before.get(position)?.denials ?? 0) > 0;
    const isDenied = wasDenied || denials > 0;
    if (!wasDenied && (isDenied || verdict !== null)) positions.push(position);
    denied += Number(isDenied && verdict === null) - Number(wasDenied);
    if (isDenied && verdict === 'valid') overturned++;
  }
  const { rows } = await client.query<{ state: AuditState }>(COUNT, [
    ...[auditId, positions, of('valid'), of('invalid'), of('unproven'), apiCalls],
    ...[denied, overturned],
  ]);
  const state = rows[0]?.state;
  if (state === undefined) throw new Error(`there is no audit ${auditId}`);
  const finished = settled.length > 0 && state === 'finished';
  return { recorded: checks.length, settled: settled.length, state, finished };
}

/** Where the rows are that results change, by what they are of. */
export interface Places {
  readonly codes: ReadonlyMap<bigint, string>;
  readonly entries: ReadonlyMap<number, string>;
}

/** Rows that are made in one go. */
const PORTION = 16;

/**
 * The checks as JSON text, an object for each, with what they make of the code and of its place in the
 * audit: a check does either for one row at most. What is null is left out. Made in portions, between
 * which answers are heard and more codes asked for: the marketplace is not to wait for the store.
 */
async function checkRows(
  { checks, codes, auditCodes }: RecordPlan,
  places: Places,
): Promise<string> {
  const codeOf = new Map(codes.map((update) => [update.check, update]));
  const entryOf = new Map(auditCodes.map((update) => [update.check, update]));
  const rows: string[] = [];
  for (const [place, result] of checks.entries()) {
    rows.push(checkRow(result, place, codeOf.get(place), entryOf.get(place), places));
    if (place % PORTION === PORTION - 1) await turn();
  }
  return `[${rows.join()}]`;
}

/** The entries of the feed as JSON text, in their order, each with the place of its check. */
function feedRows({ feed }: RecordPlan): string {
  const rows = feed.map(({ check, kind, from, to }, turn) => ({
    turn,
    place: check,
    kind,
    old_value: from ?? undefined,
    new_value: to ?? undefined,
  }));
  return JSON.stringify(rows);
}

function checkRow(
  result: CodeResult,
  place: number,
  code: CodeUpdate | undefined,
  entry: AuditCodeUpdate | undefined,
  places: Places,
): string {
  const { codeId, checkedAt, news, reason, proof, httpStatus, message, rawHash } = result;
  const check = {
    place,
    code_id: String(codeId),
    checked_at: checkedAt,
    verdict: news.verdict,
    reason: storable(reason, LONGEST_TEXT),
    proof: storable(proof, LONGEST_TEXT),
    http_status: httpStatus ?? undefined,
    message: message === null ? undefined : storable(message, LONGEST_TEXT),
    raw_hash: rawHash === null ? undefined : `\\x${rawHash}`,
    code_place: code === undefined ? undefined : places.codes.get(code.codeId),
    entry_place: entry === undefined ? undefined : places.entries.get(entry.position),
    position: entry?.position,
    settled: entry?.verdict,
    attempts: entry?.attempts,
    denials: entry?.denials,
    denied_at: entry?.deniedAt ?? undefined,
    turned: code?.turned,
    answered: code === undefined ? undefined : code.raw !== undefined,
  };
  return code === undefined ? JSON.stringify(check) : withCode(JSON.stringify(check), code);
}

/** The purchase is in the text as it is, which is most of it. */
function withCode(check: string, { known, raw }: CodeUpdate): string {
  const { purchase } = known;
  const columns = purchase === null ? '{}' : JSON.stringify(purchaseColumns(purchase));
  const kept = raw === undefined ? null : keptText(withoutItem(raw, hasItemId(purchase)));
  const joined = columns === '{}' ? check : `${check.slice(0, -1)},${columns.slice(1)}`;
  return kept === null ? joined : `${joined.slice(0, -1)},"raw":${kept}}`;
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

/** An item without an id can't be found in the mirror. */
function hasItemId(purchase: Purchase | null): boolean {
  return (purchase?.item?.id ?? null) !== null;
}

/** Items are in the mirror, and those of a million purchases are mostly the same few. */
function withoutItem(raw: Json, hasId: boolean): Json {
  if (!hasId || !isObject(raw)) return raw;
  const { item: _, ...rest } = raw;
  return rest;
}
