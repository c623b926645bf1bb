import { isObject, type JsonObject } from '../domain/values.js';
import type { Json } from '../domain/item.js';
import { hasFacts } from './endpoints.js';
import type { HeaderMap } from './rate-limit.js';

/*
 * Names are compared without letter case and without `_`, `-` and blanks.
 */

/** Objects beside a list that describe it. They may be nested. */
const ENVELOPE = /^(?:meta(?:data)?|links|paginat(?:ion|or)|pag(?:e|er|ing)(?:info)?)$/;
/** A number above 1: the list is one of so many pages. */
const PAGES = /^(?:(?:last|max|total|num|numberof)pages?|pages|pagecount)$/;
/** Anything: where the list goes on. */
const NEXT = /^next(?:page)?(?:url|link|href|cursor|token|offset)?$/;
/** True: the list goes on. */
const MORE = /^(?:more|has(?:more|next)(?:pages?|items)?|(?:is)?(?:truncated|partial)|incomplete)$/;
/** False: the list goes on. */
const LAST = /^(?:last|islast(?:page)?|(?:is)?complete)$/;
/** A number above that of the records. */
const TOTAL = /^(?:total(?:count|items|results|elements|records)?|itemcount)$/;

const MAX_LEVELS = 4;

/**
 * What a list says that shows that it is only a part; null if nothing does. Marks stand beside the list, in objects such
 * as `meta` there, or in headers.
 * @param beside the objects that hold the list, without the list
 * @param count records of the list, unreadable ones included
 * @returns such as `last_page: 5`
 */
export function partialMark(
  beside: readonly JsonObject[],
  headers: HeaderMap,
  count: number,
): string | null {
  for (const object of beside) {
    const mark = markIn(object, count, MAX_LEVELS);
    if (mark !== null) return mark;
  }
  const { link = '', 'x-next-page': nextPage = '' } = headers;
  if (/;\s*rel\s*=\s*"?[^",;]*\bnext\b/i.test(link)) return 'Link: next';
  if (hasFacts(nextPage)) return 'X-Next-Page';
  if ((wholeNumber(headers['x-total-pages'] ?? null) ?? 0) > 1) return 'X-Total-Pages';
  return (wholeNumber(headers['x-total-count'] ?? null) ?? 0) > count ? 'X-Total-Count' : null;
}

function markIn(object: JsonObject, count: number, levels: number): string | null {
  for (const [name, value] of Object.entries(object)) {
    const word = name.toLowerCase().replace(/[_\-\s]/g, '');
    if (isMark(word, value, count)) return shown(name, value);
    if (levels === 0 || !ENVELOPE.test(word)) continue;
    const parts = Array.isArray(value) ? value : [value];
    for (const part of parts) {
      if (!isObject(part)) continue;
      const mark = isNextLink(part) ? `${name}: next` : markIn(part, count, levels - 1);
      if (mark !== null) return mark;
    }
  }
  return null;
}

function isMark(word: string, value: Json, count: number): boolean {
  if (NEXT.test(word)) return hasFacts(value);
  if (MORE.test(word)) return isTrue(value);
  if (LAST.test(word)) return value === false;
  const number = wholeNumber(value);
  if (number === null) return false;
  return (PAGES.test(word) && number > 1) || (TOTAL.test(word) && number > count);
}

/** An element of a list of links, such as `{ "rel": "next", "href": "…" }`. */
function isNextLink({ rel, label, url, href }: JsonObject): boolean {
  const says = [rel, label].some((text) => typeof text === 'string' && /\bnext\b/i.test(text));
  return says && (hasFacts(url) || hasFacts(href));
}

function isTrue(value: Json): boolean {
  return (
    value === true ||
    value === 1 ||
    (typeof value === 'string' && /^(?:1|true|yes)$/i.test(value.trim()))
  );
}

function wholeNumber(value: Json): number | null {
  const isNumber =
    typeof value === 'number' || (typeof value === 'string' && /^\d{1,15}$/.test(value));
  return isNumber && Number.isSafeInteger(Number(value)) ? Number(value) : null;
}

function shown(name: string, value: Json): string {
  const simple = typeof value === 'number' || typeof value === 'boolean';
  return simple ? `${name}: ${value}` : name;
}
