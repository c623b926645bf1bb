import { describe, expect, it } from 'vitest';
import { Redactor } from '../../src/domain/redact.js';
import { Secret } from '../../src/domain/secret.js';
import {
  accountEndpoint,
  itemEndpoint,
  type RecordEndpoint,
  validationEndpoint,
} from '../../src/marketplace/endpoints.js';
import { judge } from '../../src/marketplace/judge.js';
import { startServer } from '../support/http-server.js';
import { ACCOUNT, client, KEY, PURCHASE, wireItem } from './support.js';

const CODE = 'c0de-1';
const redactor = new Redactor([new Secret(KEY)]);

function kindOf(endpoint: RecordEndpoint<unknown>, body: unknown, status = 200): string {
  return judge(endpoint, status, Buffer.from(JSON.stringify(body)), redactor).kind;
}

const validated = (body: unknown, status?: number): string =>
  kindOf(validationEndpoint(CODE), body, status);
const purchase = (fields: object): object => ({ status: 'success', data: { purchase: fields } });
const WHOLE = { data: { purchase: PURCHASE } };

describe('a purchase proves nothing', () => {
  it.each([
    ['an error without a text', { status: 'error', ...WHOLE }],
    ['"failed"', { status: 'failed', ...WHOLE }],
    ['false', { status: false, ...WHOLE }],
    ['an empty status', { status: '', ...WHOLE }],
    ['"0"', { status: '0', ...WHOLE }],
    ['a status of HTTP', { status: 404, ...WHOLE }],
    ['a status that is no word', { status: ['success'], ...WHOLE }],
    ['a message and no status', { message: 'Server Error', ...WHOLE }],
    ['a text and a translated status', { status: 'erfolg', msg: 'Ungültig', ...WHOLE }],
    ['success and success: false', { status: 'success', success: 'false', ...WHOLE }],
    ['ok: 0', { ok: 0, ...WHOLE }],
    ['success and an error', { status: 'success', error: 'no such code', ...WHOLE }],
    ['success and errors', { status: 'success', errors: { code: ['unknown'] }, ...WHOLE }],
    [
      'success and the documented error',
      { status: 'success', msg: 'Invalid purchase code.', ...WHOLE },
    ],
    ['valid: false', { status: 'success', valid: false, ...WHOLE }],
    ['is_valid: "no"', { status: 'success', is_valid: 'no', ...WHOLE }],
    ['a result', { status: 'success', result: 'Error', ...WHOLE }],
    ['a status code as text', { status: 'success', status_code: '422', ...WHOLE }],
    ['an error inside the purchase', purchase({ ...PURCHASE, error: 'refunded' })],
    ['"invalid" inside the purchase', purchase({ ...PURCHASE, status: 'Invalid' })],
    ['an error inside data', { status: 'success', data: { status: 'error', purchase: PURCHASE } }],
  ])('beside %s', (_what, body) => {
    expect(validated(body)).toBe('unreadable');
    const { status, data: _data, ...more } = body as Record<string, unknown>;
    expect(validated({ status, ...more, purchase: PURCHASE })).not.toBe('denied');
  });

  it.each([
    ['an empty licence', { license_type: '' }],
    ['an invisible licence', { license_type: '\u200B\u3164' }],
    ['a licence of 0', { license_type: 0 }],
    ['a licence "null"', { license_type: 'null' }],
    ['a licence "-"', { license_type: '-' }],
    ['a price', { price: 19.9, currency: 'USD' }],
    ['empty texts', { purchase_code: '', license_type: '', price: '', currency: '', date: '' }],
    ['its code and empty texts', { purchase_code: CODE, license_type: '', item: {}, date: '' }],
    ['an item without an id', { item: { name: 'Item', url: 'https://example.com' } }],
    ['a date of zeros', { date: '0000-00-00 00:00:00' }],
    ['the date of time 0', { date: '1970-01-01T00:00:00Z' }],
    ['a field of a fork', { refunded: true }],
    ['an empty code with facts', { ...PURCHASE, purchase_code: ' ' }],
  ])('that holds only %s', (_what, fields) => {
    expect(validated(purchase(fields))).toBe('unreadable');
    expect(validated({ status: 'success', purchase: fields })).toBe('unreadable');
    expect(validated({ status: 'success', item: { item: {}, ...fields } })).toBe('unreadable');
  });

  it.each([
    ['a licence', { purchase_code: CODE, license_type: 'Regular' }],
    ['a date', { date: PURCHASE.date }],
    ['an item', { item: PURCHASE.item }],
  ])('without the word success, if %s is its only fact', (_what, fields) => {
    for (const status of [undefined, null, 'fehler', true, 1]) {
      expect(validated({ status, data: { purchase: fields } })).toBe('unreadable');
    }
    expect(validated(purchase(fields))).toBe('answered');
  });

  it('with any HTTP status but success', () => {
    for (const status of [300, 400, 404, 409, 422]) {
      expect(validated({ status: 'success', ...WHOLE }, status)).not.toBe('answered');
      expect(validated({ status: 'error', msg: 'Invalid purchase code', ...WHOLE }, status)).toBe(
        'unreadable',
      );
    }
  });

  it('inside another answer that is damaged', () => {
    const inner = JSON.stringify({ status: 'success', ...WHOLE });
    const body = Buffer.from(`{"status":"error","msg":"Invalid purchase code","cached":${inner}`);
    expect(judge(validationEndpoint(CODE), 200, body, redactor).kind).not.toBe('answered');
  });
});

