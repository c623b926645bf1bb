import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { parse } from 'csv-parse/sync';
import { Client } from 'pg';
import { readSheet } from 'read-excel-file/node';
import { describe, expect, it } from 'vitest';
import { maskCode } from '../../src/domain/secret.js';
import { itemIn } from '../codes/store-support.js';
import { folder, run } from '../cli/support.js';
import { auditVerdicts, enter, listOf, progress, truthOf } from '../codes/support.js';
import { inline, workbookFiles, workbookOf, zipOf } from '../codes/lists/zip.js';
import { KEY } from '../support/mirror.js';
import { storeSeller } from '../support/states.js';
import { until } from '../support/until.js';
import { formTokenIn, HOST, openDashboard, textOf, unescaped, type Visitor } from './dashboard.js';
import { useShop } from './shop.js';

const { mirror, shop, dashboard, operator, finish, env } = useShop();
const tokenOf = async (visitor: Visitor): Promise<string> => formTokenIn(await visitor.page('/'));

interface UploadOptions {
  readonly name?: string;
  readonly token?: string;
  readonly fields?: Readonly<Record<string, string>>;
  readonly visitor?: Visitor;
}

/** Uploads a list as the page's form does. */
async function send(
  list: string | Uint8Array<ArrayBuffer>,
  { name = 'customers.csv', fields = {}, visitor = operator(), token }: UploadOptions = {},
): Promise<Response> {
  const form = new FormData();
  form.append('token', token ?? (await tokenOf(visitor)));
  for (const [field, value] of Object.entries({ seller: 'main', ...fields })) {
    form.append(field, value);
  }
  form.append('file', new Blob([list], { type: 'text/csv' }), name);
  const headers = { cookie: visitor.cookie, origin: HOST };
  return dashboard().request('/audits/new', { method: 'POST', headers, body: form });
}

/** Reloads a waiting page until it is ready. @returns its text */
async function waitFor(url: string, visitor = operator()): Promise<string> {
  let reply = await visitor.get(url);
  await until(async () => {
    if (reply.headers.has('refresh')) reply = await visitor.get(url);
    return !reply.headers.has('refresh');
  });
  return reply.text();
}

/** Uploads a list, and waits until it was read. @returns the URL of its page */
async function sendList(
  list: string | Uint8Array<ArrayBuffer>,
  options?: UploadOptions,
): Promise<string> {
  const reply = await send(list, options);
  expect(reply.status, await reply.clone().text()).toBe(303);
  const url = reply.headers.get('location') ?? '';
  expect(url).toMatch(/^\/audits\/\d+$/);
  await waitFor(url, options?.visitor);
  return url;
}

const sendCodes = (n: number, options?: UploadOptions): Promise<string> =>
  sendList(listOf(shop(), n).join('\n'), options);

const postStart = (url: string, fields: Record<string, string> = {}, visitor = operator()) =>
  visitor.post(`${url}/start`, fields);

/** Starts the check of a list that was read. @returns its id */
async function start(url: string, fields: Record<string, string> = {}): Promise<bigint> {
  const reply = await postStart(url, fields);
  expect(reply.status, await reply.clone().text()).toBe(303);
  const page = await waitFor(reply.headers.get('location') ?? '');
  const [, id = ''] = /<dt>Check<\/dt><dd>(\d+)/.exec(page) ?? [];
  expect(url, 'the draft is the check').toBe(`/audits/${id}`);
  return BigInt(id);
}

/** Past checks, as the file of their page has them. */
async function checks(): Promise<Record<string, string>[]> {
  const file = await operator().get('/audits.csv');
  return parse(await file.text(), { columns: true, bom: true });
}

/** Expects that the check does not start. @returns the text of the page that says why */
async function expectRefused(url: string, fields: Record<string, string> = {}): Promise<string> {
  const reply = await postStart(url, fields);
  const page = reply.status === 303 ? await waitFor(reply.headers.get('location') ?? '') : null;
  expect(await checks()).toEqual([]);
  return page ?? reply.text();
}

