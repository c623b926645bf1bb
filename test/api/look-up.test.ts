import { EventEmitter, once } from 'node:events';
import { Agent, request, type IncomingMessage } from 'node:http';
import { connect, type Socket } from 'node:net';
import { setFlagsFromString } from 'node:v8';
import { runInNewContext } from 'node:vm';
import type { QueryConfig } from 'pg';
import { expect, it, onTestFinished, vi } from 'vitest';
import { Ajv2020 } from 'ajv/dist/2020.js';
import { apiApp, type ApiParts, type ApiSeller } from '../../src/api/app.js';
import { createToken, listTokens, revokeToken } from '../../src/api/tokens-store.js';
import type { openApi } from '../../src/api/openapi.js';
import type { Answer } from '../../src/api/schemas.js';
import { LIMITS, serve } from '../../src/service/listen.js';
import { lookUpNow } from '../../src/codes/look-up.js';
import { SellerKey } from '../../src/codes/seller-key.js';
import { openDb, type Db } from '../../src/db/db.js';
import { silentLog } from '../../src/domain/log.js';
import { Secret } from '../../src/domain/secret.js';
import type { CallOptions } from '../../src/marketplace/types.js';
import { bindSeller, ensureSeller } from '../../src/catalogue/sellers-store.js';
import { cancelAudit, noteAuditWait } from '../../src/codes/audits-store.js';
import { performCheck, type CheckDeps } from '../../src/codes/check.js';
import type { JobOutcome } from '../../src/catalogue/types.js';
import { alertKind } from '../../src/service/alerts/content.js';
import { load } from '../codes/store-support.js';
import { listLookUpLoads, shareUsed } from '../../src/codes/look-up-store.js';
import {
  auditDeps,
  intercepted,
  invalidCodes,
  openShop,
  type Shop,
  workThrough,
} from '../codes/support.js';
import { KEY, never, useMirror } from '../support/mirror.js';
import { until } from '../support/until.js';

const mirror = useMirror();

/** Nothing here manages the mirror. */
const manage = {
  board: () => Promise.resolve({ sellers: [], feeds: [] }),
  ask: () => Promise.resolve(null),
};

interface Api {
  readonly app: ReturnType<typeof apiApp>;
  readonly token: string;
  readonly confirmed: bigint[];
  ask(body: object, token?: string): Promise<Answer>;
  send(path: string, init?: RequestInit): Promise<Response>;
}

/** The API on a test's database, called without a socket. */
async function openLookUps(
  shop: Shop,
  options: Partial<ApiSeller> = {},
  parts: Partial<ApiParts> = {},
): Promise<Api> {
  const { db } = mirror();
  await ensureSeller(db, 'main', shop.marketplace.host);
  const confirmed: bigint[] = [];
  const seller: ApiSeller = {
    db,
    sellerId: 'main',
    marketplace: shop.marketplace,
    key: new SellerKey(db, 'main', shop.marketplace),
    host: shop.marketplace.host,
    callsPerMinute: Infinity,
    confirm: (auditId) => {
      confirmed.push(auditId);
      return Promise.resolve();
    },
    ...options,
  };
  const app = apiApp({
    db,
    sellers: new Map([['main', seller]]),
    manage,
    keys: [new Secret(KEY)],
    log: silentLog,
    signal: never,
    ...parts,
  });
  const token = (await createToken(db, 'desk', null)) ?? '';
  const send = async (path: string, init: RequestInit = {}): Promise<Response> =>
    app.request(path, init);
  const post = (path: string, body: unknown, as: string): Promise<Response> =>
    send(path, {
      method: 'POST',
      headers: { authorization: `Bearer ${as}`, 'content-type': 'application/json' },
      body: typeof body === 'string' ? body : JSON.stringify(body),
    });
  return {
    app,
    token,
    confirmed,
    send,
    async ask(body, as = token) {
      const path = 'codes' in body ? '/v1/codes/check-many' : '/v1/codes/check';
      const response = await post(path, body, as);
      if (response.status !== 200) {
        throw Object.assign(new Error(await response.text()), { response });
      }
      return (await response.json()) as Answer;
    },
  };
}

/** Nothing is stored about the code. */
const UNKNOWN = { known: null, foundForm: null, waiting: null, problem: null, resumeAt: null };

const statusOf = async (asked: Promise<unknown>): Promise<number | null> =>
  asked.then(
    () => 200,
    (error: unknown) => (error as { response?: Response }).response?.status ?? null,
  );

it('answers a valid code with one call, after two that prove the key, and then without any', async () => {
  const shop = await openShop();
  const api = await openLookUps(shop);
  const code = shop.purchases.codeAt(0);
  const first = await api.ask({ code });
  expect(first).toMatchObject({ verdict: 'valid', stale: false, item_matches: null });
  expect(first.item_id).toBeTypeOf('number');
  expect(first.explanation).toMatch(/^This code is valid for /);
  expect(shop.sim.requestCount).toBe(3);
  expect(await api.ask({ code: `  ${code}\n`, item: first.item_id })).toMatchObject({
    verdict: 'valid',
    item_matches: true,
  });
  expect((await api.ask({ code, item: 999_999 })).item_matches).toBe(false);
  expect(shop.sim.requestCount).toBe(3);
  await api.ask({ code, max_age: 0 });
  expect(shop.sim.requestCount).toBe(4);
});

