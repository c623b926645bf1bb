import type { SellerConfig } from '../config/index.js';
import { hostName } from '../domain/address.js';
import type { SellerSchedule } from '../queue/ticks.js';

export function schedulesOf(sellers: readonly SellerConfig[]): readonly SellerSchedule[] {
  return sellers.flatMap(({ name, url, timeZone, syncCron, accountCron, auditCron }) => {
    const seller = { seller: name, marketplace: hostName(url), timeZone };
    const crons = { sync: syncCron, account: accountCron, recheck: auditCron };
    return (['sync', 'account', 'recheck'] as const).flatMap((kind) => {
      const cron = crons[kind];
      return cron === null ? [] : [{ ...seller, kind, cron }];
    });
  });
}
