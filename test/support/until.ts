import { setTimeout as sleep } from 'node:timers/promises';

/** Waits until the condition is true. The test times out if it never is. */
export async function until(condition: () => boolean | Promise<boolean>): Promise<void> {
  while (!(await condition())) await sleep(20);
}