it('never calls a code invalid at once: a denied code is pending until a second denial is proven', async () => {
  const shop = await openShop();
  const api = await openLookUps(shop);
  const [code = '', other = ''] = invalidCodes(2);
  const pending = await api.ask({ code });
  expect(pending).toMatchObject({ verdict: 'pending', again_after: 67 });
  expect(await api.ask({ code: other })).toMatchObject({ verdict: 'pending' });
  // Both are in one audit, so that they share a window.
  expect(new Set(api.confirmed).size).toBe(1);
  const calls = shop.sim.requestCount;
  expect(await api.ask({ code })).toMatchObject({ verdict: 'pending' });
  expect(shop.sim.requestCount).toBe(calls);
  const [auditId = 0n] = api.confirmed;
  await workThrough(auditDeps(mirror(), shop.marketplace), [auditId]);
  const known = await api.ask({ code });
  expect(known).toMatchObject({ verdict: 'invalid', stale: false });
  expect(await api.ask({ code: other })).toMatchObject({ verdict: 'invalid' });
  // Denied again later, it keeps its verdict with its date until the full rule says it again.
  const again = await api.ask({ code, max_age: 0 });
  expect(again).toMatchObject({ verdict: 'invalid', stale: true, again_after: 67 });
  expect(again.checked_at).toBe(known.checked_at);
});

it('does not call a code pending while its second check is paused, because no second denial would come', async () => {
  const shop = await openShop();
  const api = await openLookUps(shop);
  const { db } = mirror();
  const [denied = '', other = ''] = invalidCodes(2);
  const sold = shop.purchases.codeAt(7);
  await api.ask({ code: sold });
  const denying = intercepted(shop, {
    validate: (_, options) => shop.marketplace.validate('never-sold', options),
  });
  const later = await openApiAgain(denying);
  expect(await later.ask({ code: denied, max_age: 0 })).toMatchObject({ verdict: 'pending' });
  // While the second check runs, what was proven stays, with its date.
  expect(await later.ask({ code: sold, max_age: 0 })).toMatchObject({
    verdict: 'valid',
    stale: true,
    again_after: 67,
  });
  const [auditId = 0n] = later.confirmed;
  await noteAuditWait(db, auditId, 'the marketplace refused the API key', Date.now() + 90_000);
  const answered = await later.ask({ code: denied });
  expect(answered).toMatchObject({ verdict: 'unproven', again_after: 90 });
  expect(answered.reason).toMatch(/second check is paused/);
  expect(await later.ask({ code: sold, max_age: 0 })).toMatchObject({
    verdict: 'valid',
    stale: true,
  });
  await noteAuditWait(db, auditId, null, null);
  expect(await later.ask({ code: denied })).toMatchObject({ verdict: 'pending' });
  // What was cancelled is asked for again, as the look-ups of another check.
  await cancelAudit(db, auditId);
  expect(await later.ask({ code: other })).toMatchObject({ verdict: 'pending' });
  expect(await later.ask({ code: denied })).toMatchObject({ verdict: 'pending', again_after: 67 });
  expect(new Set(later.confirmed).size).toBe(2);
});

it('a list that is named look-ups stays a list: look-ups are no part of it', async () => {
  const shop = await openShop();
  const api = await openLookUps(shop);
  const { auditId } = await load(mirror().db, [invalidCodes(9).at(-1) ?? ''], {
    source: 'look-ups',
  });
  await api.ask({ code: shop.purchases.codeAt(0) });
  expect(
    await mirror().rows(`SELECT codes FROM mirror.audits WHERE audit_id = ${auditId}`),
  ).toEqual([{ codes: 1 }]);
  expect(await listLookUpLoads(mirror().db)).toMatchObject([{ codes: 1 }]);
});

it('says when to ask again, also if the clock was set back since the denial', async () => {
  const shop = await openShop();
  const api = await openLookUps(shop);
  const [code = ''] = invalidCodes(1);
  await api.ask({ code });
  onTestFinished(() => void vi.useRealTimers());
  vi.useFakeTimers({ toFake: ['Date'], now: Date.now() - 3_600_000 });
  const { verdict, again_after } = await api.ask({ code });
  expect([verdict, again_after]).toEqual(['pending', 67]);
});

it('settles a denied code although others were denied after it, because at a busy desk one always waits', async () => {
  const shop = await openShop();
  const api = await openLookUps(shop);
  const [first = '', second = ''] = invalidCodes(2);
  await api.ask({ code: first });
  await mirror().rows(`UPDATE mirror.audit_codes SET asked_at = asked_at - interval '2 min'`);
  const [auditId = 0n] = api.confirmed;
  const deps = auditDeps(mirror(), shop.marketplace);
  const job = { auditId, isLastAttempt: false };
  await performCheck(deps, job, never);
  await api.ask({ code: second });
  await performCheck(deps, job, never);
  expect(await api.ask({ code: first })).toMatchObject({ verdict: 'invalid' });
  expect(await api.ask({ code: second })).toMatchObject({ verdict: 'pending' });
});

