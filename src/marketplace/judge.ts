import type { Json } from '../domain/item.js';
import type { Denied, Failure, Refused, Reply, Unavailable, Unreadable } from '../domain/reply.js';
import type { JsonObject } from '../domain/values.js';
import { excerpt, readBody, type BodyReading } from './envelope.js';
import type { Asked, Found, Question } from './questions.js';
import type { KeyRedactor } from './redaction.js';
import { retryAt, type HeaderMap } from './retry-after.js';
import type { Sourced } from './types.js';

/** Status line and headers of an HTTP answer. */
export interface Head {
  readonly httpStatus: number;
  readonly headers: HeaderMap;
}

/** What the head alone settles: limits, outages, challenges and parts; null when the body decides. */
export function judgeHead({ httpStatus, headers }: Head, now: number): Failure | null {
  const unavailable = (reason: Unavailable['reason'], detail: string): Unavailable => ({
    kind: 'unavailable',
    httpStatus,
    reason,
    detail,
    retryAt: retryAt(headers, now),
  });
  if (headers['cf-mitigated']?.trim().toLowerCase() === 'challenge') {
    return unavailable(
      'challenge',
      "the marketplace's bot protection wants to see a browser; ask its operator to let API requests from this address pass",
    );
  }
  if (httpStatus === 429) return { kind: 'limited', httpStatus, retryAt: retryAt(headers, now) };
  if (httpStatus === 503) return unavailable('maintenance', 'the marketplace is down (HTTP 503)');
  if (httpStatus >= 500) {
    return unavailable('server-error', `the marketplace failed with HTTP ${httpStatus}`);
  }
  if (httpStatus === 408) {
    return unavailable('timeout', 'the marketplace gave up waiting for the request (HTTP 408)');
  }
  if (isPart(httpStatus, headers['content-range'])) {
    return unavailable(
      'cut-off',
      `the marketplace sent only a part of the answer (HTTP ${httpStatus}); a proxy or cache in between may do so`,
    );
  }
  return null;
}

/** No part was asked for. A 200 that names a range has it from a proxy, or from a server that pages. */
function isPart(httpStatus: number, range: string | undefined): boolean {
  if (httpStatus === 206) return true;
  if (range === undefined || !isSuccess(httpStatus)) return false;
  const [, first, last, total] = /^\s*\w+\s+(?:(\d+)-(\d+)|\*)\/(\d+)\s*$/.exec(range) ?? [];
  if (Number(total) === 0) return false;
  return Number(first) !== 0 || Number(last) + 1 !== Number(total);
}

/**
 * Judges a whole reply by HTTP status and the shape of the payload, hardly ever by wording: texts
 * pass through translation tables (field notes: envelope and shapes, errors).
 * @param now milliseconds since 1970
 */
export function judge<T>(
  question: Question<T>,
  head: Head,
  body: Uint8Array,
  now: number,
  redactor: KeyRedactor,
): Reply<Sourced<T>> {
  const settled = judgeHead(head, now);
  if (settled !== null) return settled;
  const reading = readBody(body);
  if (reading.kind === 'object' && isSuccess(head.httpStatus)) {
    const found = question.find(reading.value);
    if (found !== null && !saysError(reading.value)) {
      return accept(question, head.httpStatus, reading, found, redactor);
    }
  }
  return judgeFailure(question, head.httpStatus, reading, redactor);
}

/** Judges a reply that its head does not settle and that holds no data. */
export function judgeFailure(
  asked: Asked,
  httpStatus: number,
  reading: BodyReading,
  redactor: KeyRedactor,
): Failure {
  const say = (detail: string): Unreadable => unreadable(httpStatus, detail, reading, redactor);
  if (httpStatus === 405) {
    return say(
      `the marketplace does not take ${asked.method} here; a redirect on the way may have turned POST into GET: check that the address is the one it redirects to`,
    );
  }
  const error = errorEnvelope(asked, httpStatus, reading);
  if (error !== null) return judgeError(asked, httpStatus, error, say, redactor);
  if (httpStatus === 404) {
    return unavailable(
      httpStatus,
      'switched-off',
      'there is no API at this address: it is switched off, or the address is wrong',
    );
  }
  if (reading.kind === 'html') {
    const title = excerpt(reading.text, redactor, 100);
    return unavailable(httpStatus, 'html', `a web page came where JSON was due: ${title}`);
  }
  if (reading.kind === 'other' && reading.cutOff && isSuccess(httpStatus)) {
    return unavailable(httpStatus, 'cut-off', 'the answer ends in the middle of its JSON');
  }
  if (reading.kind === 'other') return say(`the answer ${reading.problem}`);
  const message = laravelMessage(reading.value);
  if (httpStatus === 401 || httpStatus === 403 || isAboutKey(message)) {
    return refused(httpStatus, message, redactor);
  }
  return say(`the answer has none of the data asked for (${asked.operation})`);
}

