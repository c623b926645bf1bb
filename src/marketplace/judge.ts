import { hash } from 'node:crypto';
import type { Redactor } from '../domain/redact.js';
import {
  unavailable,
  type Denied,
  type Failure,
  type Refused,
  type Reply,
  type UnavailableReason,
  type Unreadable,
} from './reply.js';
import type { JsonObject } from '../domain/values.js';
import {
  type Endpoint,
  type FoundData,
  type RecordEndpoint,
  hasFacts,
  saidBy,
  type Said,
} from './endpoints.js';
import { excerpt, readBody, type BodyReading } from './envelope.js';
import { retryAt, type Head, type HeaderMap } from './rate-limit.js';
import type { Sourced } from './types.js';

/**
 * The failure that status and headers alone show: limit, outage, challenge, partial content, an answer from a
 * cache. Null if the body decides.
 */
export function judgeHead({ httpStatus, headers, tookMs }: Head, now: number): Failure | null {
  const failed = (reason: UnavailableReason, detail: string): Failure =>
    unavailable(httpStatus, reason, detail, retryAt(headers, now));
  if (headers['cf-mitigated']?.trim().toLowerCase() === 'challenge') {
    return failed(
      'challenge',
      "the marketplace's bot protection blocks this program; ask its operator to allow API requests from this address",
    );
  }
  if (httpStatus === 429) return { kind: 'limited', httpStatus, retryAt: retryAt(headers, now) };
  if (httpStatus === 503) return failed('maintenance', 'the marketplace is down (HTTP 503)');
  if (httpStatus >= 500) {
    return failed('server-error', `the marketplace failed with HTTP ${httpStatus}`);
  }
  if (httpStatus === 408) {
    return failed('timeout', 'the marketplace timed out waiting for the request (HTTP 408)');
  }
  if (isPartial(httpStatus, headers['content-range'])) {
    return failed(
      'cut-off',
      `the marketplace sent only part of the answer (HTTP ${httpStatus}); check proxies and caches on the way`,
    );
  }
  const sign = isRedirect(httpStatus) ? null : cacheSign(headers, tookMs);
  return sign === null
    ? null
    : failed('cache', `a cache answered in place of the marketplace (${sign})`);
}

export function isRedirect(httpStatus: number): boolean {
  return httpStatus >= 300 && httpStatus < 400;
}

/** `X-Cache`, `CF-Cache-Status`, `Cache-Status`, and their like. */
const CACHE_HEADER = /(?:^|-)cache(?:-status)?$/;
/** Says that a cache had the answer. `hit-for-pass` means that it asked the server all the same. */
const CACHE_HIT = /(?:^|[^a-z]|refresh)(?:hit|stale|updating)(?![a-z]|-for-|=\?0)/i;

/**
 * The header that shows that an answer is older than its question; null if none does.
 * @param tookMs from the request to the headers of the answer
 */
function cacheSign(headers: HeaderMap, tookMs: number): string | null {
  // The first of several values, should a proxy repeat the header.
  const [age = '0'] = /^\s*\d{1,12}(?:\.\d{1,3})?/.exec(headers['age'] ?? '') ?? [];
  if (Number(age) * 1_000 > tookMs) return `Age: ${age.trim()}`;
  const name = Object.keys(headers).find(
    (header) => CACHE_HEADER.test(header) && CACHE_HIT.test(headers[header] ?? ''),
  );
  return name === undefined ? null : `${name}: hit`;
}

/** True for partial content. The client never requests it; proxies and paging servers send it, even with status 200. */
function isPartial(httpStatus: number, range: string | undefined): boolean {
  if (httpStatus === 206) return true;
  if (range === undefined || !isSuccess(httpStatus)) return false;
  const [, first, last, total] = /^\s*\w+\s+(?:(\d+)-(\d+)|\*)\/(\d+)\s*$/.exec(range) ?? [];
  if (Number(total) === 0) return false;
  return Number(first) !== 0 || Number(last) + 1 !== Number(total);
}

/**
 * Turns a response whose headers show no failure into a reply. HTTP status and the payload's shape decide, its
 * wording rarely: servers translate their texts (servers: wording).
 */