it('says that a code is no longer valid once that is proven', async () => {
  const shop = await openShop();
  const code = shop.purchases.codeAt(7);
  const api = await openLookUps(shop);
  await api.ask({ code });
  const denying = intercepted(shop, {
    validate: (asked, options) =>
      shop.marketplace.validate(asked === code ? 'never-sold' : asked, options),
  });
  const later = await openApiAgain(denying);
  await api.ask({ code: shop.purchases.codeAt(8) });
  expect(await later.ask({ code, max_age: 0 })).toMatchObject({ verdict: 'valid', stale: true });
  const [auditId = 0n] = later.confirmed;
  const outcome = await untilAlert(auditDeps(mirror(), denying.marketplace), auditId);
  // Without a message, nobody learns of a refund that a look-up found.
  const alert = 'alert' in outcome ? outcome.alert : null;
  expect(alert).toMatchObject({ kind: 'codes-no_longer_valid', auditId: String(auditId) });
  if (alert === null || alert === undefined) return;
  const state = { db: mirror().db, staleAfterHours: 24 };
  expect(await alertKind(alert).describe(state, alert, new Date())).toMatchObject({
    title: 'main: 1 code is no longer valid',
    page: { path: expect.stringContaining(String(auditId)) as string },
  });
  const gone = await later.ask({ code });
  expect(gone).toMatchObject({ verdict: 'no_longer_valid' });
  expect(gone.explanation).not.toMatch(/^The purchase was refunded/);
});

/** Works on an audit until an outcome has an alert, or there is no more to do. */
async function untilAlert(deps: CheckDeps, auditId: bigint): Promise<JobOutcome> {
  for (;;) {
    const outcome = await performCheck(deps, { auditId, isLastAttempt: false }, never);
    if (outcome.kind !== 'later' || outcome.alert) return outcome;
    await soon(auditId);
  }
}

/** The time of the second check has come. */
async function soon(auditId: bigint): Promise<void> {
  await mirror().rows(
    `UPDATE mirror.audit_codes SET asked_at = asked_at - interval '2 min',
            first_denied_at = first_denied_at - interval '2 min' WHERE audit_id = ${auditId}`,
  );
}

async function openApiAgain(shop: Shop): Promise<Api> {
  await revokeToken(mirror().db, 'desk');
  return openLookUps(shop);
}

it('answers with the last verdict, marked as stale, while the marketplace is down', async () => {
  const shop = await openShop();
  const api = await openLookUps(shop);
  const code = shop.purchases.codeAt(1);
  await api.ask({ code });
  const down = intercepted(shop, {
    validate: () =>
      Promise.resolve({
        kind: 'unavailable',
        httpStatus: 503,
        reason: 'server-error',
        detail: 'down',
        retryAt: null,
      }),
  });
  const later = await openApiAgain(down);
  expect(await later.ask({ code, max_age: 0 })).toMatchObject({ verdict: 'valid', stale: true });
  expect(await later.ask({ code: shop.purchases.codeAt(2) })).toMatchObject({
    verdict: 'unproven',
    stale: false,
    reason: 'the marketplace was not available',
  });
});

it('lets no caller in without a token that is stored, and forgets a revoked one', async () => {
  const shop = await openShop();
  const api = await openLookUps(shop);
  const code = shop.purchases.codeAt(3);
  expect(await statusOf(api.ask({ code }, 'smt_wrong'))).toBe(401);
  expect(await statusOf(api.ask({ code }, ''))).toBe(401);
  expect(shop.sim.requestCount).toBe(0);
  const [stored] = await mirror().rows('SELECT * FROM mirror.api_tokens');
  expect(JSON.stringify(stored)).not.toContain(api.token);
  expect(await api.ask({ code })).toMatchObject({ verdict: 'valid' });
  await revokeToken(mirror().db, 'desk');
  // It was in use, so it is remembered for a moment.
  await expect.poll(() => statusOf(api.ask({ code })), { timeout: 10_000 }).toBe(401);
});

it('asks several sellers one after another until one finds the code, and calls a code denied only if nobody does', async () => {
  const shop = await openShop();
  const api = await openLookUps(shop);
  const { db } = mirror();
  const confirm = () => Promise.resolve();
  const sellerOf = async (sellerId: string, { marketplace }: Shop): Promise<ApiSeller> => {
    await ensureSeller(db, sellerId, marketplace.host);
    const key = new SellerKey(db, sellerId, marketplace);
    const host = marketplace.host;
    return { db, sellerId, marketplace, key, host, callsPerMinute: Infinity, confirm };
  };
  const without = intercepted(shop, {
    validate: (_, options) => shop.marketplace.validate('never-sold', options),
  });
  const sellers = [await sellerOf('without', without), await sellerOf('with', shop)];
  const app = apiApp({
    db,
    sellers: new Map(sellers.map((seller) => [seller.sellerId, seller])),
    manage,
    keys: [],
    log: silentLog,
    signal: never,
  });
  const ask = async (code: string): Promise<Answer> => {
    const reply = await app.request('/v1/codes/check', {
      method: 'POST',
      headers: { authorization: `Bearer ${api.token}`, 'content-type': 'application/json' },
      body: JSON.stringify({ code }),
    });
    expect(reply.status).toBe(200);
    return (await reply.json()) as Answer;
  };
  const sold = shop.purchases.codeAt(1);
  expect(await ask(sold)).toMatchObject({ verdict: 'valid', seller: 'with' });
  const denials = () =>
    mirror().rows(`SELECT seller_id FROM mirror.code_checks WHERE reason = 'denied'`);
  expect(await denials()).toEqual([]);
  // A stored answer costs no call.
  const calls = shop.sim.requestCount;
  expect(await ask(sold)).toMatchObject({ verdict: 'valid', seller: 'with' });
  expect(shop.sim.requestCount).toBe(calls);
  expect(await ask(invalidCodes(1)[0] ?? '')).toMatchObject({ verdict: 'pending', seller: null });
  expect((await denials()).map(({ seller_id: seller }) => String(seller)).sort()).toEqual([
    'with',
    'without',
  ]);
});

