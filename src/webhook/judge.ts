/** What became of a message. The sentences name neither the address nor the secret. */
export type WebhookReply =
  | { readonly kind: 'delivered'; readonly httpStatus: number }
  /** It may be taken later, but not before `notBefore` (milliseconds since 1970). */
  | { readonly kind: 'retry'; readonly problem: string; readonly notBefore: number | null }
  /** The receiver wants no more of them. */
  | { readonly kind: 'give-up'; readonly problem: string };

/**
 * What an HTTP status means (Standard Webhooks, "Status codes"): only 2xx is a success, only 410
 * says that nothing must come any more, and everything else is a failure to be repeated. That holds
 * for the other 4xx too: a receiver that is being set up answers 404, one that changes its secret
 * 401, and alerts are few. Redirects are not followed.
 * @param now milliseconds since 1970
 */
export function judgeStatus(
  httpStatus: number,
  retryAfter: string | null,
  now: number,
): WebhookReply {
  if (httpStatus >= 200 && httpStatus < 300) return { kind: 'delivered', httpStatus };
  const answered = `the webhook answered with HTTP ${httpStatus}`;
  if (httpStatus === 410) {
    return { kind: 'give-up', problem: `${answered}: it wants no more alerts` };
  }
  const redirect = httpStatus >= 300 && httpStatus < 400;
  return {
    kind: 'retry',
    problem: redirect ? `${answered}, a redirect, which is not followed` : answered,
    notBefore: comeBackAt(retryAfter, now),
  };
}

/** `Retry-After`: seconds or an HTTP date; null when there is none that can be read. */
function comeBackAt(retryAfter: string | null, now: number): number | null {
  const text = retryAfter?.trim() ?? '';
  if (/^\d{1,9}$/.test(text)) return now + Number(text) * 1_000;
  const date = /[a-z]/i.test(text) ? Date.parse(text) : NaN;
  return Number.isNaN(date) ? null : Math.max(date, now);
}

/** The receiver could not be asked, or said nothing in time. */
export function noAnswer(error: unknown, timedOut: boolean): WebhookReply {
  const why = timedOut ? 'did not answer in time' : `could not be reached${codeOf(error)}`;
  return { kind: 'retry', problem: `the webhook ${why}`, notBefore: null };
}

/** The code of a network error. Its words are not shown, since they name the host. */
function codeOf(error: unknown): string {
  const cause: unknown = error instanceof Error ? error.cause : undefined;
  if (cause instanceof AggregateError) return codeOf(new Error('', { cause: cause.errors[0] }));
  const code = cause instanceof Error && 'code' in cause ? cause.code : null;
  return typeof code === 'string' && /^\w{1,60}$/.test(code) ? ` (${code})` : '';
}
