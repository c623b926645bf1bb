import { hash } from 'node:crypto';
import type { PoolClient } from 'pg';
import type { RowStamp } from './item-rows.js';

/** A record that could not be decoded. */
export interface QuarantineEntry {
  readonly itemId: number | null;
  readonly reason: string;
  readonly bytes: Uint8Array;
}

const MAX_RAW_BYTES = 1 << 20;

/** Keeps records that could not be decoded; a record that comes again only renews its dates. */
export async function saveQuarantine(
  client: PoolClient,
  stamp: RowStamp,
  entries: readonly QuarantineEntry[],
): Promise<void> {
  if (entries.length === 0) return;
  const distinct = new Map(
    entries.map((entry) => [hash('sha256', entry.bytes, 'hex'), entry] as const),
  );
  const rows = [...distinct.values()];
  await client.query(
    `INSERT INTO mirror.quarantine
       (seller_id, item_id, reason, raw, raw_hash, first_run_id, last_run_id, first_seen_at, last_seen_at)
     SELECT $1, item_id, reason, raw, decode(raw_hash, 'hex'), $2, $2, $3, $3
       FROM unnest($4::bigint[], $5::text[], $6::text[], $7::text[])
         AS entry (item_id, reason, raw, raw_hash)
     ON CONFLICT (seller_id, raw_hash) DO UPDATE
       SET last_run_id = excluded.last_run_id, last_seen_at = excluded.last_seen_at,
           reason = excluded.reason`,
    [
      stamp.sellerId,
      stamp.runId,
      stamp.at,
      rows.map((row) => row.itemId),
      rows.map((row) => storable(row.reason)),
      rows.map((row) => rawText(row.bytes)),
      [...distinct.keys()],
    ],
  );
}

function rawText(bytes: Uint8Array): string {
  return storable(Buffer.from(bytes.subarray(0, MAX_RAW_BYTES)).toString('utf8'));
}

function storable(text: string): string {
  return text.replaceAll('\0', '\uFFFD');
}
