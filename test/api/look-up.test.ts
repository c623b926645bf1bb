import { once } from 'node:events';
import { Agent, request, type IncomingMessage } from 'node:http';
import { connect, type Socket } from 'node:net';
import { setTimeout as sleep } from 'node:timers/promises';
import { Ajv2020 } from 'ajv/dist/2020.js';
import { describe, expect, it, onTestFinished, vi } from 'vitest';
import { Purchases } from '../../src/simulator/index.js';
import { fileWith, run, settings } from '../cli/support.js';
import { KEY, useMirror } from '../support/mirror.js';
import { until } from '../support/until.js';
import { addToken, newSeller, unsold, useDesks, type Desk } from './support.js';

const mirror = useMirror();
const openDesk = useDesks(mirror);

/** Settings of commands beside the API of a desk. */
const commandsOf = ({ sim }: Desk) => settings(mirror().databaseUrl, sim.url);

/** The seller is known already, with this account at this marketplace. */
const bind = (username: string, marketplace: string) =>
  mirror().rows(
    `INSERT INTO mirror.sellers (seller_id, marketplace, bound_username) VALUES ('main', $1, $2)
     ON CONFLICT (seller_id) DO UPDATE SET marketplace = $1, bound_username = $2`,
    [marketplace, username],
  );

describe('a code that was sold', () => {
  it('is answered with one call, after two that prove the key, and then without any', async () => {
    const { ask, sold, sim } = await openDesk();
    const code = sold(0);
    const first = await ask({ code });
    expect(first).toMatchObject({ verdict: 'valid', stale: false, item_matches: null });
    expect(first.item_id).toBeTypeOf('number');
    expect(first.explanation).toMatch(/^This code is valid for /);
    expect(sim.requestCount).toBe(3);
    expect(await ask({ code: `  ${code}\n`, item: first.item_id })).toMatchObject({
      verdict: 'valid',
      item_matches: true,
    });
    expect((await ask({ code, item: 999_999 })).item_matches).toBe(false);
    expect(sim.requestCount).toBe(3);
    await ask({ code, max_age: 0 });
    expect(sim.requestCount).toBe(4);
  });

  it('is found as lists find it, in what people paste: a receipt’s words, or a character that nobody sees', async () => {
    const { ask, sold } = await openDesk();
    const code = sold(1);
    for (const text of [
      'Code: * (Regular)',
      'urn:uuid:*',
      code.slice(0, 9) + '\u200B' + code.slice(9),
    ]) {
      const answer = await ask({ code: text.replace('*', code), max_age: 0 });
      expect(answer, text).toMatchObject({ verdict: 'valid', stale: false });
    }
  });

  it('is asked for once for all who ask at the same time or while the answer is recorded, whichever item each asks for', async () => {
    const { ask, sold, sim } = await openDesk({
      env: { REQUESTS_PER_MINUTE: '6000', API_SHARE: '1' },
    });
    const code = sold(5);
    const asked = Array.from({ length: 30 }, async (_, n) => {
      await sleep(4 * n);
      return ask({ code, item: n + 1 });
    });
    const verdicts = (await Promise.all(asked)).map(({ verdict }) => verdict);
    expect(new Set(verdicts)).toEqual(new Set(['valid']));
    expect(sim.requestCount).toBe(3);
    // The share was used once, so that another code may be asked for at once.
    expect(await ask({ code: sold(6) })).toMatchObject({ verdict: 'valid' });
  });

  it('is answered from the store while unknown ones wait for the import of a list, because only one of them holds a connection', async () => {
    const { ask, sold, sim } = await openDesk();
    await ask({ code: sold(0) });
    const importing = await mirror().pool.connect();
    onTestFinished(() => importing.release(true));
    await importing.query('BEGIN');
    await importing.query(
      `SELECT pg_advisory_xact_lock(hashtextextended('seller-mirror/codes/main', 0))`,
    );
    const before = sim.requestCount;
    const asked = Array.from({ length: 20 }, (_, n) => ask({ code: sold(n + 1) }));
    await until(() => sim.requestCount === before + 20);
    expect(await ask({ code: sold(0) })).toMatchObject({ verdict: 'valid', stale: false });
    await importing.query('COMMIT');
    const verdicts = (await Promise.all(asked)).map(({ verdict }) => verdict);
    expect(new Set(verdicts)).toEqual(new Set(['valid']));
  });

  it('of an item that the catalogue never had is asked for twice, around a proof: another seller’s key may have been swapped in', async () => {
    const desk = await openDesk();
    const { ask, sold, sim } = desk;
    await run(['sync'], commandsOf(desk));
    const item = (await ask({ code: sold(0) })).item_id;
    await mirror().rows('UPDATE mirror.items SET item_id = item_id + 1000000 WHERE item_id = $1', [
      item,
    ]);
    const { ask: askAnew } = await openDesk({ sim });
    const before = sim.requestCount;
    expect(await askAnew({ code: sold(0), max_age: 0 })).toMatchObject({ stale: false });
    const asked = sim.log
      .slice(before)
      .filter((one) => one.parameters['purchase_code'] === sold(0));
    // In between, as a known-valid code.
    expect(asked).toHaveLength(3);
  });
});