describe('an uploaded list', () => {
  it('is read, checked by a worker and downloaded as the bytes of `audits export`, without markup or API keys', async () => {
    const codes = listOf(shop(), 40);
    const cell = '<script>alert(1)</script>';
    const list = ['customer;purchase code', ...codes.map((code, n) => `=Müller ${n};${code}`)];
    const more = [`${cell};${codes[0]}`, `${cell};`, `mine;${KEY}`];
    const address = await sendList(`\uFEFF${[...list, ...more].join('\r\n')}\r\n`);
    const page = await operator().page(address);
    expect(page).toContain('Codes to check</dt><dd>40');
    expect(page).toContain('Repeated</dt><dd>1<');
    expect(page).toContain('Rejected</dt><dd>2<');
    expect(page).toContain('line 43');
    expect(page).toContain('The codes are in column 2');
    for (const hidden of [cell, KEY]) expect(page).not.toContain(hidden);
    expect(shop().sim.requestCount, 'no call before the start').toBe(0);
    const auditId = await start(address);
    expect(await mirror().rows('SELECT audit_id FROM mirror.audit_drafts')).toEqual([]);
    expect(await operator().page(`/audits/${auditId}`)).toContain(`data-live="audit ${auditId}"`);
    await finish(auditId);
    const reply = await operator().get(`/audits/${auditId}/result.csv`);
    expect(reply.headers.get('content-disposition')).toBe(
      'attachment; filename="customers checked.csv"',
    );
    const downloaded = Buffer.from(await reply.arrayBuffer());
    expect(downloaded.includes(cell)).toBe(true);
    expect(downloaded.includes(KEY)).toBe(false);
    const out = join(folder(), 'result.csv');
    expect((await run(['audits', 'export', String(auditId), '--out', out], env())).code).toBe(0);
    expect(downloaded.equals(readFileSync(out))).toBe(true);
    expect(await auditVerdicts(mirror(), auditId)).toEqual(truthOf(shop(), codes));
  });

  it('can be pasted, and is no check yet: no list, figure or command shows it before it starts', async () => {
    const pasted = { list: listOf(shop(), 3).join('\n') };
    const address = await sendList('', { name: '', fields: pasted });
    const page = await operator().page(address);
    expect(page).toContain('pasted list');
    expect(page).not.toContain('<ul class="lines"></ul>');
    const id = address.replace('/audits/', '');
    expect(await checks()).toEqual([]);
    expect(await operator().page('/audits')).toContain('No list was checked yet.');
    for (const command of ['show', 'export', 'resume']) {
      const { code, stderr } = await run(['audits', command, id], env());
      expect(stderr, command).toContain(id);
      expect(code, command).not.toBe(0);
    }
    expect((await run(['audits', 'list', '--json'], env())).stdout.trim()).toBe('[]');
    for (const path of [`${address}/cancel`, `${address}/resume`]) {
      expect((await operator().post(path)).status).toBe(404);
    }
    expect((await operator().get(`${address}/result.csv`)).status).toBe(404);
  });

  it('is read again after a restart, deleted after an hour, and so are all but the newest three of a session', async () => {
    const [old, ...newer] = [await sendCodes(1), await sendCodes(2), await sendCodes(3)];
    await mirror().rows('UPDATE mirror.audit_drafts SET reading = NULL');
    expect(await waitFor(newer[1] ?? '')).toContain('Codes to check</dt><dd>3');
    await mirror().rows(
      `UPDATE mirror.audits SET created_at = now() - interval '61 minutes' WHERE audit_id = ${old.slice(8)}`,
    );
    expect((await operator().get(old)).status).toBe(404);
    expect((await postStart(old)).status).toBe(404);
    await sendCodes(4);
    await sendCodes(5);
    expect(await mirror().rows('SELECT 1 FROM mirror.audits')).toHaveLength(3);
    expect((await operator().get(newer[0] ?? '')).status).toBe(404);
    expect((await operator().get(newer[1] ?? '')).status).toBe(200);
  });

  it('is refused from viewers, when it is too large, and while others fill the room: uploads are held in memory', async () => {
    const viewer = await dashboard().login('viewer');
    expect((await send('a\nb', { visitor: viewer })).status).toBe(403);
    expect(await viewer.page('/audits/new')).not.toContain('<textarea');
    const large = await send('x'.repeat(1_100_000));
    expect(large.status).toBe(413);
    expect(await large.text()).toMatch(/The list is too large[^]*as several files/);
    const { cookie } = operator();
    const headers = {
      ...{ cookie, origin: HOST, 'content-length': '900000' },
      'content-type': 'multipart/form-data; boundary=x',
    };
    const post = (body: string | ReadableStream<Uint8Array>) =>
      dashboard().request('/audits/new', {
        ...{ method: 'POST', headers, body },
        duplex: 'half',
      });
    let breakOff = (): void => undefined;
    const slow = post(
      new ReadableStream({
        start: (controller) => void (breakOff = () => controller.error(new Error('cut'))),
      }),
    );
    await until(async () => (await post('--x')).status === 409);
    expect(await (await post('--x')).text()).toContain('Too many lists are uploaded at once');
    breakOff();
    expect((await slow).status, 'an upload that breaks off').toBe(422);
    expect((await post('--x')).status).toBe(422);
  });

  it('that can’t be read says why on its page, and gets a harmless name', async () => {
    for (const [text, name, shown, words] of [
      ['', '../../etc/passwd', 'passwd', 'The list is empty'],
      ['PK\u0003\u0004 [Content_Types].xml \0\0', 'x.xlsx', 'x.xlsx', 'damaged or cut off'],
      ['\0\u0001\u0002'.repeat(500), 'C:\\lists\\a.txt', 'a.txt', 'binary data'],
      ['a,b\n1,2\n3,4\n', '<img src=x>\u202Et.csv', '&lt;img src=x&gt;t.csv', 'the field Column'],
    ] as const) {
      const page = await operator().page(await sendList(text, { name }));
      expect(page).toContain('The list was not read.');
      expect(page).toContain(words);
      expect(page).toContain(`<bdi class="untrusted">${shown}</bdi>`);
      expect(page).not.toContain('Start check');
    }
  });

  it('can be read again by another column or sheet, without sending it again', async () => {
    const list = ['code,other', ...listOf(shop(), 2).map((code, n) => `no-${n},${code}`)];
    const address = await sendList(list.join('\n'));
    expect(await operator().page(address)).toContain('Choose one with the field Column');
    const read = async (of: string, fields: Record<string, string>): Promise<string> => {
      const reply = await operator().post(`${of}/read`, fields);
      return waitFor(reply.headers.get('location') ?? '');
    };
    const nowhere = await read(address, { column: 'nowhere' });
    expect(nowhere).toMatch(/There is no column .*nowhere.*The columns are/s);
    expect((await postStart(address)).headers.get('location'), 'nothing to start').toBe(address);
    const page = await read(address, { column: 'other' });
    expect(page).toContain('The codes are in column 2');
    expect(page).toContain('<option value="code"');
    await start(address);
    const row = (reference: string, text: string) => `<row>${inline(reference, text)}</row>`;
    const bytes = await zipOf(
      workbookFiles([
        { name: 'Old', rows: row('A1', 'code') + row('A2', 'old-1') },
        { name: 'New', rows: row('A1', 'code') + row('A2', 'new-1') + row('A3', 'new-2') },
      ]),
    );
    const book = await sendList(new Uint8Array(bytes), { name: 'codes.xlsx' });
    expect(await read(book, { sheet: 'None' })).toContain('Choose one with the field Sheet');
    expect(await read(book, { sheet: 'new' })).toContain('sheet &quot;New&quot;, as requested');
    await start(book, { yes: 'yes' });
    expect(await checks()).toMatchObject([{ codes: '2' }, { codes: '2' }]);
  });

  it('is not checked before it looks like codes, and the key and the known valid code are proven', async () => {
    const letter = Array.from({ length: 30 }, (_, n) => `Dear customer number ${n}`).join('\n');
    const odd = await sendList(letter, { name: 'letter.txt' });
    expect(await operator().page(odd)).toContain('do not look like purchase codes');
    await expectRefused(odd);
    const address = await sendCodes(3);
    const { faults } = shop().sim;
    faults.always('account', { kind: 'key-refused' });
    const refused = await expectRefused(address);
    expect(refused).toMatch(/The marketplace refused the API key.*no code was checked/s);
    expect(refused).toContain('Check the API key in the workspace settings');
    faults.clear();
    const canary = 'nobody-bought-this';
    const denied = await expectRefused(address, { knownValid: canary });
    expect(denied).toContain(
      `The marketplace denies ${maskCode(canary)}, the code that you know is valid`,
    );
    expect(denied).not.toContain(canary);
    await start(address, { knownValid: shop().canary });
    // This machine can't reach the marketplace; a worker may.
    faults.always('account', { kind: 'reply', status: 503, body: 'down' });
    await start(odd, { yes: 'yes' });
    expect(await checks()).toHaveLength(2);
  });

  it('can be downloaded as a workbook and with decimal commas', async () => {
    const codes = listOf(shop(), 3);
    const rows = ['code', ...codes].map((code, n) => `<row>${inline(`A${n + 1}`, code)}</row>`);
    const bytes = new Uint8Array(await workbookOf(rows.join('')));
    const auditId = await start(await sendList(bytes, { name: 'codes.xlsx' }));
    const page = await operator().page(`/audits/${auditId}`);
    expect(page).toMatch(/href="[^"]+\/result\.xlsx"/);
    expect(page).toContain(`aria-label="CSV, decimal point: result of check ${auditId}"`);
    const result = await operator().get(`/audits/${auditId}/result.xlsx`);
    const [, ...read] = await readSheet(Buffer.from(await result.arrayBuffer()));
    expect(read.map(([code]) => code)).toEqual(codes);
    const comma = await operator().get(`/audits/${auditId}/result.csv?decimal=comma`);
    expect(await comma.text()).toMatch(/^code;verdict;/);
    await mirror().rows('UPDATE mirror.audits SET lines = 1048576');
    const refused = await operator().get(`/audits/${auditId}/result.xlsx`);
    expect(refused.status).toBe(409);
    expect(await refused.text()).toContain('room for 1,048,575 rows');
  });

  it('belongs to its session, and becomes one check, however many processes start it at once', async () => {
    const address = await sendCodes(30);
    const stranger = await dashboard().login();
    expect((await stranger.get(address)).status).toBe(404);
    expect((await postStart(address, {}, stranger)).status).toBe(404);
    const { cookie } = operator();
    const settings = {
      SELLER_NAME: 'main',
      MARKETPLACE_API_KEY: KEY,
      MARKETPLACE_URL: shop().sim.url,
    };
    const other = await openDashboard(mirror(), {}, { settings });
    const token = await tokenOf(operator());
    const presses = [dashboard(), other, dashboard(), other].map(({ request }) =>
      request(`${address}/start`, {
        method: 'POST',
        headers: { cookie, origin: HOST },
        body: new URLSearchParams({ token }),
      }),
    );
    for (const reply of await Promise.all(presses)) expect(reply.status).toBe(303);
    await waitFor(address);
    await until(async () => (await checks()).length > 0);
    expect(`/audits/${await start(address)}`).toBe(address);
    expect(await checks()).toMatchObject([{ codes: '30' }]);
    expect(await mirror().rows('SELECT 1 FROM mirror.audit_codes')).toHaveLength(30);
  });

  it('is read and started in the background when that takes long', async () => {
    const list = listOf(shop(), 3).join('\n');
    // Read first: the page that has the token reads the locked table.
    const token = await tokenOf(operator());
    const client = new Client(mirror().databaseUrl);
    await client.connect();
    const whileLocked = async <T>(work: () => Promise<T>): Promise<T> => {
      await client.query('BEGIN; LOCK TABLE mirror.purchase_codes');
      try {
        return await work();
      } finally {
        await client.query('COMMIT');
      }
    };
    try {
      const address = await whileLocked(async () => {
        const sent = (await send(list, { token })).headers.get('location') ?? '';
        const reply = await operator().get(sent);
        expect(reply.headers.get('refresh')).toBe(`2;url=${sent}`);
        expect(await reply.text()).toContain('Reading the list');
        return sent;
      });
      expect(await waitFor(address)).toContain('Start check');
      await whileLocked(async () => {
        for (const _ of ['first click', 'second click']) {
          expect((await postStart(address)).headers.get('location')).toBe(address);
        }
        expect(await operator().page(address)).toContain('Starting the check');
      });
      await until(async () => (await checks()).length === 1);
      // Logged just after the check began.
      await until(async () => (await operator().page('/system')).includes('start check'));
    } finally {
      await client.end();
    }
  });
});

