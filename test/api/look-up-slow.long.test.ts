import { expect, it } from 'vitest';
import { useMirror } from '../support/mirror.js';
import { useDesks } from './support.js';

const openDesk = useDesks(useMirror());

it('a silent account is an outage for all who wait for the one call, not a busy budget', async () => {
  const { ask, sold, sim } = await openDesk();
  sim.faults.always('account', { kind: 'stall', ms: 60_000 });
  const answers = await Promise.all([0, 1, 2].map((at) => ask({ code: sold(at) })));
  const unavailable = { verdict: 'unproven', reason: 'the marketplace was not available' };
  expect(answers).toMatchObject([unavailable, unavailable, unavailable]);
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