describe('a denied code', () => {
  it('is pending until a second denial is proven, shares its window with others, and is asked for by nobody meanwhile; one that was valid stays so until then', async () => {
    const { ask, sold, purchases, sim, secondCheck } = await openDesk({
      env: { ALERT_WEBHOOK_URL: 'http://127.0.0.1:9/', ALERT_FORMAT: 'slack' },
    });
    const [code = '', other = ''] = unsold(2);
    const refunded = sold(7);
    await ask({ code: refunded });
    await ask({ code: sold(8) });
    purchases.setState(refunded, 'refunded');
    expect(await ask({ code: refunded, max_age: 0 })).toMatchObject({
      verdict: 'valid',
      stale: true,
      again_after: 67,
    });
    expect(await ask({ code })).toMatchObject({ verdict: 'pending', again_after: 67 });
    expect(await ask({ code: other })).toMatchObject({ verdict: 'pending' });
    expect(await mirror().rows('SELECT source, codes FROM mirror.audits')).toEqual([
      { source: 'look-ups', codes: 5 },
    ]);
    const calls = sim.requestCount;
    // The clock was set back since the denial.
    await mirror().rows(`UPDATE mirror.audit_codes SET asked_at = asked_at + interval '1 hour'`);
    expect(await ask({ code })).toMatchObject({ verdict: 'pending', again_after: 67 });
    expect(sim.requestCount).toBe(calls);
    await mirror().rows(`UPDATE mirror.audit_codes SET asked_at = asked_at - interval '1 hour'`);
    await secondCheck();
    const known = await ask({ code });
    expect(known).toMatchObject({ verdict: 'invalid', stale: false });
    expect(await ask({ code: other })).toMatchObject({ verdict: 'invalid' });
    // Denied again later, it keeps its verdict with its date until the full rule says it again.
    const again = await ask({ code, max_age: 0 });
    expect(again).toMatchObject({ verdict: 'invalid', stale: true, again_after: 67 });
    expect(again.checked_at).toBe(known.checked_at);

    const gone = await ask({ code: refunded });
    expect(gone).toMatchObject({ verdict: 'no_longer_valid', stale: false });
    expect(gone.explanation).toMatch(/^This code was valid and no longer is/);
    const alerts = await mirror().rows('SELECT type FROM mirror.alerts');
    expect(alerts.map(({ type }) => type)).toContain('codes.no_longer_valid');
  });

  it('is settled although others were denied after it, because at a busy desk one always waits', async () => {
    const { ask, secondCheck } = await openDesk();
    const [first = '', second = ''] = unsold(2);
    await ask({ code: first });
    const settled = secondCheck();
    await ask({ code: second });
    await mirror().rows(`UPDATE mirror.audit_codes SET asked_at = asked_at - interval '2 min'`);
    await settled;
    expect(await ask({ code: first })).toMatchObject({ verdict: 'invalid' });
  });

  it('is not called pending while its second check is paused, because no second denial would come', async () => {
    const desk = await openDesk();
    const { ask, sold, purchases } = desk;
    const [code = ''] = unsold(1);
    await ask({ code: sold(7) });
    purchases.setState(sold(7), 'refunded');
    await ask({ code: sold(7), max_age: 0 });
    await ask({ code });
    await mirror().rows(
      `UPDATE mirror.audits SET problem = 'the marketplace refused the API key', resume_at = now() + interval '90 s'`,
    );
    const answered = await ask({ code });
    expect(answered).toMatchObject({ verdict: 'unproven', again_after: 90 });
    expect(answered.reason).toMatch(/second check is paused/);
    expect(await ask({ code: sold(7), max_age: 0 })).toMatchObject({
      verdict: 'valid',
      stale: true,
      again_after: null,
    });
    await mirror().rows('UPDATE mirror.audits SET problem = NULL, resume_at = NULL');
    expect(await ask({ code })).toMatchObject({ verdict: 'pending' });
    // What was cancelled is asked for again, as the look-ups of another check.
    await run(['audits', 'cancel', await mirror().newestAudit()], commandsOf(desk));
    expect(await ask({ code })).toMatchObject({ verdict: 'pending', again_after: 67 });
    expect(await mirror().rows('SELECT state::text FROM mirror.audits ORDER BY audit_id')).toEqual([
      { state: 'cancelled' },
      { state: 'running' },
    ]);
  });

  it('is no part of a list that is named look-ups', async () => {
    const desk = await openDesk();
    await run(['codes', 'check', fileWith(unsold(1)[0] ?? ''), '--yes'], commandsOf(desk));
    await mirror().rows(`UPDATE mirror.audits SET source = 'look-ups'`);
    await desk.ask({ code: desk.sold(0) });
    const audits = await mirror().rows(
      'SELECT is_look_ups, codes FROM mirror.audits ORDER BY audit_id',
    );
    expect(audits).toEqual([
      { is_look_ups: false, codes: 1 },
      { is_look_ups: true, codes: 1 },
    ]);
  });
});

