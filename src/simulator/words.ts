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
