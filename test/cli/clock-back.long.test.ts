import { describe, expect, it } from 'vitest';
import { createClock, startServerWith } from '../support/faked-clock.js';
import { query } from '../support/query.js';
import { until } from '../support/until.js';
import { stop, worldOf } from './clock-support.js';
import { start } from './support.js';

describe('when clocks go back', () => {
  it.each([
    // Clocks show two to three twice, from 0:00 and from 1:00 UTC.
    ['*/30 * * * *', 'Europe/Berlin', ['00:30', '01:00', '01:30']],
    // Clocks show one to three twice, from 23:00 and from 1:00 UTC.
    ['30 1 * * *', 'Antarctica/Troll', ['23:30']],
  ])('%s in %s has these times', async (cron, TZ, expected) => {
    const clock = await createClock();
    const showTime = (time: string): Promise<void> =>
      clock.set(Date.parse(`2026-10-25T${time}Z`) - Date.now());
    await showTime('00:45:00');
    const url = await startServerWith(clock);
    const { env, mirrored } = await worldOf(url);
    const service = start(['run'], { ...env, ...clock.env, SYNC_CRON: cron, TZ });
    const times = async (): Promise<readonly string[]> =>
      (await mirrored(0)).map((time) => time.slice(0, 5));
    const untilTimes = (count: number): Promise<void> =>
      until(async () => (await times()).length >= Math.min(count, expected.length));
    await untilTimes(1);
    await showTime('00:59:57');
    await untilTimes(2);
    await showTime('01:29:57');
    await until(async () => {
      const [row] = await query(url, `SELECT now() > '2026-10-25T01:30:20Z' AS is_later`);
      return row?.['is_later'] === true;
    });
    await untilTimes(3);
    await stop(service);
    expect(await times()).toEqual(expected);
  });
});
