import { createReadStream, mkdtempSync } from 'node:fs';
import { rm, stat, writeFile } from 'node:fs/promises';
import type { IncomingMessage } from 'node:http';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { jsonAnswer, type Answer, type Body, Literal, toJson, type WireObject } from './answer.js';
import { translate, type Language, type Quirks, type Word } from './profiles.js';
import { accountWire, itemWire, purchaseWire } from './render.js';
import type { Seller } from './seller.js';
import type { CatalogueRecord, Operation } from './types.js';

/** Parameters by name, from the query, a form body or a JSON body (servers: requests). */
export type Parameters = Readonly<Record<string, string>>;

/** The trimmed value, like on a server; undefined if missing or empty. */
export function parameter(parameters: Parameters, name: string): string | undefined {
  return parameters[name]?.trim() || undefined;
}

const MAX_BODY_BYTES = 4 * 1024 * 1024;

export async function readParameters(
  request: IncomingMessage,
  query: URLSearchParams,
): Promise<Parameters> {
  const parts: Buffer[] = [];
  let size = 0;
  for await (const part of request as AsyncIterable<Buffer>) {
    size += part.length;
    if (size <= MAX_BODY_BYTES) parts.push(part);
  }
  const body = Buffer.concat(parts).toString();
  return Object.fromEntries([...query, ...bodyFields(body, request.headers['content-type'] ?? '')]);
}

/** The parameters in a body; none if it can't be read, like on a server. */
function bodyFields(body: string, type: string): Iterable<[string, string]> {
  if (type.includes('urlencoded')) return new URLSearchParams(body);
  if (!type.includes('json')) return [];
  let value: unknown;
  try {
    value = JSON.parse(body);
  } catch {
    return [];
  }
  return Object.entries(value ?? {}).map(([name, field]) => [
    name,
    typeof field === 'string' ? field : JSON.stringify(field),
  ]);
}

interface OperationCall {
  readonly operation: Operation;
  readonly parameters: Parameters;
  /** The owner of the key; null if the key is unknown. */
  readonly seller: Seller | null;
  readonly quirks: Quirks;
  readonly language: Language;
  /** Differs for every request: seeds the list's order on servers without a stable one. */
  readonly serial: number;
  readonly prerendered: Prerendered | null;
}

/** Answers one of the four operations (API 4; servers: errors). */
export async function answerOperation(call: OperationCall): Promise<Answer> {
  const { operation, parameters } = call;
  if (parameter(parameters, 'api_key') === undefined) {
    return denial(call, 400, 'The api key field is required.');
  }
  return { account, list, item, validate: validation }[operation](call);
}

function account(call: OperationCall): Answer {
  const { seller, quirks } = call;
  if (seller === null) return denial(call, 401, 'Invalid request');
  return success(call, { data: accountWire(seller.account, quirks) });
}

async function list(call: OperationCall): Promise<Answer> {
  const { quirks, language, serial, prerendered } = call;
  const seller = selling(call);
  const least = quirks.oneItemRule ? 2 : 1;
  if (seller === null || seller.catalogue.countListed(least) < least) {
    return denial(call, 404, 'No items found');
  }
  const unstable = quirks.order === 'unstable';
  const rendered = listBody(seller, quirks, language, unstable ? serial : undefined);
  const headers = { 'Content-Type': 'application/json' };
  if (prerendered === null || unstable) return { status: 200, headers, body: rendered };
  const revision = `${seller.catalogue.revision} ${language} ${JSON.stringify(quirks)}`;
  return { status: 200, headers, body: await prerendered.body(seller, revision, rendered) };
}

function item(call: OperationCall): Answer {
  const id = parameter(call.parameters, 'item_id');
  if (id === undefined) return denial(call, 400, 'The item id field is required.');
  if (!/^[+-]?(0|[1-9]\d*)$/.test(id)) {
    return denial(call, 400, 'The item id must be an integer.');
  }
  const catalogue = selling(call)?.catalogue;
  const record = catalogue?.canLookUp(Number(id)) === true ? catalogue.find(Number(id)) : null;
  if (record === null) return denial(call, 404, 'Item Not Found');
  return success(call, { item: new Literal(recordJson(record, call.quirks)) });
}