describe('a decisive name that stands twice in one object makes an answer unreadable', () => {
  const inner = JSON.stringify(PURCHASE);
  const judged = (text: string, status = 200): string =>
    judge(validationEndpoint(CODE), status, Buffer.from(text), redactor).kind;

  it.each([
    ['status', `{"status":"error","status":"success","data":{"purchase":${inner}}}`],
    ['status, escaped', `{"st\\u0061tus":"error","status":"success","purchase":${inner}}`],
    ['msg', `{"status":"success","msg":"Invalid purchase code","msg":"","purchase":${inner}}`],
    ['purchase', `{"status":"success","data":{"purchase":${inner},"purchase" : ${inner}}}`],
    ['purchase_code', `{"purchase":{"purchase_code":"other",${inner.slice(1)},"status":"success"}`],
    [
      'status, after a warning',
      `Notice: "x" {\n{"status":0,"status":"success","purchase":${inner}}`,
    ],
  ])('%s', (_name, text) => {
    expect(judged(text)).toBe('unreadable');
  });

  it('also a denial', () => {
    const denial = '"status":"error","msg":"Invalid purchase code"';
    expect(judged(`{${denial}}`, 404)).toBe('denied');
    expect(judged(`{"status":"success",${denial}}`, 404)).toBe('unreadable');
  });

  it('but not in different objects, nor as a value', () => {
    const other = {
      ...PURCHASE,
      status: 'paid',
      item: { ...PURCHASE.item, status: 'msg', msg: '' },
    };
    const body = {
      status: 'success',
      data: { purchase: other, note: 'msg', more: ['msg', 'msg'] },
    };
    expect(judged(JSON.stringify(body))).toBe('answered');
  });
});

describe('a purchase proves its code', () => {
  it.each([
    [{ status: 'success' }],
    [{ status: 'success', msg: 'Purchase found' }],
    [{ status: 'success', message: null, errors: [], error: false }],
    [{ status: 'erfolg' }],
    [{ status: '成功', msg: null }],
    [{ status: true }],
    [{ success: true, valid: true, code: 200, type: 'purchase' }],
    [{}],
  ])('beside %j', (envelope: object) => {
    expect(validated({ ...envelope, ...WHOLE })).toBe('answered');
    expect(validated({ ...envelope, item: PURCHASE })).toBe('answered');
    expect(validated({ ...envelope, purchase: PURCHASE })).toBe('answered');
  });
});

describe('an item and account details need proof as well', () => {
  it.each([
    [{ status: 'error' }],
    [{ message: 'Server Error' }],
    [{ status: 'success', success: false }],
  ])('and have none beside %j', async (envelope: object) => {
    expect(kindOf(itemEndpoint(7), { ...envelope, item: wireItem(7) })).toBe('unreadable');
    expect(kindOf(accountEndpoint, { ...envelope, data: ACCOUNT })).toBe('unreadable');
    for (const body of [
      { ...envelope, items: [wireItem(7)] },
      { items: [wireItem(7)], ...envelope },
    ]) {
      const server = await startServer({ body: JSON.stringify(body) });
      expect((await client(server.url).items()).kind).toBe('unreadable');
    }
  });

  it.each([
    [{ id: 7, name: '' }],
    [{ id: 7, name: ' ', published_at: '' }],
    [{ id: 0, name: 'x' }],
  ])('and have none in the item %j', (item: { id: number }) => {
    expect(kindOf(itemEndpoint(item.id), { status: 'success', item })).toBe('unreadable');
  });

  it('and a user name is enough only beside the word success', () => {
    const data = { username: 'ann', email: '', name: {} };
    expect(kindOf(accountEndpoint, { status: 'success', data })).toBe('answered');
    expect(kindOf(accountEndpoint, { status: 'fehler', data })).toBe('unreadable');
    expect(kindOf(accountEndpoint, { status: 'success', data: { username: ' ' } })).toBe(
      'unreadable',
    );
  });
});