describe('without an answer of the marketplace', () => {
  it('the last verdict comes, marked as stale; an unknown code is unproven, with a check that says why', async () => {
    const { ask, sold, sim } = await openDesk();
    await ask({ code: sold(1) });
    sim.faults.always('validate', { kind: 'empty', status: 200 });
    expect(await ask({ code: sold(1), max_age: 0 })).toMatchObject({
      verdict: 'valid',
      stale: true,
      again_after: null,
    });
    expect(await ask({ code: sold(2) })).toMatchObject({
      verdict: 'unproven',
      stale: false,
      reason: 'the answer could not be understood',
    });
    sim.faults.clear();
    sim.faults.always('validate', { kind: 'rate-limited', retryAfter: 600 });
    expect(await ask({ code: sold(3) })).toMatchObject({ verdict: 'unproven' });
    const reasons = await mirror().rows('SELECT reason FROM mirror.code_checks ORDER BY check_id');
    expect(reasons.map(({ reason }) => reason)).toEqual([
      'answered',
      'unreadable',
      'unreadable',
      'limited',
    ]);
    expect(await mirror().rows('SELECT api_calls FROM mirror.audits')).toEqual([
      { api_calls: sim.requestCount },
    ]);
  });

  it('a key that is refused is told, and what is known marked as stale', async () => {
    const { ask: askBefore, sold, sim } = await openDesk();
    await askBefore({ code: sold(3) });
    sim.faults.always('account', { kind: 'key-refused' });
    const { ask } = await openDesk({ sim });
    const unknown = await ask({ code: sold(4) });
    expect(unknown).toMatchObject({ verdict: 'unproven' });
    expect(unknown.reason).toMatch(/refused the API key/);
    expect(await ask({ code: sold(3), max_age: 0 })).toMatchObject({
      verdict: 'valid',
      stale: true,
    });
  });

  it('no time to ask again is told of a key that is refused, because it stays so until somebody acts', async () => {
    const { ask, sold, sim } = await openDesk();
    const body = JSON.stringify({ status: 'error', msg: 'Unauthenticated.' });
    sim.faults.always('validate', { kind: 'reply', status: 401, body });
    const answered = await ask({ code: sold(4) });
    expect(answered).toMatchObject({ verdict: 'unproven', again_after: null });
    expect(answered.reason).toMatch(/refused the API key/);
  });

  it('nobody waits with a key that a worker found refused, since an old proof says nothing any more', async () => {
    const { ask, sold, sim } = await openDesk();
    await ask({ code: unsold(1)[0] });
    await mirror().rows(`UPDATE mirror.audits SET problem = 'the marketplace refused the API key'`);
    sim.faults.always('account', { kind: 'key-refused' });
    expect(await ask({ code: sold(1) })).toMatchObject({ verdict: 'unproven' });
  });
});