export function judge<T>(
  endpoint: RecordEndpoint<T>,
  httpStatus: number,
  body: Uint8Array,
  redactor: Redactor,
): Reply<Sourced<T>> {
  const reading = readBody(body);
  if (reading.kind === 'object' && reading.repeated === null && isSuccess(httpStatus)) {
    const found = endpoint.find(reading.value);
    const said = says(endpoint, reading.value);
    if (found !== null && said !== 'error') {
      const sha256 = hash('sha256', body);
      return accept(endpoint, httpStatus, reading, { ...found, said, sha256 }, redactor);
    }
  }
  return judgeFailure(endpoint, httpStatus, reading, redactor);
}

export function judgeFailure(
  endpoint: Endpoint,
  httpStatus: number,
  reading: BodyReading,
  redactor: Redactor,
): Failure {
  const asUnreadable = (detail: string): Unreadable =>
    unreadable(httpStatus, detail, reading, redactor);
  if (reading.kind === 'object' && reading.repeated !== null) {
    return asUnreadable(`the answer has two fields named "${reading.repeated}"`);
  }
  if (httpStatus === 405) {
    return asUnreadable(
      `the marketplace does not accept ${endpoint.method} here; a redirect may have turned POST into GET: configure the address that the server redirects to`,
    );
  }
  const error = judgeError(endpoint, httpStatus, reading, redactor);
  if (error !== null) return error;
  if (httpStatus === 404) {
    return unavailable(
      httpStatus,
      'switched-off',
      'there is no API at this address: it is switched off, or the address is wrong',
    );
  }
  if (reading.kind === 'html') {
    const title = excerpt(reading.text, redactor, 100);
    const detail = `the marketplace sent a web page instead of JSON: ${title}`;
    return unavailable(httpStatus, 'html', detail);
  }
  if (reading.kind === 'other' && reading.cutOff && isSuccess(httpStatus)) {
    return unavailable(httpStatus, 'cut-off', 'the answer ends in the middle of its JSON');
  }
  if (reading.kind === 'other') return asUnreadable(`the answer ${reading.problem}`);
  const message = laravelMessage(reading.value);
  if (isKeyRefusal(httpStatus, message)) return refused(httpStatus, message, redactor);
  return asUnreadable(
    holdsData(endpoint, reading.value)
      ? DATA_AND_ERROR
      : `the answer lacks the requested data (${endpoint.operation})`,
  );
}

function says(endpoint: Endpoint, envelope: JsonObject): Said {
  const texts = [envelope['msg'], envelope['message']];
  const isDenial = texts.some((text) => isSameText(text, endpoint.errorText));
  return isDenial ? 'error' : saidBy(envelope);
}

/** Either the data or the error is wrong, and nothing shows which: neither a denial nor an answer. */
const DATA_AND_ERROR = 'the marketplace sent the requested data together with an error';

function holdsData(endpoint: Endpoint, envelope: JsonObject): boolean {
  return hasFacts(endpoint.find(envelope)?.json);
}

export function isSuccess(httpStatus: number): boolean {
  return httpStatus >= 200 && httpStatus < 300;
}

/** Judges an error envelope, `{ status, msg }` (API 7); null if the body is none. */
function judgeError(
  endpoint: Endpoint,
  httpStatus: number,
  reading: BodyReading,
  redactor: Redactor,
): Denied | Refused | Unreadable | null {
  if (reading.kind !== 'object') return null;
  const { status, msg } = reading.value;
  if (typeof status !== 'string' || typeof msg !== 'string' || isWord(status, 'success')) {
    return null;
  }
  if (isKeyRefusal(httpStatus, msg)) return refused(httpStatus, msg, redactor);
  if (holdsData(endpoint, reading.value)) {
    return unreadable(httpStatus, DATA_AND_ERROR, reading, redactor);
  }
  // Outages use the same envelope with other statuses. There, only the documented text is an answer.
  const isDocumented = isWord(status, 'error') && isSameText(msg, endpoint.errorText);
  if (httpStatus !== 404 && !isDocumented) {
    const detail = 'the marketplace sent an error that does not answer the request';
    return unreadable(httpStatus, detail, reading, redactor);
  }
  if (endpoint.operation === 'account') return refused(httpStatus, msg, redactor);
  return { kind: 'denied', httpStatus, message: excerpt(msg, redactor) };
}

