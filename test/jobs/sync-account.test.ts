import { describe, expect, it } from 'vitest';
import { syncAccount } from '../../src/jobs/sync-account.js';
import { syncCatalogue } from '../../src/jobs/sync-catalogue.js';
import { seededCatalogue } from '../../src/simulator/index.js';
import { KEY, never, useMirror } from '../support/mirror.js';

const mirror = useMirror();

async function market(options: object = {}) {
  const catalogue = seededCatalogue({ seed: 7, count: 12 });
  const sim = await mirror().simulate({
    sellers: [{ key: KEY, username: 'ada', catalogue }],
    ...options,
  });
  return { sim, url: sim.url };
}

const account = () => mirror().rows('SELECT *, xmin::text AS written_by FROM mirror.accounts');

describe('an account run', () => {
  it('mirrors every field of the account', async () => {
    const { sim, url } = await market();
    const { report } = await syncAccount(mirror().deps(url), never);
    expect(report).toMatchObject({
      state: 'succeeded',
      kind: 'account',
      counts: { added: 1, apiCalls: 1 },
    });
    const told = sim.accountTruth(KEY);
    const [row] = await account();
    expect(row).toMatchObject({
      username: 'ada',
      firstname: told.firstname,
      lastname: told.lastname,
      full_name: `${told.firstname} ${told.lastname}`,
      email: told.email,
      balance: '1234.50',
      currency: 'USD',
      heading: told.heading,
      description: told.description,
      contact_email: told.contactEmail,
      social_links: told.socialLinks,
      avatar_url: told.avatar,
      cover_url: told.cover,
      registered_at: new Date(told.registeredAt),
    });
  });

  it('writes no row when nothing has changed, whatever the notation', async () => {
    const { sim, url } = await market();
    const deps = mirror().deps(url);
    await syncAccount(deps, never);
    const before = await account();
    sim.setProfile('documented', {
      timestamps: 'microseconds',
      money: 'string',
      emptyMaps: 'array',
    });
    const { report } = await syncAccount(deps, never);
    expect(report.counts).toMatchObject({ unchanged: 1, changed: 0 });
    expect(await account()).toEqual(before);
  });

  it('keeps up with the balance', async () => {
    const { sim, url } = await market();
    const deps = mirror().deps(url);
    await syncAccount(deps, never);
    sim.seller(KEY).account = { ...sim.seller(KEY).account, balanceCents: 99 };
    const { report } = await syncAccount(deps, never);
    expect(report.counts).toMatchObject({ changed: 1 });
    expect((await account())[0]).toMatchObject({ balance: '0.99' });
  });

  it.each(['field-1', 'field-2'] as const)('reads the notation of %s', async (profile) => {
    const { url } = await market({ profile });
    const { report } = await syncAccount(mirror().deps(url), never);
    expect(report).toMatchObject({ state: 'succeeded', counts: { added: 1 } });
  });
});

describe('an account field that can’t be read', () => {
  it('is told and kept as it came, and stops neither the account nor the items', async () => {
    const { sim, url } = await market();
    const odd = { balance: '1,234.50', registered_at: 'long ago', username: 'ada' };
    const body = JSON.stringify({ status: 'success', data: odd });
    sim.faults.always('account', { kind: 'reply', status: 200, body });
    const deps = mirror().deps(url);
    const { report } = await syncAccount(deps, never);
    expect(report).toMatchObject({ state: 'succeeded', counts: { added: 1 } });
    expect(report.warnings.join()).toMatch(/balance, registered_at/);
    expect((await account())[0]).toMatchObject({
      balance: null,
      extra: { balance: '1,234.50', registered_at: 'long ago' },
    });
    expect(await syncCatalogue(deps, never)).toMatchObject({ counts: { added: 12 } });
  });
});

