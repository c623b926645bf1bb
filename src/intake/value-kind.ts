import { normalizeCode } from '../domain/codes/code.js';

export type ValueKind = 'empty' | 'number' | 'date' | 'email' | 'link' | 'code' | 'text';

/** What a cell looks like. Only for guessing: no format of codes is assumed anywhere else. */
export function kindOf(value: string): ValueKind {
  const text = normalizeCode(value);
  if (text === '') return 'empty';
  if (/^[+-]?[\d.,]+$/.test(text) && text.length < 16) return 'number';
  if (/^\d{1,4}[-/.]\d{1,2}[-/.]\d{1,4}(?:[T ][\d:.,Z+ -]*)?$/.test(text)) return 'date';
  if (/^[^\s@]+@[^\s@]+$/.test(text)) return 'email';
  if (/^\w+:\/\/\S*$/.test(text)) return 'link';
  return looksLikeCode(text) ? 'code' : 'text';
}

/** Long, in one piece, with digits all over: what no name or word looks like. */
function looksLikeCode(text: string): boolean {
  if (text.length < 8 || text.length > 255 || /\s/.test(text)) return false;
  // `address_line_2` is a name.
  return /\d/.test(text.replace(/[ _-]?\d{1,2}$/, ''));
}

/** A UUID or many hex digits: what the codes of most marketplaces look like. */
export function isTypicalCode(value: string): boolean {
  const text = normalizeCode(value);
  return (
    /^[\da-f]{8}-(?:[\da-f]{4}-){3}[\da-f]{12}$/i.test(text) || /^[\da-f]{32,128}$/i.test(text)
  );
}
