import type { Context } from 'hono';
import type { HttpBindings } from '@hono/node-server';
import type { z } from 'zod';
import type { Caller } from '../service/tokens-store.js';

export type ApiEnv = { Bindings: HttpBindings; Variables: { caller: Caller } };
export type ApiContext = Context<ApiEnv>;

/** A request that gets no answer. */
export class Refusal extends Error {
  constructor(
    readonly status: 400 | 401 | 403 | 404 | 405 | 413 | 422 | 429,
    message: string,
    readonly retryAfterS: number | null = null,
  ) {
    super(message);
  }
}

/** What is wrong with a request, such as `code is missing`. */
export function faultsOf({ issues }: z.ZodError): string {
  return issues
    .slice(0, 5)
    .map(({ path, message }) => `${path.join('.') || 'the request'} ${message}`)
    .join('; ');
}