describe('a key', () => {
  it('of another account proves nothing, and another marketplace gets no code; a secret in place of a code is not sent', async () => {
    const { ask, sold, sim } = await openDesk();
    await bind('somebody-else', new URL(sim.url).host);
    const answered = await ask({ code: sold(3) });
    expect(answered).toMatchObject({ verdict: 'unproven' });
    expect(answered.reason).toMatch(/another account/);
    const calls = sim.requestCount;
    await bind('ada', 'elsewhere.example');
    const elsewhere = await ask({ code: sold(3) });
    expect(elsewhere).toMatchObject({ verdict: 'unproven' });
    expect(elsewhere.reason).toMatch(/belongs to another marketplace/);
    await bind('ada', new URL(sim.url).host);
    const said = await ask({ code: KEY });
    expect(said).toMatchObject({ verdict: 'unproven' });
    expect(said.reason).toContain('API key');
    expect(JSON.stringify(said)).not.toContain(KEY);
    const token = await ask({ code: `smt_${'a'.repeat(43)}` });
    expect(token.reason).toMatch(/look-up token: it was neither sent nor stored/);
    expect(sim.requestCount).toBe(calls);
    expect(await mirror().rows('SELECT FROM mirror.purchase_codes')).toEqual([]);
  });

  it('is looked at again after it was refused, because a new one may be of another account', async () => {
    const { ask, sold, sim } = await openDesk();
    expect(await ask({ code: sold(3) })).toMatchObject({ verdict: 'valid' });
    sim.revoke(KEY);
    expect(await ask({ code: sold(4) })).toMatchObject({ verdict: 'pending' });
    sim.faults.next('validate', { kind: 'html', status: 200 });
    expect(await ask({ code: sold(5) })).toMatchObject({ verdict: 'unproven' });
    sim.addSeller(newSeller('somebody-else'));
    const answered = await ask({ code: sold(6) });
    expect(answered.reason).toMatch(/another account/);
  });
});

describe('several sellers', () => {
  it('are asked one after another until one finds the code, and it is denied only if nobody does', async () => {
    const [own, other] = [newSeller('with'), { ...newSeller('without'), key: `${KEY}-2` }];
    const none = { ...other, purchases: new Purchases({ seed: 12, count: 10 }) };
    const sim = await mirror().simulate({ sellers: [own, none] });
    const file = fileWith(
      JSON.stringify({
        sellers: [
          { name: 'without', url: sim.url, keyEnv: 'KEY_2' },
          { name: 'with', url: sim.url, keyEnv: 'KEY' },
        ],
      }),
      'json',
    );
    const env = { SELLERS_FILE: file, KEY, KEY_2: none.key };
    const { ask, sold } = await openDesk({
      sim,
      env: { ...env, MARKETPLACE_URL: '', MARKETPLACE_API_KEY: '' },
    });
    const denials = () =>
      mirror().rows(
        `SELECT seller_id FROM mirror.code_checks WHERE reason = 'denied' ORDER BY seller_id`,
      );
    expect(await ask({ code: sold(1) })).toMatchObject({ verdict: 'valid', seller: 'with' });
    expect(await denials()).toEqual([]);
    // A stored answer costs no call.
    const calls = sim.requestCount;
    expect(await ask({ code: sold(1) })).toMatchObject({ verdict: 'valid', seller: 'with' });
    expect(sim.requestCount).toBe(calls);
    const [code = ''] = unsold(1);
    expect(await ask({ code })).toMatchObject({ verdict: 'pending', seller: null });
    expect(await denials()).toEqual([{ seller_id: 'with' }, { seller_id: 'without' }]);
  });
});

