import { randomUUID } from 'node:crypto';
import { mkdtempSync, readdirSync, readFileSync, statSync } from 'node:fs';
import { join } from 'node:path';
import { gzipSync } from 'node:zlib';
import { Client } from 'pg';
import { readSheet } from 'read-excel-file/node';
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import type { App } from '../../src/app.js';
import { auditHandler } from '../../src/app/handlers.js';
import { maskCode } from '../../src/domain/secret.js';
import { resultsOf } from '../store/audits/support.js';
import { folder, run } from '../cli/support.js';
import {
  auditDeps,
  enter,
  listOf,
  openShop,
  progress,
  truthOf,
  workThrough,
  type Shop,
} from '../jobs/codes/support.js';
import { inline, workbookFiles, workbookOf, zipOf } from '../intake/zip.js';
import { until } from '../queue/support.js';
import { KEY, useMirror } from '../support/mirror.js';
import { HOST, openDashboard, type TestDashboard, type Visitor } from './dashboard.js';

const mirror = useMirror();
const SELLER = { SELLER_NAME: 'main', REQUESTS_PER_MINUTE: '0', MARKETPLACE_API_KEY: KEY };
let shop: Shop;
let dashboard: TestDashboard;
let operator: Visitor;
/** Where the dashboard keeps lists that were sent: other tests have theirs elsewhere. */
let temporary: string;

beforeEach(async () => {
  temporary = mkdtempSync(join(folder(), 'tmp-'));
  vi.stubEnv('TMPDIR', temporary);
  shop = await openShop();
  const settings = { ...SELLER, MARKETPLACE_URL: shop.sim.url };
  dashboard = await openDashboard(mirror(), {}, { settings });
  operator = await dashboard.login();
});

afterEach(async () => {
  await dashboard.close();
  vi.unstubAllEnvs();
});

async function tokenOf(visitor: Visitor): Promise<string> {
  return /name="token" value="([^"]+)"/.exec(await visitor.page('/'))?.[1] ?? '';
}

interface Sent {
  readonly name?: string;
  readonly token?: string;
  readonly fields?: Readonly<Record<string, string>>;
  readonly visitor?: Visitor;
}

/** Sends a list as the form of the page does. */
async function send(list: string | Uint8Array<ArrayBuffer>, sent: Sent = {}): Promise<Response> {
  const { name = 'customers.csv', fields = {}, visitor = operator } = sent;
  const form = new FormData();
  form.append('token', sent.token ?? (await tokenOf(visitor)));
  for (const [field, value] of Object.entries({ seller: 'main', ...fields })) {
    form.append(field, value);
  }
  form.append('file', new Blob([list], { type: 'text/csv' }), name);
  return dashboard.request('/audits/new', {
    method: 'POST',
    headers: { cookie: visitor.cookie, origin: HOST },
    body: form,
  });
}

/** Follows a page that waits, as a browser does. @returns where it leads, or the page itself */
async function followed(address: string): Promise<string> {
  let reply = await operator.get(address);
  await until(async () => {
    if (reply.headers.has('refresh')) reply = await operator.get(address);
    return !reply.headers.has('refresh');
  });
  return reply.headers.get('location') ?? address;
}

/** Sends a list that can be read. @returns the address of the page that says what was read */
async function sendGood(list: string | Uint8Array<ArrayBuffer>, sent?: Sent): Promise<string> {
  const reply = await send(list, sent);
  expect(reply.status, await reply.clone().text()).toBe(303);
  return followed(reply.headers.get('location') ?? '');
}

/** Starts the audit of a list that was read. @returns its number */
async function start(address: string, fields: Record<string, string> = {}): Promise<bigint> {
  const draft = new URL(address, HOST).searchParams.get('draft') ?? '';
  const reply = await operator.post('/audits/start', { draft, confirm: 'none', ...fields });
  expect(reply.status, await reply.clone().text()).toBe(303);
  const to = await followed(reply.headers.get('location') ?? '');
  const [, id = ''] = /^\/audits\/(\d+)/.exec(to) ?? [];
  expect(id, to).not.toBe('');
  return BigInt(id);
}

