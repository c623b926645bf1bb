import { describe, expect, it } from 'vitest';
import { Canaries } from '../../src/codes/canaries.js';

/** Asks for the next code and notes the answer. */
function prove(canaries: Canaries, answer: 'found' | 'denied'): string | null {
  const code = canaries.next();
  if (code !== null) canaries.note(code, answer);
  return code;
}

describe('the known valid codes that prove a key', () => {
  it('take turns, so that neither a cache nor one lucky code vouches for everything', () => {
    const canaries = new Canaries();
    canaries.add(['live', 'older', 'removed']);
    const asked = Array.from({ length: 7 }, () => prove(canaries, 'found'));
    expect(asked).toEqual(['live', 'older', 'removed', 'live', 'older', 'removed', 'live']);
  });

  it('are asked before those that proved it already when a check finds more of them', () => {
    const canaries = new Canaries();
    canaries.add(['known']);
    expect(prove(canaries, 'found')).toBe('known');
    canaries.found('found by a check');
    expect(prove(canaries, 'found')).toBe('found by a check');
    expect(prove(canaries, 'found')).toBe('known');
  });

  it('are not those that a cache may repeat, after one of them was denied', () => {
    const canaries = new Canaries();
    canaries.add(['asked', 'denied', 'unasked']);
    prove(canaries, 'found');
    prove(canaries, 'denied');
    expect(prove(canaries, 'denied')).toBe('unasked');
    // None that is unasked is left: only the denied ones can show that the key is good again.
    expect(['denied', 'unasked']).toContain(prove(canaries, 'denied'));
  });
});
