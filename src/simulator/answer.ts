/** A reply's body: made when it is sent, any size. */
export interface Body {
  chunks(): Iterable<Uint8Array> | AsyncIterable<Uint8Array>;
  /** Its length in bytes when it costs nothing to know, else null. */
  readonly length: number | null;
}

export interface Answer {
  readonly status: number;
  readonly headers: Readonly<Record<string, string>>;
  readonly body: Body;
}

/** A short body held in memory. */
export function textBody(text: string): Body {
  const bytes = Buffer.from(text);
  return { length: bytes.length, chunks: () => (bytes.length === 0 ? [] : [bytes]) };
}

/** JSON text as a reply. */
export function jsonAnswer(
  status: number,
  text: string,
  headers: Readonly<Record<string, string>> = {},
): Answer {
  return {
    status,
    headers: { 'Content-Type': 'application/json', ...headers },
    body: textBody(text),
  };
}

/** A page of the site. */
export function htmlAnswer(
  status: number,
  title: string,
  headers: Readonly<Record<string, string>> = {},
): Answer {
  const page = `<!DOCTYPE html>
<html lang="en"><head><meta charset="utf-8"><title>${title}</title><style>body{margin:0}</style></head>
<body><h1>${title}</h1><script>window.app = {"status": "page"};</script></body></html>
`;
  const type = { 'Content-Type': 'text/html; charset=UTF-8' };
  return { status, headers: { ...type, ...headers }, body: textBody(page) };
}

/** A redirect with the small page that servers put below it. */
export function redirectAnswer(status: number, location: string): Answer {
  return htmlAnswer(status, 'Redirecting', { Location: location });
}

/** An error of the framework rather than of the API: `message`, not `msg` (field notes). */
export function frameworkError(
  status: number,
  message: string,
  wantsJson: boolean,
  headers: Readonly<Record<string, string>> = {},
): Answer {
  if (!wantsJson) return htmlAnswer(status, message || 'Not Found', headers);
  return jsonAnswer(status, JSON.stringify({ message }), headers);
}
