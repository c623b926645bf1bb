import type { Json } from '../domain/item.js';
import type { KeyRedactor } from '../domain/redact.js';
import {
  unavailable,
  type Denied,
  type Failure,
  type Refused,
  type Reply,
  type UnavailableReason,
  type Unreadable,
} from '../domain/reply.js';
import type { JsonObject } from '../domain/values.js';
import type { Endpoint, Found, RecordEndpoint } from './endpoints.js';
import { excerpt, readBody, type BodyReading } from './envelope.js';
import { retryAt, type HeaderMap } from './rate-limit.js';
import type { Sourced } from './types.js';

export interface Head {
  readonly httpStatus: number;
  readonly headers: HeaderMap;
}

/** The failure that the head alone shows (limit, outage, challenge, partial content); null when the body decides. */
export function judgeHead({ httpStatus, headers }: Head, now: number): Failure | null {
  const failed = (reason: UnavailableReason, detail: string): Failure =>
    unavailable(httpStatus, reason, detail, retryAt(headers, now));
  if (headers['cf-mitigated']?.trim().toLowerCase() === 'challenge') {
    return failed(
      'challenge',
      "the marketplace's bot protection wants to see a browser; ask its operator to let API requests from this address pass",
    );
  }
  if (httpStatus === 429) return { kind: 'limited', httpStatus, retryAt: retryAt(headers, now) };
  if (httpStatus === 503) return failed('maintenance', 'the marketplace is down (HTTP 503)');
  if (httpStatus >= 500) {
    return failed('server-error', `the marketplace failed with HTTP ${httpStatus}`);
  }
  if (httpStatus === 408) {
    return failed('timeout', 'the marketplace gave up waiting for the request (HTTP 408)');
  }
  if (isPart(httpStatus, headers['content-range'])) {
    return failed(
      'cut-off',
      `the marketplace sent only a part of the answer (HTTP ${httpStatus}); a proxy or cache in between may do so`,
    );
  }
  return null;
}

/** True for partial content. The client asks for none, but proxies and paging servers send it, also with status 200. */
function isPart(httpStatus: number, range: string | undefined): boolean {
  if (httpStatus === 206) return true;
  if (range === undefined || !isSuccess(httpStatus)) return false;
  const [, first, last, total] = /^\s*\w+\s+(?:(\d+)-(\d+)|\*)\/(\d+)\s*$/.exec(range) ?? [];
  if (Number(total) === 0) return false;
  return Number(first) !== 0 || Number(last) + 1 !== Number(total);
}

/**
 * Judges an answer whose head shows no failure, by HTTP status and the shape of the payload, rarely by wording:
 * servers translate their texts (field notes: envelope and shapes, errors).
 */
export function judge<T>(
  endpoint: RecordEndpoint<T>,
  httpStatus: number,
  body: Uint8Array,
  redactor: KeyRedactor,
): Reply<Sourced<T>> {
  const reading = readBody(body);
  if (reading.kind === 'object' && isSuccess(httpStatus)) {
    const found = endpoint.find(reading.value);
    if (found !== null && !saysError(reading.value)) {
      return accept(endpoint, httpStatus, reading, found, redactor);
    }
  }
  return judgeFailure(endpoint, httpStatus, reading, redactor);
}

export function judgeFailure(
  endpoint: Endpoint,
  httpStatus: number,
  reading: BodyReading,
  redactor: KeyRedactor,
): Failure {
  const say = (detail: string): Unreadable => unreadable(httpStatus, detail, reading, redactor);
  if (httpStatus === 405) {
    return say(
      `the marketplace does not take ${endpoint.method} here; a redirect on the way may have turned POST into GET: check that the address is the one it redirects to`,
    );
  }
  const error = errorEnvelope(endpoint, httpStatus, reading);
  if (error !== null) return judgeError(endpoint, httpStatus, error, say, redactor);
  if (httpStatus === 404) {
    return unavailable(
      httpStatus,
      'switched-off',
      'there is no API at this address: it is switched off, or the address is wrong',
    );
  }
  if (reading.kind === 'html') {
    const title = excerpt(reading.text, redactor, 100);
    return unavailable(httpStatus, 'html', `a web page came instead of JSON: ${title}`);
  }
  if (reading.kind === 'other' && reading.cutOff && isSuccess(httpStatus)) {
    return unavailable(httpStatus, 'cut-off', 'the answer ends in the middle of its JSON');
  }
  if (reading.kind === 'other') return say(`the answer ${reading.problem}`);
  const message = laravelMessage(reading.value);
  if (httpStatus === 401 || httpStatus === 403 || isAboutKey(message)) {
    return refused(httpStatus, message, redactor);
  }
  return say(`the answer has none of the data asked for (${endpoint.operation})`);
}

export function saysError(envelope: JsonObject): boolean {
  return isWord(envelope['status'], 'error') && typeof envelope['msg'] === 'string';
}

export function isSuccess(httpStatus: number): boolean {
  return httpStatus >= 200 && httpStatus < 300;
}

interface ErrorEnvelope {
  readonly saysError: boolean;
  readonly msg: string;
  readonly besideData: boolean;
}

