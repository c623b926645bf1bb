import fc from 'fast-check';

type Spell = (text: string) => string;

const html = (text: string): string =>
  text.replaceAll('&', '&amp;').replaceAll('<', '&lt;').replaceAll('>', '&gt;');
const json = (text: string): string => JSON.stringify(text).slice(1, -1);

/** Encodings in which servers repeat a text in their answers. */
export const SPELLINGS: Readonly<Record<string, Spell>> = {
  unchanged: (text) => text,
  'percent-encoded': (text) => encodeURIComponent(text.toWellFormed()),
  'as JSON': json,
  'as JSON by PHP': (text) => json(text).replaceAll('/', '\\/'),
  'as HTML': (text) => html(text).replaceAll('"', '&quot;').replaceAll("'", '&#039;'),
};

/** One of these encodings, in upper, lower or mixed case. */
export const spelling: fc.Arbitrary<Spell> = fc
  .tuple(fc.constantFrom(...Object.values(SPELLINGS)), fc.func(fc.boolean()), fc.nat(5))
  .map(([spell, isUpper, manner]) => (text) => {
    const cased = Array.from(text, (c, at) => (isUpper(at) ? upper(c) : lower(c))).join('');
    if (manner === 0) return spell(text);
    if (manner === 1) return spell(upper(text));
    if (manner === 2) return spell(lower(text));
    if (manner === 3) return spell(cased).replace(/%[0-9a-f]{2}/gi, lower);
    return manner === 4 ? spell(cased).replace(/%[0-9a-f]{2}/gi, upper) : spell(cased);
  });

/** Changes letters one by one, except those without a single counterpart, such as ß. */
function upper(text: string): string {
  return swap(text, (c) => c.toUpperCase());
}

function lower(text: string): string {
  return swap(text, (c) => c.toLowerCase());
}

function swap(text: string, change: Spell): string {
  return Array.from(text, (c) => {
    const other = change(c);
    const isPair =
      other.toLowerCase() === c.toLowerCase() && other.toUpperCase() === c.toUpperCase();
    return isPair && other.length === c.length ? other : c;
  }).join('');
}

/** Whether the text contains the secret in any letter case. */
export function holds(text: string, secret: string): boolean {
  return text.toLowerCase().includes(secret.toLowerCase());
}
