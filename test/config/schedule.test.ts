import { mkdirSync, symlinkSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { ONE_SELLER, useFolder } from './folder.js';

const folder = useFolder();

const MACHINE = Intl.DateTimeFormat().resolvedOptions().timeZone;
const SHOP = { name: 'shop', url: 'https://a.example', keyEnv: 'SHOP_KEY' };

function schedule(env: NodeJS.ProcessEnv) {
  const { syncCron, accountCron, timeZone } =
    folder.read({ ...ONE_SELLER, ...env }).sellers[0] ?? {};
  return { syncCron, accountCron, timeZone };
}

function withSellers(...sellers: readonly object[]): NodeJS.ProcessEnv {
  folder.write('sellers.json', JSON.stringify({ sellers }));
  return { SELLERS_FILE: 'sellers.json', SHOP_KEY: 'shop-key-1234' };
}

describe('a schedule', () => {
  it('is every night at two by this machine’s clock, unless told otherwise', () => {
    expect(schedule({})).toEqual({ syncCron: '0 2 * * *', accountCron: null, timeZone: MACHINE });
  });

  it('is what the settings say', () => {
    const env = { SYNC_CRON: '*/5 1 * * 1-5', ACCOUNT_CRON: ' 0 * * * * ', TZ: 'Europe/Berlin' };
    expect(schedule(env)).toEqual({
      syncCron: '*/5 1 * * 1-5',
      accountCron: '0 * * * *',
      timeZone: 'Europe/Berlin',
    });
  });

  it('can be off, for those who start every run themselves', () => {
    expect(schedule({ SYNC_CRON: 'Off', ACCOUNT_CRON: 'off' })).toMatchObject({
      syncCron: null,
      accountCron: null,
    });
  });

  it('with faults has all of them reported at once, needed or not, before the night', () => {
    const env = { SYNC_CRON: '0 2', ACCOUNT_CRON: 'hourly', TZ: 'Mars/Olympus', LOG_LEVEL: 'x' };
    expect(folder.problems(env, 'store')).toEqual([
      'SYNC_CRON "0 2" has 2 fields where five are wanted: write minute, hour, day, month and day of the week, such as 0 2 * * *, or off',
      expect.stringMatching(/^ACCOUNT_CRON "hourly" has 1 fields/),
      'TZ "Mars/Olympus" is no time zone: give an IANA name such as Europe/Berlin',
      expect.stringMatching(/^LOG_LEVEL/),
    ]);
  });
});

describe('a time zone', () => {
  it.each([
    ['UTC', 'UTC'],
    ['Asia/Kolkata', 'Asia/Kolkata'],
    ['europe/berlin', 'Europe/Berlin'],
    ['America/Argentina/Buenos_Aires', 'America/Argentina/Buenos_Aires'],
    ['Etc/GMT+1', 'Etc/GMT+1'],
    [':Europe/Berlin', 'Europe/Berlin'],
  ])('%s is %s', (TZ, timeZone) => {
    expect(schedule({ TZ }).timeZone).toBe(timeZone);
  });

  it('may be the path of its file, as some systems set it', () => {
    mkdirSync(join(folder.path(), 'zoneinfo', 'Europe'), { recursive: true });
    const path = folder.write('zoneinfo/Europe/Berlin', 'TZif');
    symlinkSync(path, join(folder.path(), 'localtime'));
    expect(schedule({ TZ: `:${join(folder.path(), 'localtime')}` }).timeZone).toBe('Europe/Berlin');
  });

  it.each([
    ['Europe/Berln', 'Europe/Berlin'],
    ['Berlin', 'Europe/Berlin'],
    ['Europe/New York', 'America/New_York'],
    ['america-sao-paolo', 'America/Sao_Paulo'],
  ])('%s was probably meant to be %s', (TZ, meant) => {
    expect(folder.problems({ TZ }, 'store')).toEqual([
      `TZ "${TZ}" is no time zone: did you mean ${meant}?`,
    ]);
  });

  it.each(['CET-1CEST', '+02:00', '-0500', 'x', '/nowhere/zone', '../Berlin x'])(
    '%s is none, since it does not say when the clocks change',
    (TZ) => {
      expect(folder.problems({ TZ }, 'store')).toEqual([
        expect.stringMatching(/^TZ .* no time zone/),
      ]);
    },
  );
});

describe('a seller of the file', () => {
  it('may have a schedule of its own, field by field', () => {
    const env = withSellers(
      SHOP,
      { ...SHOP, name: 'two', syncCron: '0 5 * * *', timeZone: 'Asia/Tokyo' },
      { ...SHOP, name: 'three', syncCron: 'off', accountCron: '30 * * * *' },
      { ...SHOP, name: 'four', accountCron: 'off' },
    );
    const common = { ACCOUNT_CRON: '0 * * * *', TZ: 'Europe/Berlin' };
    expect(folder.read({ ...env, ...common }).sellers).toMatchObject([
      { syncCron: '0 2 * * *', accountCron: '0 * * * *', timeZone: 'Europe/Berlin' },
      { syncCron: '0 5 * * *', accountCron: '0 * * * *', timeZone: 'Asia/Tokyo' },
      { syncCron: null, accountCron: '30 * * * *', timeZone: 'Europe/Berlin' },
      { syncCron: '0 2 * * *', accountCron: null, timeZone: 'Europe/Berlin' },
    ]);
  });

  it('has its faults named with their place', () => {
    const bad = { ...SHOP, syncCron: '0', accountCron: '1 2 3', timeZone: 'Europe/Berln' };
    expect(folder.problems(withSellers(SHOP, { ...bad, name: 'two' }))).toEqual([
      expect.stringMatching(/^SELLERS_FILE sellers\[1\].syncCron "0" has 1 fields/),
      expect.stringMatching(/^SELLERS_FILE sellers\[1\].accountCron "1 2 3" has 3 fields/),
      expect.stringMatching(
        /^SELLERS_FILE sellers\[1\].timeZone "Europe\/Berln" .* Europe\/Berlin\?/,
      ),
    ]);
  });

  it('may write its fields in no other way', () => {
    expect(folder.problems(withSellers({ ...SHOP, sync_cron: '0 2 * * *', syncCron: 5 }))).toEqual(
      expect.arrayContaining([
        expect.stringMatching(/"sync_cron" is no field: did you mean syncCron\?/),
        expect.stringMatching(/syncCron is missing or no string/),
      ]),
    );
  });
});