describe('the pages of audits', () => {
  it('show viewers figures, but no actions, downloads or names of lists, which can contain a code', async () => {
    const names = [
      'd0d3ba3d-9a0e-4d0a-8f5e-6b1f3c1f7a01.txt',
      'buyer ENV-7Q2K-88AB-X9.txt',
      'hemlock.txt',
    ];
    const ids: bigint[] = [];
    for (const source of names) {
      ids.push(await enter(mirror(), shop().marketplace.host, listOf(shop(), 3), { source }));
    }
    const viewer = await dashboard().login('viewer');
    for (const [n, source] of names.entries()) {
      const address = `/audits/${ids[n]}`;
      const [, part = ''] = /([\w-]+)\.txt$/.exec(source) ?? [];
      for (const path of ['/', '/audits', '/audits.csv', address, '/system']) {
        if (path !== '/system') expect(await operator().page(path), path).toContain(part);
        expect(await viewer.page(path), path).not.toContain(part);
      }
      expect(await viewer.page('/audits.csv')).toContain(maskCode(source));
      const page = await viewer.page(address);
      expect(page).toContain('0 of 3 asked');
      expect(page).not.toMatch(/Cancel|result\.csv/);
      expect((await viewer.get(`${address}/result.csv`)).status).toBe(403);
    }
  });

  it('begin with the codes that need somebody, each with its reason, so that nobody searches the result', async () => {
    const [valid = '', gone = ''] = listOf(shop(), 2);
    const list = ['code', valid, gone, 'f0'.repeat(16), 'n/a', 'f0'.repeat(16)].join('\n');
    const auditId = await start(await sendList(list), { yes: 'yes' });
    await finish(auditId);
    await mirror().rows(`UPDATE mirror.audit_codes SET verdict = 'no_longer_valid' WHERE code_id IN
        (SELECT code_id FROM mirror.purchase_codes WHERE code = '${gone}');
      UPDATE mirror.purchase_codes SET verdict = 'no_longer_valid' WHERE code = '${gone}';
      UPDATE mirror.audits SET valid = valid - 1, no_longer_valid = no_longer_valid + 1`);
    const page = await operator().page(`/audits/${auditId}`);
    const headings = [...page.matchAll(/<h2[^>]*>([^<]+)/g)].map(([, text]) => text);
    expect(headings.slice(0, 2)).toEqual(['No longer valid 1', 'Invalid 3']);
    expect(await checks(), 'the list of checks has the same numbers').toMatchObject([
      { invalid: '2' },
    ]);
    expect(textOf(page)).toContain('while your key worked. 3 lines with 2 codes.');
    expect(textOf(page)).toMatch(/4 codes need somebody\. 1 other is valid\./);
    expect(textOf(page)).toMatch(/Needs somebody 4 Valid 1 All 5/);
    expect(page).toContain('Denied twice, some time apart, while your key worked.');
    expect(page).toContain('The cell says “n/a”');
    expect(page, 'its customer is asked for the code').toContain(
      'we have no purchase code from you',
    );
    // Proofs are for the few who ask.
    expect(page).not.toContain('Your key works');
    const row = [...page.matchAll(/href="([^"]+line=\d+)"/g)].map(([, href = '']) => href);
    const proof = await operator().page(unescaped(row[1] ?? ''));
    expect(textOf(proof)).toMatch(
      /Denied: “[^”]+” .*Your key works .*Denied again .*Your key still works/,
    );
    const file = await (await operator().get(`/audits/${auditId}/result.csv`)).text();
    expect(file).toMatch(/was valid, bought \d{4}-\d\d-\d\d/);
    expect(file).toContain('unknown to the marketplace');
    const one = await operator().page(`/audits/${auditId}?show=valid`);
    expect(one).toMatch(/licence for /);
    expect(one).not.toContain('No longer valid 1');
    await itemIn(mirror(), 1, 'live');
    await mirror().rows(`UPDATE mirror.purchase_codes SET item_id = 4711 WHERE code = '${valid}'`);
    const foreign = await operator().page(`/audits/${auditId}?show=valid`);
    expect(foreign).toContain('The item is not in your catalogue.');
    const item = await (await operator().get('/items/main/4711')).text();
    expect(item, 'behind its link').toContain('known from purchase codes alone');
    const viewed = await (await dashboard().login('viewer')).page(`/audits/${auditId}?show=all`);
    expect(viewed).toContain(maskCode(gone));
    expect(viewed).not.toContain(gone);
  });

  it('name the buyer of each line that needs somebody by the list’s own columns, to operators only', async () => {
    const [valid = '', gone = '', given = '', labelled = ''] = listOf(shop(), 4);
    const bad = 'f0'.repeat(16);
    const rows = [
      ['Ada Valid', valid],
      ['Bob Gone', gone],
      ['Cy Bad', bad],
      ['Di Bad', bad],
      ['Ed Unproven', given],
      ['Flo Two', `${valid} and ${gone}`],
      ['Gus Label', `Purchase code: ${labelled}`],
    ];
    const lines = rows.map(
      ([name, code], n) => `${name},${n}@buyers.test,${1_001 + n},${code},vip`,
    );
    const list = ['Name,E-Mail,Order,Purchase code,Note', ...lines].join('\n');
    const auditId = await start(await sendList(list), { yes: 'yes' });
    await finish(auditId);
    for (const [code, verdict] of [
      [gone, 'no_longer_valid'],
      [given, 'unproven'],
    ]) {
      await mirror().rows(`UPDATE mirror.audit_codes SET verdict = '${verdict}' WHERE code_id IN
          (SELECT code_id FROM mirror.purchase_codes WHERE code = '${code}');
        UPDATE mirror.audits SET valid = valid - 1, ${verdict} = ${verdict} + 1`);
    }
    const address = `/audits/${auditId}`;
    const page = await operator().page(address);
    const text = textOf(page);
    for (const buyer of [
      'Bob Gone 1@buyers.test',
      'Cy Bad 2@buyers.test',
      'Di Bad 3@buyers.test',
      'Ed Unproven 4@buyers.test',
      'Flo Two 5@buyers.test',
    ]) {
      expect(text).toContain(buyer);
    }
    expect(text).toContain('5 customers need somebody. The codes of 2 others are valid.');
    expect(page, 'a valid code needs nobody').not.toContain('Ada Valid');
    expect(page).toContain('Copy reply to Bob Gone');
    expect(page).toContain('data-copy="Hello Bob,\n\nyour purchase code for ');
    const find = async (search: string): Promise<string> =>
      (await operator().post(`${address}/find`, { search })).headers.get('location') ?? '';
    const byName = await find('gone');
    expect(byName).toBe(`${address}?show=all&search=gone`);
    const found = await operator().page(byName);
    expect(found).toContain('Bob Gone');
    expect(found).not.toContain('Cy Bad');
    const shared = textOf(await operator().page(await find('3@buyers.test')));
    expect(shared, 'the line that was found, not the first one with its code').toContain('Di Bad');
    expect(shared).toContain('line 5 · the same code stands in another line');
    expect(shared).not.toContain('Cy Bad');
    const byCode = await find(` "${gone}" `);
    expect(byCode, 'no URL holds a code').toMatch(/\?show=all&line=\d+$/);
    const panel = textOf(await operator().page(byCode));
    expect(panel).toMatch(/Customer Bob Gone 1@buyers.test Order 1002 Code/);
    expect((await operator().post(`${address}/find`, { search: 'a1'.repeat(16) })).status).toBe(
      404,
    );
    const viewer = await dashboard().login('viewer');
    const viewed = await viewer.page(address);
    expect(viewed).toContain('Not a code 1');
    for (const hidden of ['Copy reply', '@buyers.test', ...rows.flat()]) {
      expect(viewed).not.toContain(hidden);
    }
    expect(viewed, 'nor the form in which a code was found').not.toContain(labelled);
    expect(viewed, 'a rejected line shows nothing of its other columns').not.toContain('Flo');
  });

  it('are named on the overview and by `status` while customers need an answer, for a week or until the list is checked again', async () => {
    const [valid = '', other = ''] = listOf(shop(), 2);
    const bad = 'f0'.repeat(16);
    const check = async (name: string, lines: readonly string[]): Promise<bigint> => {
      const auditId = await start(await sendList(lines.join('\n'), { name }), { yes: 'yes' });
      await finish(auditId);
      return auditId;
    };
    await check('codes.txt', [valid, bad]);
    await storeSeller(mirror(), 'main', 'succeeded');
    expect(textOf(await operator().page('/')), 'nobody to write to').toContain(
      'Nothing needs you.',
    );
    const lines = [`Ada,${valid}`, `Bob,${bad}`, `Cy,${bad}`, 'Di,'];
    const auditId = await check('buyers.csv', ['Name,Code', ...lines]);
    const told = `Check ${auditId} is finished: 3 customers to answer`;
    expect(textOf(await operator().page(`/audits/${auditId}`))).toContain(
      '3 customers need somebody',
    );
    const page = await operator().page('/');
    expect(textOf(page)).toMatch(new RegExp(`${told} buyers\\.csv \\(.*\\) Open check ${auditId}`));
    expect(page).toContain(`<a class="button" href="/audits/${auditId}">`);
    expect(page).not.toContain('Nothing needs you');
    const viewed = textOf(await (await dashboard().login('viewer')).page('/'));
    expect(viewed).toContain(told);
    expect(viewed).not.toContain('buyers');
    expect((await run(['status'], env())).stdout.replaceAll(/\s+/g, ' ')).toContain(told);
    const age = (days: number) =>
      mirror().rows(`UPDATE mirror.audits SET finished_at = finished_at - interval '${days} days'`);
    await age(6);
    expect(textOf(await operator().page('/'))).toContain(told);
    await check('buyers.csv', ['Name,Code', `Ada,${valid}`, `Bob,${other}`]);
    expect(textOf(await operator().page('/')), 'checked again').toContain('Nothing needs you.');
    const again = await check('buyers.csv', ['Name,Code', `Bob,${bad}`]);
    expect(await operator().page('/')).toContain(
      `Check ${again} is finished: 1 customer to answer`,
    );
    await age(8);
    expect(textOf(await operator().page('/')), 'after a week').toContain('Nothing needs you.');
    const pasted = [1, 2].map(() => check('pasted list', ['Name,Code', `Bob,${bad}`]));
    for (const id of await Promise.all(pasted)) {
      expect(await operator().page('/'), 'lists without a name').toContain(`Check ${id} is`);
    }
  });

  it('cancel an audit and resume it', async () => {
    const auditId = await enter(mirror(), shop().marketplace.host, listOf(shop(), 10), {});
    expect(await operator().page(`/audits/${auditId}`)).toContain('Cancel');
    await operator().post(`/audits/${auditId}/cancel`);
    expect((await progress(mirror(), auditId)).state).toBe('cancelled');
    expect(await operator().page(`/audits/${auditId}`)).toContain('Resume');
    await operator().post(`/audits/${auditId}/resume`);
    const page = await operator().page(`/audits/${auditId}?notice=queued`);
    expect(page).toContain('No worker is running, so nothing is checked yet.');
    expect(page, 'it says by itself whether it waits').not.toContain('Queued');
    await finish(auditId);
    for (const action of ['cancel', 'resume']) {
      expect((await operator().post(`/audits/${auditId}/${action}`)).status).toBe(409);
    }
    const system = await operator().page('/system');
    expect(system).toContain('cancel check');
    expect(system).toContain('resume check');
  });

  it('name the reason when many uploads at once push out the first', async () => {
    const token = await tokenOf(operator());
    const [list] = [listOf(shop(), 200).join('\n')];
    const replies = await Promise.all(Array.from({ length: 30 }, () => send(list, { token })));
    expect(new Set(replies.map(({ status }) => status))).toEqual(new Set([303, 409]));
    for (const reply of replies.filter(({ status }) => status === 409)) {
      expect(await reply.text()).toContain('replaced by newer uploads');
    }
  });
});
