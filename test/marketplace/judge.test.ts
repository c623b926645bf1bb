import { describe, expect, it } from 'vitest';
import { describeFailure, type Reply } from '../../src/marketplace/reply.js';
import { Secret } from '../../src/domain/secret.js';
import { judge, judgeHead } from '../../src/marketplace/judge.js';
import {
  accountEndpoint,
  itemEndpoint,
  type RecordEndpoint,
  validationEndpoint,
} from '../../src/marketplace/endpoints.js';
import { Redactor } from '../../src/domain/redact.js';
import type { HeaderMap } from '../../src/marketplace/rate-limit.js';
import { ACCOUNT, accountBody, KEY, PURCHASE, wireItem, like } from './support.js';

const NOW = 1_700_000_000_000;
const redactor = new Redactor([new Secret(KEY)]);
const endpoints: Record<string, RecordEndpoint<unknown>> = {
  account: accountEndpoint,
  item: itemEndpoint(7),
  validate: validationEndpoint('c0de-1'),
};

/** Judges a response. @param body sent as JSON unless it is a string */
function replyTo(operation: string, status: number, body: unknown, headers: HeaderMap = {}) {
  const endpoint = endpoints[operation] as RecordEndpoint<unknown>;
  const bytes = Buffer.from(typeof body === 'string' ? body : JSON.stringify(body));
  const failure = judgeHead({ httpStatus: status, headers, tookMs: 100 }, NOW);
  return failure ?? judge(endpoint, status, bytes, redactor);
}

function outcome(reply: Reply<unknown>): string {
  return reply.kind === 'unavailable' ? `unavailable ${reply.reason}` : reply.kind;
}

const error = (msg: string, status = 'error') => ({ status, msg });
const HTML = '<!DOCTYPE html><html><head><title>Hello</title></head><body>there</body></html>';
const DATA: Record<string, unknown> = {
  account: { data: ACCOUNT },
  item: { item: wireItem(7) },
  validate: { data: { purchase: PURCHASE } },
};

describe('a response with data', () => {
  it.each(['Success', 'erfolg', 'gelungen', undefined])(
    'is an answer in any language of its status, since servers translate it: %j',
    (status) => {
      for (const operation of Object.keys(DATA)) {
        const reply = replyTo(operation, 200, { status, ...(DATA[operation] as object) });
        expect(outcome(reply)).toBe('answered');
        expect(reply).toMatchObject({
          data: { tolerated: expect.arrayContaining(['envelope.status']) as unknown },
        });
      }
    },
  );

  it('is a refusal if it also has an error about the key', () => {
    const body = { ...error('Invalid API key'), data: { purchase: PURCHASE } };
    expect(outcome(replyTo('validate', 200, body))).toBe('refused');
  });

  it('does not contradict a denial if the data is empty', () => {
    expect(outcome(replyTo('item', 200, { ...error('Item Not Found'), item: {} }))).toBe('denied');
    const empty = { ...error('Invalid purchase code'), data: { purchase: {} } };
    expect(outcome(replyTo('validate', 200, empty))).toBe('denied');
  });

  it.each([
    [{ item: wireItem(7) }, 'a product alone'],
    [{ data: {} }, 'empty data'],
    [{ data: { purchase: {} } }, 'an empty purchase'],
    [{}, 'nothing'],
  ])('without a purchase is unreadable: %#', (body: object, _what: string) => {
    expect(outcome(replyTo('validate', 200, { status: 'success', ...body }))).toBe('unreadable');
  });

  it('is unreadable, with the reason, if its record can’t be decoded, or is another; that casts doubt on others', () => {
    const broken = replyTo('item', 200, { status: 'success', item: { ...wireItem(7), name: [] } });
    expect(broken).toMatchObject({ kind: 'unreadable', detail: like('name') });
    expect(broken).not.toHaveProperty('isAboutAnother');
    const other = replyTo('item', 200, { status: 'success', item: wireItem(8) });
    expect(other).toMatchObject({ kind: 'unreadable', detail: like('8'), isAboutAnother: true });
  });

  it.each([
    [' c0De-1\n', 'answered', 'servers change case and white space'],
    ['OTHER', 'unreadable', 'another code proves nothing'],
    [undefined, 'answered', 'forks may omit it'],
  ])(
    'with the code %j is %s: %s',
    (purchase_code: string | undefined, expected: string, _why: string) => {
      const purchase = { ...PURCHASE, purchase_code };
      const reply = replyTo('validate', 200, { status: 'success', data: { purchase } });
      expect(outcome(reply)).toBe(expected);
    },
  );

  it('has its code compared before it is masked', () => {
    const endpoint = validationEndpoint(KEY);
    const body = { status: 'success', data: { purchase: { ...PURCHASE, purchase_code: KEY } } };
    const reply = judge(endpoint, 200, Buffer.from(JSON.stringify(body)), redactor);
    expect(outcome(reply)).toBe('answered');
    expect(JSON.stringify(reply)).not.toContain(KEY);
  });

  it.each([
    ['\uFEFF', 'envelope.bom'],
    [' \r\n\t', null],
    ['<br />\n<b>Warning</b>: foo() in {closure}() on line 3<br />\n', 'envelope.preamble'],
    ['Deprecated: x[] = {"status":"error","msg":"no"}; in y.php\n', 'envelope.preamble'],
  ])('is found behind %j', (before, quirk) => {
    const reply = replyTo('account', 200, before + accountBody());
    expect(reply).toMatchObject({
      kind: 'answered',
      data: { tolerated: quirk === null ? [] : (expect.arrayContaining([quirk]) as unknown) },
    });
  });
});

