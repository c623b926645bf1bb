import type { Body } from './answer.js';
import { toJson } from './json.js';
import type { WireObject } from './json.js';
import type { Quirks } from './profiles.js';
import { itemWire } from './render.js';
import type { Seller } from './seller.js';
import type { CatalogueRecord } from './types.js';
import { translate } from './words.js';
import type { Language } from './words.js';

const CHUNK_CHARACTERS = 64 * 1024;

/** The list of a seller's items (spec 4.2), rendered while it is sent. */
export function listBody(
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

/** A record as JSON text: sound, altered or replaced. */
export function recordJson(
  record: CatalogueRecord,
  quirks: Quirks,
  change: WireObject = {},
): string {
  if (record.raw !== undefined) return record.raw;
  const wire = itemWire(record.item, quirks);
  return toJson({ ...wire, ...record.wire, ...change }, quirks.phpEscapes);
}

function* renderings(record: CatalogueRecord, quirks: Quirks): Generator<string> {
  yield recordJson(record, quirks);
  for (const change of record.copies ?? []) yield recordJson(record, quirks, change);
}

/** PHP arrays become maps when records were filtered out: keys with gaps, going up. */
function mapKey(place: number): number {
  return place + Math.floor(place / 3);
}