/** Reads `{ status, msg }` (spec 7). With data in it, it is an error only when it says so itself. */
function errorEnvelope(
  endpoint: Endpoint,
  httpStatus: number,
  reading: BodyReading,
): ErrorEnvelope | null {
  if (reading.kind !== 'object') return null;
  const { status, msg } = reading.value;
  if (typeof status !== 'string' || typeof msg !== 'string' || isWord(status, 'success')) {
    return null;
  }
  const saysSo = saysError(reading.value);
  const found = endpoint.find(reading.value);
  if (found !== null && !(isSuccess(httpStatus) && saysSo)) return null;
  return { saysError: saysSo, msg, besideData: found !== null && !isEmpty(found.json) };
}

function isEmpty(json: Json): boolean {
  return typeof json === 'object' && json !== null && Object.keys(json).length === 0;
}

function judgeError(
  endpoint: Endpoint,
  httpStatus: number,
  error: ErrorEnvelope,
  say: (detail: string) => Unreadable,
  redactor: KeyRedactor,
): Denied | Refused | Unreadable {
  const { msg } = error;
  if (httpStatus === 401 || httpStatus === 403 || isAboutKey(msg)) {
    return refused(httpStatus, msg, redactor);
  }
  // Data or error is wrong, and nobody can tell which: this is neither a denial nor an answer.
  if (error.besideData) return say('the marketplace sent both the data asked for and an error');
  // With other statuses than 404, outages use the same envelope: only the documented words count.
  const answers = httpStatus === 404 || (error.saysError && isSameText(msg, endpoint.errorText));
  if (!answers) return say('the marketplace sent an error that answers nothing');
  if (endpoint.operation === 'account') return refused(httpStatus, msg, redactor);
  return { kind: 'denied', httpStatus, message: excerpt(msg, redactor) };
}

function accept<T>(
  endpoint: RecordEndpoint<T>,
  httpStatus: number,
  reading: BodyReading & { kind: 'object' },
  found: Found,
  redactor: KeyRedactor,
): Reply<Sourced<T>> {
  const say = (detail: string): Unreadable =>
    unreadable(httpStatus, excerpt(detail, redactor), reading, redactor);
  // Compared before masking, which could change the compared field.
  const sent = endpoint.decode(found.json);
  const mismatch = sent.ok ? endpoint.mismatch(sent.decoded.value) : null;
  if (mismatch !== null) return { ...say(mismatch), isAboutAnother: true };

  const isClean = !redactor.mayChange(reading.text);
  const raw = isClean ? found.json : redactor.json(found.json, endpoint.numbers);
  const decoding = raw === found.json ? sent : endpoint.decode(raw);
  if (!decoding.ok)
    return say(`the ${endpoint.operation} answer can't be read: ${decoding.reason}`);
  const { value, extra, tolerated } = decoding.decoded;
  const quirks = [...reading.tolerated, ...envelopeQuirks(reading.value), ...tolerated];
  if (found.quirk !== null) quirks.push(found.quirk);
  // Masked in the parsed values: JSON can escape a character in several ways.
  const text = isClean ? reading.text : JSON.stringify(redactor.json(reading.value));
  return {
    kind: 'answered',
    httpStatus,
    data: { value, extra, tolerated: quirks, raw, text },
  };
}

export function envelopeQuirks(envelope: JsonObject): string[] {
  return envelope['status'] === 'success' ? [] : ['envelope.status'];
}

function refused(httpStatus: number, message: string, redactor: KeyRedactor): Refused {
  const said = excerpt(message, redactor);
  const lost = isAboutKey(message) && httpStatus !== 401 && httpStatus !== 403;
  const hint =
    ' (the server did not find the key in the request: check how parameters are sent, and that the address is the one it redirects to)';
  return { kind: 'refused', httpStatus, message: lost ? `${said}${hint}` : said };
}

function unreadable(
  httpStatus: number,
  detail: string,
  reading: BodyReading,
  redactor: KeyRedactor,
): Unreadable {
  return { kind: 'unreadable', httpStatus, detail, excerpt: safeExcerpt(reading, redactor) };
}

/** An excerpt of the body. Of debug answers, with exception and trace, only the message is shown. */
function safeExcerpt(reading: BodyReading, redactor: KeyRedactor): string {
  if (!/"(?:exception|trace)"\s*:/.test(reading.text)) return excerpt(reading.text, redactor);
  return reading.kind === 'object' ? excerpt(laravelMessage(reading.value), redactor) : '';
}

/** Frameworks say `message`, not `msg` (field notes: limits and weather). */
function laravelMessage(envelope: JsonObject): string {
  const { message, msg } = envelope;
  if (typeof message === 'string') return message;
  return typeof msg === 'string' ? msg : 'no reason was given';
}

function isAboutKey(message: string): boolean {
  return /\bapi[\s_-]?key\b/i.test(message);
}

/** Compares without letter case and a mark at the end. */
function isSameText(a: string, b: string): boolean {
  const plain = (text: string): string => text.trim().replace(/[.!]$/, '').trimEnd().toLowerCase();
  return plain(a) === plain(b);
}

function isWord(value: unknown, word: string): boolean {
  return typeof value === 'string' && value.trim().toLowerCase() === word.toLowerCase();
}
