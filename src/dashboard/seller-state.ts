import type { LiveProcess } from '../service/processes-store.js';
import type { StoredSchedule } from '../service/schedules-store.js';
import { PAUSED } from '../catalogue/sellers-store.js';
import type { SellerStatus } from '../catalogue/status-store.js';

/** A seller's schedules; none if no scheduler is running. */
export function schedulesOf(
  sellerId: string,
  schedules: readonly StoredSchedule[],
  processes: readonly LiveProcess[],
): readonly StoredSchedule[] {
  if (!processes.some(({ roles }) => roles.includes('scheduler'))) return [];
  return schedules.filter(({ kind, name }) => kind !== 'feed' && name === sellerId);
}

/** Why a seller's schedules would not run now; null when they would. */
export function obstacleOf(
  { parked }: SellerStatus,
  processes: readonly LiveProcess[],
): string | null {
  if (parked !== null) {
    return `not while ${parked.code === PAUSED ? PAUSED : 'stopped'}`;
  }
  return processes.some(({ roles }) => roles.includes('worker')) ? null : 'no worker is running';
}
