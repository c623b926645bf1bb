import { hash32 } from './random.js';

/**
 * The ways in which deployed servers differ from the contract, each as a switch, and the profiles
 * made of them. Where each field note is found (P1 = `field-1`, P2 = `field-2`):
 *
 * | note                                              | profile / switch                              |
 * |---------------------------------------------------|-----------------------------------------------|
 * | purchase at top-level `item`, at `purchase`       | P1, P2 / `purchaseAt`                         |
 * | options as a map; null; []                        | P1, P2 / `options`, `noOptions`               |
 * | tags comma-separated; null                        | P1, P2 / `tags`, `noTags`                     |
 * | screenshots as a map; null; absent                | P1, P2 / `screenshots`, `noScreenshots`       |
 * | the list as a map                                 | P2 / `list`                                   |
 * | empty maps as []                                  | P1, P2 / `emptyMaps`                          |
 * | social links: handles, unset null, field null     | P1, P2 / `socialLinks`; account override null |
 * | timestamps with microseconds                      | P1, P2 / `timestamps`                         |
 * | money: 100, float noise, string, whole            | P1, P2 / `money`                              |
 * | numeric strings                                   | P2 / `numbers`                                |
 * | version null, 1.0, 1.2.3.4                        | P2 / `noVersion`, `version`                   |
 * | null for demo link, heading, description, contact | P2 / `nulls`                                  |
 * | translated licence, status and messages           | option `language`; fault `translated`         |
 * | fields added and renamed by forks                 | P2 / `extraFields`; `renamedFields`; `extra`  |
 * | reduced shapes                                    | P1 / `shapes`, `purchaseItem`                 |
 * | storage links with ?wrap=0, on a CDN host         | P2 / `links`                                  |
 * | parameters in query, form, JSON; no header        | all; option `keyHeader` reads one more        |
 * | browser User-Agent to the home page               | all / `browserRedirect`                       |
 * | no paging, no ETag; only approved items           | all; `Catalogue.setState`                     |
 * | unstable order                                    | P1 / `order`                                  |
 * | codes in any letter case, values trimmed          | all                                           |
 * | codes of 37 hex characters, or UUIDs              | `seededPurchases({ format })`                 |
 * | statuses and words of the error table             | all; option `errorStatus`                     |
 * | the key of a user who sells nothing               | `SellerSpec.sells`, or an empty catalogue     |
 * | refunded, cancelled, another seller's code        | `Purchases.setState`; a second seller         |
 * | item pending, rejected, deleted                   | `Catalogue.setState`, `remove`                |
 * | "No items found" at exactly one item              | P1, P2 / `oneItemRule`                        |
 * | switched off, demo mode                           | fault `switched-off`                          |
 * | 60 a minute, headers, 429                         | options `requestsPerMinute`, `limit`          |
 * | others use up the same budget                     | `sim.limits.spend`                            |
 * | Laravel errors, debug trace                       | fault `server-error`; `echo`                  |
 * | maintenance: 503, redirect                        | faults `maintenance`, `maintenance-redirect`  |
 * | bot challenge                                     | fault `challenge`                             |
 * | HTML at any status; BOM, white space, warnings    | faults `html`, `prefix`                       |
 * | gzip and br                                       | option `compression`; fault `encoding`        |
 * | one broken item, the list a 500                   | `Catalogue.poison`                            |
 * | redirects                                         | option `redirects`; fault `redirect`          |
 * | POST only at the validation                       | all: 405 with `Allow`                         |
 */

/** One notation for all records, or several, of which each record has one for good. */
type Choice<T> = T | readonly T[];

export interface Quirks {
  readonly purchaseAt: 'data.purchase' | 'item' | 'purchase';
  /** `map` only where every option has the form `name: value`; the others stay arrays. */
  readonly options: Choice<'array' | 'map'>;
  /** How no options at all are written; `map` becomes `[]` under `emptyMaps`. */
  readonly noOptions: Choice<'array' | 'map' | 'null'>;
  readonly tags: Choice<'array' | 'comma'>;
  readonly noTags: Choice<'array' | 'empty-text' | 'null'>;
  readonly screenshots: Choice<'array' | 'map'>;
  readonly noScreenshots: Choice<'absent' | 'null' | 'empty'>;
  readonly list: 'array' | 'map';
  readonly emptyMaps: 'map' | 'array';
  /** `handles`: the last part of each link, and null for every known network that is not set. */
  readonly socialLinks: 'links' | 'handles';
  readonly timestamps: 'seconds' | 'microseconds';
  /** `19.90`; rounded to a whole `20`; `19.9` and `100` as PHP prints; one bit below; `"19.90"`. */
  readonly money: Choice<'decimal' | 'whole' | 'short' | 'noise' | 'string'>;
  readonly numbers: Choice<'number' | 'string'>;
  readonly version: Choice<'contract' | 'two-part' | 'four-part' | 'none'>;
  readonly noVersion: Choice<'absent' | 'null'>;
  /** Null for heading, description and contact address, and for some demo links. */
  readonly nulls: boolean;
  readonly extraFields: boolean;
  /** A fork's name: `demo_url` for `demo_link`. */
  readonly renamedFields: boolean;
  /** `reduced`: no thumbnail, previews other than the image, support date, or download mark. */
  readonly shapes: 'full' | 'reduced';
  readonly purchaseItem: Choice<'full' | 'reduced'>;
  readonly links: Choice<'plain' | 'wrap' | 'cdn'>;
  readonly order: 'stable' | 'unstable';
  readonly oneItemRule: boolean;
  readonly browserRedirect: boolean;
  /** JSON text as PHP escapes it: `\/`, `\u00e9`. */
  readonly phpEscapes: boolean;
}

