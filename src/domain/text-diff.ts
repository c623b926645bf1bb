/** Two texts, each shortened to the part in which they differ. */
export interface TextDiff {
  readonly old: string;
  readonly new: string;
}

/**
 * Shortens two texts to the part that differs, whole words of it, with a few words around; … stands
 * for what is left out. Each is at most `width` characters (UTF-16 units) long, and no character is
 * cut in half. Texts that differ stay different when `width` is 16 or more.
 */
export function shortenDiff(old: string, now: string, width: number): TextDiff {
  if (old.length <= width && now.length <= width) return { old, new: now };
  const around = Math.floor(width / 4);
  const most = Math.floor(width / 3);
  const start = wordStart(old, commonStart(old, now), most);
  const end = commonEnd(old, now, start);
  const from = contextStart(old, start, around);
  const shorten = (text: string): string => {
    const to = contextEnd(text, text.length - end, around);
    const [before, after] = [from > 0 ? '…' : '', to < text.length ? '…' : ''];
    return bound(`${before}${text.slice(from, to)}${after}`, width);
  };
  return { old: shorten(old), new: shorten(now) };
}

function commonStart(a: string, b: string): number {
  const most = Math.min(a.length, b.length);
  let n = 0;
  while (n < most && a.charCodeAt(n) === b.charCodeAt(n)) n++;
  return n;
}

/** How much the ends have in common, from a beginning of a word on. */
function commonEnd(a: string, b: string, start: number): number {
  const most = Math.min(a.length, b.length) - start;
  let n = 0;
  while (n < most && a.charCodeAt(a.length - 1 - n) === b.charCodeAt(b.length - 1 - n)) n++;
  while (n > 0 && !isSpace(a, a.length - n)) n--;
  return n;
}

/** The beginning of the word around a place, at most so far before it. */
function wordStart(text: string, place: number, most: number): number {
  let at = place;
  while (at > 0 && place - at < most && !isSpace(text, at - 1)) at--;
  return wholeCharacter(text, at);
}

/** Where the words before a place begin that fit into so many characters. */
function contextStart(text: string, place: number, most: number): number {
  if (place <= most) return 0;
  let at = place - most;
  while (at < place && !isSpace(text, at - 1)) at++;
  return wholeCharacter(text, at);
}

/** Where the words after a place end that fit into so many characters. */
function contextEnd(text: string, place: number, most: number): number {
  if (text.length - place <= most) return text.length;
  let at = place + most;
  while (at > place && !isSpace(text, at)) at--;
  return wholeCharacter(text, at);
}

function bound(text: string, width: number): string {
  return text.length <= width ? text : `${text.slice(0, wholeCharacter(text, width - 1))}…`;
}

function isSpace(text: string, at: number): boolean {
  return /\s/.test(text.charAt(at));
}

/** The place, or the one before when it is in the middle of a pair of surrogates. */
function wholeCharacter(text: string, at: number): number {
  const isLow = (n: number): boolean => (text.charCodeAt(n) & 0xfc00) === 0xdc00;
  const isHigh = (n: number): boolean => (text.charCodeAt(n) & 0xfc00) === 0xd800;
  return at > 0 && at < text.length && isLow(at) && isHigh(at - 1) ? at - 1 : at;
}