function accept<T>(
  endpoint: RecordEndpoint<T>,
  httpStatus: number,
  reading: BodyReading & { kind: 'object' },
  found: FoundData & { readonly said: Said; readonly sha256: string },
  redactor: Redactor,
): Reply<Sourced<T>> {
  const { said, sha256 } = found;
  const asUnreadable = (detail: string): Unreadable =>
    unreadable(httpStatus, excerpt(detail, redactor), reading, redactor);
  // Compare before masking, which could change the compared field.
  const received = endpoint.decode(found.json);
  const mismatch = received.ok ? endpoint.mismatch(received.decoded.value) : null;
  if (mismatch !== null) return { ...asUnreadable(mismatch), isAboutAnother: true };

  const isClean = !redactor.mayChange(reading.text);
  const raw = isClean ? found.json : redactor.json(found.json);
  const decoding = raw === found.json ? received : endpoint.decode(raw);
  if (!decoding.ok) {
    return asUnreadable(`the ${endpoint.operation} answer can’t be read: ${decoding.reason}`);
  }
  const { value, extra, tolerated } = decoding.decoded;
  const substance = endpoint.substance(value);
  if (substance === 'none' || (substance === 'some' && said === 'open')) {
    const flaw = substance === 'none' ? 'has no facts' : 'does not say success and has few facts';
    return asUnreadable(`the ${endpoint.operation} answer proves nothing: it ${flaw}`);
  }
  const quirks = [...reading.tolerated, ...envelopeQuirks(reading.value), ...tolerated];
  if (found.quirk !== null) quirks.push(found.quirk);
  return { kind: 'answered', httpStatus, data: { value, extra, tolerated: quirks, raw, sha256 } };
}

export function envelopeQuirks(envelope: JsonObject): string[] {
  return envelope['status'] === 'success' ? [] : ['envelope.status'];
}

function refused(httpStatus: number, message: string, redactor: Redactor): Refused {
  const text = excerpt(message, redactor);
  const isKeyMissing = isAboutKey(message) && httpStatus !== 401 && httpStatus !== 403;
  const hint =
    ' (the server did not find the key in the request: check how parameters are sent, and configure the address that the server redirects to)';
  return { kind: 'refused', httpStatus, message: isKeyMissing ? `${text}${hint}` : text };
}

function unreadable(
  httpStatus: number,
  detail: string,
  reading: BodyReading,
  redactor: Redactor,
): Unreadable {
  return { kind: 'unreadable', httpStatus, detail, excerpt: safeExcerpt(reading, redactor) };
}

/** An excerpt of the body. Of a debug response with exception or trace, only its message. */
function safeExcerpt(reading: BodyReading, redactor: Redactor): string {
  if (!/"(?:exception|trace)"\s*:/.test(reading.text)) return excerpt(reading.text, redactor);
  return reading.kind === 'object' ? excerpt(laravelMessage(reading.value), redactor) : '';
}

/** Laravel's own errors use `message` instead of `msg` (servers: outages). */
function laravelMessage(envelope: JsonObject): string {
  const { message, msg } = envelope;
  if (typeof message === 'string') return message;
  return typeof msg === 'string' ? msg : 'no reason was given';
}

function isKeyRefusal(httpStatus: number, message: string): boolean {
  return httpStatus === 401 || httpStatus === 403 || isAboutKey(message);
}

function isAboutKey(message: string): boolean {
  return /\bapi[\s_-]?key\b/i.test(message);
}

/** Compares texts, ignoring letter case and a final period or exclamation mark. */
function isSameText(a: unknown, b: string): boolean {
  const plain = (text: string): string => text.trim().replace(/[.!]$/, '').trimEnd().toLowerCase();
  return typeof a === 'string' && plain(a) === plain(b);
}

function isWord(value: unknown, word: string): boolean {
  return typeof value === 'string' && value.trim().toLowerCase() === word.toLowerCase();
}
