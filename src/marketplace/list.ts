import type { Redactor } from '../domain/redact.js';
import { isObject } from '../domain/values.js';
import { wireHash } from './decode.js';
import { listEndpoint, saidBy } from './endpoints.js';
import {
  excerpt,
  isHtmlDocument,
  objectStarts,
  parse,
  readBody,
  type BodyReading,
} from './envelope.js';
import { envelopeQuirks, judgeFailure } from './judge.js';
import { partialMark } from './list-marks.js';
import { scanList, type FoundRecord, type ScannedEnvelope } from './list-scanner.js';
import type { Head } from './rate-limit.js';
import { unavailable, type Failure, type Reply, type Unreadable } from './reply.js';
import type { ItemList, ListElement } from './types.js';

/** The beginning of a body that is shown. It classifies a web page. */
const BEGINNING_BYTES = 16 * 1024;
/** A body without a list is judged like any other answer up to this size. */
const WHOLE_BYTES = 1024 * 1024;
/** A longer envelope is not read. */
const MAX_ENVELOPE_BYTES = 16 * 1024 * 1024;
const EMPTY_LIST = Buffer.from('[]');
/** How much to keep of a record that must not be decoded. */
const KEPT_OF_UNFIT_BYTES = 1024 * 1024;

interface WholeList extends Head {
  readonly body: Buffer;
}

/**
 * Turns a successful response into a list. A list that is cut off, contradicts itself, or says that it is only a part
 * is a failure: no record of it counts.
 * @param marks `ignore`: take it for whole, whatever it says
 * @param release called when the records are not needed any more
 */
export function readList(
  { httpStatus, headers, body }: WholeList,
  redactor: Redactor,
  marks: 'check' | 'ignore',
  release: () => void,
): Reply<ItemList> {
  const beginning = body.subarray(0, BEGINNING_BYTES);
  const text = beginning.toString();
  const unreadable = (detail: string, flaw?: Unreadable['flaw']): Unreadable => {
    const shown = { detail, excerpt: excerpt(text, redactor) };
    return { kind: 'unreadable', httpStatus, ...shown, ...(flaw === undefined ? {} : { flaw }) };
  };
  const judged = (reading: BodyReading): Failure =>
    judgeFailure(listEndpoint, httpStatus, reading, redactor);
  const scan = isHtmlDocument(text) ? null : findList(body);
  if (scan === null) return judged(readBody(beginning));
  const { list, problem } = scan;
  if (list === null && body.length <= WHOLE_BYTES) return judged(readBody(body));
  if (scan.isCut) {
    const detail = `the list ended early, after ${body.length} bytes`;
    return unavailable(httpStatus, 'cut-off', detail);
  }
  if (problem !== null || list === null) {
    return unreadable(`the answer ${problem ?? 'has no list of items'}`);
  }
  const { records, from, to, isInData } = list;
  if (body.length - (to - from) > MAX_ENVELOPE_BYTES) {
    return unreadable(`the answer has more than ${MAX_ENVELOPE_BYTES} bytes beside the list`);
  }
  // The envelope is read like any other answer, with an empty list in the place of this one.
  const envelope = readBody(Buffer.concat([body.subarray(0, from), EMPTY_LIST, body.subarray(to)]));
  if (envelope.kind !== 'object' || envelope.repeated !== null) return judged(envelope);
  const { value } = envelope;
  if (saidBy(value) === 'error') {
    if (records.length === 0) return judged(envelope);
    const { msg, message, status } = value;
    const said = excerpt(JSON.stringify(msg ?? message ?? status ?? null), redactor, 100);
    return unreadable(`the marketplace sent a list of items together with an error, ${said}`);
  }
  const { data } = value;
  const beside = isInData && isObject(data) ? [data, value] : [value];
  const mark = marks === 'ignore' ? null : partialMark(beside, headers, records.length);
  if (mark !== null) {
    const detail = `the list of ${records.length} items says that it is only a part of all (${excerpt(mark, redactor, 60)})`;
    return unreadable(detail, 'part-of-list');
  }
  return {
    kind: 'answered',
    httpStatus,
    data: {
      records: { [Symbol.iterator]: () => elements(body, records, redactor) },
      count: records.length,
      bytes: body.length,
      tolerated: [
        ...envelope.tolerated,
        ...(isInData ? ['envelope.items-in-data'] : []),
        ...(list.isObject ? ['envelope.items-object'] : []),
        ...envelopeQuirks(value),
      ],
      release: once(release),
    },
  };
}

/** The envelope with the list; else the first valid object without one, or the damage to the first one; null: none. */
function findList(body: Buffer): ScannedEnvelope | null {
  let other: ScannedEnvelope | null = null;
  let next = 0;
  for (const start of objectStarts(body)) {
    if (start < next) continue;
    const scan = scanList(body, start);
    if (scan.list !== null) return scan;
    // Text in front, such as warnings of PHP, may hold JSON, too.
    if (scan.problem === null) next = scan.end;
    other ??= scan;
  }
  return other;
}

function once(release: () => void): () => void {
  let isReleased = false;
  return () => {
    if (!isReleased) release();
    isReleased = true;
  };
}

function* elements(
  body: Buffer,
  records: readonly FoundRecord[],
  redactor: Redactor,
): Generator<ListElement, void, undefined> {
  for (const record of records) yield new Element(body, record, redactor);
}

/** A record that masks the key only when `bytes` is read, which never happens for unchanged records. */
class Element implements ListElement {
  readonly idHint: number | null;
  readonly unfit: string | null;
  readonly #received: Buffer;
  #bytes: Uint8Array | null = null;

  constructor(
    body: Buffer,
    { start, end, idHint, unfit }: FoundRecord,
    private readonly redactor: Redactor,
  ) {
    const last = unfit === null ? end : Math.min(end, start + KEPT_OF_UNFIT_BYTES);
    this.#received = body.subarray(start, last);
    this.unfit = unfit;
    // A key of digits, sent back as an id.
    this.idHint = idHint !== null && redactor.mayChange(String(idHint)) ? null : idHint;
  }

  get bytes(): Uint8Array {
    this.#bytes ??= this.#masked();
    return this.#bytes;
  }

  wireHash(): string {
    return wireHash(this.#received);
  }

  #masked(): Uint8Array {
    const received = this.#received;
    if (!this.redactor.mayChange(received.toString('latin1'))) return received;
    const text = received.toString();
    const json = this.unfit === null ? parse(text) : undefined;
    if (json === undefined) return Buffer.from(this.redactor.text(text));
    const masked = this.redactor.json(json);
    return masked === json ? received : Buffer.from(JSON.stringify(masked));
  }
}
