import { describe, expect, it } from 'vitest';
import { maskCode } from '../../src/domain/secret.js';
import { run } from '../cli/support.js';
import { auditDeps, enter, intercepted, listOf, workThrough } from '../codes/support.js';
import { KEY } from '../support/mirror.js';
import { textOf } from './dashboard.js';
import { useShop } from './shop.js';

const { mirror, shop, dashboard, operator, isFinished, finish, env } = useShop();

/** Audits codes. @returns a valid and an invalid one */
async function auditCodes(): Promise<{ valid: string; invalid: string }> {
  const codes = listOf(shop(), 30);
  const auditId = await enter(mirror(), shop().marketplace.host, codes);
  await workThrough(auditDeps(mirror(), shop().marketplace), [auditId]);
  expect(await isFinished(auditId)).toBe(true);
  const valid = codes.find((code) => shop().truth(code) === 'valid') ?? '';
  const invalid = codes.find((code) => shop().truth(code) === 'invalid') ?? '';
  return { valid, invalid };
}

/** Looks up a code. @returns the path of its page */
async function pathOf(code: string, visitor = operator()): Promise<string> {
  const reply = await visitor.post('/codes', { code: ` "${code}" ` });
  const path = reply.headers.get('location') ?? '';
  expect(path).toMatch(/^\/codes\/\d+$/);
  return path;
}

async function newestAudit() {
  const [audit] = await mirror().rows<{ id: bigint; source: string; state: string }>(
    'SELECT audit_id AS id, source, state, codes, unproven FROM mirror.audits ORDER BY 1 DESC LIMIT 1',
  );
  if (audit === undefined) throw new Error('there is no audit');
  return audit;
}

describe('the page of a code', () => {
  it('explains the verdict with the sentence of `codes show` and of the result; viewers see the code masked', async () => {
    const { valid, invalid } = await auditCodes();
    const viewer = await dashboard().login('viewer');
    const masked = await viewer.page(await pathOf(invalid, viewer));
    expect(masked).toContain(maskCode(invalid));
    expect(masked).not.toContain(invalid);
    for (const [code, pattern] of [
      [valid, /he marketplace answered with the purchase at [^<.]+Z/],
      [invalid, /enied at [^<.]+; your API key was tested before and after \([^<.)]+\)/],
    ] as const) {
      const page = await operator().page(await pathOf(code));
      const [sentence = 'no sentence'] = pattern.exec(page) ?? [];
      expect((await run(['codes', 'show', code], env())).stdout).toContain(sentence);
      if (code === invalid) {
        // A single denial is not a verdict.
        expect(page).toMatch(/Denied (?:twice|\d times)\. Your key worked before and after\./);
        expect(page).not.toContain('unproven');
        const { id } = await newestAudit();
        const result = await (await operator().get(`/audits/${id}/result.csv`)).text();
        expect(result).toContain(sentence);
      }
    }
  });

  it('begins with one sentence, the bar of its life and a reply to the customer; equal checks are one line', async () => {
    const { valid, invalid } = await auditCodes();
    const path = await pathOf(valid);
    await mirror().rows(
      `UPDATE mirror.purchase_codes SET purchased_at = '2026-02-01', supported_until = '2099-02-01' WHERE code = $1`,
      [valid],
    );
    await mirror().rows(
      `INSERT INTO mirror.code_checks (seller_id, code_id, checked_at, verdict, reason, proof)
       SELECT seller_id, code_id, now() - n * interval '1 day', 'valid', 'answered', 'purchase'
         FROM mirror.purchase_codes, generate_series(3, 1, -1) n WHERE code = $1`,
      [valid],
    );
    const page = await operator().page(path);
    const text = textOf(page);
    expect(text).toMatch(
      /Valid\. (?:Regular|Extended) licence for [^.]+, support until 1 Feb 2099\./,
    );
    expect(text).toMatch(/Bought 1 Feb 2026 Today .*Support ends 1 Feb 2099, in [\d]+ days/);
    expect(text).toMatch(
      /Hello, your purchase code is valid: .*with support until 1 February 2099\./,
    );
    expect(text).toContain('3 earlier checks, all valid.');
    expect(page).toMatch(/data-copy="Hello,/);
    await mirror().rows(
      `UPDATE mirror.purchase_codes SET verdict = 'no_longer_valid', verdict_since = now() WHERE code = $1`,
      [valid],
    );
    const gone = await operator().page(path);
    expect(textOf(gone)).toMatch(
      /No longer valid\. It was an? \w+ licence for [^.]+, bought 1 Feb 2026\./,
    );
    expect(gone).toContain('<span class="verdict gone">');
    expect(textOf(gone)).toContain('Support would end');
    const unknown = textOf(await operator().page(await pathOf(invalid)));
    expect(unknown).toContain('Invalid. The marketplace does not know this code.');
    expect(unknown).not.toContain('Bought');
  });

  it('masks the plain form of a pasted code too, under which the marketplace knows it', async () => {
    const [code, pasted] = ['ENV-7Q2K-88AB-X9', 'ENV\u20137Q2K\u201388AB\u2013X9'];
    const { marketplace } = intercepted(shop(), {
      async validate(asked, options) {
        const sold = asked === code ? shop().purchases.codeAt(1) : 'nobody-bought-1';
        const reply = await shop().marketplace.validate(sold, options);
        if (reply.kind !== 'answered') return reply;
        const value = { ...reply.data.value, purchaseCode: code };
        return { ...reply, data: { ...reply.data, value } };
      },
    });
    const auditId = await enter(mirror(), marketplace.host, [pasted]);
    await workThrough(auditDeps(mirror(), marketplace), [auditId]);
    expect(await operator().page(await pathOf(pasted))).toContain(`found as ${code}`);
    const viewer = await dashboard().login('viewer');
    expect(await viewer.page(await pathOf(pasted, viewer))).not.toContain(code);
  });

  it('starts a check with Check now, shows its progress, and later what changed, in the reader’s time zone', async () => {
    const { valid } = await auditCodes();
    const path = await pathOf(valid);
    await operator().post(`${path}/check`);
    const newest = await newestAudit();
    expect(newest).toMatchObject({ codes: 1, source: 'arguments', state: 'running' });
    expect(await operator().page(path)).toContain(`data-live="audit ${newest.id}"`);
    await finish(newest.id);
    expect(await operator().page(path)).not.toContain('data-live');
    const [from, to] = ['2026-01-03T03:22:03Z', '2026-07-03T03:22:03Z'];
    await mirror().rows(
      `INSERT INTO mirror.code_transitions (seller_id, code_id, check_id, happened_at, kind, old_value, new_value)
       SELECT seller_id, code_id, 1, now(), 'support-extended', $2, $3 FROM mirror.purchase_codes WHERE code = $1`,
      [valid, from, to],
    );
    for (const shownOn of ['/codes', path]) {
      const page = await operator().page(shownOn);
      for (const at of [from, to]) {
        expect(page).toContain(`<time datetime="${new Date(at).toISOString()}"`);
      }
    }
  });
});

