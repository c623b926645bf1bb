import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { afterFailure, afterSuccess, NO_OUTAGE, type OutageStep } from '../../src/queue/outage.js';

/** What is said when these things happen at these seconds. */
function story(events: readonly (readonly ['fails' | 'works', number])[]): string[] {
  let state = NO_OUTAGE;
  const said: string[] = [];
  for (const [event, second] of events) {
    const step: OutageStep =
      event === 'fails' ? afterFailure(state, second * 1_000) : afterSuccess(state);
    ({ state } = step);
    if (step.say !== null) said.push(`${second}: ${step.say}`);
  }
  return said;
}

describe('an outage', () => {
  it('is told when it begins, once a minute while it lasts, and when it ends', () => {
    const failures = Array.from({ length: 150 }, (_, second) => ['fails', second] as const);
    expect(story([...failures, ['works', 150], ['works', 151]])).toEqual([
      '0: lost',
      '60: still-lost',
      '120: still-lost',
      '150: back',
    ]);
  });

  it('is not worth a word while all is well', () => {
    expect(story([['works', 0], ['works', 100]])).toEqual([]); // prettier-ignore
  });

  it('that comes back within a minute is told again only after that minute', () => {
    const story_ = [['fails', 0], ['works', 5], ['fails', 10], ['works', 12], ['fails', 61]] as const; // prettier-ignore
    expect(story(story_)).toEqual(['0: lost', '5: back', '61: lost']);
  });

  it('never makes more than a line or two a minute, however it flickers', () => {
    const event = fc.tuple(fc.constantFrom('fails' as const, 'works' as const), fc.nat(3));
    fc.assert(
      fc.property(fc.array(event, { maxLength: 300 }), (steps) => {
        let now = 0;
        const said = story(steps.map(([what, pause]) => [what, (now += pause)] as const));
        const warned = said.filter((line) => !line.includes('back'));
        expect(warned.length).toBeLessThanOrEqual(1 + now / 60);
        expect(said.length - warned.length).toBeLessThanOrEqual(warned.length);
      }),
    );
  });
});
