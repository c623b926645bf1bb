import type { Failure, Unavailable } from '../domain/reply.js';

/** The exchange failed; `failure` says how. Internal: the client turns it into a reply. */
export class TransportError extends Error {
  override name = 'TransportError';
  constructor(readonly failure: Failure) {
    super('the exchange failed');
  }
}

/** What OpenSSL makes of an answer that is no TLS; its versions differ. */
const PLAIN_HTTP_CODES = new Set([
  'ERR_SSL_WRONG_VERSION_NUMBER',
  'ERR_SSL_PACKET_LENGTH_TOO_LONG',
]);

/**
 * The failure behind an error of the layers below. Only the error's code is used: their messages
 * may hold addresses, and those the key.
 * @param httpStatus null as long as no head has arrived
 */
export function describeError(
  error: unknown,
  host: string,
  httpStatus: number | null,
): TransportError {
  if (error instanceof TransportError) return error;
  const code = codeOf(error);
  const unavailable = (reason: Unavailable['reason'], detail: string): TransportError =>
    new TransportError({ kind: 'unavailable', httpStatus, reason, detail, retryAt: null });
  if (code === 'UND_ERR_CONNECT_TIMEOUT' || code === 'ETIMEDOUT') {
    return unavailable('timeout', `${host} can't be reached in time (${code})`);
  }
  if (PLAIN_HTTP_CODES.has(code)) {
    return unavailable('plain-http', `${host} is asked by https, but this port speaks plain http`);
  }
  if (code === 'EMFILE' || code === 'ENFILE') {
    const remedy = 'raise the limit of open files (ulimit -n)';
    return unavailable('network', `no connection to ${host} can be opened (${code}): ${remedy}`);
  }
  if (httpStatus === null) return unavailable('network', `${host} can't be reached (${code})`);
  return unavailable('cut-off', `the answer of ${host} ended early or is damaged (${code})`);
}

function codeOf(error: unknown): string {
  const code: unknown = error instanceof Error && 'code' in error ? error.code : null;
  return typeof code === 'string' ? code : 'unknown error';
}
