import { describe, expect, it } from 'vitest';
import { seededCatalogue, type Fault } from '../../src/simulator/index.js';
import { KEY, useMirror } from '../support/mirror.js';
import { openMarket } from './market.js';

const mirror = useMirror();
const market = (options: object = {}) => openMarket(mirror(), 12, options);

const account = () => mirror().rows('SELECT *, xmin::text AS written_by FROM mirror.accounts');

describe('an account run', () => {
  it('mirrors every field of the account', async () => {
    const { sim, syncAccount } = await market();
    const report = await syncAccount();
    expect(report).toMatchObject({
      state: 'succeeded',
      kind: 'account',
      counts: { added: 1, apiCalls: 1 },
    });
    const truth = sim.accountTruth(KEY);
    const [row] = await account();
    expect(row).toMatchObject({
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
});

describe('an account field that can’t be read', () => {
  it('is reported and kept unchanged, and stops neither the account nor the items', async () => {
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
});

describe('another marketplace under the same seller', () => {
  it('stops the run although the username is the same, until a person accepts it', async () => {
    const { syncAccount } = await market();
    await syncAccount();
    await mirror().rows(`UPDATE mirror.sellers SET marketplace = 'shop.example'`);
    const report = await syncAccount();
    expect(report).toMatchObject({ state: 'failed', problem: { code: 'account-changed' } });
    expect(report.problem?.message).toMatch(/shop\.example, not of 127\.0\.0\.1/);
    const accepted = await syncAccount({ acceptAccount: true });
    expect(accepted.state).toBe('succeeded');
    expect((await syncAccount()).state).toBe('succeeded');
  });

  it('is not assumed for another port of the same host', async () => {
    const { syncAccount } = await market();
    await syncAccount();
    await mirror().rows(`UPDATE mirror.sellers SET marketplace = '127.0.0.1:1'`);
    expect((await syncAccount()).state).toBe('succeeded');
  });
});

describe('a key that is not accepted', () => {
  it('fails the run for good, with a remedy and without the key in the report', async () => {
    const { sim, syncAccount } = await market();
    sim.revoke(KEY);
    const report = await syncAccount();
    expect(report).toMatchObject({
      state: 'failed',
      problem: { code: 'refused', permanent: true },
    });
    expect(
      JSON.stringify(report, (_, v: unknown) => (typeof v === 'bigint' ? String(v) : v)),
    ).not.toContain(KEY);
    expect(report.problem?.remedy).toMatch(/API key/);
  });
});

describe('another account under the same seller', () => {
  it('stops the run before anything is written', async () => {
    const { sim, sync, syncAccount } = await market();
    await syncAccount();
    await sync();
    const before = [await account(), await mirror().items()];
    sim.addSeller({
      key: KEY,
      username: 'mallory',
      catalogue: seededCatalogue({ seed: 9, count: 3 }),
    });
    for (const report of [await syncAccount(), await sync()]) {
      expect(report).toMatchObject({
        state: 'failed',
        problem: { code: 'account-changed', permanent: true },
      });
      expect(report.problem?.message).toMatch(/"mallory".*"ada"/);
    }
    expect([await account(), await mirror().items()]).toEqual(before);
  });

  it('stops the run when it appears between the list and the removals', async () => {
    const { sim, sync } = await market();
    await sync();
    sim.seller(KEY).catalogue.remove(1003);
    const other = seededCatalogue({ seed: 9, count: 3, firstId: 5001 });
    sim.afterRequests(2, () => sim.addSeller({ key: KEY, username: 'mallory', catalogue: other }));
    const report = await sync();
    expect(report.counts).toMatchObject({ removed: 0, missing: 1 });
  });
});

describe('one item', () => {
  it.each(['documented', 'field-1', 'field-2'] as const)(
    'is mirrored from profile %s',
    async (profile) => {
      const { syncItem } = await market({ profile });
      expect(await syncItem(1002)).toMatchObject({
        state: 'succeeded',
        kind: 'item',
        counts: { added: 1 },
      });
      expect((await mirror().items()).map((row) => row.item_id)).toEqual(['1002']);
      const before = await mirror().items();
      expect((await syncItem(1002)).counts).toMatchObject({ unchanged: 1 });
      expect(await mirror().items()).toEqual(before);
    },
  );

  it('that is unknown and denied is an error', async () => {
    const { syncItem } = await market();
    expect(await syncItem(77)).toMatchObject({ state: 'failed', problem: { code: 'not-found' } });
    expect(await mirror().items()).toEqual([]);
  });

  it('that is known and denied is removed, between checks of the key', async () => {
    const { sim, catalogue, syncItem } = await market();
    await syncItem(1002);
    catalogue.setState(1002, 'pending');
    expect(await syncItem(1002)).toMatchObject({ state: 'succeeded', counts: { removed: 1 } });
    const order = sim.log.slice(-5).map(({ operation }) => operation);
    expect(order).toEqual(['account', 'item', 'account', 'item', 'account']);
    expect((await mirror().items())[0]).toMatchObject({ state: 'removed' });
  });

  it.each([
    ['the only one known', [1002]],
    ['one of several', [1001, 1002]],
  ])(
    'that is %s stays when only its first look-up was refused, since it is looked up twice',
    async (_, known) => {
      const { sim, syncItem } = await market();
      for (const id of known) await syncItem(id);
      sim.faults.next('item', { kind: 'key-refused' });
      expect(await syncItem(1002)).toMatchObject({ state: 'succeeded', counts: { removed: 0 } });
      for (const row of await mirror().items()) expect(row).toMatchObject({ state: 'live' });
    },
  );

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
