import type { Db } from '../db/db.js';

/** A list that came as an Excel workbook. */
export interface AuditWorkbook {
  readonly bytes: Buffer;
  /** The sheet with the list, by its part of the workbook. */
  readonly sheet: string;
  /** The row with the names of the columns, from 1; null if there is none. */
  readonly headerRow: number | null;
}

/** Keeps the workbook of an audit's list, until the list is pruned. */
export async function keepAuditWorkbook(
  { pool }: Db,
  { auditId, sellerId }: { readonly auditId: bigint; readonly sellerId: string },
  { bytes, sheet, headerRow }: AuditWorkbook,
): Promise<void> {
  await pool.query(
    `INSERT INTO mirror.audit_workbooks (audit_id, seller_id, sheet, header_row, content)
     VALUES ($1, $2, $3, $4, $5)`,
    [auditId, sellerId, sheet, headerRow, bytes],
  );
}

/** Reads the workbook of an audit's list, or null if it did not come as one. */
export async function readAuditWorkbook(
  { pool }: Db,
  auditId: bigint,
): Promise<AuditWorkbook | null> {
  const { rows } = await pool.query<AuditWorkbook>(
    `SELECT sheet, header_row AS "headerRow", content AS bytes
       FROM mirror.audit_workbooks WHERE audit_id = $1`,
    [auditId],
  );
  return rows[0] ?? null;
}