/** A worker of the dashboard's queue, until the work is done. */
async function withWorker(isDone: () => Promise<boolean>): Promise<void> {
  const { store } = mirror();
  const app = {
    store,
    config: {
      sellers: [{ name: 'main', requestsPerMinute: 0, auditCron: null, timeZone: 'UTC' }],
      alerts: null,
    },
    withJobs: (_seller: unknown, _options: unknown, work: (deps: unknown) => unknown) =>
      work({ ...auditDeps(mirror(), shop.marketplace), callCount: () => shop.sim.requestCount }),
  } as unknown as App;
  const worker = dashboard.queues.work('audits', auditHandler(app, dashboard.queues), {
    concurrency: 1,
  });
  try {
    await until(isDone);
  } finally {
    await worker.stop(1_000);
  }
}

async function isFinished(auditId: bigint): Promise<boolean> {
  return (await progress(mirror(), auditId)).state === 'finished';
}

/** Paths of the lists that the dashboard keeps. */
function lists(): string[] {
  const entries = readdirSync(temporary, { recursive: true, withFileTypes: true });
  return entries.filter((one) => one.isFile()).map((one) => join(one.parentPath, one.name));
}

describe('a list that is sent', () => {
  it('is read, started, worked on by a worker, and comes back with verdicts: the bytes of `audits export`', async () => {
    const codes = listOf(shop, 40);
    const list = ['customer;purchase code', ...codes.map((code, n) => `=Müller ${n};${code}`)];
    const text = `\uFEFF${[...list, `again;${codes[0]}`, 'nobody;'].join('\r\n')}\r\n`;
    const address = await sendGood(text);
    const page = await operator.page(address);
    expect(page).toContain('Codes to check</dt><dd>40');
    expect(page).toContain('Repeated</dt><dd>1<');
    expect(page).toContain('Rejected</dt><dd>1<');
    expect(page).toContain('line 43');
    expect(page).toContain('The codes are in column 2');
    expect(lists().map((path) => statSync(path).mode & 0o777)).toEqual([0o600]);
    expect(shop.sim.requestCount, 'nothing is asked before the start').toBe(0);
    const auditId = await start(address);
    // The audit begins before its list is deleted.
    await until(() => lists().length === 0);
    expect(await operator.page(`/audits/${auditId}`)).toContain(`data-live="audit ${auditId}"`);
    await withWorker(() => isFinished(auditId));
    const reply = await operator.get(`/audits/${auditId}/result.csv`);
    expect(reply.headers.get('content-disposition')).toBe(
      `attachment; filename="audit-${auditId}.csv"`,
    );
    const downloaded = Buffer.from(await reply.arrayBuffer());
    const out = join(folder(), 'result.csv');
    const env = { ...SELLER, MARKETPLACE_URL: shop.sim.url, DATABASE_URL: mirror().databaseUrl };
    expect((await run(['audits', 'export', String(auditId), '--out', out], env)).code).toBe(0);
    expect(downloaded.equals(readFileSync(out))).toBe(true);
    const results = await resultsOf(mirror().store.audits, auditId);
    const verdicts = results.flatMap(({ code, verdict }) =>
      code === null ? [] : [[code, verdict]],
    );
    expect(Object.fromEntries(verdicts)).toEqual(truthOf(shop, codes));
  });

  it('may be pasted, or compressed', async () => {
    const codes = listOf(shop, 5);
    const pasted = await sendGood('', { name: '', fields: { list: codes.join('\n') } });
    expect(await operator.page(pasted)).toContain('pasted list');
    const packed = await sendGood(new Uint8Array(gzipSync(codes.join('\n'))), { name: 'a.gz' });
    expect(await operator.page(packed)).toContain('Codes to check</dt><dd>5');
  });

  it('is refused unread when the token is wrong, or missing, however long it is', async () => {
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
      const reply = await dashboard.request('/audits/new', {
        method: 'POST',
        headers: {
          cookie: operator.cookie,
          origin: HOST,
          'content-type': 'multipart/form-data; boundary=x',
        },
        body,
        duplex: 'half',
      });
      expect(reply.status).toBe(403);
      expect(pulled, 'portions of the list').toBeLessThan(20);
    }
  });

  it('is refused from a viewer, whatever the token', async () => {
    const viewer = await dashboard.login('viewer');
    expect((await send('a\nb', { visitor: viewer })).status).toBe(403);
    expect(await viewer.page('/audits/new')).not.toContain('<textarea');
  });

  it('is refused when it is too large, and leaves nothing', async () => {
    const reply = await send('x'.repeat(1_100_000));
    expect(reply.status).toBe(413);
    expect(await reply.text()).toContain('The list is too large');
    expect(lists()).toEqual([]);
  });

  it('that breaks off is refused, and leaves nothing', async () => {
    const token = await tokenOf(operator);
    const start = `--x\r\ncontent-disposition: form-data; name="token"\r\n\r\n${token}\r\n--x\r\ncontent-disposition: form-data; name="file"; filename="a.txt"\r\n\r\n${'x'.repeat(1_000)}`;
    let pulled = 0;
    const body = new ReadableStream<Uint8Array>({
      pull(controller) {
        if (pulled++ === 0) controller.enqueue(Buffer.from(start));
        else controller.error(new Error('the connection was cut'));
      },
    });
    const reply = await dashboard.request('/audits/new', {
      method: 'POST',
      headers: {
        cookie: operator.cookie,
        origin: HOST,
        'content-type': 'multipart/form-data; boundary=x',
      },
      body,
      duplex: 'half',
    });
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
  ])('is refused with what to do when it is no list: %s', async (_, text, name, words) => {
    const reply = await send(text, { name });
    expect(reply.status).toBe(422);
    expect(await reply.text()).toContain(words);
  });

  it('may be a workbook, of which a person names the sheet; without codes in it, it says what to do', async () => {
    const row = (reference: string, text: string) => `<row>${inline(reference, text)}</row>`;
    const bytes = await zipOf(
      workbookFiles([
        { name: 'Old', rows: row('A1', 'code') + row('A2', 'old-1') },
        { name: 'New', rows: row('A1', 'code') + row('A2', 'new-1') + row('A3', 'new-2') },
      ]),
    );
    const fields = { sheet: 'new' };
    const address = await sendGood(new Uint8Array(bytes), { name: 'codes.xlsx', fields });
    expect(await operator.page(address)).toContain('sheet &quot;New&quot;, as asked for');
    await start(address, { yes: 'yes' });
    expect((await mirror().store.audits.list({ limit: 1 }))[0]).toMatchObject({ codes: 2 });
    const reply = await send(new Uint8Array(bytes), { fields: { sheet: 'None' } });
    expect(await reply.text()).toContain('say which with the field Sheet');
  });

  it('that does not look like codes is started only when a person says so', async () => {
    const letter = Array.from({ length: 30 }, (_, n) => `Dear customer number ${n}`).join('\n');
    const address = await sendGood(letter, { name: 'letter.txt' });
    expect(await operator.page(address)).toContain('do not look like purchase codes');
    const draft = new URL(address, HOST).searchParams.get('draft') ?? '';
    expect((await operator.post('/audits/start', { draft })).status).toBe(422);
    expect(await mirror().store.audits.list({ limit: 1 })).toEqual([]);
    await start(address, { yes: 'yes' });
  });

  it('is not taken while the API key opens no account, since its audit would wait for a better one', async () => {
    shop.sim.faults.always('account', { kind: 'key-refused' });
    const address = await sendGood(listOf(shop, 3).join('\n'));
    const draft = new URL(address, HOST).searchParams.get('draft') ?? '';
    const reply = await operator.post('/audits/start', { draft });
    expect(reply.status).toBe(422);
    const page = await reply.text();
    expect(page).toMatch(/The marketplace refused the API key.*no code was checked/s);
    expect(page).toContain('Check the API key in the workspace settings');
    expect(await mirror().store.audits.list({ limit: 1 })).toEqual([]);
    shop.sim.faults.clear();
    await start(address);
  });

  it('is not taken with a canary that the marketplace denies, since no denial could be proven', async () => {
    const address = await sendGood(listOf(shop, 3).join('\n'));
    const draft = new URL(address, HOST).searchParams.get('draft') ?? '';
    const canary = 'nobody-bought-this';
    const reply = await operator.post('/audits/start', { draft, canary });
    expect(reply.status).toBe(422);
    const page = await reply.text();
    expect(page).toContain(`The marketplace denies the canary ${maskCode(canary)}`);
    expect(page).not.toContain(canary);
    expect(await mirror().store.audits.list({ limit: 1 })).toEqual([]);
    await start(address, { canary: shop.canary });
  });

  it('is taken where this machine gets no answer, since a worker on another one may', async () => {
    shop.sim.faults.always('account', { kind: 'reply', status: 503, body: 'down' });
    const address = await sendGood(listOf(shop, 3).join('\n'));
    const draft = new URL(address, HOST).searchParams.get('draft') ?? '';
    await mirror().store.processes.heartbeat({
      processId: randomUUID(),
      roles: ['worker'],
      host: 'elsewhere',
      pid: 1,
      startedAt: new Date(),
      schedules: [],
    });
    await operator.post('/audits/start', { draft });
    // The marketplace is asked again a few times, which may take longer than the answer waits.
    expect(await operator.page(await followed(address))).toContain(
      'so the worker will check the API key',
    );
    expect(await mirror().store.audits.list({ limit: 2 })).toHaveLength(1);
  });

  it.each([
    ['../../etc/passwd', 'passwd'],
    ['C:\\lists\\codes.txt', 'codes.txt'],
    ['<img src=x onerror=alert(1)>.txt', '&lt;img src=x onerror=alert(1)&gt;.txt'],
    ['a\u202Etxt.csv', 'atxt.csv'],
  ])('has a name that harms nothing: %j', async (name, shown) => {
    const address = await sendGood(listOf(shop, 3).join('\n'), { name });
    const page = await operator.page(address);
    expect(page).toContain(shown);
    expect(page).not.toContain('<img');
    expect(page).not.toContain('\u202E');
  });

  it('shows hostile cells as text, and no API key', async () => {
    const codes = listOf(shop, 3);
    const cell = '<script>alert(1)</script>';
    const rows = [
      `code,${cell}`,
      ...codes.map((code) => `${code},${cell}`),
      `${KEY},x`,
      `,${cell}`,
    ];
    const address = await sendGood(rows.join('\n'));
    const page = await operator.page(address);
    expect(page).not.toContain(cell);
    expect(page).not.toContain(KEY);
    const auditId = await start(address);
    const result = await (await operator.get(`/audits/${auditId}/result.csv`)).text();
    expect(result).toContain(cell);
    expect(result).not.toContain(KEY);
  });

  it('comes back as a workbook where it came as one, and as any other too', async () => {
    const codes = listOf(shop, 3);
    const rows = ['code', ...codes].map((code, n) => `<row>${inline(`A${n + 1}`, code)}</row>`);
    const bytes = new Uint8Array(await workbookOf(rows.join('')));
    const auditId = await start(await sendGood(bytes, { name: 'codes.xlsx' }));
    const page = await operator.page(`/audits/${auditId}`);
    expect(page).toMatch(/href="[^"]+\/result\.xlsx">\s*Download result/);
    expect(page).toContain(`aria-label="CSV: result of audit ${auditId}"`);
    const result = await operator.get(`/audits/${auditId}/result.xlsx`);
    const [, ...read] = await readSheet(Buffer.from(await result.arrayBuffer()));
    expect(read.map(([code]) => code)).toEqual(codes);
    const comma = await operator.get(`/audits/${auditId}/result.csv?decimal=comma`);
    expect(await comma.text()).toMatch(/^code;verdict;/);
    await mirror().rows('UPDATE mirror.audits SET lines = 1048576');
    const refused = await operator.get(`/audits/${auditId}/result.xlsx`);
    expect(refused.status).toBe(409);
    expect(await refused.text()).toContain('room for 1,048,575 rows');
  });

  it('is of the session that sent it, and of no other', async () => {
    const address = await sendGood(listOf(shop, 3).join('\n'));
    const other = await dashboard.login();
    expect((await other.get(address)).status).toBe(404);
    const draft = new URL(address, HOST).searchParams.get('draft') ?? '';
    expect((await other.post('/audits/start', { draft })).status).toBe(404);
    const auditId = await start(address);
    // Once: who presses again gets the same audit.
    expect(await start(address)).toBe(auditId);
  });

  it('has no section about its reading where there was nothing to find out', async () => {
    const page = await operator.page(await sendGood(listOf(shop, 3).join('\n')));
    expect(page).not.toMatch(/<ul class="lines"><\/ul>/);
  });

  it('is read and started for as long as that takes, whatever a proxy waits for an answer', async () => {
    const list = listOf(shop, 3).join('\n');
    // The overview, which has it, reads what is locked.
    const token = await tokenOf(operator);
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
        const reply = await operator.get(sent);
        expect(reply.headers.get('refresh')).toBe(`2;url=${sent}`);
        expect(await reply.text()).toContain('Reading the list');
        return sent;
      });
      const isRead = async () => (await operator.page(address)).includes('Start audit');
      await until(isRead);
      const draft = new URL(address, HOST).searchParams.get('draft') ?? '';
      await whileLocked(async () => {
        for (const _ of ['pressed', 'pressed again']) {
          const reply = await operator.post('/audits/start', { draft });
          expect(reply.headers.get('location')).toBe(address);
        }
        expect(await operator.page(address)).toContain('Starting the audit');
      });
      await until(async () => (await operator.get(address)).status === 303);
      expect(await mirror().store.audits.list({ sellerIds: ['main'], limit: 5 })).toHaveLength(1);
      expect(await operator.page('/system')).toContain('start audit');
    } finally {
      await client.end();
    }
  });

  it('is deleted when the dashboard ends', async () => {
    await sendGood(listOf(shop, 3).join('\n'));
    expect(lists()).toHaveLength(1);
    await dashboard.close();
    expect(readdirSync(temporary)).toEqual([]);
    dashboard = await openDashboard(mirror());
  });
});

