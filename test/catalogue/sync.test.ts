import { describe, expect, it } from 'vitest';
import { Secret } from '../../src/domain/secret.js';
import { seededCatalogue, type Fault } from '../../src/simulator/index.js';
import { KEY, never, useMirror } from '../support/mirror.js';
import { openMarket, syncAccount, syncItems } from './market.js';

const mirror = useMirror();
const market = (options: object = {}) => openMarket(mirror(), 12, options);

const account = () => mirror().rows('SELECT *, xmin::text AS written_by FROM mirror.accounts');

describe('an account run', () => {
  it('mirrors every field of the account', async () => {
    const { sim, syncAccount } = await market();
    expect(await syncAccount()).toMatchObject({
      state: 'succeeded',
      kind: 'account',
      counts: { added: 1, apiCalls: 1 },
    });
    const truth = sim.accountTruth(KEY);
    expect((await account())[0]).toMatchObject({
      username: 'ada',
      firstname: truth.firstname,
      lastname: truth.lastname,
      full_name: `${truth.firstname} ${truth.lastname}`,
      email: truth.email,
      balance: '1234.50',
      currency: 'USD',
      heading: truth.heading,
      description: truth.description,
      contact_email: truth.contactEmail,
      social_links: truth.socialLinks,
      avatar_url: truth.avatar,
      cover_url: truth.cover,
      registered_at: new Date(truth.registeredAt),
    });
  });

  it('reports and keeps a field that can’t be read, which stops neither the account nor the items', async () => {
    const { sim, sync, syncAccount } = await market();
    const odd = { balance: '1,234.50', registered_at: 'long ago', username: 'ada' };
    const body = JSON.stringify({ status: 'success', data: odd });
    sim.faults.always('account', { kind: 'reply', status: 200, body });
    const report = await syncAccount();
    expect(report).toMatchObject({ state: 'succeeded', counts: { added: 1 } });
    expect(report.warnings.join()).toMatch(/balance, registered_at/);
    expect((await account())[0]).toMatchObject({
      balance: null,
      extra: { balance: '1,234.50', registered_at: 'long ago' },
    });
    expect(await sync()).toMatchObject({ counts: { added: 12 } });
  });

  it('fails while another marketplace has the seller’s account, until a person accepts it; its port does not count', async () => {
    const { syncAccount } = await market();
    const moveTo = (host: string) =>
      mirror().rows('UPDATE mirror.sellers SET marketplace = $1', [host]);
    await syncAccount();
    await moveTo('127.0.0.1:1');
    expect((await syncAccount()).state).toBe('succeeded');
    await moveTo('shop.example');
    const report = await syncAccount();
    expect(report).toMatchObject({ state: 'failed', problem: { code: 'account-changed' } });
    expect(report.problem?.message).toMatch(/shop\.example, not of 127\.0\.0\.1/);
    expect((await syncAccount({ acceptAccount: true })).state).toBe('succeeded');
    expect((await syncAccount()).state).toBe('succeeded');
  });

  it('says when to retry after a limit or maintenance, and fails for good if the key is refused', async () => {
    const { sim, syncAccount } = await market();
    const before = Date.now();
    const headers = { 'retry-after': '7200' };
    for (const status of [429, 503]) {
      sim.faults.always('account', { kind: 'reply', status, body: 'later', headers });
      const { problem } = await syncAccount();
      expect(problem?.notBefore).toBeGreaterThanOrEqual(before + 7_200_000 - 1_000);
      sim.faults.clear();
    }
    sim.revoke(KEY);
    const { state, problem } = await syncAccount();
    expect(state).toBe('failed');
    expect(problem).toMatchObject({ code: 'refused', permanent: true });
    expect(problem?.remedy).toMatch(/API key/);
  });
});

it('another account under the same seller stops a run before anything is written, also between list and removals', async () => {
  const { sim, sync, syncAccount } = await market();
  await syncAccount();
  await sync();
  const before = [await account(), await mirror().items()];
  const other = seededCatalogue({ seed: 9, count: 3, firstId: 5001 });
  const own = sim.seller(KEY);
  const change = () => sim.addSeller({ key: KEY, username: 'mallory', catalogue: other });
  own.catalogue.remove(1003);
  sim.afterRequests(2, change);
  expect((await sync()).counts).toMatchObject({ removed: 0, missing: 1 });
  for (const report of [await syncAccount(), await sync()]) {
    expect(report).toMatchObject({
      state: 'failed',
      problem: { code: 'account-changed', permanent: true },
    });
    expect(report.problem?.message).toMatch(/"mallory".*"ada"/);
  }
  const [accounts, items] = [await account(), await mirror().items()];
  expect(accounts).toEqual(before[0]);
  expect(items.filter(({ item_id }) => item_id !== '1003')).toEqual(
    before[1]?.filter((row) => row['item_id'] !== '1003'),
  );
});