describe('the share of the budget', () => {
  it('admits no more unknown codes, and known ones always', async () => {
    const { ask, askMany, status, sold } = await openDesk({
      env: { REQUESTS_PER_MINUTE: '600', API_SHARE: '1' },
    });
    await ask({ code: sold(0) });
    const statuses: number[] = [];
    for (const code of unsold(6)) statuses.push(await status({ code }));
    expect(statuses).toContain(429);
    expect(await ask({ code: sold(0) })).toMatchObject({ verdict: 'valid', stale: false });
    const stale = { verdict: 'valid', stale: true };
    expect(await ask({ code: sold(0), max_age: 0 })).toMatchObject(stale);
    const results = await askMany({ codes: [sold(0), { code: unsold(9).at(-1) }] });
    expect(results.map(({ verdict }) => verdict)).toEqual(['valid', 'unproven']);
  });

  it('counts the second checks of denied codes, so that wrong codes can’t use more of it', async () => {
    const env = { REQUESTS_PER_MINUTE: '1000', API_SHARE: '2' };
    const { ask, post, status, sold, sim, secondCheck } = await openDesk({ env });
    const [first, second] = [await addToken(mirror(), 'first'), await addToken(mirror(), 'second')];
    await ask({ code: unsold(1)[0] });
    await secondCheck();
    // The second check is the second call of its token.
    expect(await status({ code: sold(1) })).toBe(429);
    // The process learns of the worker's calls with the next look-up.
    await expect
      .poll(() => status({ code: sold(1) }, first), { timeout: 20_000, interval: 300 })
      .toBe(200);
    const refused = await post({ code: sold(2) }, second);
    expect(refused.status).toBe(429);
    expect(Number(refused.headers.get('retry-after'))).toBeGreaterThan(12);
    // With those that proved the key.
    expect(await mirror().rows('SELECT api_calls FROM mirror.audits')).toEqual([
      { api_calls: sim.requestCount },
    ]);
  });

  it('leaves calls for other programs when one uses up its part', async () => {
    const { status, sold } = await openDesk({
      env: { REQUESTS_PER_MINUTE: '6000', API_SHARE: '2' },
    });
    const other = await addToken(mirror(), 'shop');
    let next = 0;
    while ((await status({ code: sold(next++) })) === 200);
    expect(await status({ code: sold(next) }, other)).toBe(200);
  });

  it('limits the calls of a token also while there is no budget, because strangers type the codes', async () => {
    const { askMany } = await openDesk();
    // Without a call, so that it takes no time; and no time passes for the limit.
    await bind('ada', 'elsewhere.example');
    onTestFinished(() => void vi.useRealTimers());
    vi.useFakeTimers({ toFake: ['performance'] });
    const asked = Array.from({ length: 13 }, (_, part) =>
      askMany({ codes: unsold(100).map((code) => `${code}-${part}`) }),
    );
    const reasons = (await Promise.all(asked)).flat().map(({ reason }) => reason ?? '');
    expect(reasons.some((reason) => reason.startsWith('too many requests'))).toBe(true);
  });
});

describe('a token', () => {
  it('lets nobody in who has none, asks about its seller only, is made and revoked by a command, and stored as a hash', async () => {
    const desk = await openDesk();
    const { ask, status, sold, sim } = desk;
    expect(await status({ code: sold(3) }, 'smt_wrong')).toBe(401);
    const bound = await addToken(mirror(), 'bound', 'other');
    expect(await status({ code: sold(3) }, bound)).toBe(422);
    expect(await status({ code: sold(3), seller: 'main' }, bound)).toBe(422);
    expect(sim.requestCount).toBe(0);
    const env = commandsOf(desk);
    const { stdout } = await run(['tokens', 'add', 'till'], env);
    const [token = ''] = /smt_\S+/.exec(stdout) ?? [];
    const [stored] = await mirror().rows(`SELECT * FROM mirror.api_tokens WHERE name = 'till'`);
    expect(JSON.stringify(stored)).not.toContain(token);
    expect(stored).toMatchObject({ last_used_at: null });
    expect(await ask({ code: sold(3) }, token)).toMatchObject({ verdict: 'valid' });
    // People find unused tokens by this.
    await until(async () => {
      const rows = await mirror().rows(
        'SELECT FROM mirror.api_tokens WHERE last_used_at > now() - interval $$1 min$$',
      );
      return rows.length > 0;
    });
    await run(['tokens', 'revoke', 'till'], env);
    // It was in use, so it is remembered for a moment.
    await expect.poll(() => status({ code: sold(3) }, token), { timeout: 10_000 }).toBe(401);
  });
});

