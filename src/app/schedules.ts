import type { SellerConfig } from '../config/index.js';
import { hostName } from '../domain/address.js';
import type { ScheduleKind, SellerSchedule } from '../queue/scheduler.js';

/** The schedules that the configuration asks for. */
export function schedulesOf(sellers: readonly SellerConfig[]): readonly SellerSchedule[] {
  return sellers.flatMap((seller) =>
    (
      [
        ['sync', seller.syncCron],
        ['account', seller.accountCron],
        ['recheck', seller.auditCron],
      ] as const satisfies readonly (readonly [ScheduleKind, string | null])[]
    ).flatMap(([kind, cron]) =>
      cron === null
        ? []
        : [
            {
              seller: seller.name,
              marketplace: hostName(seller.url),
              kind,
              cron,
              timeZone: seller.timeZone,
            },
          ],
    ),
  );
}