it('does not wait with a key that a worker found refused, since an old proof says nothing any more', async () => {
  const shop = await openShop();
  const api = await openLookUps(shop);
  const [denied = '', other = ''] = invalidCodes(2);
  await api.ask({ code: denied });
  const [auditId = 0n] = api.confirmed;
  await noteAuditWait(mirror().db, auditId, 'the marketplace refused the API key', null);
  shop.sim.faults.always('account', { kind: 'key-refused' });
  expect(await api.ask({ code: other })).toMatchObject({ verdict: 'unproven' });
});

it('keeps a token that is bound to a seller away from other sellers', async () => {
  const shop = await openShop();
  const api = await openLookUps(shop);
  const bound = (await createToken(mirror().db, 'bound', 'other')) ?? '';
  const code = shop.purchases.codeAt(3);
  expect(await statusOf(api.ask({ code }, bound))).toBe(422);
  expect(await statusOf(api.ask({ code, seller: 'main' }, bound))).toBe(422);
});

it('refuses unknown codes beyond the share of the budget, and still answers known ones', async () => {
  const shop = await openShop();
  const api = await openLookUps(shop, { callsPerMinute: 4 });
  const known = shop.purchases.codeAt(0);
  await api.ask({ code: known });
  const statuses: (number | null)[] = [];
  for (const code of invalidCodes(6)) statuses.push(await statusOf(api.ask({ code })));
  expect(statuses).toContain(429);
  expect(shop.sim.requestCount).toBeLessThan(4);
  expect(await api.ask({ code: known })).toMatchObject({ verdict: 'valid', stale: false });
  expect(await api.ask({ code: known, max_age: 0 })).toMatchObject({
    verdict: 'valid',
    stale: true,
  });
  const { results } = (await api.ask({
    codes: [known, { code: invalidCodes(9).at(-1) ?? '' }],
  })) as unknown as { results: Answer[] };
  expect(results.map(({ verdict }) => verdict)).toEqual(['valid', 'unproven']);
});

it('counts the second checks of denied codes in the share, so that wrong codes can’t use more of the budget', async () => {
  const shop = await openShop();
  // The share admits two calls at once, then one a minute.
  const key = new SellerKey(mirror().db, 'main', shop.marketplace);
  expect(await key.fault('', {}, never)).toBeNull();
  const api = await openLookUps(shop, { callsPerMinute: 1, key });
  const [first = '', second = ''] = await Promise.all(
    ['first', 'second'].map((name) => createToken(mirror().db, name, null)),
  );
  await api.ask({ code: invalidCodes(1)[0] ?? '' });
  const [auditId = 0n] = api.confirmed;
  await workThrough(
    auditDeps(mirror(), shop.marketplace, { callCount: () => shop.sim.requestCount }),
    [auditId],
  );
  expect(shop.sim.requestCount).toBeGreaterThanOrEqual(4);
  const [next = '', last = ''] = [1, 2].map((at) => shop.purchases.codeAt(at));
  // The second check is the second call of its token.
  expect(await statusOf(api.ask({ code: next }))).toBe(429);
  // The process learns of the worker's calls with the next look-up.
  expect(await api.ask({ code: next }, first ?? '')).toMatchObject({ verdict: 'valid' });
  const refused = api.ask({ code: last }, second ?? '').catch((error: unknown) => error);
  const { response } = (await refused) as { response: Response };
  expect(response.status).toBe(429);
  expect(Number(response.headers.get('retry-after'))).toBeGreaterThan(120);
  const { api_calls: counted } =
    (await mirror().rows('SELECT api_calls FROM mirror.audits'))[0] ?? {};
  // All but those that proved the key, which came first.
  expect(counted).toBe(shop.sim.requestCount - 2);
  const [load] = await listLookUpLoads(mirror().db);
  expect(load).toMatchObject({ sellerId: 'main', codes: 2, calls: counted, pending: 0 });
  expect(shareUsed({ sellerId: 'main', codes: 2, calls: 30, pending: 0, minutes: 10 }, 15)).toBe(
    0.2,
  );
});

it('takes one call from the share for callers who ask the same at the same time, whichever item each asks for', async () => {
  const shop = await openShop();
  const api = await openLookUps(shop, { callsPerMinute: 40 });
  const code = shop.purchases.codeAt(5);
  const asked = Array.from({ length: 20 }, (_, n) => api.ask({ code, item: n + 1 }));
  const verdicts = (await Promise.all(asked)).map(({ verdict }) => verdict);
  expect(new Set(verdicts)).toEqual(new Set(['valid']));
  expect(shop.sim.requestCount).toBe(3);
  expect(await api.ask({ code: shop.purchases.codeAt(6) })).toMatchObject({ verdict: 'valid' });
});