function validation(call: OperationCall): Answer {
  const { quirks, language } = call;
  const code = parameter(call.parameters, 'purchase_code');
  if (code === undefined) return denial(call, 400, 'The purchase code field is required.');
  const seller = selling(call);
  const purchase = seller?.purchases.find(code, seller.catalogue) ?? null;
  const bought = purchase === null ? null : (seller?.catalogue.find(purchase.itemId) ?? null);
  if (purchase?.state !== 'valid' || bought === null) {
    return denial(call, 404, 'Invalid purchase code');
  }
  const wire = purchaseWire(purchase, bought.item, quirks, language);
  const place = quirks.purchaseAt;
  return success(
    call,
    place === 'data.purchase' ? { data: { purchase: wire } } : { [place]: wire },
  );
}

function selling({ seller }: OperationCall): Seller | null {
  return seller?.sells === true ? seller : null;
}

function success({ quirks, language }: OperationCall, payload: WireObject): Answer {
  const envelope = { status: translate('success', language), ...payload };
  return jsonAnswer(200, toJson(envelope, quirks.phpEscapes));
}

function denial({ quirks, language }: OperationCall, status: number, message: Word): Answer {
  const envelope = { status: translate('error', language), msg: translate(message, language) };
  return jsonAnswer(status, toJson(envelope, quirks.phpEscapes));
}

const CHUNK_CHARACTERS = 64 * 1024;

/** The list of a seller's items (API 4.2), rendered while it is sent. */
function listBody(
  seller: Seller,
  quirks: Quirks,
  language: Language,
  orderSeed: number | undefined,
): Body {
  return {
    length: null,
    *chunks() {
      const map = quirks.list === 'map';
      const status = toJson(translate('success', language), quirks.phpEscapes);
      let text = `{"status":${status},"items":${map ? '{' : '['}`;
      let count = 0;
      for (const record of seller.catalogue.listed(orderSeed)) {
        for (const json of renderings(record, quirks)) {
          text += `${count === 0 ? '' : ','}${map ? `"${mapKey(count)}":` : ''}${json}`;
          count++;
        }
        if (text.length < CHUNK_CHARACTERS) continue;
        yield Buffer.from(text);
        text = '';
      }
      yield Buffer.from(`${text}${map ? '}' : ']'}}`);
    },
  };
}

function recordJson(record: CatalogueRecord, quirks: Quirks, change: WireObject = {}): string {
  if (record.raw !== undefined) return record.raw;
  const wire = itemWire(record.item, quirks);
  return toJson({ ...wire, ...record.wire, ...change }, quirks.phpEscapes);
}

function* renderings(record: CatalogueRecord, quirks: Quirks): Generator<string> {
  yield recordJson(record, quirks);
  for (const change of record.copies ?? []) yield recordJson(record, quirks, change);
}

/** PHP arrays become maps if records were filtered out, with gaps between their keys. */
function mapKey(place: number): number {
  return place + Math.floor(place / 3);
}

interface Rendering {
  readonly revision: string;
  readonly body: Promise<Body>;
  readonly path: string;
}

/** Renders lists to temporary files, so that a benchmark measures its client and not this server. */
export class Prerendered {
  readonly #folder = mkdtempSync(join(tmpdir(), 'seller-mirror-simulator-'));
  readonly #renderings = new Map<object, readonly Rendering[]>();
  #count = 0;

  async body(owner: object, revision: string, source: Body): Promise<Body> {
    const [current, previous] = this.#renderings.get(owner) ?? [];
    if (current?.revision === revision) return current.body;
    const path = join(this.#folder, `${++this.#count}.json`);
    const next = { revision, body: render(path, source), path };
    this.#renderings.set(owner, current === undefined ? [next] : [next, current]);
    // The current file may still be in use, the previous one hardly.
    if (previous !== undefined) await rm(previous.path, { force: true });
    return next.body;
  }

  async close(): Promise<void> {
    await rm(this.#folder, { recursive: true, force: true });
  }
}

async function render(path: string, source: Body): Promise<Body> {
  await writeFile(path, source.chunks());
  const { size: length } = await stat(path);
  return { length, chunks: () => createReadStream(path, { highWaterMark: 1024 * 1024 }) };
}
