import { openMirror } from 'seller-mirror';

// Without DATABASE_URL: the embedded server in ./data.
const mirror = await openMirror({ databaseUrl: process.env['DATABASE_URL'] });

const now = new Date();
const monthBegan = new Date(Date.UTC(now.getUTCFullYear(), now.getUTCMonth()));
const purchases = await mirror.reportingPurchases.groupBy({
  by: ['itemName', 'currency'],
  where: { purchasedAt: { gte: monthBegan } },
  _count: true,
  _sum: { price: true },
  orderBy: { itemName: 'asc' },
});
console.log('New purchases this month');
for (const { itemName, currency, _count, _sum } of purchases) {
  const revenue = _sum.price === null ? '' : `: ${_sum.price.toFixed(2)} ${currency}`;
  console.log(`  ${_count} × ${itemName ?? 'unknown item'}${revenue}`);
}

const weekAgo = new Date(now.getTime() - 7 * 86_400_000);
const changes = await mirror.reportingPriceChanges.findMany({
  where: { changedAt: { gte: weekAgo } },
  orderBy: { seq: 'asc' },
});
const amount = (price: { toFixed(digits: number): string } | null): string =>
  price?.toFixed(2) ?? 'none';
console.log('Prices that changed last week');
for (const { itemName, price, oldPrice, newPrice, currency } of changes) {
  console.log(`  ${itemName}, ${price}: ${amount(oldPrice)} → ${amount(newPrice)} ${currency}`);
}

await mirror.close();