it('answers known codes while unknown ones wait for the import of a list, because only one of them holds a connection', async () => {
  const shop = await openShop();
  const api = await openLookUps(shop);
  const { db } = mirror();
  const known = shop.purchases.codeAt(0);
  await api.ask({ code: known });
  const importing = await db.locks.connect();
  try {
    await importing.query('BEGIN');
    await importing.query(
      `SELECT pg_advisory_xact_lock(hashtextextended('seller-mirror/codes/main', 0))`,
    );
    const before = shop.sim.requestCount;
    const asked = Array.from({ length: 20 }, (_, n) =>
      api.ask({ code: shop.purchases.codeAt(n + 1) }),
    );
    await vi.waitFor(() => expect(shop.sim.requestCount).toBe(before + 20), { timeout: 20_000 });
    expect(await api.ask({ code: known })).toMatchObject({ verdict: 'valid', stale: false });
    await importing.query('COMMIT');
    const verdicts = (await Promise.all(asked)).map(({ verdict }) => verdict);
    expect(new Set(verdicts)).toEqual(new Set(['valid']));
  } finally {
    importing.release(true);
  }
});

it('asks once for callers who ask the same thing at the same time', async () => {
  const shop = await openShop();
  const api = await openLookUps(shop);
  const code = shop.purchases.codeAt(5);
  const answers = await Promise.all(Array.from({ length: 50 }, () => api.ask({ code })));
  expect(new Set(answers.map(({ verdict }) => verdict))).toEqual(new Set(['valid']));
  expect(shop.sim.requestCount).toBe(3);
});

it('does not ask again when another caller’s look-up ends while the store is being read', async () => {
  const shop = await openShop();
  const { db } = mirror();
  const code = shop.purchases.codeAt(5);
  const gates = new EventEmitter();
  const hasRead = once(gates, 'read');
  let reads = 0;
  const slow: Db = Object.create(db, {
    pool: {
      value: {
        async query(query: QueryConfig, values?: unknown[]) {
          const found = await db.pool.query(query, values);
          const isRead = query.name === 'look-up-read';
          // The second caller reads before the first one’s answer is recorded, and learns of it afterwards.
          if (isRead && ++reads === 2) {
            const opened = once(gates, 'open');
            gates.emit('read');
            await opened;
          }
          return found;
        },
      },
    },
  });
  const api = await openLookUps(shop, {}, { db: slow });
  const [early, late] = [api.ask({ code }), api.ask({ code })];
  await hasRead;
  await Promise.race([early, late]);
  gates.emit('open');
  expect(await Promise.all([early, late])).toMatchObject([
    { verdict: 'valid' },
    { verdict: 'valid' },
  ]);
  expect(shop.sim.requestCount).toBe(3);
});

it('asks about no further code of a request that takes too long, so that the answer comes in time', async () => {
  const shop = await openShop();
  shop.sim.faults.always('validate', { kind: 'stall', ms: 300 });
  const api = await openLookUps(shop, {}, { askingMs: 400 });
  const known = shop.purchases.codeAt(90);
  await api.ask({ code: known });
  const codes = Array.from({ length: 40 }, (_, at) => shop.purchases.codeAt(at));
  const { results } = (await api.ask({
    codes: [...codes, known],
    max_age: 0,
  })) as unknown as { results: Answer[] };
  expect(results[0]).toMatchObject({ verdict: 'valid' });
  expect(results[39]).toMatchObject({
    verdict: 'unproven',
    reason: 'the other codes of the request took too long',
    again_after: 1,
  });
  expect(results[40]).toMatchObject({ verdict: 'valid', stale: true });
  // Eight at a time, and the two of the first question.
  expect(shop.sim.requestCount).toBeLessThanOrEqual(2 + 3 * 8);
});

it('limits the calls that one token causes also while there is no budget, because strangers type the codes', async () => {
  const shop = await openShop();
  const api = await openLookUps(shop, {}, { callsOfToken: 20 });
  const codes = Array.from({ length: 10 }, (_, at) => `unknown-${at}`);
  const statuses = await Promise.all(codes.map((code) => statusOf(api.ask({ code }))));
  expect(statuses).toContain(200);
  expect(statuses).toContain(429);
});

it('records no purchase that the key of another account finds, because it would be another seller’s', async () => {
  const shop = await openShop();
  const { db } = mirror();
  await ensureSeller(db, 'main', shop.marketplace.host);
  await bindSeller(db, 'main', { username: 'somebody-else', marketplace: shop.marketplace.host });
  const api = await openLookUps(shop);
  const code = shop.purchases.codeAt(3);
  const answered = await api.ask({ code });
  expect(answered).toMatchObject({ verdict: 'unproven' });
  expect(answered.reason).toMatch(/another account/);
  expect(await mirror().rows('SELECT 1 FROM mirror.purchase_codes')).toEqual([]);
});

