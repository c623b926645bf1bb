import { SeededRandom } from './random.js';
import type { SimItem } from './types.js';

/** Items by slot (0 … count-1) and by id, generated on demand. */
export interface ItemSource {
  readonly count: number;
  at(slot: number): SimItem;
  /** -1 if no item has this id. */
  slotOf(id: number): number;
}

export interface SeededOptions {
  readonly seed: number;
  readonly count: number;
  /** Ids are `firstId`, `firstId + 1`, …; default 1001. */
  readonly firstId?: number;
  /** Length of each description in characters; default 380, about 1 KB of JSON an item. */
  readonly descriptionBytes?: number;
}

const STORAGE = 'https://storage.marketplace.example';
const ADJECTIVES = 'Swift Modern Nordic Minimal Bold Cozy Élan Pure Vivid'.split(' ');
const NOUNS = ['Dashboard', 'Shop Theme', 'Icon Set', 'Booking Script', 'Landing Page', 'Player'];
const CATEGORIES = [
  ['Scripts', ['PHP', 'JavaScript', 'Python']],
  ['Themes', ['Blog', 'Shop & Store', 'Portfolio']],
  ['Graphics', ['Icons', 'Logos', 'Vectors']],
] as const;
const TAGS = ['admin', 'bootstrap', 'shop', 'responsive', 'dark mode', 'saas', 'übersetzt', 'rtl'];
const SENTENCES = [
  '<p>Everything you need to start: <strong>clean code</strong>, a manual and six months of help.</p>',
  '<ul><li>Works with PHP 8.3 &amp; MySQL 8</li><li>Ready in 5 minutes</li></ul>',
  '<p>Loved by 1,200+ buyers — "the best purchase this year", they say.</p>\n',
  '<h3>What is inside</h3><p>Ten layouts, <em>four colours</em>, {braces} and [brackets] too.</p>',
  '<p>Größen: S, M, L. 価格は税込みです。 Emoji: 🚀</p>',
  '<a href="https://docs.example/guide?a=1&amp;b=2">Read the guide</a><br />\r\n',
];

/** Items in any number, without memory: each is computed from the seed and its slot. */
export function seededSource(options: SeededOptions): ItemSource {
  const { seed, count, firstId = 1001, descriptionBytes = 380 } = options;
  return {
    count,
    at: (slot) => seededItem(seed, slot, firstId + slot, descriptionBytes),
    slotOf(id) {
      const slot = id - firstId;
      return Number.isInteger(slot) && slot >= 0 && slot < count ? slot : -1;
    },
  };
}

function seededItem(seed: number, slot: number, id: number, descriptionBytes: number): SimItem {
  const random = new SeededRandom(seed, slot);
  const [category, subCategories] = random.pick(CATEGORIES);
  const regular = 500 + random.below(9500);
  return {
    id,
    name: `${random.pick(ADJECTIVES)} ${random.pick(NOUNS)} ${id}`,
    description: description(random, descriptionBytes),
    category,
    subCategory: random.pick<string>(subCategories),
    options: options(random),
    version:
      random.below(8) === 0
        ? null
        : `${1 + random.below(5)}.${random.below(10)}.${random.below(20)}`,
    demoLink: `https://demo.example/preview/${id}`,
    tags: tags(random),
    ...media(random, id),
    priceRegularCents: regular,
    priceExtendedCents: regular * 5 + random.below(100),
    currency: 'USD',
    publishedAt: seconds(Date.UTC(2016, 0, 1) + random.below(300_000_000) * 1000),
  };
}

function description(random: SeededRandom, length: number): string {
  let text = '';
  while (text.length < length) text += random.pick(SENTENCES);
  // Don't cut a surrogate pair in two: half of one can't be sent as UTF-8.
  return text.slice(0, length).replace(/[\ud800-\udbff]$/, '.');
}

function options(random: SeededRandom): string[] {
  const picked: string[] = [];
  if (random.below(4) > 0) picked.push('Framework: Laravel');
  if (random.below(3) > 0) picked.push('Browsers: Firefox', 'Browsers: Safari');
  return picked;
}

function tags(random: SeededRandom): string[] {
  const first = random.below(TAGS.length);
  return TAGS.slice(first, first + random.below(5));
}

/** Audio items have no preview image; only video items have a preview video (API 2.4). */
function media(random: SeededRandom, id: number) {
  const kind = random.below(10);
  const folder = `${STORAGE}/items/${id}`;
  const screenshots: string[] = [];
  for (let n = random.below(4); n > 0; n--) screenshots.push(`${folder}/screenshot-${n}.jpg`);
  return {
    thumbnail: random.below(10) === 0 ? null : `${folder}/thumbnail.png`,
    previewImage: kind === 0 ? null : `${folder}/preview.jpg`,
    previewVideo: kind === 1 ? `${folder}/preview.mp4` : null,
    previewAudio: kind === 0 ? `${folder}/preview.mp3` : null,
    screenshots,
  };
}

/** A time (milliseconds since 1970) as documented (API 2), to the second. */
export function seconds(at: number): string {
  return `${new Date(at).toISOString().slice(0, 19)}Z`;
}
