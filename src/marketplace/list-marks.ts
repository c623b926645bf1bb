import { isObject, type JsonObject } from '../domain/values.js';
import type { Json } from '../domain/item.js';
import { hasFacts } from './endpoints.js';
import type { HeaderMap } from './rate-limit.js';

/** Names are compared without letter case and without `_`, `-` and blanks. */
const words = (text: string): ReadonlySet<string> => new Set(text.split(' '));

/** Objects beside a list that describe it. They may be nested. */
const ENVELOPES = words('meta metadata links pagination paging paginator pager page pageinfo');
/** A number above 1: the list is one of so many pages. */
const PAGES = words('lastpage totalpages pagecount pages numpages numberofpages maxpage');
/** Anything: where the list goes on. */
const NEXT = words(
  'next nextpage nexturl nextlink nextpageurl nextpagelink nexthref nextcursor nexttoken nextpagetoken nextoffset',
);
/** True: the list goes on. */
const MORE = words(
  'more hasmore hasmorepages hasmoreitems hasnext hasnextpage moreitems truncated istruncated partial ispartial incomplete',
);
/** False: the list goes on. */
const LAST = words('last islast islastpage complete iscomplete');
/** A number above that of the records. */
const TOTAL = words(
  'total totalcount totalitems totalresults totalelements totalrecords itemstotal itemcount',
);

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
    if (levels === 0 || !ENVELOPES.has(word)) continue;
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
  if (NEXT.has(word)) return hasFacts(value);
  if (MORE.has(word)) return isTrue(value);
  if (LAST.has(word)) return value === false;
  const number = wholeNumber(value);
  if (number === null) return false;
  return (PAGES.has(word) && number > 1) || (TOTAL.has(word) && number > count);
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
