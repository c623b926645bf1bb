import { describeSchedule } from '../queue/ticks.js';
import type { FiredSchedule, LiveProcess } from '../store/processes.js';
import { PAUSED } from '../store/sellers.js';
import type { SellerStatus } from '../store/status.js';

/** The schedules that living processes fire for a seller, each once. */
export function schedulesOf(
  sellerId: string,
  processes: readonly LiveProcess[],
): readonly FiredSchedule[] {
  const own = processes.flatMap(({ schedules }) =>
    schedules.filter(({ seller }) => seller === sellerId),
  );
  return [...new Map(own.map((one) => [`${one.kind} ${one.cron} ${one.timeZone}`, one])).values()];
}

/** Why nothing happens at the times of a seller's schedules; null when nothing keeps it from that. */
export function obstacleOf(
  { parked }: SellerStatus,
  processes: readonly LiveProcess[],
): string | null {
  if (parked !== null) {
    return `not while the seller is ${parked.code === PAUSED ? PAUSED : 'parked'}`;
  }
  return processes.some(({ roles }) => roles.includes('worker')) ? null : 'no worker is running';
}

/** The next three times of a schedule. */
export function nextTimes(schedule: FiredSchedule): readonly Date[] {
  return describeSchedule({ ...schedule, marketplace: '' }, new Date()).next;
}
