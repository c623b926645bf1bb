import type { Db } from '../db/db.js';
import { DENIALS } from './codes-store.js';
import type { AuditResult } from './result.js';
import { findingOf } from './results-store.js';
import { NAMES_WITHOUT_FILE } from './words.js';

/** What the rows of a check are told apart by, the most urgent first. `waiting`: nothing was found yet. */
export const GROUPS = [
  'no_longer_valid',
  'invalid',
  'unproven',
  'not_a_code',
  'waiting',
  'valid',
] as const;

export type Group = (typeof GROUPS)[number];

/** The groups whose customers need somebody. */
export const NEEDY: readonly Group[] = ['no_longer_valid', 'invalid', 'unproven', 'not_a_code'];

/** A line of a check's list: each has a customer of its own. Re-checks have codes without lines. */
export interface CheckRow extends Omit<AuditResult, 'columns' | 'listed' | 'seller'> {
  readonly group: Group;
  /** Null for a line without a code. */
  readonly codeId: bigint | null;
  /** The line's place in the list; null for a code without lines. */
  readonly entry: number | null;
  /** How many lines of the list have the code. */
  readonly listed: number;
  /** The names of the list's columns, and what the line has in them; null for a code without lines. */
  readonly names: readonly string[];
  readonly cells: readonly string[] | null;
  /** What a line without a code has in the column of codes; null: no such column, or the line has a code. */
  readonly cell: string | null;
  /** When a code that is no longer valid was last found valid. */
  readonly lastValidAt: Date | null;
}

/**
 * SQL of the rows of check $1 with their groups, as places in `GROUPS`; $2: text in any cell of the line, or null. A
 * known valid code that was denied as a proof has a negative position: it stands in no line.
 */
const GROUPED = `
  SELECT c.position, e.entry, c.code_id,
         CASE c.verdict
           WHEN 'no_longer_valid' THEN 0 WHEN 'invalid' THEN 1 WHEN 'unproven' THEN 2 WHEN 'valid' THEN 5 ELSE 4
         END AS place
    FROM mirror.audit_codes c
    LEFT JOIN mirror.audit_entries e ON e.audit_id = c.audit_id AND e.position = c.position
   WHERE c.audit_id = $1 AND c.position >= 0
     AND ($2::text IS NULL OR array_to_string(e.columns, chr(31)) ILIKE $2)
  UNION ALL
  SELECT NULL, e.entry, NULL, 3
    FROM mirror.audit_entries e
   WHERE e.audit_id = $1 AND e.position IS NULL
     AND ($2::text IS NULL OR array_to_string(e.columns, chr(31)) ILIKE $2)`;

/** SQL of `CheckRow`s, from chosen rows of `GROUPED`. */
const detailsOf = (chosen: string): string => `
  WITH chosen AS MATERIALIZED (${chosen})
  SELECT g.place, c.code_id AS "codeId", g.entry, e.line,
         (SELECT count(*) FROM mirror.audit_entries l
           WHERE l.audit_id = c.audit_id AND l.position = c.position)::int AS listed,
         coalesce(c.spelling, p.code) AS code, a.columns AS names, e.columns AS cells, NULL AS cell,
         coalesce(g.entry, g.position) AS nth,
         CASE c.verdict WHEN 'no_longer_valid' THEN
           (SELECT max(checked_at) FROM mirror.code_checks v WHERE v.code_id = c.code_id AND v.verdict = 'valid')
         END AS "lastValidAt", ${findingOf()}
    FROM chosen g
    JOIN mirror.audit_codes c ON c.audit_id = $1 AND c.position = g.position
    JOIN mirror.audits a ON a.audit_id = c.audit_id
    LEFT JOIN mirror.audit_entries e ON e.audit_id = $1 AND e.entry = g.entry
    JOIN mirror.purchase_codes p ON p.code_id = c.code_id
    LEFT JOIN mirror.code_checks k ON k.check_id = c.check_id
    LEFT JOIN LATERAL (${DENIALS}) n ON c.verdict IN ('invalid', 'no_longer_valid')
  UNION ALL
  SELECT g.place, NULL, e.entry, e.line, 1, NULL, a.columns, e.columns,
         e.columns[array_position(a.columns, a.layout #>> '{lists,0,column}')], e.entry,
         NULL, 'rejected', coalesce(e.rejected, 'it holds no code'), NULL, 'none', NULL, NULL, NULL, NULL, false
    FROM chosen g
    JOIN mirror.audit_entries e ON e.audit_id = $1 AND e.entry = g.entry AND e.position IS NULL
    JOIN mirror.audits a ON a.audit_id = e.audit_id
   ORDER BY 1, 10`;

