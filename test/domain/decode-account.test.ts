import { describe, expect, it } from 'vitest';
import { decodeAccount } from '../../src/domain/decode-account.js';
import { accountHash } from '../../src/domain/fingerprint.js';
import type { Json } from '../../src/domain/item.js';

const CONTRACT: { [key: string]: Json } = {
  name: { firstname: 'Ada', lastname: 'Byron', full_name: 'Ada Byron' },
  username: 'ada',
  email: 'ada@example.com',
  balance: 1234.5,
  currency: 'USD',
  profile: {
    heading: 'Hi',
    description: '<b>me</b>',
    contact: { email: 'shop@example.com' },
    social_links: { x: 'https://x.example/ada', facebook: 'https://f.example/ada' },
    media: { avatar: 'https://cdn.example/a.png', cover: 'https://cdn.example/c.png' },
  },
  registered_at: '2020-01-01T00:00:00Z',
};

function decode(json: Json) {
  const decoding = decodeAccount(json);
  if (!decoding.ok) throw new Error(decoding.reason);
  return decoding.decoded;
}

describe('the account', () => {
  it('is read field by field as the contract has it', () => {
    expect(decode(CONTRACT).value).toEqual({
      username: 'ada',
      firstname: 'Ada',
      lastname: 'Byron',
      fullName: 'Ada Byron',
      email: 'ada@example.com',
      balance: '1234.50',
      currency: 'USD',
      heading: 'Hi',
      description: '<b>me</b>',
      contactEmail: 'shop@example.com',
      socialLinks: { facebook: 'https://f.example/ada', x: 'https://x.example/ada' },
      avatarUrl: 'https://cdn.example/a.png',
      coverUrl: 'https://cdn.example/c.png',
      registeredAt: '2020-01-01T00:00:00Z',
    });
  });

  it('may have handles, unset networks, or no social links at all', () => {
    const withLinks = (social_links: Json): Json => ({ ...CONTRACT, profile: { social_links } });
    expect(decode(withLinks({ x: 'ada', youtube: null })).value.socialLinks).toEqual({ x: 'ada' });
    expect(decode(withLinks(null)).value.socialLinks).toEqual({});
    expect(decode(withLinks([])).value.socialLinks).toEqual({});
  });

  it('may have nulls in the profile', () => {
    const profile = { heading: null, description: null, contact: { email: null }, media: [] };
    expect(decode({ ...CONTRACT, profile }).value).toMatchObject({
      heading: null,
      contactEmail: null,
      avatarUrl: null,
    });
  });

  it('keeps unknown fields of every level', () => {
    const json = { ...CONTRACT, level: 3, profile: { badge: 'gold', media: { banner: 'b' } } };
    expect(decode(json).extra).toEqual({
      level: 3,
      'profile.badge': 'gold',
      'profile.media.banner': 'b',
    });
  });

  it('is refused without a username, by which accounts are told apart', () => {
    expect(decodeAccount({ ...CONTRACT, username: null })).toMatchObject({ ok: false });
    expect(decodeAccount({ ...CONTRACT, username: ' ' })).toMatchObject({ ok: false });
    expect(decodeAccount([])).toMatchObject({ ok: false });
  });

  it('has the same fingerprint in whatever order the networks come', () => {
    const links = (social_links: Json): Buffer =>
      accountHash(decode({ ...CONTRACT, profile: { social_links } }).value);
    expect(links({ x: '1', facebook: '2' })).toEqual(links({ facebook: '2', x: '1' }));
    expect(links({ x: '1' })).not.toEqual(links({ x: '2' }));
  });
});