export type ProfileName = 'documented' | 'field-1' | 'field-2';

const documented: Quirks = {
  purchaseAt: 'data.purchase',
  options: 'array',
  noOptions: 'array',
  tags: 'array',
  noTags: 'array',
  screenshots: 'array',
  noScreenshots: 'absent',
  list: 'array',
  emptyMaps: 'map',
  socialLinks: 'links',
  timestamps: 'seconds',
  money: 'decimal',
  numbers: 'number',
  version: 'contract',
  noVersion: 'absent',
  nulls: false,
  extraFields: false,
  renamedFields: false,
  shapes: 'full',
  purchaseItem: 'full',
  links: 'plain',
  order: 'stable',
  oneItemRule: false,
  browserRedirect: true,
  phpEscapes: false,
};

/** Quirks that say the same in other words: under them nothing has changed. */
export const notationQuirks: Partial<Quirks> = {
  purchaseAt: 'purchase',
  options: ['map', 'array'],
  noOptions: ['null', 'map'],
  tags: ['comma', 'array'],
  noTags: ['null', 'empty-text'],
  screenshots: ['map', 'array'],
  noScreenshots: ['null', 'empty', 'absent'],
  list: 'map',
  emptyMaps: 'array',
  timestamps: 'microseconds',
  money: ['string', 'noise', 'short', 'decimal'],
  numbers: ['string', 'number'],
  noVersion: ['null', 'absent'],
  phpEscapes: true,
};

export const profiles: Readonly<Record<ProfileName, Quirks>> = {
  documented,
  'field-1': {
    ...documented,
    purchaseAt: 'item',
    options: 'map',
    noOptions: 'map',
    tags: 'comma',
    noTags: 'empty-text',
    screenshots: 'map',
    noScreenshots: 'empty',
    emptyMaps: 'array',
    socialLinks: 'handles',
    timestamps: 'microseconds',
    money: 'whole',
    version: 'none',
    shapes: 'reduced',
    purchaseItem: 'reduced',
    order: 'unstable',
    oneItemRule: true,
    phpEscapes: true,
  },
  'field-2': {
    ...documented,
    ...notationQuirks,
    socialLinks: 'handles',
    version: ['contract', 'contract', 'two-part', 'four-part'],
    nulls: true,
    extraFields: true,
    links: ['plain', 'wrap', 'cdn'],
    oneItemRule: true,
  },
};

/** The alternative that the record with this id has; `salt` keeps the fields independent. */
export function choose<T extends string>(choice: Choice<T>, id: number, salt: number): T {
  if (typeof choice === 'string') return choice;
  return choice[hash32(salt, id, 77) % choice.length] as T;
}

/**
 * Languages of the site's translation table, through which `status`, `msg` and licence names pass
 * (field notes). `en` is the contract; `EN` is English in another letter case.
 */
export type Language = 'en' | 'EN' | 'de' | 'ja';

const words = {
  de: {
    success: 'Erfolg',
    error: 'Fehler',
    Regular: 'Regulär',
    Extended: 'Erweitert',
    'Invalid request': 'Ungültige Anfrage',
    'No items found': 'Keine Artikel gefunden',
    'Item Not Found': 'Artikel nicht gefunden',
    'Invalid purchase code': 'Ungültiger Kaufcode',
    'The api key field is required.': 'Das Feld api key ist erforderlich.',
    'The item id field is required.': 'Das Feld item id ist erforderlich.',
    'The item id must be an integer.': 'item id muss eine ganze Zahl sein.',
    'The purchase code field is required.': 'Das Feld purchase code ist erforderlich.',
  },
  ja: {
    success: '成功',
    error: 'エラー',
    Regular: '通常',
    Extended: '拡張',
    'Invalid request': '無効なリクエスト',
    'No items found': 'アイテムが見つかりません',
    'Item Not Found': 'アイテムが見つかりません',
    'Invalid purchase code': '無効な購入コード',
    'The api key field is required.': 'api keyは必須です。',
    'The item id field is required.': 'item idは必須です。',
    'The item id must be an integer.': 'item idは整数で指定してください。',
    'The purchase code field is required.': 'purchase codeは必須です。',
  },
} as const;

/** Every text of the server that is translated. */
export type Word = keyof (typeof words)['de'];

/** A text of the server in a language. */
export function translate(word: Word, language: Language): string {
  if (language === 'en') return word;
  return language === 'EN' ? word.toUpperCase() : words[language][word];
}
