import { hash32 } from './random.js';

/*
 * Differences of deployed servers from the contract (servers: shapes, values), and profiles that combine them:
 * `field-1` and `field-2` are the two generations of servers.
 */

/** One notation for all records, or several. Then each record always has the same one of them. */
type Choice<T> = T | readonly T[];

export interface Quirks {
  readonly purchaseAt: 'data.purchase' | 'item' | 'purchase';
  /** `map` applies only if every option has the form `name: value`. */
  readonly options: Choice<'array' | 'map'>;
  /** How an empty set of options is written. `emptyMaps` may turn `map` into `[]`. */
  readonly noOptions: Choice<'array' | 'map' | 'null'>;
  readonly tags: Choice<'array' | 'comma'>;
  readonly noTags: Choice<'array' | 'empty-text' | 'null'>;
  readonly screenshots: Choice<'array' | 'map'>;
  readonly noScreenshots: Choice<'absent' | 'null' | 'empty'>;
  readonly list: 'array' | 'map';
  readonly emptyMaps: 'map' | 'array';
  /** `handles`: the last part of each link, and null for each known network without one. */
  readonly socialLinks: 'links' | 'handles';
  readonly timestamps: 'seconds' | 'microseconds';
  /** `decimal`: 19.90; `whole`: 20; `short`: 19.9; `noise`: 19.899999999999995; `string`: "19.90". */
  readonly money: Choice<'decimal' | 'whole' | 'short' | 'noise' | 'string'>;
  readonly numbers: Choice<'number' | 'string'>;
  readonly version: Choice<'contract' | 'two-part' | 'four-part' | 'none'>;
  readonly noVersion: Choice<'absent' | 'null'>;
  /** Heading, description, contact address and some demo links are null. */
  readonly nulls: boolean;
  readonly extraFields: boolean;
  /** `reduced` omits thumbnail, video and audio previews, support date and the `downloaded` mark. */
  readonly shapes: 'full' | 'reduced';
  readonly purchaseItem: Choice<'full' | 'reduced'>;
  readonly links: Choice<'plain' | 'wrap' | 'cdn'>;
  readonly order: 'stable' | 'unstable';
  readonly oneItemRule: boolean;
  readonly browserRedirect: boolean;
  /** JSON is escaped like in PHP: `\/`, `\u00e9`. */
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
  shapes: 'full',
  purchaseItem: 'full',
  links: 'plain',
  order: 'stable',
  oneItemRule: false,
  browserRedirect: true,
  phpEscapes: false,
};

/** Quirks that change only the notation. Turning them on is no change of any item. */
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

export type Notation = { readonly [N in keyof Quirks]: Exclude<Quirks[N], readonly unknown[]> };

export function notationOf(quirks: Quirks, id: number): Notation {
  if (!Object.values(quirks).some(Array.isArray)) return quirks as Notation;
  const chosen = Object.entries(quirks).map(([name, choice]: [string, unknown], salt) => {
    const isChoice = Array.isArray(choice);
    return [name, isChoice ? (choice[hash32(salt, id, 77) % choice.length] as unknown) : choice];
  });
  return Object.fromEntries(chosen) as Notation;
}

/** Languages of `status`, `msg` and license names (servers: wording). `en` is documented; `EN` is English in capitals. */
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

export type Word = keyof (typeof words)['de'];

export function translate(word: Word, language: Language): string {
  if (language === 'en') return word;
  return language === 'EN' ? word.toUpperCase() : words[language][word];
}