describe('the pages of audits', () => {
  it('list audits by state and seller, and say what fills an empty list', async () => {
    expect(await operator.page('/audits')).toContain('No audit yet. Press New audit');
    const codes = listOf(shop, 3);
    const auditId = await enter(mirror(), shop.marketplace.host, codes);
    const other = await enter(mirror(), shop.marketplace.host, codes, { sellerId: 'other' });
    await mirror().store.audits.cancel(other);
    const running = await operator.page('/audits?state=running');
    expect(running).toContain(`href="/audits/${auditId}"`);
    expect(running).not.toContain(`href="/audits/${other}"`);
    const others = await operator.page('/audits?seller=other');
    expect(others).toContain(`href="/audits/${other}"`);
    expect(others).not.toContain(`href="/audits/${auditId}"`);
    expect(await operator.page(`/audits?before=${auditId}`)).toContain(
      'No audit matches the filter.',
    );
  });

  it('cancel and resume: the rest is in the queue again, for a worker', async () => {
    const auditId = await enter(mirror(), shop.marketplace.host, listOf(shop, 10), {
      confirm: 'none',
    });
    expect(await operator.page(`/audits/${auditId}`)).toContain('Cancel');
    await operator.post(`/audits/${auditId}/cancel`);
    expect((await progress(mirror(), auditId)).state).toBe('cancelled');
    expect(await operator.page(`/audits/${auditId}`)).toContain('Resume');
    const reply = await operator.post(`/audits/${auditId}/resume`);
    expect(reply.headers.get('location')).toContain('notice=no-worker');
    await withWorker(() => isFinished(auditId));
    for (const action of ['cancel', 'resume']) {
      expect((await operator.post(`/audits/${auditId}/${action}`)).status).toBe(409);
    }
    const logged = (await mirror().store.access.actions(10)).map(({ action }) => action);
    expect(logged).toContain('cancel audit');
    expect(logged).toContain('resume audit');
  });

  it('a viewer sees figures, and can neither act nor download codes', async () => {
    const auditId = await enter(mirror(), shop.marketplace.host, listOf(shop, 3));
    const viewer = await dashboard.login('viewer');
    const page = await viewer.page(`/audits/${auditId}`);
    expect(page).toContain('3 waiting');
    expect(page).not.toMatch(/Cancel|Download result/);
    expect((await viewer.get(`/audits/${auditId}/result.csv`)).status).toBe(403);
    expect((await viewer.post(`/audits/${auditId}/cancel`)).status).toBe(403);
  });
});