describe('the key', () => {
  it.each([
    ['of letters, in capitals', KEY, KEY.toUpperCase()],
    ['of digits, as a number', '4815162342', 4_815_162_342],
  ])('never reaches the database, even if the server repeats it: %s', async (_, key, echo) => {
    const catalogue = seededCatalogue({ seed: 7, count: 20 });
    const sim = await mirror().simulate({ sellers: [{ key, username: 'ada', catalogue }] });
    catalogue.change(1002, { description: `<a href="/x?api_key=${echo}">`, extra: { echo } });
    catalogue.breakRecord(1003, JSON.stringify({ id: 1003, name: null, key: echo }));
    catalogue.breakRecord(1004, JSON.stringify({ id: echo, name: null }));
    const deps = mirror().deps(sim.url, { client: { key: new Secret(key) } });
    await syncAccount(deps, never);
    await syncItems(deps, never);
    for (const [status, body] of [
      [200, { status: 'success', key: echo }],
      [401, { status: 'error', msg: `wrong key: ${echo}` }],
    ] as const) {
      sim.faults.always('list', { kind: 'reply', status, body: JSON.stringify(body) });
      expect((await syncItems(deps, never)).state).toBe('failed');
      sim.faults.clear();
    }
    const tables = await mirror().rows<{ name: string }>(
      `SELECT format('%I.%I', schemaname, tablename) AS name FROM pg_tables WHERE schemaname = 'mirror'`,
    );
    expect(tables.length).toBeGreaterThan(5);
    for (const { name } of tables) {
      const rows = await mirror().rows(`SELECT t::text AS text FROM ${name} t`);
      expect(JSON.stringify(rows).toLowerCase(), name).not.toContain(key.toLowerCase());
    }
  });
});

it('a run whose process died is marked as interrupted by the next run', async () => {
  const { syncAccount } = await market();
  await syncAccount();
  await mirror().rows(
    `INSERT INTO mirror.runs (seller_id, kind, state, holder) VALUES ('main', 'items', 'running', 'gone')`,
  );
  await syncAccount();
  const runs = `SELECT state, problem_code FROM mirror.runs WHERE holder = 'gone'`;
  expect(await mirror().rows(runs)).toEqual([
    { state: 'interrupted', problem_code: 'interrupted' },
  ]);
});

describe('one item', () => {
  it('is mirrored; denied, it is removed between checks of the key, or unknown', async () => {
    const { sim, catalogue, syncItem } = await market({ profile: 'field-2' });
    expect(await syncItem(77)).toMatchObject({ state: 'failed', problem: { code: 'not-found' } });
    expect(await mirror().items()).toEqual([]);
    expect(await syncItem(1002)).toMatchObject({
      state: 'succeeded',
      kind: 'item',
      counts: { added: 1 },
    });
    const before = await mirror().items();
    expect(before.map((row) => row.item_id)).toEqual(['1002']);
    expect((await syncItem(1002)).counts).toMatchObject({ unchanged: 1 });
    expect(await mirror().items()).toEqual(before);
    // Looked up twice: one refusal removes nothing.
    sim.faults.next('item', { kind: 'key-refused' });
    expect(await syncItem(1002)).toMatchObject({ state: 'succeeded', counts: { removed: 0 } });
    expect((await mirror().items())[0]).toMatchObject({ state: 'live' });
    catalogue.setState(1002, 'pending');
    expect(await syncItem(1002)).toMatchObject({ state: 'succeeded', counts: { removed: 1 } });
    const order = sim.log.slice(-5).map(({ operation }) => operation);
    expect(order).toEqual(['account', 'item', 'account', 'item', 'account']);
    expect((await mirror().items())[0]).toMatchObject({ state: 'removed' });
  });

  const reply = (status: number, msg: string): Fault => {
    return { kind: 'reply', status, body: JSON.stringify({ status: 'error', msg }) };
  };
  it.each<[string, Fault, string, RegExp]>([
    [
      'is denied too',
      { kind: 'key-refused' },
      'unavailable',
      /item 1002 was denied, .* listed items can’t be looked up either/,
    ],
    ['can’t be looked up now', reply(503, 'Down'), 'unavailable', /503/],
    ['is refused', reply(401, 'Unauthenticated'), 'refused', /401/],
  ])('stays when another item %s', async (_, fault, code, message) => {
    const { sim, syncItem } = await market();
    for (const id of [1001, 1002]) await syncItem(id);
    sim.faults.next('item', { kind: 'key-refused' });
    for (let n = 0; n < 8; n++) sim.faults.next('item', fault);
    const { problem } = await syncItem(1002);
    expect(problem).toMatchObject({ code, message: expect.stringMatching(message) as string });
    for (const row of await mirror().items()) expect(row).toMatchObject({ state: 'live' });
  });
});