/** True when the envelope says in so many words that it is an error. */
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

/**
 * `{ status, msg }` (spec 7); the words may be translated. Beside data it is one only where it says
 * `error` outright.
 */
function errorEnvelope(
  asked: Asked,
  httpStatus: number,
  reading: BodyReading,
): ErrorEnvelope | null {
  if (reading.kind !== 'object') return null;
  const { status, msg } = reading.value;
  if (typeof status !== 'string' || typeof msg !== 'string' || isWord(status, 'success')) {
    return null;
  }
  const saysSo = saysError(reading.value);
  const found = asked.find(reading.value);
  if (found !== null && !(isSuccess(httpStatus) && saysSo)) return null;
  return { saysError: saysSo, msg, besideData: found !== null && !isEmpty(found.json) };
}

function isEmpty(json: Json): boolean {
  return typeof json === 'object' && json !== null && Object.keys(json).length === 0;
}

function judgeError(
  asked: Asked,
  httpStatus: number,
  error: ErrorEnvelope,
  say: (detail: string) => Unreadable,
  redactor: KeyRedactor,
): Denied | Refused | Unreadable {
  const { msg } = error;
  if (httpStatus === 401 || httpStatus === 403 || isAboutKey(msg)) {
    return refused(httpStatus, msg, redactor);
  }
  // One of the two is wrong, and nobody can tell which: it is neither a denial nor an answer.
  if (error.besideData) return say('the marketplace sent both the data asked for and an error');
  // Off 404 an outage may be told in the same envelope: there only the documented words answer.
  const answers = httpStatus === 404 || (error.saysError && isSameText(msg, asked.errorText));
  if (!answers) return say('the marketplace sent an error that answers nothing');
  if (asked.operation === 'account') return refused(httpStatus, msg, redactor);
  return { kind: 'denied', httpStatus, message: excerpt(msg, redactor) };
}

function accept<T>(
  question: Question<T>,
  httpStatus: number,
  reading: BodyReading & { kind: 'object' },
  found: Found,
  redactor: KeyRedactor,
): Reply<Sourced<T>> {
  const say = (detail: string): Unreadable =>
    unreadable(httpStatus, excerpt(detail, redactor), reading, redactor);
  // Compared as sent: masking could change the very field that is compared.
  const sent = question.decode(found.json);
  const mismatch = sent.ok ? question.mismatch(sent.decoded.value) : null;
  if (mismatch !== null) return { ...say(mismatch), isAboutAnother: true };

  const isClean = !redactor.mayChange(reading.text);
  const raw = isClean ? found.json : redactor.json(found.json, question.numbers);
  const decoding = raw === found.json ? sent : question.decode(raw);
  if (!decoding.ok)
    return say(`the ${question.operation} answer can't be read: ${decoding.reason}`);
  const { value, extra, tolerated } = decoding.decoded;
  const quirks = [...reading.tolerated, ...envelopeQuirks(reading.value), ...tolerated];
  if (found.quirk !== null) quirks.push(found.quirk);
  // Looked for in the values: JSON can spell a character in several ways.
  const text = isClean ? reading.text : JSON.stringify(redactor.json(reading.value));
  return {
    kind: 'answered',
    httpStatus,
    data: { value, extra, tolerated: quirks, raw, text },
  };
}

/** Quirks of an envelope that holds data all the same. */
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

function unavailable(
  httpStatus: number,
  reason: Unavailable['reason'],
  detail: string,
): Unavailable {
  return { kind: 'unavailable', httpStatus, reason, detail, retryAt: null };
}

function unreadable(
  httpStatus: number,
  detail: string,
  reading: BodyReading,
  redactor: KeyRedactor,
): Unreadable {
  return { kind: 'unreadable', httpStatus, detail, excerpt: safeExcerpt(reading, redactor) };
}

/** Debug answers carry an exception and a trace: of those at most the message is shown. */
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

/** Letter case and the mark at the end do not count. */
function isSameText(a: string, b: string): boolean {
  const plain = (text: string): string => text.trim().replace(/[.!]$/, '').trimEnd().toLowerCase();
  return plain(a) === plain(b);
}

function isWord(value: unknown, word: string): boolean {
  return typeof value === 'string' && value.trim().toLowerCase() === word.toLowerCase();
}
