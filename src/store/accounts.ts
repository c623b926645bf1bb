import { accountHash, extraHash } from '../domain/prepare-item.js';
import type { Account, Json } from '../domain/item.js';
import { Tolerated, storableJson } from '../domain/values.js';
import type { RowStamp } from './item-rows.js';
import type { SellerLock } from './lock.js';

/** An account as the marketplace answered it. */
export interface AccountRecord {
  readonly value: Account;
  readonly extra: { readonly [path: string]: Json };
  readonly raw: Json;
}

export type AccountChange = 'added' | 'changed' | 'extra-changed' | 'unchanged';

/**
 * Saves the account when it differs from the stored one, which is kept as a version; an unchanged
 * account writes no row.
 */
export async function saveAccount(
  { client }: SellerLock,
  stamp: RowStamp,
  record: AccountRecord,
): Promise<AccountChange> {
  const { value } = record;
  const contentHash = Buffer.from(accountHash(value));
  const stored = await client.query<{ content_hash: Buffer; extra: { [path: string]: Json } }>(
    'SELECT content_hash, extra FROM mirror.accounts WHERE seller_id = $1',
    [stamp.sellerId],
  );
  const before = stored.rows[0];
  const sameContent = before?.content_hash.equals(contentHash) ?? false;
  const sameExtra =
    before !== undefined && extraHash(before.extra).equals(Buffer.from(extraHash(record.extra)));
  if (sameContent && sameExtra) return 'unchanged';
  await client.query(UPSERT, [
    stamp.sellerId,
    value.username,
    value.firstname,
    value.lastname,
    value.fullName,
    value.email,
    value.balance,
    value.currency,
    value.heading,
    value.description,
    value.contactEmail,
    JSON.stringify(value.socialLinks),
    value.avatarUrl,
    value.coverUrl,
    value.registeredAt,
    stamp.at,
    stamp.runId,
    contentHash,
    JSON.stringify(record.extra),
    JSON.stringify(storableJson(record.raw, new Tolerated())),
  ]);
  if (before === undefined) return 'added';
  return sameContent ? 'extra-changed' : 'changed';
}

/** It always grows, even if a clock goes back: no two states of an account overlap in time. */
function nextChangedAt(at: string): string {
  return `greatest(${at}::timestamptz, accounts.changed_at + interval '1 microsecond')`;
}

/** The account as it is before a change of its canonical fields; unknown fields have no history. */
const KEPT = `
  INSERT INTO mirror.account_versions
    (seller_id, username, firstname, lastname, full_name, email, balance, currency, heading,
     description, contact_email, social_links, avatar_url, cover_url, registered_at, first_seen_at,
     synced_run_id, valid_from, valid_to, superseded_run_id)
  SELECT seller_id, username, firstname, lastname, full_name, email, balance, currency, heading,
         description, contact_email, social_links, avatar_url, cover_url, registered_at,
         first_seen_at, synced_run_id, changed_at, ${nextChangedAt('$16')}, $17
    FROM mirror.accounts WHERE seller_id = $1 AND content_hash <> $18`;

const UPSERT = `
  WITH kept AS (${KEPT})
  INSERT INTO mirror.accounts
    (seller_id, username, firstname, lastname, full_name, email, balance, currency, heading,
     description, contact_email, social_links, avatar_url, cover_url, registered_at,
     first_seen_at, changed_at, synced_run_id, content_hash, extra, raw)
  VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16, $16, $17, $18, $19, $20)
  ON CONFLICT (seller_id) DO UPDATE SET
    username = excluded.username, firstname = excluded.firstname, lastname = excluded.lastname,
    full_name = excluded.full_name, email = excluded.email, balance = excluded.balance,
    currency = excluded.currency, heading = excluded.heading, description = excluded.description,
    contact_email = excluded.contact_email, social_links = excluded.social_links,
    avatar_url = excluded.avatar_url, cover_url = excluded.cover_url,
    registered_at = excluded.registered_at,
    synced_run_id = CASE WHEN accounts.content_hash <> excluded.content_hash
                         THEN excluded.synced_run_id ELSE accounts.synced_run_id END,
    changed_at = CASE WHEN accounts.content_hash <> excluded.content_hash
                      THEN ${nextChangedAt('excluded.changed_at')} ELSE accounts.changed_at END,
    content_hash = excluded.content_hash, extra = excluded.extra, raw = excluded.raw`;