it('the look-up of an unknown code offers to check it; it refuses an API key and does not save it', async () => {
  for (const path of ['/codes', '/codes/check']) {
    const reply = await operator().post(path, { seller: 'main', code: KEY });
    expect(reply.status).toBe(422);
    expect(await reply.text()).not.toContain(KEY);
  }
  expect(await mirror().rows('SELECT FROM mirror.purchase_codes')).toEqual([]);
  const [code = ''] = listOf(shop(), 1);
  const reply = await operator().post('/codes', { code });
  expect(reply.status).toBe(404);
  expect(await reply.text()).toContain('Check now');
  const checked = await operator().post('/codes/check', { seller: 'main', code });
  expect(checked.headers.get('location')).toMatch(/^\/codes\/\d+$/);
});

describe('known codes', () => {
  it('can be checked again from the page, which says that no schedule does it', async () => {
    await auditCodes();
    const page = await operator().page('/codes');
    expect(page).toContain('AUDIT_CRON is off');
    expect((await operator().post('/codes/recheck', { older: 'soon' })).status).toBe(422);
    expect((await operator().post('/codes/recheck', { older: '30d' })).status).toBe(409);
    const reply = await operator().post('/codes/recheck', { older: '0s' });
    const [, id = ''] = /^\/audits\/(\d+)/.exec(reply.headers.get('location') ?? '') ?? [];
    const twice = await operator().post('/codes/recheck', { older: '0s' });
    expect(twice.headers.get('location'), 'pressed twice').toBe(`/audits/${id}`);
    await finish(BigInt(id));
    expect(await newestAudit()).toMatchObject({ source: 'recheck', codes: 30, unproven: 0 });
    const viewer = await dashboard().login('viewer');
    expect(await viewer.page('/codes')).not.toContain('Check again');
  });

  it('show the lists that hold them to operators only, since lists hold names and addresses', async () => {
    const code = shop().purchases.codeAt(3);
    const layout = { lists: [{ name: 'customers.csv' }] };
    const columns = ['code'];
    await enter(mirror(), shop().marketplace.host, [code], {
      layout,
      columns,
      source: 'customers.csv',
    });
    const path = await pathOf(code);
    expect(await operator().page(path)).toMatch(/customers\.csv[^]*, line \d/);
    const viewer = await dashboard().login('viewer');
    expect(await viewer.page(path)).not.toContain('customers.csv');
  });
});
