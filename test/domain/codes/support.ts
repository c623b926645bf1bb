import type { Purchase } from '../../../src/domain/item.js';
import { hearAccount, hearCode } from '../../../src/domain/codes/outcome.js';
import type { AccountCall, CanaryCall, CodeCall } from '../../../src/domain/codes/timeline.js';
import type { Reply } from '../../../src/domain/reply.js';

type CodeReply = Reply<{ readonly value: Purchase }>;
type AccountReply = Reply<{ readonly value: { readonly username: string } }>;

/** A purchase in the documented shape; `fields` replace. */
export function purchase(code: string | null, fields: Partial<Purchase> = {}): Purchase {
  return {
    purchaseCode: code,
    licenseType: 'Regular',
    price: '19.90',
    currency: 'USD',
    item: { id: 7, name: 'Item 7', url: null, previewImageUrl: null, full: null },
    supportedUntil: '2026-06-01T00:00:00Z',
    downloaded: false,
    purchasedAt: '2025-12-01T00:00:00Z',
    ...fields,
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

export function code(asked: string, begun: number, ended: number, reply: CodeReply): CodeCall {
  return { kind: 'code', code: asked, begun, ended, ...hearCode(asked, reply) };
}

export function canary(asked: string, begun: number, ended: number, reply: CodeReply): CanaryCall {
  return { kind: 'canary', code: asked, begun, ended, ...hearCode(asked, reply) };
}

export function account(begun: number, ended: number, reply: AccountReply): AccountCall {
  return { kind: 'account', begun, ended, ...hearAccount(reply) };
}