describe('another marketplace under the same seller', () => {
  it('stops the run, though the username is the same; a person may say that it only moved', async () => {
    const { url } = await market();
    await syncAccount(mirror().deps(url), never);
    await mirror().rows(`UPDATE mirror.sellers SET marketplace = 'shop.example'`);
    const { report } = await syncAccount(mirror().deps(url), never);
    expect(report).toMatchObject({ state: 'failed', problem: { code: 'account-changed' } });
    expect(report.problem?.message).toMatch(/shop\.example, not of 127\.0\.0\.1/);
    const accepted = await syncAccount(mirror().deps(url, { acceptAccount: true }), never);
    expect(accepted.report.state).toBe('succeeded');
    expect((await syncAccount(mirror().deps(url), never)).report.state).toBe('succeeded');
  });

  it('is not one that only listens on another port, or under its name with www', async () => {
    const { url } = await market();
    await syncAccount(mirror().deps(url), never);
    await mirror().rows(`UPDATE mirror.sellers SET marketplace = '127.0.0.1:1'`);
    expect((await syncAccount(mirror().deps(url), never)).report.state).toBe('succeeded');
  });
});

describe('a key that is not accepted', () => {
  it('fails the run as a permanent problem, with a remedy and without the key', async () => {
    const { sim, url } = await market();
    sim.revoke(KEY);
    const { report } = await syncAccount(mirror().deps(url), never);
    expect(report).toMatchObject({
      state: 'failed',
      problem: { code: 'refused', permanent: true },
    });
    expect(
      JSON.stringify(report, (_, v: unknown) => (typeof v === 'bigint' ? String(v) : v)),
    ).not.toContain(KEY);
    expect(report.problem?.remedy).toMatch(/API key/);
  });

  it('never reaches the list, whose "No items found" it would look like', async () => {
    const { sim, url } = await market();
    const deps = mirror().deps(url);
    await syncCatalogue(deps, never);
    const before = await mirror().items();
    sim.revoke(KEY);
    expect(await syncCatalogue(deps, never)).toMatchObject({
      state: 'failed',
      problem: { code: 'refused' },
    });
    expect(await mirror().items()).toEqual(before);
  });
});

describe('another account under the same seller', () => {
  it('stops the run before anything is written, and says so', async () => {
    const { sim, url } = await market();
    const deps = mirror().deps(url);
    await syncAccount(deps, never);
    await syncCatalogue(deps, never);
    const before = [await account(), await mirror().items()];
    sim.addSeller({
      key: KEY,
      username: 'mallory',
      catalogue: seededCatalogue({ seed: 9, count: 3 }),
    });
    for (const report of [
      (await syncAccount(deps, never)).report,
      await syncCatalogue(deps, never),
    ]) {
      expect(report).toMatchObject({
        state: 'failed',
        problem: { code: 'account-changed', permanent: true },
      });
      expect(report.problem?.message).toMatch(/"mallory".*"ada"/);
    }
    expect([await account(), await mirror().items()]).toEqual(before);
  });

  it('stops it as well when the account changes between the list and the removals', async () => {
    const { sim, url } = await market();
    const deps = mirror().deps(url);
    await syncCatalogue(deps, never);
    sim.seller(KEY).catalogue.remove(1003);
    const other = seededCatalogue({ seed: 9, count: 3, firstId: 5001 });
    sim.afterRequests(2, () => sim.addSeller({ key: KEY, username: 'mallory', catalogue: other }));
    const report = await syncCatalogue(deps, never);
    expect(report.counts).toMatchObject({ removed: 0, missing: 1 });
  });

  it('is accepted when a person says so, since accounts can be renamed', async () => {
    const { sim, url } = await market();
    await syncAccount(mirror().deps(url), never);
    sim.seller(KEY).account = { ...sim.seller(KEY).account, username: 'ada-lovelace' };
    const { report } = await syncAccount(mirror().deps(url, { acceptAccount: true }), never);
    expect(report).toMatchObject({ state: 'succeeded', counts: { changed: 1 } });
    expect((await syncAccount(mirror().deps(url), never)).report.state).toBe('succeeded');
  });
});
