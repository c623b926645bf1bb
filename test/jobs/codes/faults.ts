import type { Fault, Simulator } from '../../../src/simulator/index.js';
import { diceOf } from '../../domain/codes/support.js';

/**
 * Every kind of fault, in several notations. Left out is a key that is refused for a single
 * validation: the marketplace then gives the very denial of an invalid code.
 */
export const EVERY_FAULT: readonly Fault[] = [
  { kind: 'rate-limited', retryAfter: 0 },
  { kind: 'rate-limited', body: 'html', retryAfter: 0, form: 'date' },
  { kind: 'rate-limited', retryAfter: null },
  { kind: 'server-error', status: 500, echo: true },
  { kind: 'server-error', status: 502, body: 'html' },
  { kind: 'maintenance' },
  { kind: 'maintenance', body: 'html', retryAfter: 0 },
  { kind: 'maintenance-redirect' },
  { kind: 'switched-off', body: 'json' },
  { kind: 'switched-off', body: 'html' },
  { kind: 'challenge', status: 403 },
  { kind: 'challenge', status: 429 },
  { kind: 'challenge', status: 503 },
  { kind: 'html' },
  { kind: 'html', status: 404 },
  { kind: 'empty' },
  { kind: 'empty', status: 404 },
  { kind: 'wrong-type', json: 'array' },
  { kind: 'wrong-type', json: 'null' },
  { kind: 'reply', status: 404, body: '{"message":"Not Found"}' },
  { kind: 'reply', status: 400, body: '{"status":"error","msg":"Something went wrong"}' },
  { kind: 'reply', status: 200, body: '{"status":"success"}' },
  { kind: 'redirect', to: 'origin', origin: 'http://127.0.0.1:9' },
  { kind: 'redirect', to: 'home' },
  { kind: 'translated', language: 'de' },
  { kind: 'translated', language: 'ja' },
  { kind: 'translated', language: 'EN' },
  { kind: 'prefix', text: 'bom' },
  { kind: 'prefix', text: 'whitespace' },
  { kind: 'prefix', text: 'php-warnings' },
  { kind: 'truncate', how: 'destroy', fraction: 0.5 },
  { kind: 'truncate', how: 'clean', fraction: 0.5 },
  { kind: 'truncate', how: 'short', fraction: 0.9 },
  { kind: 'slow', chunkBytes: 200, pauseMs: 1 },
  { kind: 'reset' },
  { kind: 'reset', afterBytes: 20 },
  { kind: 'encoding', encoding: 'gzip' },
  { kind: 'encoding', encoding: 'br' },
  { kind: 'encoding', encoding: 'deflate' },
];

/** Lets a share of all further requests meet a fault, each kind as often as any other. */
export function plague(sim: Simulator, share: number, seed: number): void {
  const dice = diceOf(seed);
  const onRequest = (): void => {
    sim.afterRequests(0, onRequest);
    if (dice() >= share) return;
    const fault = EVERY_FAULT[Math.floor(dice() * EVERY_FAULT.length)];
    if (fault !== undefined) sim.faults.next('any', fault);
  };
  sim.afterRequests(0, onRequest);
}
