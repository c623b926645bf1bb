import { describeSchedule } from '../service/ticks.js';
import type { FiredSchedule, LiveProcess } from '../store/processes.js';
import { PAUSED } from '../store/sellers.js';
import type { SellerStatus } from '../store/status.js';

/** A seller's distinct schedules in the running processes. */
export function schedulesOf(
  sellerId: string,
  processes: readonly LiveProcess[],
): readonly FiredSchedule[] {
  const own = processes.flatMap(({ schedules }) =>
    schedules.filter(({ seller }) => seller === sellerId),
  );
  return [...new Map(own.map((one) => [`${one.kind} ${one.cron} ${one.timeZone}`, one])).values()];
}

/** Why a seller's schedules would not run now; null when they would. */
export function obstacleOf(
  { parked }: SellerStatus,
  processes: readonly LiveProcess[],
): string | null {
  if (parked !== null) {
    return `not while ${parked.code === PAUSED ? PAUSED : 'parked'}`;
  }
  return processes.some(({ roles }) => roles.includes('worker')) ? null : 'no worker is running';
}

/** The next three times a schedule fires. */
export function nextTimes(schedule: FiredSchedule): readonly Date[] {
  return describeSchedule({ ...schedule, marketplace: '' }, new Date()).next;
}
