import { onlyRow } from '../db/connection.js';
import type { Db } from '../db/db.js';
import { LONGEST_TEXT, storable } from '../db/stored-text.js';
import type { Json } from '../domain/item.js';
import { storableJson } from '../domain/values.js';
import type { LoadReport } from './enter-list.js';
import type { Doubt } from './lists/doubt.js';
import type { CheckCost } from './progress.js';
import type { AuditSize } from './types.js';

/** What reading an uploaded list found, as `codes check --dry-run` tells it. */
export interface DraftReading {
  /** Sentences that explain how the list was read. */
  readonly sentences: readonly string[];
  readonly columns: readonly string[];
  /** The first lines without a code. */
  readonly rejected: LoadReport['firstRejected'];
  readonly size: AuditSize;
  readonly cost: CheckCost;
  /** 0: unlimited. */
  readonly requestsPerMinute: number;
  /** Set when the list does not look like purchase codes. */
  readonly doubt: Doubt | null;
  readonly isValidCodeKnown: boolean;
}

/** An uploaded list whose check was not started: an audit in state `draft`. */
export interface Draft {
  readonly auditId: bigint;
  readonly sellerId: string;
  /** File name, or `pasted list`. */
  readonly name: string;
  /** The column and the sheet that a person chose; empty: found by itself. */
  readonly column: string;
  readonly sheet: string;
  /** Null until the list was read. */
  readonly reading: DraftReading | null;
  /** Why it could not be read or, once it was read, not be started. */
  readonly problem: { readonly message: string; readonly remedy: string } | null;
}

/** Hash of the form token of the session that uploaded a list. Other sessions can't see it. */
export type DraftOwner = Uint8Array<ArrayBuffer>;

/** Stores an uploaded list. @returns its id, which becomes that of its check */
export async function addDraft(
  { pool }: Db,
  owner: DraftOwner,
  list: { readonly sellerId: string; readonly name: string; readonly content: Buffer },
): Promise<bigint> {
  const added = await pool.query<{ auditId: bigint }>(
    `WITH audit AS (
       INSERT INTO mirror.audits (seller_id, state, source, layout, columns, lines, rejected, codes, reused, valid,
                                  invalid, unproven, pending)
       VALUES ($1, 'draft', $2, '{}', '{}', 0, 0, 0, 0, 0, 0, 0, 0) RETURNING audit_id)
     INSERT INTO mirror.audit_drafts (audit_id, owner, content)
     SELECT audit_id, $3, $4 FROM audit RETURNING audit_id AS "auditId"`,
    [list.sellerId, storable(list.name, LONGEST_TEXT), owner, list.content],
  );
  return onlyRow(added).auditId;
}

/** The draft of this session; null when it was started, or deleted after an hour. */
export async function readDraft(
  { pool }: Db,
  owner: DraftOwner,
  auditId: bigint,
): Promise<Draft | null> {
  const { rows } = await pool.query<Draft>(
    `SELECT audit_id AS "auditId", a.seller_id AS "sellerId", a.source AS name, d.chosen_column AS column,
            d.chosen_sheet AS sheet, d.reading, d.problem
       FROM mirror.audit_drafts d JOIN mirror.audits a USING (audit_id)
      WHERE audit_id = $1 AND d.owner = $2 AND a.created_at > now() - interval '1 hour'`,
    [auditId, owner],
  );
  return rows[0] ?? null;
}

/** The file of a draft. @throws when the draft is gone */
export async function readDraftContent({ pool }: Db, auditId: bigint): Promise<Buffer> {
  const found = await pool.query<{ content: Buffer }>(
    'SELECT content FROM mirror.audit_drafts WHERE audit_id = $1',
    [auditId],
  );
  return onlyRow(found).content;
}

/** Chooses the column and the sheet of a draft, which is no longer read then. */
export async function chooseColumn(
  { pool }: Db,
  { auditId, column, sheet }: Pick<Draft, 'auditId' | 'column' | 'sheet'>,
): Promise<void> {
  await pool.query(
    `UPDATE mirror.audit_drafts SET chosen_column = $2, chosen_sheet = $3, reading = NULL, problem = NULL
      WHERE audit_id = $1`,
    [auditId, column, sheet],
  );
}

/** Records what reading a draft found, or why it could not be read or started. */
export async function recordDraft(
  { pool }: Db,
  auditId: bigint,
  { reading, problem }: Partial<Pick<Draft, 'reading' | 'problem'>>,
): Promise<void> {
  const json = (value: object | null = null): string | null =>
    value === null ? null : JSON.stringify(storableJson(value as Json));
  await pool.query(
    `UPDATE mirror.audit_drafts SET reading = coalesce($2, reading), problem = $3 WHERE audit_id = $1`,
    [auditId, json(reading), json(problem)],
  );
}
