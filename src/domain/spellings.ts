/**
 * Spellings under which a secret may turn up in somebody else's text, plain ones too: JSON, also
 * as PHP writes it, percent-encoded, form, HTML, host name. Percent-encoded also with what a query
 * may hold as it is: the slash alone, or all that `encodeURI` leaves.
 */
export function spellingsOf(secret: string): string[] {
  const out = new Set<string>();
  for (const plain of [secret, secret.trim()]) {
    const json = JSON.stringify(plain).slice(1, -1);
    const form = new URLSearchParams([['', plain]]).toString().slice(1);
    const slashed = json.replaceAll('/', '\\/');
    const encoded = encodeURIComponent(plain.toWellFormed());
    const php = percentEncodeStrictly(plain);
    const own = [plain, json, form, slashed, asciiJson(json), asciiJson(slashed)];
    const percent = [encoded, php, encodeURI(plain.toWellFormed())];
    const inQuery = [encoded, php].map((spelling) => spelling.replaceAll('%2F', '/'));
    for (const spelling of [...own, ...percent, ...inQuery, ...htmlSpellings(plain)]) {
      out.add(spelling);
      out.add(lowerHex(spelling));
    }
    out.add(plain.toLowerCase());
  }
  return [...out].filter((spelling) => spelling !== '');
}

/** A piece shorter than this turns up in text that has nothing to do with the secret. */
const SHORTEST_BASE64 = 8;

/**
 * What every base64 text that contains the secret contains, wherever in it the secret begins: such
 * as that of `user:secret` in an Authorization header. In both alphabets.
 */
export function base64SpellingsOf(secret: string): string[] {
  const bytes = Buffer.from(secret);
  const pieces = [0, 1, 2].map((before) => {
    const text = Buffer.concat([Buffer.alloc(before), bytes]).toString('base64');
    // Characters at both ends also hold bits of what stands beside the secret.
    const first = Math.ceil((before * 8) / 6);
    const end = Math.floor(((before + bytes.length) * 8) / 6);
    return text.slice(first, end);
  });
  return pieces
    .filter((piece) => piece.length >= SHORTEST_BASE64)
    .flatMap((piece) => [piece, piece.replaceAll('+', '-').replaceAll('/', '_')]);
}

function percentEncodeStrictly(text: string): string {
  return encodeURIComponent(text.toWellFormed()).replace(
    /[!'()*]/g,
    (char) => `%${char.charCodeAt(0).toString(16).toUpperCase()}`,
  );
}

function lowerHex(text: string): string {
  return text.replace(/%[0-9A-F]{2}/g, (hex) => hex.toLowerCase());
}

function asciiJson(json: string): string {
  return json.replace(
    /[\u0080-\uffff]/g,
    (char) => `\\u${char.charCodeAt(0).toString(16).padStart(4, '0')}`,
  );
}

function htmlSpellings(text: string): string[] {
  const basic = text.replaceAll('&', '&amp;').replaceAll('<', '&lt;').replaceAll('>', '&gt;');
  const quoted = basic.replaceAll('"', '&quot;');
  return [basic, quoted, quoted.replaceAll("'", '&#039;'), quoted.replaceAll("'", '&#39;')];
}
