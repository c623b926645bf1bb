import type { Json } from '../domain/item.js';
import type { Redactor } from '../domain/redact.js';
import type { JsonObject } from '../domain/values.js';
import { wireHash } from './decode.js';
import { listEndpoint, saidBy } from './endpoints.js';
import {
  excerpt,
  isHtmlDocument,
  objectStart,
  objectStarts,
  parse,
  readBody,
  type BodyReading,
} from './envelope.js';
import { envelopeQuirks, judgeFailure } from './judge.js';
import { skipSpace } from './json-walk.js';
import { partialMark } from './list-marks.js';
import { scanList, type FoundRecord, type Members, type ScannedList } from './list-scanner.js';
import type { Head } from './rate-limit.js';
import { unavailable, type Failure, type Reply, type Unreadable } from './reply.js';
import type { ItemList, ListElement } from './types.js';

/** The beginning of a body that is shown. It classifies a web page. */
const BEGINNING_BYTES = 16 * 1024;
/** A body without a list is judged like any other answer up to this size. */
const WHOLE_BYTES = 1024 * 1024;
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
  const { records, problem, isCut, start, end } = scan;
  if (records === null && body.length <= WHOLE_BYTES) return judged(readBody(body));
  if (isCut) {
    const detail = `the list ended early, after ${body.length} bytes`;
    return unavailable(httpStatus, 'cut-off', detail);
  }
  if (problem !== null) return unreadable(`the answer ${problem}`);
  const envelope = parsed(scan.members);
  const inData = parsed(scan.inData);
  if (envelope === null || inData === null) {
    return unreadable('the envelope of the list is not valid JSON');
  }
  const isError =
    saidBy(envelope) === 'error' || saidBy({ status: 'success', ...inData }) === 'error';
  if (records === null || (isError && records.length === 0)) {
    const value = { ...inData, ...envelope };
    return judged({ kind: 'object', value, tolerated: [], text, repeated: null });
  }
  if (isError) {
    const { msg, message, status } = { ...inData, ...envelope };
    const said = excerpt(JSON.stringify(msg ?? message ?? status ?? null), redactor, 100);
    return unreadable(`the marketplace sent a list of items together with an error, ${said}`);
  }
  // A second object may contradict the first.
  if (objectStart(body, end) >= 0) return unreadable('the answer continues after its end');
  const mark = marks === 'ignore' ? null : partialMark([inData, envelope], headers, records.length);
  if (mark !== null) {
    const detail = `the list of ${records.length} items says that it is only a part of all (${excerpt(mark, redactor, 60)})`;
    return unreadable(detail, 'part-of-list');
  }
  const before = body.toString('utf8', 0, start);
  const quirks = [
    before.startsWith('\uFEFF') ? 'envelope.bom' : null,
    before.replace('\uFEFF', '').trim() === '' ? null : 'envelope.preamble',
    scan.isInData ? 'envelope.items-in-data' : null,
    scan.isObject ? 'envelope.items-object' : null,
    skipSpace(body, end) < body.length ? 'envelope.trailer' : null,
    ...envelopeQuirks(envelope),
  ].filter((quirk) => quirk !== null);
  const list: ItemList = {
    records: { [Symbol.iterator]: () => elements(body, records, redactor) },
    count: records.length,
    bytes: body.length,
    tolerated: quirks,
    release: once(release),
  };
  return { kind: 'answered', httpStatus, data: list };
}

/** The envelope with the list; else the first valid object without one, or the damage to the first one; null: none. */
function findList(body: Buffer): (ScannedList & { readonly start: number }) | null {
  let other: (ScannedList & { readonly start: number }) | null = null;
  let next = 0;
  for (const start of objectStarts(body)) {
    if (start < next) continue;
    const scan = { ...scanList(body, start), start };
    if (scan.records !== null) return scan;
    // Text in front, such as warnings of PHP, may hold JSON, too.
    if (scan.problem === null) next = scan.end;
    other ??= scan;
  }
  return other;
}

function parsed(members: Members): JsonObject | null {
  const entries: [string, Json][] = [];
  for (const [name, text] of members) {
    const value = parse(text);
    if (value === undefined) return null;
    entries.push([name, value]);
  }
  return Object.fromEntries(entries);
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

  wireHash(): Uint8Array {
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