it('sees again whose account it is after the key was refused, because a new key may be of another account', async () => {
  const shop = await openShop();
  let isRefused = false;
  let isSwapped = false;
  const api = await openApiAgain(
    intercepted(shop, {
      account: async (options) => {
        const reply = await shop.marketplace.account(options);
        if (reply.kind !== 'answered' || !isSwapped) return reply;
        const value = { ...reply.data.value, username: 'somebody-else' };
        return { ...reply, data: { ...reply.data, value } };
      },
      validate: (code, options) =>
        isRefused
          ? Promise.resolve({ kind: 'refused', httpStatus: 401, message: 'no' })
          : shop.marketplace.validate(code, options),
    }),
  );
  const ask = (at: number) => api.ask({ code: shop.purchases.codeAt(at) });
  expect(await ask(3)).toMatchObject({ verdict: 'valid' });
  isRefused = true;
  expect(await ask(4)).toMatchObject({ verdict: 'unproven' });
  isRefused = false;
  isSwapped = true;
  expect(await ask(5)).toMatchObject({ verdict: 'unproven' });
});

it('sends no code to another marketplace than the seller’s', async () => {
  const shop = await openShop();
  const { db } = mirror();
  await ensureSeller(db, 'main', shop.marketplace.host);
  await bindSeller(db, 'main', { username: 'studio', marketplace: 'elsewhere.example' });
  const api = await openLookUps(shop);
  expect(await api.ask({ code: shop.purchases.codeAt(3) })).toMatchObject({ verdict: 'unproven' });
  expect(shop.sim.requestCount).toBe(0);
});

it('answers what it knows, marked as stale, while the API key is refused', async () => {
  const shop = await openShop();
  const code = shop.purchases.codeAt(3);
  await (await openLookUps(shop)).ask({ code });
  const refused = intercepted(shop, {
    account: () => Promise.resolve({ kind: 'refused', httpStatus: 403, message: 'no' }),
  });
  const api = await openApiAgain(refused);
  expect(await api.ask({ code, max_age: 0 })).toMatchObject({ verdict: 'valid', stale: true });
  const unknown = await api.ask({ code: shop.purchases.codeAt(4) });
  expect(unknown).toMatchObject({ verdict: 'unproven' });
  expect(unknown.reason).toMatch(/refused the API key/);
});

it('finds a code with a blank or a character without width inside, which nobody sees', async () => {
  const shop = await openShop();
  const api = await openLookUps(shop);
  for (const [at, blank] of ['\u200B', '\u00A0', ' '].entries()) {
    const code = shop.purchases.codeAt(at);
    const dressed = code.slice(0, 9) + blank + code.slice(9);
    expect(await api.ask({ code: dressed })).toMatchObject({ verdict: 'valid' });
  }
});

it.each(['Code: *', '*,', 'my code is * (Regular)', 'Code:*', '*.', 'urn:uuid:*', 'code=*', '#*'])(
  'finds the code in %j, as lists do: customers paste what the receipt says',
  async (text) => {
    const shop = await openShop();
    const api = await openLookUps(shop);
    const code = text.replace('*', shop.purchases.codeAt(1));
    expect(await api.ask({ code })).toMatchObject({ verdict: 'valid' });
  },
);

it('explains a code that can’t be one in place of asking for it', async () => {
  const shop = await openShop();
  const api = await openLookUps(shop);
  const token = await api.ask({ code: `smt_${'a'.repeat(43)}` });
  expect(token).toMatchObject({ verdict: 'unproven' });
  expect(token.reason).toMatch(/look-up token: it was neither sent nor stored/);
  expect(shop.sim.requestCount).toBe(0);
});

it.each([
  ['a body that is no JSON', 'nonsense', 400],
  ['a field that does not exist', { code: 'x', itemid: 5 }, 422],
  ['no code', {}, 422],
  ['an item that is no number', { code: 'x', item: 'x' }, 422],
  ['a body above 4 kB', { code: 'x', seller: 'y'.repeat(5_000) }, 413],
])('refuses %s', async (_, body, status) => {
  const api = await openLookUps(await openShop());
  const response = await api.send('/v1/codes/check', {
    method: 'POST',
    headers: { authorization: `Bearer ${api.token}`, 'content-type': 'application/json' },
    body: typeof body === 'string' ? body : JSON.stringify(body),
  });
  expect(response.status).toBe(status);
  expect(((await response.json()) as { error: string }).error).not.toBe('');
});

it.each<[object, string]>([
  [{}, 'code is missing'],
  [{ code: 5, item: 'x' }, 'code must be a text; item must be a whole number'],
  [{ code: '', max_age: -1 }, 'code is empty; max_age must not be negative'],
  [{ code: 'x'.repeat(1_001), item: 1.5 }, 'code is longer than 1,000 characters; item must be'],
  [{ code: 'x', itemid: 5 }, 'the request has no field "itemid"'],
  [[], 'the request must be an object, such as {"code": "…"}'],
  [{ codes: [] }, 'codes is empty'],
  [{ codes: 'x' }, 'codes must be a list of codes'],
  [{ codes: ['x', 5] }, 'codes.1 must be a code, or an object with a code and an item'],
  [{ codes: Array.from({ length: 101 }, () => 'x') }, 'codes has more than 100 codes'],
])('says in words what is wrong with a request: %j', async (body, sentence) => {
  const api = await openLookUps(await openShop());
  const path = 'codes' in body ? '/v1/codes/check-many' : '/v1/codes/check';
  const response = await api.send(path, {
    method: 'POST',
    headers: { authorization: `Bearer ${api.token}`, 'content-type': 'application/json' },
    body: JSON.stringify(body),
  });
  expect(response.status).toBe(422);
  expect(((await response.json()) as { error: string }).error).toContain(sentence);
});

