import { startServer, type Recorded, type ScriptedServer } from '../support/http-server.js';

/** What an odd marketplace answers about a code: a purchase with this spelling of it, a denial, or any body. */
export type Said = { readonly purchaseOf: string } | 'denied' | { readonly body: string };

export interface OddMarket extends ScriptedServer {
  /** The codes that were asked about so far, with repetitions. */
  asked(): string[];
}

/** A small marketplace over HTTP that answers about codes as `say` decides. Its account is ada's. */
export async function openOddMarket(
  say: (code: string, nth: number) => Said,
  account: () => boolean = () => true,
): Promise<OddMarket> {
  let validations = 0;
  const server = await startServer((request) => {
    if (request.url.pathname.endsWith('/account/details')) {
      return account() ? json({ status: 'success', data: { username: 'ada' } }) : REFUSED;
    }
    const said = say(codeIn(request), validations++);
    if (said === 'denied') return DENIED;
    if ('body' in said) return { headers: JSON_TYPE, body: said.body };
    return json({ status: 'success', data: { purchase: purchaseOf(said.purchaseOf) } });
  });
  const asked = (): string[] =>
    server.requests.filter(({ method }) => method === 'POST').map((request) => codeIn(request));
  return Object.assign(server, { asked });
}

function codeIn({ body, url }: Recorded): string {
  return (
    new URLSearchParams(body).get('purchase_code') ?? url.searchParams.get('purchase_code') ?? ''
  );
}

const JSON_TYPE = { 'content-type': 'application/json' };
const json = (value: object) => ({ headers: JSON_TYPE, body: JSON.stringify(value) });
const REFUSED = { ...json({ status: 'error', msg: 'Invalid request' }), status: 401 };
const DENIED = { ...json({ status: 'error', msg: 'Invalid purchase code' }), status: 404 };

function purchaseOf(code: string): object {
  return {
    purchase_code: code,
    license_type: 'Regular',
    price: 19.9,
    currency: 'USD',
    item: { id: 7, name: 'Item 7', url: 'https://market.example/7', media: {} },
    date: '2026-01-02T03:04:05Z',
  };
}
