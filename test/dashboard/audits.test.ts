import { randomUUID } from 'node:crypto';
import { mkdtempSync, readdirSync, readFileSync, statSync } from 'node:fs';
import { join } from 'node:path';
import { readSheet } from 'read-excel-file/node';
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import { maskCode } from '../../src/domain/secret.js';
import { itemIn, resultsOf } from '../codes/store-support.js';
import { folder, printed, run } from '../cli/support.js';
import { enter, listOf, progress, truthOf } from '../codes/support.js';
import { inline, workbookFiles, workbookOf, zipOf } from '../codes/lists/zip.js';
import { KEY } from '../support/mirror.js';
import { until } from '../support/until.js';
import { formTokenIn, HOST, type Visitor } from './dashboard.js';
import { listAudits, cancelAudit } from '../../src/codes/audits-store.js';
import { recordHeartbeat } from '../../src/service/processes-store.js';
import { listActions } from '../../src/dashboard/access-store.js';
import { DbClient } from '../../src/db/connection.js';
import { useShop } from './shop.js';

const { mirror, shop, dashboard, operator, finish, env } = useShop();
/** Folder of the uploaded lists of a test. */
let temporary: string;

beforeEach(() => {
  temporary = mkdtempSync(join(folder(), 'tmp-'));
  vi.stubEnv('TMPDIR', temporary);
});

afterEach(() => {
  vi.unstubAllEnvs();
});

const tokenOf = async (visitor: Visitor): Promise<string> => formTokenIn(await visitor.page('/'));

/** Posts a multipart form to the page of a new audit. */
function upload(
  cookie: string,
  body: FormData | ReadableStream<Uint8Array>,
  headers: Record<string, string> = {},
): Promise<Response> {
  return dashboard().request('/audits/new', {
    method: 'POST',
    headers: { cookie, origin: HOST, ...headers },
    body,
    ...(body instanceof ReadableStream ? { duplex: 'half' as const } : {}),
  });
}

const BOUNDARY = { 'content-type': 'multipart/form-data; boundary=x' };

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
  return upload(visitor.cookie, form);
}

const draftOf = (address: string): string => new URL(address, HOST).searchParams.get('draft') ?? '';

/** Reloads a waiting page until it is ready. @returns where it redirects, or its own URL */
async function waitFor(url: string): Promise<string> {
  let reply = await operator().get(url);
  await until(async () => {
    if (reply.headers.has('refresh')) reply = await operator().get(url);
    return !reply.headers.has('refresh');
  });
  return reply.headers.get('location') ?? url;
}

/** Uploads a readable list. @returns the URL of the page that shows what was read */
async function sendReadable(
  list: string | Uint8Array<ArrayBuffer>,
  options?: UploadOptions,
): Promise<string> {
  const reply = await send(list, options);
  expect(reply.status, await reply.clone().text()).toBe(303);
  return waitFor(reply.headers.get('location') ?? '');
}

const sendCodes = (n: number, options?: UploadOptions): Promise<string> =>
  sendReadable(listOf(shop(), n).join('\n'), options);

const postStart = (url: string, fields: Record<string, string> = {}, visitor = operator()) =>
  visitor.post('/audits/start', { draft: draftOf(url), ...fields });

/** Starts the audit of a list that was read. @returns its id */
async function start(url: string, fields: Record<string, string> = {}): Promise<bigint> {
  const reply = await postStart(url, fields);
  expect(reply.status, await reply.clone().text()).toBe(303);
  const to = await waitFor(reply.headers.get('location') ?? '');
  const [, id = ''] = /^\/audits\/(\d+)/.exec(to) ?? [];
  expect(id, to).not.toBe('');
  return BigInt(id);
}

/** Expects that the audit is refused. @returns the text of the page */
async function expectRefused(url: string, fields: Record<string, string> = {}): Promise<string> {
  const reply = await postStart(url, fields);
  expect(reply.status).toBe(422);
  expect(await listAudits(mirror().db, { limit: 1 })).toEqual([]);
  return reply.text();
}