it('keeps codes out of addresses: only POST is taken', async () => {
  const api = await openLookUps(await openShop());
  const response = await api.send('/v1/codes/check?code=x', {
    headers: { authorization: `Bearer ${api.token}` },
  });
  expect(response.status).toBe(405);
});

it('describes itself as OpenAPI 3.1, and answers as described', async () => {
  const shop = await openShop();
  const api = await openLookUps(shop);
  const response = await api.send('/openapi.json');
  const document = (await response.json()) as ReturnType<typeof openApi>;
  expect(document).toMatchObject({ openapi: '3.1.0' });
  // As programs that read the document do, references are followed from its root.
  const ajv = new Ajv2020({ strict: false }).addSchema({ ...document, $id: 'https://api.test/' });
  const describes = (name: string, value: unknown): void => {
    const validate = ajv.getSchema(`https://api.test/#/components/schemas/${name}`);
    expect(validate?.(value), `${name}: ${JSON.stringify(validate?.errors)}`).toBe(true);
  };
  const codes = [shop.purchases.codeAt(0), ...invalidCodes(1)];
  for (const code of codes) {
    describes('CheckRequest', { code });
    describes('Answer', await api.ask({ code }));
  }
  describes('CheckManyRequest', { codes });
  describes('Answers', await api.ask({ codes }));
  const refused = await api.send('/v1/codes/check', {
    method: 'POST',
    headers: { authorization: `Bearer ${api.token}`, 'content-type': 'application/json' },
    body: '{"code":5}',
  });
  expect(refused.status).toBe(422);
  describes('Problem', await refused.json());
});

it('keeps the connections of known programs when others open too many', async () => {
  const { app, token } = await openLookUps(await openShop());
  const limits = { ...LIMITS, connections: 5, sweepMs: 10 };
  const listen = { host: '127.0.0.1', port: 0, chosen: true };
  const names = { name: 'the API', setting: 'API_LISTEN' };
  const server = await serve(() => app, listen, names, limits, silentLog);
  onTestFinished(() => server.close());
  const agent = new Agent({ keepAlive: true, maxSockets: 1 });
  onTestFinished(() => agent.destroy());
  const ask = async (): Promise<Socket> => {
    const headers = { authorization: `Bearer ${token}` };
    const sent = request(`${server.url}/v1/codes/check`, { method: 'POST', agent, headers });
    const [response] = (await once(sent.end('{}'), 'response')) as [IncomingMessage];
    const { socket, statusCode } = response;
    await response.toArray();
    expect(statusCode).toBe(422);
    return socket;
  };
  const socket = await ask();
  const silent = Array.from({ length: 20 }, () =>
    connect(Number(new URL(server.url).port), '127.0.0.1'),
  );
  const closed = silent.map((one) =>
    once(
      one.on('error', () => undefined),
      'close',
    ),
  );
  onTestFinished(() => silent.forEach((one) => one.destroy()));
  await Promise.all(closed.slice(0, 15));
  expect((await ask()) === socket).toBe(true);
});

it('answers 413 to a body that is much too large, also while the client still sends it', async () => {
  const { app, token } = await openLookUps(await openShop());
  const listen = { host: '127.0.0.1', port: 0, chosen: true };
  const names = { name: 'the API', setting: 'API_LISTEN' };
  const server = await serve(() => app, listen, names, LIMITS, silentLog);
  onTestFinished(() => server.close());
  const response = await fetch(`${server.url}/v1/codes/check`, {
    method: 'POST',
    headers: { authorization: `Bearer ${token}` },
    body: JSON.stringify({ code: 'x'.repeat(900_000) }),
  });
  expect(response.status).toBe(413);
  await response.body?.cancel();
});

it('says whether it can work', async () => {
  const api = await openLookUps(await openShop());
  const response = await api.send('/v1/health');
  expect([response.status, await response.json()]).toEqual([200, { status: 'ok' }]);
});

it('answers 503 with a time to try again while the database is down, so that no code seems refused', async () => {
  const db = openDb('postgresql://nobody@127.0.0.1:1/none', 'test');
  onTestFinished(() => db.close());
  const api = await openLookUps(await openShop(), {}, { db });
  expect((await api.send('/v1/health')).status).toBe(503);
  const headers = { authorization: `Bearer ${api.token}` };
  const body = JSON.stringify({ code: 'a-code' });
  const response = await api.send('/v1/codes/check', { method: 'POST', headers, body });
  expect([response.status, response.headers.get('retry-after')]).toEqual([503, '5']);
});

it('answers 401 with the kind of login that it takes, as HTTP requires', async () => {
  const api = await openLookUps(await openShop());
  const response = await api.send('/v1/codes/check', { method: 'POST', body: '{"code":"a-code"}' });
  expect([response.status, response.headers.get('www-authenticate')]).toEqual([401, 'Bearer']);
});

it('no answer may be cached, since a verdict can change and belongs to one caller', async () => {
  const api = await openLookUps(await openShop());
  for (const path of ['/v1/health', '/openapi.json', '/v1/codes/check', '/nothing']) {
    expect((await api.send(path)).headers.get('cache-control'), path).toBe('no-store');
  }
});

