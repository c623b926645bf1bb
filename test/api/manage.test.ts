import { setTimeout as sleep } from 'node:timers/promises';
import { expect, it, onTestFinished } from 'vitest';
import { Ajv2020 } from 'ajv/dist/2020.js';
import { KEY, useMirror } from '../support/mirror.js';
import { fileWith, marketOf, printed, SECOND_KEY, twoSellers } from '../cli/support.js';
import { serveProduct } from '../dashboard/served.js';
import { until } from '../support/until.js';

const mirror = useMirror();

/** The product with its API, two sellers, and tokens of both scopes. */
async function openApi(settings: Readonly<Record<string, string>> = {}) {
  const market = await marketOf(mirror());
  const { url } = market.sim;
  const sellers = [
    { name: 'first', url, key: KEY },
    { name: 'second', url, key: SECOND_KEY },
  ];
  const product = await serveProduct(mirror(), sellers, {
    API_LISTEN: '127.0.0.1:0',
    ...settings,
  });
  onTestFinished(() => product.stop());
  const env = twoSellers(mirror().databaseUrl, url);
  const tokenOf = async (...args: readonly string[]): Promise<string> =>
    (await printed(['tokens', 'add', ...args], env)).trim();
  const token = await tokenOf('n8n', '--scope', 'manage');
  const ask = async (method: string, path: string, as = token): Promise<Answer> => {
    const response = await fetch(product.apiUrl + path, {
      method,
      headers: as === '' ? {} : { authorization: `Bearer ${as}` },
    });
    return { status: response.status, body: (await response.json()) as Answer['body'] };
  };
  const get = (path: string, as = token): Promise<Answer> => ask('GET', path, as);
  /** Asks for a sync and waits for its end. */
  const sync = async (seller = 'first', as = token): Promise<Answer['body']> => {
    const asked = await ask('POST', `/v1/sellers/${seller}/sync`, as);
    expect(asked).toMatchObject({ status: 202, body: { seller_id: seller, state: 'asked' } });
    return (await get(`/v1/runs/${asked.body['run_id'] as number}?wait=60`, as)).body;
  };
  return { ...market, ask, get, sync, tokenOf };
}

interface Answer {
  readonly status: number;
  readonly body: Record<string, unknown>;
}

const list = ({ body }: Answer, name: string) => body[name] as Record<string, unknown>[];

it('refuses each request in one form; a token for one seller sees nothing of others', async () => {
  const feed = (name: string, sellers?: readonly string[]) => {
    return { name, format: 'ndjson', folder: `/tmp/${name}`, views: ['items'], sellers };
  };
  const feeds = [feed('all'), feed('both', ['first', 'second']), feed('own', ['second'])];
  const FEEDS_FILE = fileWith(JSON.stringify({ feeds }));
  const { ask, get, sync, tokenOf } = await openApi({ FEEDS_FILE });
  const codes = await tokenOf('desk');
  const bound = await tokenOf('bound', '--scope', 'manage', '--seller', 'second');
  const cases: readonly (readonly [string, string, string | undefined, number, RegExp])[] = [
    ['GET', '/v1/status', '', 401, /token is missing/],
    ['GET', '/v1/status', codes, 403, /needs the scope manage/],
    ['POST', '/v1/sellers/first/sync', codes, 403, /needs the scope manage/],
    ['GET', '/v1/runs/1', codes, 403, /needs the scope manage/],
    ['GET', '/v1/changes', codes, 403, /needs the scope manage/],
    ['POST', '/v1/codes/check', undefined, 403, /needs the scope codes/],
    ['POST', '/v1/status', undefined, 405, /send a GET request/],
    ['GET', '/v1/sellers/first/sync', undefined, 405, /send a POST request/],
    ['POST', '/v1/sellers/nobody/sync', undefined, 404, /no such seller/],
    ['POST', '/v1/sellers/first/sync', bound, 404, /no such seller for this token/],
    ['GET', '/v1/runs/999', undefined, 404, /no such run/],
    ['GET', '/v1/runs/x', undefined, 404, /no such run/],
    ['GET', '/v1/runs/1?wait=61', undefined, 422, /^wait must be at most 60$/],
    ['GET', '/v1/changes?after=x', undefined, 422, /^after must be a whole number$/],
    ['GET', '/v1/changes?limit=0', undefined, 422, /^limit must be at least 1$/],
    ['GET', '/v1/changes?limit=1001', undefined, 422, /^limit must be at most 1000$/],
    ['GET', '/v1/changes?since=1', undefined, 422, /has no parameter "since"/],
    ['GET', '/v1/changes?seller=first', bound, 422, /may not ask about that seller/],
  ];
  for (const [method, path, as, status, error] of cases) {
    const refused = await ask(method, path, as);
    expect([method, path, refused.status, Object.keys(refused.body)]).toEqual([
      ...[method, path, status],
      ['error'],
    ]);
    expect(refused.body['error'], path).toMatch(error);
  }
  const { run_id: id } = await sync('first');
  expect((await get(`/v1/runs/${id as number}`, bound)).status).toBe(404);
  expect(await sync('second', bound)).toMatchObject({ state: 'succeeded' });
  expect(list(await get('/v1/status', bound), 'sellers')).toMatchObject([
    { seller_id: 'second', feeds: [{ feed: 'own' }] },
  ]);
  expect(list(await get('/v1/status'), 'sellers')[1]).toMatchObject({
    feeds: [{ feed: 'all' }, { feed: 'both' }, { feed: 'own' }],
  });
});