/** Paths of the uploaded lists. */
function lists(): string[] {
  const entries = readdirSync(temporary, { recursive: true, withFileTypes: true });
  return entries.filter((one) => one.isFile()).map((one) => join(one.parentPath, one.name));
}

describe('an uploaded list', () => {
  it('is read, audited by a worker and downloaded as the bytes of `audits export`', async () => {
    const codes = listOf(shop(), 40);
    const list = ['customer;purchase code', ...codes.map((code, n) => `=Müller ${n};${code}`)];
    const text = `\uFEFF${[...list, `again;${codes[0]}`, 'nobody;'].join('\r\n')}\r\n`;
    const address = await sendReadable(text);
    const page = await operator().page(address);
    expect(page).toContain('Codes to check</dt><dd>40');
    expect(page).toContain('Repeated</dt><dd>1<');
    expect(page).toContain('Rejected</dt><dd>1<');
    expect(page).toContain('line 43');
    expect(page).toContain('The codes are in column 2');
    expect(lists().map((path) => statSync(path).mode & 0o777)).toEqual([0o600]);
    expect(shop().sim.requestCount, 'no call before the start').toBe(0);
    const auditId = await start(address);
    // The list is deleted after the audit has started.
    await until(() => lists().length === 0);
    expect(await operator().page(`/audits/${auditId}`)).toContain(`data-live="audit ${auditId}"`);
    await finish(auditId);
    const reply = await operator().get(`/audits/${auditId}/result.csv`);
    expect(reply.headers.get('content-disposition')).toBe(
      'attachment; filename="customers checked.csv"',
    );
    const downloaded = Buffer.from(await reply.arrayBuffer());
    const out = join(folder(), 'result.csv');
    expect((await run(['audits', 'export', String(auditId), '--out', out], env())).code).toBe(0);
    expect(downloaded.equals(readFileSync(out))).toBe(true);
    const results = await resultsOf(mirror().db, auditId);
    const verdicts = results.flatMap(({ code, verdict }) =>
      code === null ? [] : [[code, verdict]],
    );
    expect(Object.fromEntries(verdicts)).toEqual(truthOf(shop(), codes));
  });

  it('can be pasted', async () => {
    const codes = listOf(shop(), 5);
    const pasted = await sendReadable('', { name: '', fields: { list: codes.join('\n') } });
    const page = await operator().page(pasted);
    expect(page).toContain('pasted list');
    expect(page).not.toContain('<ul class="lines"></ul>');
  });

  it('is refused unread with a wrong or missing token', async () => {
    for (const token of ['wrong', null]) {
      let pulled = 0;
      const part = (name: string, value: string): string =>
        `--x\r\ncontent-disposition: form-data; name="${name}"\r\n\r\n${value}\r\n`;
      const head =
        (token === null ? '' : part('token', token)) +
        `--x\r\ncontent-disposition: form-data; name="file"; filename="a.txt"\r\n\r\n`;
      const body = new ReadableStream<Uint8Array>({
        pull(controller) {
          pulled += 1;
          controller.enqueue(Buffer.from(pulled === 1 ? head : 'x'.repeat(65_536)));
          if (pulled > 1_000) controller.close();
        },
      });
      const reply = await upload(operator().cookie, body, BOUNDARY);
      expect(reply.status).toBe(403);
      expect(pulled, 'chunks read').toBeLessThan(20);
    }
  });

  it('is refused from a viewer', async () => {
    const viewer = await dashboard().login('viewer');
    expect((await send('a\nb', { visitor: viewer })).status).toBe(403);
    expect(await viewer.page('/audits/new')).not.toContain('<textarea');
  });

  it('is refused and deleted when it is too large', async () => {
    const reply = await send('x'.repeat(1_100_000));
    expect(reply.status).toBe(413);
    const text = await reply.text();
    expect(text).toContain('The list is too large');
    expect(text).toContain('as several files');
    expect(lists()).toEqual([]);
  });

  it('is refused and deleted when the connection breaks', async () => {
    const token = await tokenOf(operator());
    const start = `--x\r\ncontent-disposition: form-data; name="token"\r\n\r\n${token}\r\n--x\r\ncontent-disposition: form-data; name="file"; filename="a.txt"\r\n\r\n${'x'.repeat(1_000)}`;
    let pulled = 0;
    const body = new ReadableStream<Uint8Array>({
      pull(controller) {
        if (pulled++ === 0) controller.enqueue(Buffer.from(start));
        else controller.error(new Error('the connection was cut'));
      },
    });
    const reply = await upload(operator().cookie, body, BOUNDARY);
    expect(reply.status).toBe(422);
    expect(lists()).toEqual([]);
  });

  it.each([
    ['an empty file', '', 'x.csv', 'The list is empty'],
    [
      'a workbook that is cut off',
      'PK\u0003\u0004 [Content_Types].xml \0\0\0\0\0\0\0\0',
      'x.xlsx',
      'The workbook is damaged or cut off',
    ],
    ['binary data', '\0\u0001\u0002'.repeat(500), 'x.csv', 'binary data'],
    ['no column of codes', 'a,b\n1,2\n3,4\n', 'x.csv', 'the field Column'],
  ])('is refused with a remedy: %s', async (_, text, name, words) => {
    const reply = await send(text, { name });
    expect(reply.status).toBe(422);
    expect(await reply.text()).toContain(words);
  });

  it('can be a sheet of a workbook; an unknown sheet is refused with a remedy', async () => {
    const row = (reference: string, text: string) => `<row>${inline(reference, text)}</row>`;
    const bytes = await zipOf(
      workbookFiles([
        { name: 'Old', rows: row('A1', 'code') + row('A2', 'old-1') },
        { name: 'New', rows: row('A1', 'code') + row('A2', 'new-1') + row('A3', 'new-2') },
      ]),
    );
    const fields = { sheet: 'new' };
    const address = await sendReadable(new Uint8Array(bytes), { name: 'codes.xlsx', fields });
    expect(await operator().page(address)).toContain('sheet &quot;New&quot;, as requested');
    await start(address, { yes: 'yes' });
    expect((await listAudits(mirror().db, { limit: 1 }))[0]).toMatchObject({ codes: 2 });
    const reply = await send(new Uint8Array(bytes), { fields: { sheet: 'None' } });
    expect(await reply.text()).toContain('Choose one with the field Sheet');
  });

  it('that does not look like codes needs a confirmation', async () => {
    const letter = Array.from({ length: 30 }, (_, n) => `Dear customer number ${n}`).join('\n');
    const address = await sendReadable(letter, { name: 'letter.txt' });
    expect(await operator().page(address)).toContain('do not look like purchase codes');
    await expectRefused(address);
    await start(address, { yes: 'yes' });
  });

  it('is not audited while the API key is refused', async () => {
    shop().sim.faults.always('account', { kind: 'key-refused' });
    const address = await sendCodes(3);
    const page = await expectRefused(address);
    expect(page).toMatch(/The marketplace refused the API key.*no code was checked/s);
    expect(page).toContain('Check the API key in the workspace settings');
    shop().sim.faults.clear();
    await start(address);
  });

  it('is not audited with a known valid code that the marketplace denies', async () => {
    const address = await sendCodes(3);
    const canary = 'nobody-bought-this';
    const page = await expectRefused(address, { knownValid: canary });
    expect(page).toContain(
      `The marketplace denies ${maskCode(canary)}, the code that you know is valid`,
    );
    expect(page).not.toContain(canary);
    await start(address, { knownValid: shop().canary });
  });

  it('is audited although this machine can’t reach the marketplace: a worker may', async () => {
    shop().sim.faults.always('account', { kind: 'reply', status: 503, body: 'down' });
    const address = await sendCodes(3);
    await recordHeartbeat(mirror().db, {
      processId: randomUUID(),
      roles: ['worker'],
      host: 'elsewhere',
      pid: 1,
      startedAt: new Date(),
    });
    await postStart(address);
    // Retries may take longer than the request waits.
    expect(await operator().page(await waitFor(address))).toContain(
      'so the worker will check the API key',
    );
    expect(await listAudits(mirror().db, { limit: 2 })).toHaveLength(1);
  });

  it.each([
    ['../../etc/passwd', 'passwd'],
    ['C:\\lists\\codes.txt', 'codes.txt'],
    ['<img src=x onerror=alert(1)>.txt', '&lt;img src=x onerror=alert(1)&gt;.txt'],
    ['a\u202Etxt.csv', 'atxt.csv'],
  ])('gets a harmless name: %j', async (name, shown) => {
    const address = await sendCodes(3, { name });
    const page = await operator().page(address);
    expect(page).toContain(shown);
    expect(page).not.toContain('<img');
    expect(page).not.toContain('\u202E');
  });

  it('has its cells escaped and API keys hidden', async () => {
    const codes = listOf(shop(), 3);
    const cell = '<script>alert(1)</script>';
    const rows = [
      `code,${cell}`,
      ...codes.map((code) => `${code},${cell}`),
      `${KEY},x`,
      `,${cell}`,
    ];
    const address = await sendReadable(rows.join('\n'));
    const page = await operator().page(address);
    expect(page).not.toContain(cell);
    expect(page).not.toContain(KEY);
    const auditId = await start(address);
    const result = await (await operator().get(`/audits/${auditId}/result.csv`)).text();
    expect(result).toContain(cell);
    expect(result).not.toContain(KEY);
  });

  it('can be downloaded as a workbook and with decimal commas', async () => {
    const codes = listOf(shop(), 3);
    const rows = ['code', ...codes].map((code, n) => `<row>${inline(`A${n + 1}`, code)}</row>`);
    const bytes = new Uint8Array(await workbookOf(rows.join('')));
    const auditId = await start(await sendReadable(bytes, { name: 'codes.xlsx' }));
    const page = await operator().page(`/audits/${auditId}`);
    expect(page).toMatch(/href="[^"]+\/result\.xlsx">\s*Download result/);
    expect(page).toContain(`aria-label="CSV: result of check ${auditId}"`);
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

  it('belongs to its session, and is audited only once', async () => {
    const address = await sendCodes(3);
    const other = await dashboard().login();
    expect((await other.get(address)).status).toBe(404);
    expect((await postStart(address, {}, other)).status).toBe(404);
    const auditId = await start(address);
    expect(await start(address)).toBe(auditId);
  });

  it('is read and started in the background when that takes long', async () => {
    const list = listOf(shop(), 3).join('\n');
    // Read first: the page that has the token reads the locked table.
    const token = await tokenOf(operator());
    const client = new DbClient(mirror().databaseUrl);
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
      await until(async () => (await operator().page(address)).includes('Start check'));
      await whileLocked(async () => {
        for (const _ of ['first click', 'second click']) {
          expect((await postStart(address)).headers.get('location')).toBe(address);
        }
        expect(await operator().page(address)).toContain('Starting the check');
      });
      await until(async () => (await operator().get(address)).status === 303);
      expect(await listAudits(mirror().db, { sellerIds: ['main'], limit: 5 })).toHaveLength(1);
      // Logged just after the redirect is known.
      await until(async () => (await operator().page('/system')).includes('start check'));
    } finally {
      await client.end();
    }
  });

  it('is deleted when the dashboard stops', async () => {
    await sendCodes(3);
    expect(lists()).toHaveLength(1);
    await dashboard().close();
    expect(readdirSync(temporary)).toEqual([]);
  });
});

describe('the pages of audits', () => {
  it('filter audits by state and seller, and say what fills an empty list', async () => {
    expect(await operator().page('/audits')).toContain('No list was checked yet.');
    const codes = listOf(shop(), 3);
    const auditId = await enter(mirror(), shop().marketplace.host, codes);
    const other = await enter(mirror(), shop().marketplace.host, codes, { sellerId: 'other' });
    await cancelAudit(mirror().db, other);
    const running = await operator().page('/audits?state=running');
    expect(running).toContain(`href="/audits/${auditId}"`);
    expect(running).not.toContain(`href="/audits/${other}"`);
    const others = await operator().page('/audits?seller=other');
    expect(others).toContain(`href="/audits/${other}"`);
    expect(others).not.toContain(`href="/audits/${auditId}"`);
    expect(await operator().page(`/audits?from=${auditId}`)).toContain(
      'No audits match the filter.',
    );
  });

  it('are downloaded with the columns of `audits list`; viewers see the names of lists masked, as they may hold codes', async () => {
    const codes = listOf(shop(), 3);
    const auditId = await enter(mirror(), shop().marketplace.host, codes);
    const file = async (visitor: Visitor): Promise<string> =>
      (await visitor.get('/audits.csv')).text();
    const whole = await file(operator());
    expect(whole).toBe(await printed(['audits', 'list', '--format', 'csv'], env()));
    const [source = ''] = new RegExp(`^${auditId},main,([^,]+)`, 'm').exec(whole)?.slice(1) ?? [];
    expect(source).not.toBe('');
    const masked = await file(await dashboard().login('viewer'));
    expect(masked).not.toContain(source);
    expect(masked).toContain(maskCode(source));
  });

  it('begin with the codes that need somebody, each with its reason, so that nobody searches the result', async () => {
    const [valid = '', gone = ''] = listOf(shop(), 2);
    const list = ['code', valid, gone, 'f0'.repeat(16), 'n/a', ''].join('\n');
    const auditId = await start(await sendReadable(list), { yes: 'yes' });
    await finish(auditId);
    await mirror().rows(`UPDATE mirror.audit_codes SET verdict = 'no_longer_valid' WHERE code_id IN
        (SELECT code_id FROM mirror.purchase_codes WHERE code = '${gone}');
      UPDATE mirror.purchase_codes SET verdict = 'no_longer_valid' WHERE code = '${gone}';
      UPDATE mirror.audits SET valid = valid - 1, no_longer_valid = no_longer_valid + 1`);
    const page = await operator().page(`/audits/${auditId}`);
    const headings = [...page.matchAll(/<h2[^>]*>([^<]+)/g)].map(([, text]) => text);
    expect(headings.slice(0, 3)).toEqual(['No longer valid', 'Invalid', 'Valid']);
    expect(page).toMatch(/was valid, bought \d{4}-\d\d-\d\d/);
    expect(page).toContain('unknown to the marketplace');
    expect(page).toContain('does not look like a code');
    // Proofs are for the few who ask.
    expect(page.replaceAll(/<details>.*?<\/details>/gs, '')).not.toContain('API key was tested');
    const file = await (await operator().get(`/audits/${auditId}/result.csv`)).text();
    expect(file, 'one source of words').toMatch(/was valid, bought \d{4}-\d\d-\d\d/);
    expect(file).toContain('unknown to the marketplace');
    const one = await operator().page(`/audits/${auditId}?show=valid`);
    expect(one).toContain(valid);
    expect(one).not.toContain(gone);
    await itemIn(mirror(), 1, 'live');
    await mirror().rows(`UPDATE mirror.purchase_codes SET item_id = 4711 WHERE code = '${valid}'`);
    const foreign = await operator().page(`/audits/${auditId}?show=valid`);
    expect(foreign).toContain('an item that is not in your catalogue');
    const item = await (await operator().get('/items/main/4711')).text();
    expect(item, 'behind its link').toContain('known from purchase codes alone');
    const viewed = await (await dashboard().login('viewer')).page(`/audits/${auditId}`);
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
    const auditId = await start(await sendReadable(list), { yes: 'yes' });
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
    for (const buyer of [
      'Bob Gone · 1@buyers.test · 1002',
      'Cy Bad · 2@buyers.test · 1003, Di Bad · 3@buyers.test · 1004',
      'Ed Unproven · 4@buyers.test · 1005',
      'Flo Two · 5@buyers.test · 1006',
    ]) {
      expect(page).toContain(`${buyer}<`);
    }
    expect(page, 'a valid code needs nobody').not.toContain('Ada Valid');
    expect(page).toMatch(/<a href="[^"]+\?show=no_longer_valid">1<\/a>/);
    const some = await operator().page(`${address}?show=no_longer_valid`);
    expect(some).toContain('Bob Gone');
    expect(some).toContain('<span class="state bad">1</span> valid before');
    expect(some).not.toContain('Cy Bad');
    const viewer = await dashboard().login('viewer');
    const viewed = await viewer.page(address);
    expect(viewed).toContain('does not know these codes');
    for (const hidden of ['Buyer', '@buyers.test', ...rows.flat()]) {
      expect(viewed).not.toContain(hidden);
    }
    expect(viewed, 'nor the form in which a code was found').not.toContain(labelled);
    expect(viewed, 'a rejected line shows nothing of its other columns').not.toContain('Flo');
  });

  it('cancel an audit and resume it', async () => {
    const auditId = await enter(mirror(), shop().marketplace.host, listOf(shop(), 10), {});
    expect(await operator().page(`/audits/${auditId}`)).toContain('Cancel');
    await operator().post(`/audits/${auditId}/cancel`);
    expect((await progress(mirror(), auditId)).state).toBe('cancelled');
    expect(await operator().page(`/audits/${auditId}`)).toContain('Resume');
    const reply = await operator().post(`/audits/${auditId}/resume`);
    expect(reply.headers.get('location')).toContain('notice=no-worker');
    await finish(auditId);
    for (const action of ['cancel', 'resume']) {
      expect((await operator().post(`/audits/${auditId}/${action}`)).status).toBe(409);
    }
    const logged = (await listActions(mirror().db, 10)).map(({ action }) => action);
    expect(logged).toContain('cancel check');
    expect(logged).toContain('resume check');
  });

  it('show viewers figures, but no actions or downloads', async () => {
    const auditId = await enter(mirror(), shop().marketplace.host, listOf(shop(), 3));
    const viewer = await dashboard().login('viewer');
    const page = await viewer.page(`/audits/${auditId}`);
    expect(page).toContain('first pass 0 of 3');
    expect(page).not.toMatch(/Cancel|Download result/);
    expect((await viewer.get(`/audits/${auditId}/result.csv`)).status).toBe(403);
    expect((await viewer.post(`/audits/${auditId}/cancel`)).status).toBe(403);
  });

  it.each([
    ['a UUID', 'd0d3ba3d-9a0e-4d0a-8f5e-6b1f3c1f7a01.txt'],
    ['groups of letters and digits', 'buyer ENV-7Q2K-88AB-X9.txt'],
    ['a word', 'hemlock.txt'],
  ])('mask names of lists for viewers, since a name can contain a code: %s', async (_, name) => {
    const [, part = ''] = /([\w-]+)\.txt$/.exec(name) ?? [];
    const list = listOf(shop(), 4).join('\n');
    const auditId = await start(await sendReadable(list, { name }));
    const viewer = await dashboard().login('viewer');
    for (const path of ['/', '/audits', `/audits/${auditId}`]) {
      expect(await operator().page(path), path).toContain(part);
    }
    for (const path of ['/', '/audits', `/audits/${auditId}`, '/system']) {
      expect(await viewer.page(path), path).not.toContain(part);
    }
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
