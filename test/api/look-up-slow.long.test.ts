import { setTimeout as sleep } from 'node:timers/promises';
import { expect, it } from 'vitest';
import { useMirror } from '../support/mirror.js';
import { useDesks } from './support.js';

const mirror = useMirror();
const openDesk = useDesks(mirror);

it('a silent account is an outage for all who wait for the one call, not a busy budget; the call ends after 15 s, and the next caller begins another one', async () => {
  const { ask, sold, sim } = await openDesk();
  sim.faults.always('account', { kind: 'stall', ms: 60_000 });
  const answers = await Promise.all([0, 1, 2].map((at) => ask({ code: sold(at) })));
  const unavailable = { verdict: 'unproven', reason: 'the marketplace was not available' };
  expect(answers).toMatchObject([unavailable, unavailable, unavailable]);
  sim.faults.clear();
  // The first caller came before the proof sent its request.
  await sleep(1_000);
  expect(await ask({ code: sold(1) })).toMatchObject({ verdict: 'valid' });
});

it('a marketplace that the client will try again was asked, so that no busy budget is told of', async () => {
  const { ask, sold, sim } = await openDesk();
  sim.faults.always('validate', { kind: 'rate-limited', retryAfter: 14 });
  const reason = 'the marketplace was not available';
  expect(await ask({ code: sold(0) })).toMatchObject({ verdict: 'unproven', reason });
});

it('the key is proven anew after a code without an answer in time, which is recorded', async () => {
  const { ask, sold, sim } = await openDesk();
  await ask({ code: sold(0) });
  sim.faults.next('validate', { kind: 'stall', ms: 60_000 });
  expect(await ask({ code: sold(1) })).toMatchObject({ verdict: 'unproven' });
  const checks = await mirror().rows(`SELECT FROM mirror.code_checks WHERE reason = 'unavailable'`);
  expect(checks).toHaveLength(1);
  const before = sim.requestCount;
  expect(await ask({ code: sold(2) })).toMatchObject({ verdict: 'valid' });
  expect(sim.requestCount - before).toBe(3);
});

it('other work used the budget if the marketplace was never asked, and no check is recorded', async () => {
  const { ask, sold } = await openDesk({ env: { REQUESTS_PER_MINUTE: '1', API_SHARE: '100' } });
  const answer = await ask({ code: sold(0) });
  expect(answer).toMatchObject({ verdict: 'unproven', again_after: 30 });
  expect(answer.reason).toMatch(/^other work used/);
});

it('no further code of a request that takes too long is asked for, so that the answer comes in time', async () => {
  const { ask, askMany, sold, sim } = await openDesk();
  const known = sold(90);
  await ask({ code: known });
  sim.faults.always('validate', { kind: 'stall', ms: 4_000 });
  const before = sim.requestCount;
  const codes = Array.from({ length: 40 }, (_, at) => sold(at));
  const results = await askMany({ codes: [...codes, known], max_age: 0 });
  expect(results[0]).toMatchObject({ verdict: 'valid' });
  expect(results[39]).toMatchObject({
    verdict: 'unproven',
    reason: 'the other codes of the request took too long',
    again_after: 1,
  });
  expect(results[40]).toMatchObject({ verdict: 'valid', stale: true });
  // Eight at a time, three times.
  expect(sim.requestCount - before).toBeLessThanOrEqual(3 * 8);
});
