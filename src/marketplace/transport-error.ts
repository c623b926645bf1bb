import { TookTooLong } from './body.js';
import { errorCode } from '../domain/error-code.js';
import { unavailable, type Failure, type UnavailableReason } from './reply.js';

/** A request failed. Internal: the client returns `failure` as the reply. */
export class TransportError extends Error {
  override name = 'TransportError';
  constructor(readonly failure: Failure) {
    super('the request failed');
  }
}

export function tooLargeBody(httpStatus: number, detail: string): TransportError {
  return new TransportError({
    kind: 'unreadable',
    httpStatus,
    detail,
    excerpt: '',
    flaw: 'too-large',
  });
}

/** Errors of various OpenSSL versions for a response that is not TLS. */
const PLAIN_HTTP_CODES = new Set([
  'ERR_SSL_WRONG_VERSION_NUMBER',
  'ERR_SSL_PACKET_LENGTH_TOO_LONG',
]);

/**
 * The failure behind an error of undici or Node. Uses its code and fixed texts only: its message may contain
 * the key.
 * @param httpStatus null before the response headers
 * @param mask masks the key in received text, and shortens it
 */
export function describeError(
  error: unknown,
  host: string,
  httpStatus: number | null,
  mask: (received: string) => string,
): TransportError {
  if (error instanceof TransportError) return error;
  const code = errorCode(error) || 'unknown error';
  const failed = (reason: UnavailableReason, detail: string): TransportError =>
    new TransportError(unavailable(httpStatus, reason, detail));
  if (code === 'UND_ERR_CONNECT_TIMEOUT' || code === 'ETIMEDOUT') {
    return failed('timeout', `connecting to ${host} timed out (${code})`);
  }
  if (error instanceof TookTooLong) return failed('timeout', 'the marketplace took too long');
  if (code === 'UND_ERR_HEADERS_TIMEOUT' || code === 'UND_ERR_BODY_TIMEOUT') {
    return failed('timeout', 'the marketplace stopped responding');
  }
  const proxy = proxyStatus(error);
  if (proxy !== null) {
    const detail = `the proxy of HTTPS_PROXY or HTTP_PROXY refused to connect to ${host} (HTTP ${proxy})`;
    return failed('network', detail);
  }
  if (PLAIN_HTTP_CODES.has(code)) {
    return failed('plain-http', `${host} is set to https, but this port speaks plain http`);
  }
  if (httpStatus !== null) {
    return failed('cut-off', `the answer from ${host} ended early or is damaged (${code})`);
  }
  const malformation = malformationOf(error, code, mask);
  if (malformation !== null) {
    return failed('malformed', `${host} answered, but not in valid HTTP: ${malformation}`);
  }
  // Undici adds the socket once there was a connection.
  const isOpened = 'socket' in (error as object);
  return failed(
    'network',
    isOpened
      ? `${host} closed the connection before its answer was complete (${code})`
      : `${host} can’t be reached (${code})`,
  );
}

/** The status with which a proxy refused a tunnel, by undici's fixed text; null if it did not. */
function proxyStatus(error: unknown): string | null {
  const text = error instanceof Error ? error.message : '';
  return /^Proxy response \((\d{3})\) !== 200/.exec(text)?.[1] ?? null;
}

/** Says what is wrong with the head of a response; null if the error is another. */
function malformationOf(
  error: unknown,
  code: string,
  mask: (received: string) => string,
): string | null {
  if (!(error instanceof Error)) return null;
  if (error.name === 'HTTPParserError') {
    // Undici's parser has fixed texts, and the bytes that it stopped at.
    const { message, data = '' } = error as Error & { readonly data?: string };
    const [, reason = 'it is not HTTP/1.1'] = /\((.*)\)$/.exec(message) ?? [];
    // Within headers, the text may begin in the middle of the key, which could not be masked then.
    return reason.startsWith('Expected HTTP/') ? `it begins with "${mask(data)}"` : reason;
  }
  if (code === 'UND_ERR_HEADERS_OVERFLOW') return 'its headers are too large';
  if (code === 'UND_ERR_RES_CONTENT_LENGTH_MISMATCH') return 'its Content-Length is wrong';
  return code === 'UND_ERR_SOCKET' && error.message.startsWith('bad ')
    ? 'it answered with an HTTP status below 200 that was not requested'
    : null;
}
