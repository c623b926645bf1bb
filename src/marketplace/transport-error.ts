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

/** What undici says of a head that is not HTTP: its parser's fixed texts, and the bytes that it stopped at. */
interface ParserError {
  readonly message: string;
  readonly data?: string;
}

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
  if (code.endsWith('NO_APPLICATION_PROTOCOL')) return failed('malformed', onlyHttp2(host));
  const proxy = proxyStatus(error);
  if (proxy !== null) {
    const detail = `the proxy of HTTPS_PROXY or HTTP_PROXY refused to connect to ${host} (HTTP ${proxy})`;
    return failed('network', detail);
  }
  if (PLAIN_HTTP_CODES.has(code)) {
    return failed('plain-http', `${host} is set to https, but this port speaks plain http`);
  }
  if (code === 'EMFILE' || code === 'ENFILE') {
    const remedy = 'raise the limit of open files (ulimit -n)';
    return failed('network', `can’t open a connection to ${host} (${code}): ${remedy}`);
  }
  if (httpStatus !== null) {
    return failed('cut-off', `the answer from ${host} ended early or is damaged (${code})`);
  }
  if (isHttp2(error)) return failed('malformed', onlyHttp2(host));
  const malformation = malformationOf(error, code, mask);
  if (malformation !== null) {
    return failed('malformed', `${host} answered, but not in valid HTTP: ${malformation}`);
  }
  const received = receivedBytes(error);
  if (received === null) return failed('network', `${host} can’t be reached (${code})`);
  const when = received === 0 ? 'without an answer' : 'in the middle of the headers';
  return failed('network', `${host} closed the connection ${when} (${code})`);
}

function onlyHttp2(host: string): string {
  return `${host} speaks only HTTP/2; this program needs HTTP/1.1, which its operator can switch on`;
}

/** True for the first frame of HTTP/2, SETTINGS, in place of a head. */
function isHttp2(error: unknown): boolean {
  const { name, data = '' } = error as ParserError & { readonly name?: string };
  const SETTINGS = 4;
  return name === 'HTTPParserError' && data.startsWith('\0') && data.charCodeAt(3) === SETTINGS;
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
    const { message, data = '' } = error as ParserError;
    const [, reason = 'it is not HTTP/1.1'] = /\((.*)\)$/.exec(message) ?? [];
    // Within headers, the text may begin in the middle of the key, which could not be masked then.
    return reason.startsWith('Expected HTTP/') ? `it begins with "${mask(data)}"` : reason;
  }
  if (code === 'UND_ERR_HEADERS_OVERFLOW') return 'its headers are too large';
  if (code === 'UND_ERR_RES_CONTENT_LENGTH_MISMATCH')
    return 'its Content-Length is not the length of its body';
  if (code === 'UND_ERR_SOCKET' && error.message.startsWith('bad ')) {
    return 'it answered with an HTTP status below 200 that was not requested';
  }
  return null;
}

/** Bytes received on the connection before it was closed; null if there was none. */
function receivedBytes(error: unknown): number | null {
  const { socket } = error as { readonly socket?: { readonly bytesRead?: number } | null };
  return socket?.bytesRead ?? null;
}
