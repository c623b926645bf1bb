import { setTimeout as sleep } from 'node:timers/promises';
import { expect, it } from 'vitest';
import type { CountedCode } from '../../../src/jobs/codes/types.js';
import { validatedCodes } from '../../cli/support.js';
import {
  validateBatch,
  cached,
  failingOn,
  invalidCodes,
  listOf,
  openShop,
  shuffled,
  recording,
  truthOf,
  verdictsOf,
} from './support.js';

async function shopWith(count: number, nth?: number) {
  const shop = await openShop();
  return { shop, codes: listOf(shop, count, nth) };
}

it('continues from the state of the batch before, without new proofs', async () => {
  const shop = await openShop();
  const { endState } = await validateBatch(shop, { codes: listOf(shop, 50) });
  const before = shop.sim.requestCount;
  const codes = listOf(shop, 150)
    .slice(50)
    .map((code) => code.toUpperCase());
  const valid = codes.filter((code) => shop.truth(code) === 'valid');
  const report = await validateBatch(shop, { codes: valid, startState: endState });
  expect(verdictsOf(report)).toEqual(truthOf(shop, valid));
  expect(shop.sim.requestCount - before).toBe(valid.length);
});

it('yields denials long before the end, so that a kill loses little', async () => {
  const { shop, codes } = await shopWith(1_000, 2);
  const yielded = new Set<string>();
  let longest = 0;
  await validateBatch(shop, {
    codes,
    onCounted: (counted) => {
      for (const { code } of counted) yielded.add(code);
      const sent = new Set(validatedCodes(shop.sim));
      longest = Math.max(
        longest,
        codes.filter((code) => sent.has(code) && !yielded.has(code)).length,
      );
    },
  });
  expect(yielded.size).toBe(codes.length);
  expect(longest).toBeLessThan(130);
});

it('counts an all-invalid list, for one canary per 25 denials or fewer', async () => {
  const shop = await openShop();
  const codes = invalidCodes(400);
  const report = await validateBatch(shop, { codes });
  expect(verdictsOf(report)).toEqual(truthOf(shop, codes));
  expect(shop.sim.requestCount).toBeLessThanOrEqual(1.1 * codes.length);
});

it('proves pending denials before it closes', async () => {
  const shop = await openShop();
  const codes = invalidCodes(200);
  const closing = new AbortController();
  shop.sim.afterRequests(40, () => closing.abort());
  const report = await validateBatch(shop, { codes, closing: closing.signal });
  expect(report.stop).toMatchObject({ reason: 'aborted' });
  expect(report.left.length).toBeGreaterThan(140);
  expect(report.counted.length).toBe(codes.length - report.left.length);
  expect(new Set(Object.values(verdictsOf(report)))).toEqual(new Set(['invalid']));
});

it('stops after two challenges', async () => {
  const shop = await openShop();
  shop.sim.faults.always('validate', { kind: 'challenge', status: 403 });
  const report = await validateBatch(shop, {
    codes: listOf(shop, 500),
    concurrency: 1,
    canaries: [],
  });
  expect(report.stop).toMatchObject({ reason: 'challenge' });
  expect(shop.sim.requestCount).toBe(3);
});

it('retries codes whose replies were lost', async () => {
  const { shop, codes } = await shopWith(100, 4);
  let requests = 0;
  for (let at = 10; at < 100; at += 12) {
    shop.sim.afterRequests(at, () => shop.sim.faults.next('any', { kind: 'html' }));
    requests++;
  }
  const report = await validateBatch(shop, { codes });
  expect(verdictsOf(report)).toEqual(truthOf(shop, codes));
  expect(shop.sim.requestCount).toBeLessThan(codes.length + 4 * requests);
});

it('sends the next code before it yields the last one', async () => {
  const { shop, codes } = await shopWith(5);
  const sent: string[] = [];
  const lead: number[] = [];
  const onCounted = (counted: readonly CountedCode[]): void => {
    for (const { code } of counted) lead.push(sent.length - sent.indexOf(code));
  };
  await validateBatch(recording(shop, sent), { codes, canaries: [], concurrency: 1, onCounted });
  expect(lead).toEqual([2, 2, 2, 2, 1]);
});

it('yields verdicts along the way even if replies take no time', async () => {
  const { shop, codes } = await shopWith(200, 1_000);
  const sent: string[] = [];
  const waiting: number[] = [];
  let yielded = 0;
  const onCounted = (counted: readonly CountedCode[]): void => {
    waiting.push(sent.length - yielded);
    yielded += counted.length;
  };
  const report = await validateBatch(recording(await cached(shop, codes, 'at once'), sent), {
    codes,
    onCounted,
  });
  expect(verdictsOf(report)).toEqual(truthOf(shop, codes));
  expect(Math.max(...waiting)).toBeLessThan(50);
});

it('reads all replies that came together before it requests a proof', async () => {
  const shop = await openShop();
  const codes = shuffled(listOf(shop, 500, 5));
  const sent: string[] = [];
  const report = await validateBatch(recording(await cached(shop, codes, 'together'), sent), {
    codes,
  });
  expect(verdictsOf(report)).toEqual(truthOf(shop, codes));
  expect(sent.length - codes.length).toBeLessThanOrEqual(17);
});

it('sends no code while its reader is busy', async () => {
  const { shop, codes } = await shopWith(200);
  const sent: string[] = [];
  const sentMeanwhile: number[] = [];
  const onCounted = async (): Promise<void> => {
    const before = sent.length;
    await sleep(5);
    sentMeanwhile.push(sent.length - before);
  };
  const report = await validateBatch(recording(shop, sent), { codes, onCounted });
  expect(verdictsOf(report)).toEqual(truthOf(shop, codes));
  expect(sentMeanwhile.length).toBeGreaterThan(10);
  expect(new Set(sentMeanwhile)).toEqual(new Set([0]));
});

it('does not stop for an outage when the marketplace fails only on some codes', async () => {
  const shop = await openShop();
  const failing = Array.from({ length: 40 }, (_, i) => `of-a-deleted-item-${i}`);
  const others = listOf(shop, 60, 4);
  const report = await validateBatch(failingOn(shop, failing), { codes: [...failing, ...others] });
  expect(report).toMatchObject({ left: [], stop: null });
  expect(verdictsOf(report)).toEqual({
    ...truthOf(shop, others),
    ...Object.fromEntries(failing.map((code) => [code, 'unproven'])),
  });
  expect(shop.timesValidated(shop.canary)).toBeLessThan(25);
});

it('stops for an outage when the canary fails too', async () => {
  const { shop, codes } = await shopWith(100);
  const report = await validateBatch(failingOn(shop, [...codes, shop.canary]), { codes });
  expect(report.stop).toMatchObject({ reason: 'unavailable' });
  expect(report.left.length).toBeGreaterThan(50);
});
