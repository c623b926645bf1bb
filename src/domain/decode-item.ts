import type { Decoding, Item, Json } from './item.js';
import {
  FieldError,
  Tolerated,
  collectExtra,
  emptyExtra,
  isObject,
  readId,
  readMap,
  readMoney,
  readRequiredText,
  readText,
  readTexts,
  readTimestamp,
  shown,
  type JsonObject,
} from './values.js';

const ITEM_FIELDS = new Set([
  'id',
  'name',
  'description',
  'category',
  'sub_category',
  'options',
  'version',
  'demo_link',
  'tags',
  'media',
  'price',
  'currency',
  'published_at',
]);
const MEDIA_FIELDS = new Set([
  'thumbnail',
  'preview_image',
  'preview_video',
  'preview_audio',
  'screenshots',
]);
const PRICE_FIELDS = new Set(['regular', 'extended']);

/**
 * Reads an item (spec 2.3, 2.4) in any of the notations of the field notes. Only `id` and `name`
 * must be there: reduced shapes leave out the rest. A field that is there and can't be read makes
 * the record unreadable, since null would claim a state that never was.
 */
export function decodeItem(json: Json): Decoding<Item> {
  if (!isObject(json)) return { ok: false, reason: `is no object: ${shown(json)}`, id: null };
  const tolerated = new Tolerated();
  let id: number | null = null;
  try {
    id = readId(json['id'], 'id', tolerated);
    const value = readItem(id, json, tolerated);
    return {
      ok: true,
      decoded: { value, extra: readExtra(json, tolerated), tolerated: tolerated.names },
    };
  } catch (error) {
    if (error instanceof FieldError) return { ok: false, reason: error.message, id };
    throw error;
  }
}

function readItem(id: number, json: JsonObject, tolerated: Tolerated): Item {
  const media = readMap(json['media'], 'media', tolerated);
  const price = readMap(json['price'], 'price', tolerated);
  return {
    id,
    name: readRequiredText(json['name'], 'name', tolerated),
    description: readText(json['description'], 'description', tolerated),
    category: readText(json['category'], 'category', tolerated),
    subCategory: readText(json['sub_category'], 'sub_category', tolerated),
    options: readOptions(json['options'], tolerated),
    version: readText(json['version'], 'version', tolerated),
    demoLink: readText(json['demo_link'], 'demo_link', tolerated),
    tags: readTags(json['tags'], tolerated),
    thumbnailUrl: readText(media['thumbnail'], 'media.thumbnail', tolerated),
    previewImageUrl: readText(media['preview_image'], 'media.preview_image', tolerated),
    previewVideoUrl: readText(media['preview_video'], 'media.preview_video', tolerated),
    previewAudioUrl: readText(media['preview_audio'], 'media.preview_audio', tolerated),
    screenshots: readTexts(media['screenshots'], 'screenshots', tolerated),
    priceRegular: readMoney(price['regular'], 'price.regular', tolerated),
    priceExtended: readMoney(price['extended'], 'price.extended', tolerated),
    currency: readText(json['currency'], 'currency', tolerated),
    publishedAt: readTimestamp(json['published_at'], 'published_at', tolerated),
  };
}

function readExtra(json: JsonObject, tolerated: Tolerated): JsonObject {
  const extra = emptyExtra();
  collectExtra(json, ITEM_FIELDS, '', extra, tolerated);
  if (isObject(json['media']))
    collectExtra(json['media'], MEDIA_FIELDS, 'media.', extra, tolerated);
  if (isObject(json['price']))
    collectExtra(json['price'], PRICE_FIELDS, 'price.', extra, tolerated);
  return extra;
}

/** Tags: an array, or one comma-separated text (field notes: tags). */
function readTags(json: Json | undefined, tolerated: Tolerated): string[] {
  if (typeof json !== 'string') return readTexts(json, 'tags', tolerated);
  tolerated.note('tags.comma-separated');
  return readTexts(json.split(','), 'tags', tolerated)
    .map((tag) => tag.trim())
    .filter((tag) => tag !== '');
}

/** Options: an array of texts, or a map name → text or texts (field notes: options). */
function readOptions(json: Json | undefined, tolerated: Tolerated): string[] {
  if (!isObject(json)) return readTexts(json, 'options', tolerated);
  tolerated.note('options.object');
  return Object.entries(json).flatMap(([name, values]) =>
    readTexts(typeof values === 'string' ? [values] : asList(values), 'options', tolerated).map(
      (value) =>
        /^\d+$/.test(name)
          ? value
          : readTexts([`${name}: ${value}`], 'options', tolerated).join(''),
    ),
  );
}

function asList(values: Json): Json {
  return typeof values === 'object' ? values : [values];
}