it('a program asks for a sync, waits for its end or why it failed, and reads what changed, as the description says', async () => {
  const { ask, catalogue, get, sim, sync } = await openApi();
  expect(list(await get('/v1/status'), 'sellers')).toMatchObject([
    { seller_id: 'first', verdict: 'never' },
    { seller_id: 'second', verdict: 'never' },
  ]);
  expect(await sync()).toMatchObject({
    ...{ seller_id: 'first', kind: 'items', state: 'succeeded', ended: true, listed: 12 },
    ...{ asked_by: 'token n8n', problem: null, remedy: null },
  });
  expect(list(await get('/v1/status'), 'sellers')).toMatchObject([
    { seller_id: 'first', verdict: 'current', current: true, live_items: 12, needs: [] },
    { seller_id: 'second', verdict: 'never' },
  ]);
  const before = await get('/v1/changes');
  expect(before).toEqual({ status: 200, body: { changes: [], next: 0 } });
  const { item } = catalogue.at(0);
  for (const cents of [1_500, 1_600, 1_700]) {
    catalogue.change(item.id, { priceRegularCents: cents });
    await sync();
  }
  const prices = [];
  let next = 0;
  for (
    let page = await get('/v1/changes?limit=2');
    ;
    page = await get(`/v1/changes?limit=2&after=${next}`)
  ) {
    const found = list(page, 'changes');
    next = page.body['next'] as number;
    prices.push(...found.map((change) => change['new_value']));
    if (found.length === 0) break;
    expect(found.at(-1)).toMatchObject({ seq: next, item_id: item.id, field: 'price_regular' });
  }
  expect(prices).toEqual(['15.00', '16.00', '17.00']);

  sim.faults.always('any', { kind: 'key-refused' });
  const asked = await ask('POST', '/v1/sellers/first/sync');
  const failed = await get(`/v1/runs/${asked.body['run_id'] as number}?wait=60`);
  expect(failed.body).toMatchObject({
    ...{ kind: 'account', state: 'failed', ended: true, problem_code: 'refused' },
    problem: expect.stringMatching(/^the marketplace refused the API key/) as string,
    remedy: expect.stringContaining('check the API key') as string,
  });
  const status = await get('/v1/status');
  expect(list(status, 'sellers')[0]).toMatchObject({
    verdict: 'parked',
    needs: [{ kind: 'stopped' }],
  });
  const document = (await get('/openapi.json')).body;
  const ajv = new Ajv2020({ strict: false }).addSchema({ ...document, $id: 'https://api.test/' });
  const described = {
    ...{ Asked: asked, Run: failed, Status: status },
    Changes: await get('/v1/changes'),
    Problem: await get('/v1/runs/999'),
  };
  for (const [name, { body }] of Object.entries(described)) {
    const validate = ajv.getSchema(`https://api.test/#/components/schemas/${name}`);
    expect(validate?.(body), `${name}: ${JSON.stringify(validate?.errors)}`).toBe(true);
  }
});

it('a reader that follows `next` misses no change of a sync that is stored late', async () => {
  const { catalogue, get, sim, sync } = await openApi();
  await Promise.all([sync('first'), sync('second')]);
  for (const one of [catalogue, sim.seller(SECOND_KEY).catalogue]) {
    one.change(one.at(0).item.id, { priceRegularCents: 4_711 });
  }
  // The first sync takes its numbers, and then waits for a lock before it commits.
  const client = await mirror().pool.connect();
  await client.query(
    `CREATE FUNCTION mirror.wait_here() RETURNS trigger LANGUAGE plpgsql AS
       $$BEGIN PERFORM pg_advisory_xact_lock(4711); RETURN NULL; END$$;
     CREATE TRIGGER wait_here AFTER INSERT ON mirror.item_changes FOR EACH ROW
       WHEN (NEW.seller_id = 'first') EXECUTE FUNCTION mirror.wait_here();
     SELECT pg_advisory_lock(4711)`,
  );
  const first = sync('first');
  await until(async () => {
    const waiting = `SELECT FROM pg_locks WHERE locktype = 'advisory' AND objid = 4711 AND NOT granted`;
    return (await mirror().rows(waiting)).length > 0;
  });
  const second = sync('second');
  await Promise.race([second, sleep(1_000)]);
  const early = await get('/v1/changes');
  await client.query('SELECT pg_advisory_unlock(4711); DROP FUNCTION mirror.wait_here CASCADE');
  client.release();
  await Promise.all([first, second]);
  const late = await get(`/v1/changes?after=${early.body['next'] as number}`);
  const all = await get('/v1/changes');
  expect(list(all, 'changes')).toHaveLength(2);
  expect([...list(early, 'changes'), ...list(late, 'changes')]).toEqual(list(all, 'changes'));
});

it('the same sync is asked for once until it begins, and keeps its number afterwards', async () => {
  const { ask, get, sim } = await openApi();
  sim.faults.always('any', { kind: 'stall', ms: 1_500 });
  const first = await ask('POST', '/v1/sellers/first/sync');
  const { run_id: id } = first.body;
  await expect
    .poll(async () => (await get(`/v1/runs/${id as number}`)).body['state'])
    .toBe('running');
  const [second, third] = [
    await ask('POST', '/v1/sellers/first/sync'),
    await ask('POST', '/v1/sellers/first/sync'),
  ];
  expect(second.body['run_id']).not.toBe(id);
  expect(third.body['run_id']).toBe(second.body['run_id']);
  expect(await get(`/v1/runs/${second.body['run_id'] as number}`)).toMatchObject({
    body: { state: 'asked', ended: false, started_at: null },
  });
});
