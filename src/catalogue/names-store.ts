import { UserError } from '../domain/user-error.js';
import { escapeIdentifier, type PoolClient } from 'pg';
import type { Db } from '../db/db.js';
import { type SellerLock, withSellerLock } from '../db/locks.js';

/**
 * Deletes a seller with all its rows.
 * @param options.force even while a check of it is running, or if the store does not know it
 * @returns the number of its items
 * @throws {UserError} for an unknown seller, or while one of its checks is running
 * @throws {UserError} `BUSY` while a run of the seller is in progress
 */
export async function removeSeller(
  db: Db,
  sellerId: string,
  { force = false }: { readonly force?: boolean } = {},
): Promise<number> {
  return withSellerLock(db, sellerId, (lock) =>
    inLockTransaction(lock, async (client) => {
      if (!force) await assertIdle(client, sellerId);
      return await deleteRows(client, sellerId);
    }),
  );
}

/**
 * Gives a seller another name, in all its rows. An unused seller of that name, such as one whose runs were refused
 * because of this seller, is deleted.
 * @throws {UserError} for an unknown seller, while one of its checks is running, or if the new name is the old
 *   one or has a copy
 * @throws {UserError} `BUSY` while a run of either seller is in progress
 */
export async function renameSeller(db: Db, sellerId: string, to: string): Promise<void> {
  if (sellerId === to) {
    throw new UserError(`seller "${to}" would keep its name`, 'give it another one', 'FAILED');
  }
  const rename = (lock: SellerLock): Promise<void> =>
    inLockTransaction(lock, async (client) => {
      await assertIdle(client, sellerId);
      await assertUnused(client, to);
      await deleteRows(client, to);
      // Most tables follow by their foreign key.
      for (const table of ['mirror.sellers', ...(await tablesOf(client))]) {
        const statement = `UPDATE ${table} SET seller_id = $2 WHERE seller_id = $1`;
        await client.query(statement, [sellerId, to]);
      }
    });
  await withSellerLock(db, sellerId, (lock) => withSellerLock(db, to, () => rename(lock)));
}

/**
 * Runs `work` in one transaction of the lock's connection: a big seller may take any time, and a lost lock rolls back.
 */
async function inLockTransaction<T>(
  { client }: SellerLock,
  work: (client: PoolClient) => Promise<T>,
): Promise<T> {
  await client.query('BEGIN ISOLATION LEVEL READ COMMITTED');
  try {
    const result = await work(client);
    await client.query('COMMIT');
    return result;
  } catch (error) {
    await client.query('ROLLBACK').catch(() => undefined);
    throw error;
  }
}

async function assertIdle(client: PoolClient, sellerId: string): Promise<void> {
  const { rows } = await client.query<{ audit: string | null }>(
    `SELECT (SELECT max(audit_id)::text FROM mirror.audits
              WHERE seller_id = s.seller_id AND state = 'running') AS audit
       FROM mirror.sellers s WHERE seller_id = $1`,
    [sellerId],
  );
  const [seller] = rows;
  if (seller === undefined) {
    throw new UserError(
      `there is no seller "${sellerId}" in the store`,
      '`seller-mirror sellers` lists them',
      'NOT_FOUND',
      2,
    );
  }
  if (seller.audit !== null) {
    throw new UserError(
      `check ${seller.audit} of seller "${sellerId}" is running`,
      `wait, or press Cancel on the page of the check; \`seller-mirror audits cancel ${seller.audit}\` does the same`,
      'FAILED',
    );
  }
}

async function assertUnused(client: PoolClient, sellerId: string): Promise<void> {
  const { rows } = await client.query<{ used: boolean }>(
    `SELECT EXISTS (SELECT FROM mirror.items WHERE seller_id = $1)
         OR EXISTS (SELECT FROM mirror.purchase_codes WHERE seller_id = $1)
         OR EXISTS (SELECT FROM mirror.audits WHERE seller_id = $1 AND state <> 'draft') AS used`,
    [sellerId],
  );
  if (rows[0]?.used !== true) return;
  throw new UserError(
    `seller "${sellerId}" has a copy or checks of its own`,
    `choose another name, or remove it first: \`seller-mirror sellers remove ${sellerId}\``,
    'FAILED',
  );
}

/** @returns the number of its items */
async function deleteRows(client: PoolClient, sellerId: string): Promise<number> {
  let items = 0;
  for (const table of await tablesOf(client)) {
    const { rowCount } = await client.query(`DELETE FROM ${table} WHERE seller_id = $1`, [
      sellerId,
    ]);
    if (table === '"mirror"."items"') items = rowCount ?? 0;
  }
  await client.query('DELETE FROM mirror.sellers WHERE seller_id = $1', [sellerId]);
  return items;
}

/** SQL names of the tables with rows of sellers, in an order in which rows may be deleted; not `sellers` itself. */
async function tablesOf(client: PoolClient): Promise<readonly string[]> {
  const { rows } = await client.query<{ name: string; parents: string[] }>(
    `SELECT t.relname AS name,
            ARRAY(SELECT p.relname::text FROM pg_constraint k JOIN pg_class p ON p.oid = k.confrelid
                   WHERE k.contype = 'f' AND k.conrelid = t.oid AND k.confrelid <> t.oid) AS parents
       FROM pg_class t JOIN pg_attribute a ON a.attrelid = t.oid AND a.attname = 'seller_id' AND NOT a.attisdropped
      WHERE t.relnamespace = 'mirror'::regnamespace AND t.relkind = 'r' AND t.relname <> 'sellers'`,
  );
  const left = new Map(rows.map(({ name, parents }) => [name, parents]));
  const order: string[] = [];
  while (left.size > 0) {
    const isParent = (name: string): boolean =>
      [...left].some(([child, parents]) => child !== name && parents.includes(name));
    const next = [...left.keys()].find((name) => !isParent(name));
    if (next === undefined)
      throw new Error('the tables of sellers refer to each other in a circle');
    order.push(next);
    left.delete(next);
  }
  return order.map((name) => `"mirror".${escapeIdentifier(name)}`);
}