describe('an error envelope', () => {
  it.each([
    // HTTP, body, operation → reply
    [404, error('Invalid purchase code'), 'validate', 'denied'],
    [404, error('Item Not Found'), 'item', 'denied'],
    [404, error('Ungültiger Code', 'fehler'), 'validate', 'denied'],
    [404, error('Invalid API key'), 'validate', 'refused'],
    [200, error('Invalid purchase code'), 'validate', 'denied'],
    [200, error(' INVALID purchase code! '), 'validate', 'denied'],
    [200, error('Item Not Found'), 'validate', 'unreadable'],
    [200, error('Ungültiger Code'), 'validate', 'unreadable'],
    [200, error('Service temporarily unavailable, try later'), 'item', 'unreadable'],
    [400, error('Too many requests'), 'account', 'unreadable'],
    [200, error('The api key field is required.'), 'validate', 'refused'],
    [200, error('The purchase code field is required.'), 'validate', 'unreadable'],
    [200, { status: 'success', msg: 'Done' }, 'validate', 'unreadable'],
    [400, error(' item not found '), 'item', 'denied'],
    [400, error('Invalid purchase code', 'fehler'), 'validate', 'unreadable'],
    [422, error('api_key fehlt', 'fehler'), 'item', 'refused'],
    [400, error('The purchase code field is required.'), 'validate', 'unreadable'],
    [410, error('gone'), 'item', 'unreadable'],
    [401, error('Invalid request'), 'account', 'refused'],
    [403, error('Verboten', 'fehler'), 'validate', 'refused'],
    [404, error('Ungültige Anfrage', 'fehler'), 'account', 'refused'],
    [200, error('Invalid request'), 'account', 'refused'],
    [500, error('Invalid purchase code'), 'validate', 'unavailable server-error'],
    [503, error('Invalid purchase code'), 'validate', 'unavailable maintenance'],
    [405, error('Invalid purchase code'), 'validate', 'unreadable'],
  ])('HTTP %i %j on %s is %s', (status, body, operation, expected) => {
    expect(outcome(replyTo(operation, status, body))).toBe(expected);
  });

  it('comes with a hint if the server did not find the key in the request', () => {
    const reply = replyTo('validate', 400, error('The api key field is required.'));
    expect(reply).toMatchObject({ message: like(/did not find the key/) });
  });

  it('has its message redacted, shortened and stripped of control characters', () => {
    const msg = `a\u0000b\u001b[31m\u202e ${KEY} ${'x'.repeat(5_000)}`;
    const reply = replyTo('item', 404, error(msg));
    const { message } = reply as { message: string };
    expect(message).not.toMatch(/\p{C}/u);
    expect(message).not.toContain(KEY);
    expect(message.length).toBeLessThanOrEqual(300);
  });
});

describe('a 404 without the envelope', () => {
  it.each([[HTML], [{ message: 'Not Found' }], [''], ['{"status":"error","msg":']])(
    'means that the API is switched off: %j',
    (body) => {
      for (const operation of Object.keys(endpoints)) {
        expect(outcome(replyTo(operation, 404, body))).toBe('unavailable switched-off');
      }
    },
  );
});

