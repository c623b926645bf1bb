/**
 * SQL of a call of this advisory lock function on the lock of a seller's items. A run shares it while
 * its transaction writes them, since it finds rows by their place, and who moves rows without being a
 * run takes it alone. The lock of the seller is another one: it is held for as long as a run lasts.
 * @param seller SQL of the seller's name
 */
export function itemsLockSql(lockFunction: string, seller: string): string {
  return `${lockFunction}(hashtextextended('seller-mirror/items/' || ${seller}, 0))`;
}