interface RowsWanted {
  readonly groups: readonly Group[];
  /** Only rows with this text in a line; null: all. */
  readonly search: string | null;
}

/** How many rows of a check each group has. */
export async function countGroups(
  { pool }: Db,
  auditId: bigint,
  search: string | null,
): Promise<Readonly<Record<Group, number>>> {
  const { rows } = await pool.query<{ place: number; rows: number }>(
    `SELECT place, count(*)::int AS rows FROM (${GROUPED}) g GROUP BY place`,
    [auditId, patternOf(search)],
  );
  const counts = new Map(rows.map((one) => [GROUPS[one.place], one.rows]));
  return Object.fromEntries(GROUPS.map((group) => [group, counts.get(group) ?? 0])) as Record<
    Group,
    number
  >;
}

/** Rows of a check by their groups, then in the order of the list. @param offset rows before these */
export async function readCheckRows(
  { pool }: Db,
  auditId: bigint,
  { groups, search }: RowsWanted,
  { offset, limit }: { readonly offset: number; readonly limit: number },
): Promise<CheckRow[]> {
  const chosen = `SELECT * FROM (${GROUPED}) g WHERE place = ANY($3)
                   ORDER BY place, coalesce(entry, position) OFFSET $4 LIMIT $5`;
  const places = groups.map((group) => GROUPS.indexOf(group));
  const { rows } = await pool.query<CheckRow & { place: number }>(detailsOf(chosen), [
    auditId,
    patternOf(search),
    places,
    offset,
    limit,
  ]);
  return rows.map(withGroup);
}

/** One row of a check: a line, or the first one of a code. Null if the check has no such row. */
export async function readCheckRow(
  { pool }: Db,
  auditId: bigint,
  of: { readonly codeId: bigint } | { readonly entry: bigint },
): Promise<CheckRow | null> {
  const chosen = `SELECT * FROM (${GROUPED}) g WHERE code_id = $3 OR entry = $4 ORDER BY entry LIMIT 1`;
  const ids = 'codeId' in of ? [of.codeId, null] : [null, of.entry];
  const { rows } = await pool.query<CheckRow & { place: number }>(detailsOf(chosen), [
    auditId,
    null,
    ...ids,
  ]);
  return rows.map(withGroup)[0] ?? null;
}

function withGroup(row: CheckRow & { place: number }): CheckRow {
  return { ...row, group: GROUPS[row.place] ?? 'waiting' };
}

/** A pattern of ILIKE that finds the text; null for none. */
function patternOf(search: string | null): string | null {
  return search === null ? null : `%${search.replaceAll(/[\\%_]/g, '\\$&')}%`;
}

/** A finished check of a list of customers, and how many of them need somebody, as on its page. */
export interface CheckToAnswer {
  readonly auditId: bigint;
  readonly sellerId: string;
  /** The list's name. It may hold a purchase code, which viewers see masked. */
  readonly source: string;
  readonly finishedAt: Date;
  readonly customers: number;
}

/** Only the newest lists are counted. */
const MAX_TO_ANSWER = 3;

/**
 * The newest check of each list that finished within a week, if customers need somebody. A newer check of the same file
 * takes the place of an older one. A list of codes alone names no customer. Only of a list that repeats codes are lines
 * counted.
 * @param seller null: of all
 */
export async function listChecksToAnswer(
  { pool }: Db,
  seller: string | null = null,
): Promise<CheckToAnswer[]> {
  const { rows } = await pool.query<CheckToAnswer>(
    `SELECT * FROM (
       SELECT a.audit_id AS "auditId", a.seller_id AS "sellerId", a.source, a.finished_at AS "finishedAt",
              a.rejected + CASE WHEN lines = codes + rejected THEN no_longer_valid + invalid + unproven ELSE (
                SELECT count(*)::int FROM mirror.audit_codes c JOIN mirror.audit_entries e USING (audit_id, position)
                 WHERE c.audit_id = a.audit_id AND c.verdict IN ('no_longer_valid', 'invalid', 'unproven')) END AS customers
         FROM (SELECT DISTINCT ON (source, unnamed) *
                 FROM (SELECT *, CASE WHEN source = ANY ($2) THEN audit_id END AS unnamed FROM mirror.audits) s
                WHERE state = 'finished' AND finished_at > now() - interval '7 days' AND list_pruned_at IS NULL
                  AND cardinality(columns) > 1 AND ($3::text IS NULL OR seller_id = $3)
                ORDER BY source, unnamed, audit_id DESC) a
        WHERE a.rejected + a.no_longer_valid + a.invalid + a.unproven > 0
        ORDER BY a.audit_id DESC LIMIT $1) n
      WHERE customers > 0`,
    [MAX_TO_ANSWER, NAMES_WITHOUT_FILE, seller],
  );
  return rows;
}