describe('a purchase code in the text about a list', () => {
  it('is masked for viewers: in its name, in how it was read, and in the log of actions', async () => {
    const [code = '', ...codes] = listOf(shop, 4);
    const list = JSON.stringify({ [code]: codes });
    const auditId = await start(await sendGood(list, { name: `${code}.json` }));
    const viewer = await dashboard.login('viewer');
    for (const path of ['/', '/audits', `/audits/${auditId}`, '/system']) {
      expect(await operator.page(path), path).toContain(code);
      expect(await viewer.page(path), path).not.toContain(code);
    }
  });
});

describe('the page of a code', () => {
  /** Codes with verdicts: valid ones, and denied ones. */
  async function settled(): Promise<{ valid: string; invalid: string }> {
    const codes = listOf(shop, 30);
    const auditId = await enter(mirror(), shop.marketplace.host, codes, { confirm: 'all' });
    await workThrough(auditDeps(mirror(), shop.marketplace), [auditId]);
    expect(await isFinished(auditId)).toBe(true);
    const valid = codes.find((code) => shop.truth(code) === 'valid') ?? '';
    const invalid = codes.find((code) => shop.truth(code) === 'invalid') ?? '';
    return { valid, invalid };
  }

  async function pathOf(code: string, visitor = operator): Promise<string> {
    const reply = await visitor.post('/codes', { code: ` "${code}" ` });
    const path = reply.headers.get('location') ?? '';
    expect(path).toMatch(/^\/codes\/\d+$/);
    return path;
  }

  it('explains its verdict with the sentence of `codes show` and of the result', async () => {
    const { valid, invalid } = await settled();
    const env = { ...SELLER, MARKETPLACE_URL: shop.sim.url, DATABASE_URL: mirror().databaseUrl };
    for (const [code, words] of [
      [valid, /he marketplace answered with the purchase at [^<.]+Z/],
      [
        invalid,
        /enied twice, [^<.]+, while the API key opened the account and found a valid code before and after/,
      ],
    ] as const) {
      const page = await operator.page(await pathOf(code));
      const [sentence = 'no sentence'] = words.exec(page) ?? [];
      expect((await run(['codes', 'show', code], env)).stdout).toContain(sentence);
      if (code === invalid) {
        // Two denials: neither of them is a verdict of its own.
        expect(page).toMatch(/>denied<\/span>/);
        expect(page).not.toContain('unproven');
        const [{ auditId } = { auditId: 0n }] = await mirror().store.audits.list({ limit: 1 });
        const result = await (await operator.get(`/audits/${auditId}/result.csv`)).text();
        expect(result).toContain(sentence);
      }
    }
  });

  it('masks the code for viewers, who may look one up that they know', async () => {
    const { invalid } = await settled();
    const viewer = await dashboard.login('viewer');
    const page = await viewer.page(await pathOf(invalid, viewer));
    expect(page).toContain(maskCode(invalid));
    expect(page).not.toContain(invalid);
    expect((await viewer.post(`${await pathOf(invalid)}/check`)).status).toBe(403);
  });

  it('Check now makes an audit of this code; the page shows how far it is', async () => {
    const { valid } = await settled();
    const path = await pathOf(valid);
    await operator.post(`${path}/check`);
    const [newest] = await mirror().store.audits.list({ limit: 1 });
    expect(newest).toMatchObject({ codes: 1, source: 'arguments', state: 'running' });
    expect(await operator.page(path)).toContain(`data-live="audit ${newest?.auditId}"`);
    await withWorker(() => isFinished(newest?.auditId ?? 0n));
    expect(await operator.page(path)).not.toContain('data-live');
  });

  it('a code that nobody knows can be checked, and gets its page', async () => {
    const [code = ''] = listOf(shop, 1);
    const reply = await operator.post('/codes', { code });
    expect(reply.status).toBe(404);
    expect(await reply.text()).toContain('Check now');
    const checked = await operator.post('/codes/check', { seller: 'main', code });
    expect(checked.headers.get('location')).toMatch(/^\/codes\/\d+\?notice=/);
  });

  it('refuses an API key in place of a code, and keeps it nowhere', async () => {
    for (const path of ['/codes', '/codes/check']) {
      const reply = await operator.post(path, { seller: 'main', code: KEY });
      expect(reply.status).toBe(422);
      expect(await reply.text()).not.toContain(KEY);
    }
    expect(await mirror().rows('SELECT FROM mirror.purchase_codes')).toEqual([]);
  });
});
