/** Quirks whose name does not say it all. */
const WORDS: Readonly<Record<string, string>> = {
  'envelope.bom': 'a byte order mark stands before the JSON',
  'envelope.preamble': 'other text, such as PHP warnings, stands before the JSON',
  'envelope.items-object': 'the list is an object with numbered keys instead of an array',
  'envelope.status': 'the word in `status` is translated',
  'tags.comma-separated': 'tags come as one text, separated by commas',
  'options.object': 'options come as an object of names and values',
  'screenshots.object': 'screenshots come as an object with numbered keys',
  'money.text': 'amounts of money come as text',
  'money.float-noise': 'amounts of money carry noise such as 21.099999999999998',
  'money.rounded': 'amounts of money have more than two decimals; they are rounded',
  'timestamp.empty': 'timestamps that are not known come as empty text or as a date of zeros',
  'timestamp.no-zone': 'timestamps come without a time zone; they are taken for UTC',
  'map.empty-array': 'empty objects come as []',
  'text.unstorable-characters':
    'texts hold characters that PostgreSQL can’t store; they are replaced',
};

const ENDINGS: readonly (readonly [string, string])[] = [
  ['.entry-not-text', 'has entries that are no text; they are kept as JSON'],
  ['.not-text', 'comes as something else than text; it is kept as text'],
  ['.one-text', 'comes as one text instead of a list'],
  ['.object', 'comes as an object with numbered keys instead of an array'],
  ['.text', 'comes as text instead of a number'],
];

/** What a tolerated quirk is, in words. */
export function quirkInWords(name: string): string {
  const words = WORDS[name];
  if (words !== undefined) return words;
  const ending = ENDINGS.find(([end]) => name.endsWith(end));
  return ending === undefined ? name : `${name.slice(0, -ending[0].length)} ${ending[1]}`;
}