describe('a response without an answer', () => {
  it.each([
    [429, {}, { message: 'Too Many Attempts.' }, 'limited'],
    [429, {}, error('Invalid purchase code'), 'limited'],
    [429, { 'cf-mitigated': 'challenge' }, HTML, 'unavailable challenge'],
    [200, { 'cf-mitigated': 'challenge' }, HTML, 'unavailable challenge'],
    [503, {}, HTML, 'unavailable maintenance'],
    [500, {}, { message: 'Server Error' }, 'unavailable server-error'],
    [520, {}, '', 'unavailable server-error'],
    [408, {}, HTML, 'unavailable timeout'],
    [200, {}, HTML, 'unavailable html'],
    [
      200,
      {},
      `  <html>{"status":"success","data":${JSON.stringify(ACCOUNT)}}</html>`,
      'unavailable html',
    ],
    [200, {}, `${HTML}\n{"status":"success","data":{}}`, 'unavailable html'],
    [403, {}, HTML, 'unavailable html'],
    [403, {}, { message: 'Forbidden' }, 'refused'],
    [422, {}, { message: 'The api key field is required.', errors: {} }, 'refused'],
    [405, {}, { message: 'The GET method is not supported' }, 'unreadable'],
    [200, {}, { message: 'Welcome' }, 'unreadable'],
    [200, {}, '', 'unreadable'],
    [200, {}, '{"status":"success","data":', 'unavailable cut-off'],
    [200, {}, '\uFEFF<br>x[] = {"a":1}; { "é":"\\"}', 'unavailable cut-off'],
    [400, {}, '{"status":"error","msg":', 'unreadable'],
    [200, {}, 'oops {"a":1} oops', 'unreadable'],
    [200, {}, '<p>{"a":1}</p>', 'unavailable html'],
    [200, {}, '[]', 'unreadable'],
  ])('HTTP %i %j %j is %s on every operation', (status, headers, body, expected) => {
    for (const operation of Object.keys(endpoints)) {
      expect(outcome(replyTo(operation, status, body, headers as HeaderMap))).toBe(expected);
    }
  });

  it('is unreadable if its JSON nests too deeply, and overflows no stack', () => {
    const deep = `{"data":${'['.repeat(500_000)}${']'.repeat(500_000)}}`;
    expect(replyTo('account', 200, deep)).toMatchObject({
      kind: 'unreadable',
      detail: like(/deep/),
    });
  });

  it('carries the time at which to retry', () => {
    const at = { retryAt: NOW + 30_000 };
    expect(replyTo('item', 429, '', { 'retry-after': '30' })).toMatchObject(at);
    expect(replyTo('item', 429, '', { 'x-ratelimit-reset': '30' })).toMatchObject(at);
    expect(replyTo('item', 503, '', { 'retry-after': '30' })).toMatchObject(at);
    expect(replyTo('item', 429, '')).toMatchObject({ retryAt: null });
  });

  it('hints at a redirect after HTTP 405 to a POST', () => {
    expect(replyTo('validate', 405, {})).toMatchObject({ detail: like(/redirect/) });
  });

  it('never shows the trace of a debug response', () => {
    const body = {
      message: 'Oops',
      exception: 'PDOException',
      trace: [{ file: '/srv/secret.php' }],
    };
    for (const status of [200, 400, 401, 404, 405, 422, 500]) {
      for (const sent of [body, JSON.stringify(body).slice(0, -3)]) {
        expect(JSON.stringify(replyTo('item', status, sent))).not.toMatch(
          /PDOException|secret\.php/,
        );
      }
    }
  });

  it('shows a web page as text, not as markup', () => {
    const page = '<html><style>p{}</style><script>alert(1)</script><p>Site  is <b>closed</b></p>';
    const reply = replyTo('item', 200, page) as { detail: string };
    expect(reply.detail).toContain('Site is closed');
    expect(reply.detail).not.toMatch(/[<>]|alert|p\{/);
  });

  it('shows a short, clean excerpt without the key', () => {
    const reply = replyTo('item', 200, `oops \u0007\u202e api_key=${KEY} ${'é'.repeat(9_999)}`);
    const { excerpt } = reply as { excerpt: string };
    expect(excerpt).toMatch(/^oops api_key=\[secret\] é+…$/);
    expect(excerpt.length).toBeLessThanOrEqual(300);
  });
});

it('a failure is described in one sentence, with the beginning of an unreadable answer', () => {
  const refused = { kind: 'refused', httpStatus: 401, message: '' } as const;
  expect(describeFailure(refused)).toBe('the marketplace refused the API key: HTTP 401');
  expect(describeFailure({ ...refused, kind: 'denied', message: 'No' })).toBe(
    'the marketplace answered "No" (HTTP 401)',
  );
  const detail = 'the answer is not JSON';
  const unreadable = { kind: 'unreadable', httpStatus: 200, detail, excerpt: '' } as const;
  expect(describeFailure(unreadable)).toBe('the answer is not JSON (HTTP 200)');
  expect(describeFailure({ ...unreadable, excerpt: 'oops' })).toMatch(/; the answer begins: oops$/);
});
