import { accountHash, extraHash } from '../domain/prepare-item.js';
import type { Account, Json } from '../domain/item.js';
import { storableJson } from '../domain/values.js';
import type { RowStamp } from './item-rows.js';
import type { SellerLock } from './locks.js';

export interface AccountRecord {
  readonly value: Account;
  readonly extra: { readonly [path: string]: Json };
  readonly raw: Json;
}

export type AccountChange = 'added' | 'changed' | 'extra-changed' | 'unchanged';

/** Saves an account that differs from the stored one, which is kept as a version. */
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
    ...[stamp.sellerId, stamp.at, stamp.runId, contentHash, JSON.stringify(record.extra)],
    JSON.stringify(storableJson(record.raw)),
    ...Object.values(FIELDS).map((field) =>
      field === 'socialLinks' ? JSON.stringify(value.socialLinks) : value[field],
    ),
  ]);
  if (before === undefined) return 'added';
  return sameContent ? 'extra-changed' : 'changed';
}

const FIELDS = {
  username: 'username',
  firstname: 'firstname',
  lastname: 'lastname',
  full_name: 'fullName',
  email: 'email',
  balance: 'balance',
  currency: 'currency',
  heading: 'heading',
  description: 'description',
  contact_email: 'contactEmail',
  social_links: 'socialLinks',
  avatar_url: 'avatarUrl',
  cover_url: 'coverUrl',
  registered_at: 'registeredAt',
} as const satisfies Readonly<Record<string, keyof Account>>;
const COLUMNS = Object.keys(FIELDS);

/** It always grows, even if a clock goes back: no two states of an account overlap in time. */
const NEXT_CHANGED_AT = `greatest($2::timestamptz, accounts.changed_at + interval '1 microsecond')`;

/** Keeps the account as it is before a change of its canonical fields; unknown ones have no history. */
const UPSERT = `
  WITH kept AS (
    INSERT INTO mirror.account_versions
      (seller_id, ${COLUMNS.join(', ')}, first_seen_at,
       synced_run_id, valid_from, valid_to, superseded_run_id)
    SELECT seller_id, ${COLUMNS.join(', ')}, first_seen_at,
           synced_run_id, changed_at, ${NEXT_CHANGED_AT}, $3
      FROM mirror.accounts WHERE seller_id = $1 AND content_hash <> $4
  )
  INSERT INTO mirror.accounts
    (seller_id, first_seen_at, changed_at, synced_run_id, content_hash, extra, raw,
     ${COLUMNS.join(', ')})
  VALUES ($1, $2, $2, $3, $4, $5, $6, ${COLUMNS.map((_, n) => `$${n + 7}`).join(', ')})
  ON CONFLICT (seller_id) DO UPDATE SET
    ${COLUMNS.map((column) => `${column} = excluded.${column}`).join(', ')},
    synced_run_id = CASE WHEN accounts.content_hash <> excluded.content_hash
                         THEN excluded.synced_run_id ELSE accounts.synced_run_id END,
    changed_at = CASE WHEN accounts.content_hash <> excluded.content_hash
                      THEN ${NEXT_CHANGED_AT} ELSE accounts.changed_at END,
    content_hash = excluded.content_hash, extra = excluded.extra, raw = excluded.raw`;
