import type { Purchase } from '../../../src/domain/item.js';
import { readAccountReply, readCodeReply } from '../../../src/domain/codes/outcome.js';
import type { AccountCall, CodeCall } from '../../../src/domain/codes/proof.js';
import type { Reply } from '../../../src/domain/reply.js';

type CodeReply = Reply<{ readonly value: Purchase }>;
type AccountReply = Reply<{ readonly value: { readonly username: string } }>;

/** A purchase in the documented shape. */
function purchase(code: string): Purchase {
  return {
    purchaseCode: code,
    licenseType: 'Regular',
    price: '19.90',
    currency: 'USD',
    item: { id: 7, name: 'Item 7', url: null, previewImageUrl: null, full: null },
    supportedUntil: '2026-06-01T00:00:00Z',
    downloaded: false,
    purchasedAt: '2025-12-01T00:00:00Z',
  };
}

export const found = (code: string): CodeReply => ({
  kind: 'answered',
  httpStatus: 200,
  data: { value: purchase(code) },
});
export const denied: CodeReply & AccountReply = {
  kind: 'denied',
  httpStatus: 404,
  message: 'Invalid purchase code',
};
export const refused: CodeReply & AccountReply = {
  kind: 'refused',
  httpStatus: 401,
  message: 'Invalid request',
};
export const limited: CodeReply & AccountReply = {
  kind: 'limited',
  httpStatus: 429,
  retryAt: 1_000,
};
export const switchedOff: CodeReply & AccountReply = {
  kind: 'unavailable',
  httpStatus: 404,
  reason: 'switched-off',
  detail: 'there is no API',
  retryAt: null,
};
export const maintenance: CodeReply & AccountReply = {
  kind: 'unavailable',
  httpStatus: 503,
  reason: 'maintenance',
  detail: 'down',
  retryAt: null,
};
export const opened = (username: string): AccountReply => ({
  kind: 'answered',
  httpStatus: 200,
  data: { value: { username } },
});

/** A call with these counter values, one second each. */
const span = (begun: number, ended: number) => ({
  begun,
  ended,
  beganAt: begun * 1_000,
  endedAt: ended * 1_000,
});

export function code(sent: string, begun: number, ended: number, reply: CodeReply): CodeCall {
  return { kind: 'code', code: sent, ...span(begun, ended), ...readCodeReply(sent, reply) };
}

export function canary(sent: string, begun: number, ended: number, reply: CodeReply): CodeCall {
  return { kind: 'canary', code: sent, ...span(begun, ended), ...readCodeReply(sent, reply) };
}

export function account(begun: number, ended: number, reply: AccountReply): AccountCall {
  return { kind: 'account', ...span(begun, ended), ...readAccountReply(reply) };
}

/** Random numbers from 0 to 1, repeatable by seed. */
export function diceOf(seed: number): () => number {
  let state = seed >>> 0;
  return () => {
    state = (state + 0x6d2b79f5) >>> 0;
    let mixed = Math.imul(state ^ (state >>> 15), state | 1);
    mixed ^= mixed + Math.imul(mixed ^ (mixed >>> 7), mixed | 61);
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32;
  };
}