describe('a request', () => {
  const WRONG: readonly [sentence: string, status: number, body: object | string][] = [
    ['the body is no JSON', 400, 'nonsense'],
    ['the request is too large', 413, { code: 'x', seller: 'y'.repeat(5_000) }],
    ['the request is too large', 413, { code: 'x'.repeat(900_000) }],
    ['code is missing', 422, {}],
    ['code must be a text; item must be a whole number', 422, { code: 5, item: 'x' }],
    ['code is empty; max_age must not be negative', 422, { code: '', max_age: -1 }],
    [
      'code is longer than 1,000 characters; item must be',
      422,
      { code: 'x'.repeat(1_001), item: 1.5 },
    ],
    ['the request has no field "itemid"', 422, { code: 'x', itemid: 5 }],
    ['the request must be an object, such as {"code": "…"}', 422, []],
    ['codes is empty', 422, { codes: [] }],
    ['codes must be a list of codes', 422, { codes: 'x' }],
    ['codes.1 must be a code, or an object with a code and an item', 422, { codes: ['x', 5] }],
    ['codes has more than 100 codes', 422, { codes: Array.from({ length: 101 }, () => 'x') }],
  ];

  it('that is wrong is told why in words; none may be cached, since a verdict can change and belongs to one caller', async () => {
    const { post, send } = await openDesk();
    for (const [sentence, status, body] of WRONG) {
      const response = await post(body);
      expect(response.status).toBe(status);
      expect(((await response.json()) as { error: string }).error).toContain(sentence);
    }
    // A POST keeps codes out of addresses.
    expect((await send('/v1/codes/check?code=x')).status).toBe(405);
    const response = await send('/v1/codes/check', { method: 'POST', body: '{"code":"a-code"}' });
    expect([response.status, response.headers.get('www-authenticate')]).toEqual([401, 'Bearer']);
    for (const path of ['/v1/health', '/openapi.json', '/v1/codes/check', '/nothing']) {
      expect((await send(path)).headers.get('cache-control'), path).toBe('no-store');
    }
  });

  it('may come in chunks, as proxies send it, and is refused once it becomes too large', async () => {
    const { send, sold } = await openDesk();
    const headers = { authorization: `Bearer ${await addToken(mirror(), 'chunks')}` };
    const sent = (...chunks: string[]): Promise<Response> => {
      const body = ReadableStream.from(chunks.map((chunk) => Buffer.from(chunk)));
      const init = { method: 'POST', headers, body, duplex: 'half' } as RequestInit;
      return send('/v1/codes/check', init);
    };
    const answered = await sent('{"code": "', sold(0), '"}');
    expect([answered.status, await answered.json()]).toMatchObject([200, { verdict: 'valid' }]);
    const refused = await sent('{"code": "', 'x'.repeat(3_000), 'y'.repeat(3_000), '"}');
    expect(refused.status).toBe(413);
  });
});

it('describes itself as OpenAPI 3.1, and answers as described', async () => {
  const { ask, askMany, post, send, sold } = await openDesk();
  const document = (await (await send('/openapi.json')).json()) as object;
  expect(document).toMatchObject({ openapi: '3.1.0' });
  // As programs that read the document do, references are followed from its root.
  const ajv = new Ajv2020({ strict: false }).addSchema({ ...document, $id: 'https://api.test/' });
  const describes = (name: string, value: unknown): void => {
    const validate = ajv.getSchema(`https://api.test/#/components/schemas/${name}`);
    expect(validate?.(value), `${name}: ${JSON.stringify(validate?.errors)}`).toBe(true);
  };
  const codes = [sold(0), ...unsold(1)];
  for (const code of codes) {
    describes('CheckRequest', { code });
    describes('Answer', await ask({ code }));
  }
  describes('CheckManyRequest', { codes });
  describes('Answers', { results: await askMany({ codes }) });
  describes('Problem', await (await post('{"code":5}')).json());
});

it('keeps the connections of known programs when others open too many', async () => {
  const { url, sold } = await openDesk();
  const token = await addToken(mirror(), 'known');
  const agent = new Agent({ keepAlive: true, maxSockets: 1 });
  onTestFinished(() => agent.destroy());
  const ask = async (): Promise<Socket> => {
    const headers = { authorization: `Bearer ${token}` };
    const sent = request(`${url}/v1/codes/check`, { method: 'POST', agent, headers });
    const [response] = (await once(sent.end(JSON.stringify({ code: sold(0) })), 'response')) as [
      IncomingMessage,
    ];
    const { socket, statusCode } = response;
    await response.toArray();
    expect(statusCode).toBe(200);
    return socket;
  };
  const socket = await ask();
  const silent = Array.from({ length: 530 }, () => connect(Number(new URL(url).port), '127.0.0.1'));
  onTestFinished(() => silent.forEach((one) => one.destroy()));
  await Promise.any(
    silent.map((one) =>
      once(
        one.on('error', () => undefined),
        'close',
      ),
    ),
  );
  expect((await ask()) === socket).toBe(true);
});

it('says whether it can work, and answers 503 with a time to try again without the database, so that no code seems refused', async () => {
  const { post, send, sold } = await openDesk();
  const health = await send('/v1/health');
  expect([health.status, await health.json()]).toEqual([200, { status: 'ok' }]);
  await mirror().rows('ALTER TABLE mirror.purchase_codes RENAME TO away');
  try {
    const response = await post({ code: sold(0) });
    expect([response.status, response.headers.get('retry-after')]).toEqual([503, '5']);
  } finally {
    await mirror().rows('ALTER TABLE mirror.away RENAME TO purchase_codes');
  }
});