it('leaves calls for other programs when one uses up its share', async () => {
  const shop = await openShop();
  const api = await openLookUps(shop, { callsPerMinute: 120 });
  const other = (await createToken(mirror().db, 'shop', null)) ?? '';
  let next = 0;
  const ask = (token: string): Promise<number | null> =>
    statusOf(api.ask({ code: shop.purchases.codeAt(next++) }, token));
  while ((await ask(api.token)) === 200);
  expect(await ask(other)).toBe(200);
});

it('records when a token was last used, so that people can find unused ones', async () => {
  const shop = await openShop();
  const api = await openLookUps(shop);
  expect(await listTokens(mirror().db)).toMatchObject([{ name: 'desk', lastUsedAt: null }]);
  await api.ask({ code: shop.purchases.codeAt(0) });
  await until(async () => (await listTokens(mirror().db))[0]?.lastUsedAt instanceof Date);
});

it('an API key that is sent in place of a code is neither asked for nor stored', async () => {
  const shop = await openShop();
  const api = await openLookUps(shop);
  const before = shop.sim.log.length;
  const said = await api.ask({ code: KEY });
  expect(said).toMatchObject({
    verdict: 'unproven',
    reason: expect.stringContaining('API key') as string,
  });
  expect(JSON.stringify(said)).not.toContain(KEY);
  expect(shop.sim.log).toHaveLength(before);
});

/** A call that ends only when its caller gives up. @param asked called once the request is sent */
const silence = (options: CallOptions | undefined, asked: () => void): Promise<never> =>
  new Promise((_, reject) => {
    const { signal } = options ?? {};
    const end = (): void => reject(signal?.reason as Error);
    if (signal?.aborted === true) return end();
    options?.onRequest?.();
    asked();
    signal?.addEventListener('abort', end, { once: true });
  });

/** The shop's key, already proven, so that only calls about codes take time. */
async function provenKey(shop: Shop): Promise<SellerKey> {
  const key = new SellerKey(mirror().db, 'main', shop.marketplace);
  expect(await key.fault('', { signal: never }, never)).toBeNull();
  return key;
}

it('ends a look-up in time also after memory was cleaned up: its limit must not be collected', async () => {
  setFlagsFromString('--expose-gc');
  const collect = runInNewContext('gc') as () => void;
  const shop = await openShop();
  let calls = 0;
  const silent = intercepted(shop, { validate: (_, options) => silence(options, () => calls++) });
  const key = await provenKey(shop);
  const api = await openLookUps(silent, { key, callMs: 500 });
  const answers = [0, 1].map((at) => api.ask({ code: shop.purchases.codeAt(at) }));
  await until(() => calls === 2);
  collect();
  const unavailable = { verdict: 'unproven', reason: 'the marketplace was not available' };
  expect(await Promise.all(answers)).toMatchObject([unavailable, unavailable]);
});

it('proves the account again for a caller who shared a call that another one’s time ended', async () => {
  const shop = await openShop();
  let calls = 0;
  const slow = intercepted(shop, {
    account: (options) =>
      ++calls === 1 ? silence(options, () => 0) : shop.marketplace.account(options),
  });
  const key = new SellerKey(mirror().db, 'main', slow.marketplace);
  const hurried = new AbortController();
  const first = key.fault('', { signal: hurried.signal }, never);
  const second = key.fault('', { signal: never }, never);
  await until(() => calls === 1);
  hurried.abort(new Error('late'));
  await expect(first).rejects.toThrow('late');
  expect(await second).toBeNull();
});

it('calls a silent account an outage for all who wait for the one call, not a busy budget', async () => {
  const shop = await openShop();
  const silent = intercepted(shop, { account: (options) => silence(options, () => 0) });
  const api = await openLookUps(silent, { callMs: 500 });
  const answers = await Promise.all(
    [0, 1, 2].map((at) => api.ask({ code: shop.purchases.codeAt(at) })),
  );
  const unavailable = { verdict: 'unproven', reason: 'the marketplace was not available' };
  expect(answers).toMatchObject([unavailable, unavailable, unavailable]);
});

it('says that other work used the budget if the marketplace was never asked, and records no check', async () => {
  const shop = await openShop();
  // Waits for the budget, so nothing is sent.
  const waiting = (options?: CallOptions) => silence({ signal: options?.signal ?? never }, () => 0);
  const busyForCodes = intercepted(shop, { validate: (_, options) => waiting(options) });
  const key = await provenKey(shop);
  const api = await openLookUps(busyForCodes, { key, callMs: 300 });
  const busy = { verdict: 'unproven', again_after: 30, reason: /^other work used/ };
  const answer = await api.ask({ code: shop.purchases.codeAt(0) });
  expect(answer).toMatchObject({ ...busy, reason: expect.stringMatching(busy.reason) as string });
  const { marketplace } = intercepted(shop, { account: waiting });
  const deps = { db: mirror().db, sellerId: 'main', marketplace, callMs: 300 };
  const fresh = new SellerKey(deps.db, 'main', marketplace);
  const confirm = () => Promise.resolve();
  expect(await lookUpNow({ ...deps, key: fresh, confirm }, 'a-code', UNKNOWN, never)).toMatchObject(
    { kind: 'unproven', reason: expect.stringMatching(busy.reason) as string },
  );
  expect(await mirror().rows('SELECT * FROM mirror.code_checks')).toEqual([]);
});
