import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { hearCode } from '../../../src/domain/codes/outcome.js';
import { byEnd, type ChunkCall, type Timeline } from '../../../src/domain/codes/timeline.js';
import { askAgain, describeUnproven } from '../../../src/domain/codes/unproven.js';
import {
  judgeChunk,
  judgeFind,
  LONGEST_RUN,
  type CodeJudgement,
} from '../../../src/domain/codes/verdict.js';
import { Secret } from '../../../src/domain/secret.js';
import { judge } from '../../../src/marketplace/judge.js';
import { validationQuestion } from '../../../src/marketplace/questions.js';
import { createRedactor } from '../../../src/marketplace/redaction.js';
import type { HeaderMap } from '../../../src/marketplace/retry-after.js';
import {
  account,
  canary,
  code,
  denied,
  found,
  limited,
  maintenance,
  opened,
  purchase,
  refused,
  switchedOff,
} from './support.js';

const timeline = (calls: readonly ChunkCall[], known: Partial<Timeline> = {}): Timeline => ({
  account: 'ada',
  canaries: [],
  calls,
  ...known,
});

/** Verdict and reason of the code `x`. */
function verdict(calls: readonly ChunkCall[], known: Partial<Timeline> = {}): string {
  const judged = judgeChunk(timeline(calls, known)).get('x') as CodeJudgement;
  return judged.verdict === 'unproven' ? judged.reason : `${judged.verdict} by ${judged.proof}`;
}

const bird = { canaries: ['bird'] };
const before = [account(1, 2, opened('ada')), canary('bird', 3, 4, found('bird'))];
const after = [canary('bird', 95, 96, found('bird')), account(97, 98, opened('ADA'))];

/** A call for `x` between all proofs there can be. */
const within = (call: ChunkCall): readonly ChunkCall[] => [...before, call, ...after];

describe('a reply', () => {
  const HTML = '<!DOCTYPE html><html><head><title>Hello</title></head><body>there</body></html>';
  const error = (msg: string, status = 'error') => ({ status, msg });
  const full = { id: 7, name: 'Item 7', price: { regular: 19.9, extended: 99 }, media: {} };
  const reduced = { id: 7, name: 'Item 7', url: 'https://example.com/7', media: {} };
  const wire = (fields: object = {}) => ({
    purchase_code: 'x',
    license_type: 'Regular',
    price: 19.9,
    currency: 'USD',
    item: full,
    date: '2024-01-02T03:04:05Z',
    ...fields,
  });
  const second = wire({ item: reduced, price: '100', date: '2024-01-02T03:04:05.000000Z' });
  const REPLIES: readonly (readonly [string, number, unknown, HeaderMap, string])[] = [
    ['the contract', 200, { status: 'success', data: { purchase: wire() } }, {}, 'valid'],
    ['1.x: top-level item', 200, { status: 'success', item: second }, {}, 'valid'],
    ['top-level purchase', 200, { status: 'success', purchase: wire() }, {}, 'valid'],
    ['a translated status', 200, { status: 'erfolg', data: { purchase: wire() } }, {}, 'valid'],
    [
      'a translated licence',
      200,
      { status: 'success', data: { purchase: wire({ license_type: 'Standard' }) } },
      {},
      'valid',
    ],
    [
      'another letter case',
      200,
      { status: 'success', data: { purchase: wire({ purchase_code: ' X ' }) } },
      {},
      'valid',
    ],
    [
      'no code named',
      200,
      { status: 'success', data: { purchase: wire({ purchase_code: undefined }) } },
      {},
      'valid',
    ],
    [
      'an item that can’t be read',
      200,
      { status: 'success', data: { purchase: wire({ item: 'gone' }) } },
      {},
      'valid',
    ],
    [
      'PHP warnings before the JSON',
      200,
      `<br />\n<b>Warning</b>: x\n${JSON.stringify({ status: 'success', data: { purchase: wire() } })}`,
      {},
      'valid',
    ],
    [
      'a byte order mark',
      200,
      `\uFEFF${JSON.stringify({ status: 'success', data: { purchase: wire() } })}`,
      {},
      'valid',
    ],
    ['the denial of the contract', 404, error('Invalid purchase code'), {}, 'invalid'],
    ['a translated denial', 404, error('Ungültiger Code', 'fehler'), {}, 'invalid'],
    ['another letter case', 404, error('INVALID PURCHASE CODE', 'ERROR'), {}, 'invalid'],
    ['the documented words at 200', 200, error('Invalid purchase code'), {}, 'invalid'],
    ['the documented words at 422', 422, error('Invalid purchase code'), {}, 'invalid'],
    [
      'another code’s purchase',
      200,
      { status: 'success', data: { purchase: wire({ purchase_code: 'y' }) } },
      {},
      'another-code',
    ],
    [
      'an echo of the code alone',
      200,
      { status: 'success', data: { purchase: { purchase_code: 'x' } } },
      {},
      'no-purchase',
    ],
    [
      'a purchase beside the denial',
      200,
      { ...error('Invalid purchase code'), data: { purchase: wire() } },
      {},
      'unreadable',
    ],
    ['an empty purchase', 200, { status: 'success', data: { purchase: [] } }, {}, 'unreadable'],
    ['a product alone', 200, { status: 'success', item: full }, {}, 'unreadable'],
    ['success without data', 200, { status: 'success', data: {} }, {}, 'unreadable'],
    ['words that answer nothing', 200, error('Try later'), {}, 'unreadable'],
    ['a translated error at 200', 200, error('Ungültiger Code', 'fehler'), {}, 'unreadable'],
    ['no code arrived', 400, error('The purchase code field is required.'), {}, 'unreadable'],
    ['no key arrived', 400, error('The api key field is required.'), {}, 'refused'],
    [
      'no key arrived, as a framework says it',
      422,
      { message: 'The api key field is required.' },
      {},
      'refused',
    ],
    ['a wrong key', 401, error('Invalid request'), {}, 'refused'],
    ['a key without rights', 403, error('Verboten', 'fehler'), {}, 'refused'],
    ['404 with a page: switched off', 404, HTML, {}, 'switched-off'],
    ['404 with a message: switched off', 404, { message: 'Not Found' }, {}, 'switched-off'],
    ['404 with nothing', 404, '', {}, 'switched-off'],
    ['404 with half an envelope', 404, '{"status":"error","msg":', {}, 'switched-off'],
    ['429 with a page', 429, HTML, { 'retry-after': '30' }, 'limited'],
    ['429 with a message', 429, { message: 'Too Many Attempts.' }, {}, 'limited'],
    ['429 with the denial', 429, error('Invalid purchase code'), {}, 'limited'],
    ['a challenge at 403', 403, HTML, { 'cf-mitigated': 'challenge' }, 'unavailable'],
    ['a challenge at 429', 429, HTML, { 'cf-mitigated': 'challenge' }, 'unavailable'],
    ['a challenge at 503', 503, HTML, { 'cf-mitigated': 'challenge' }, 'unavailable'],
    ['a challenge at 200', 200, HTML, { 'cf-mitigated': 'challenge' }, 'unavailable'],
    ['maintenance', 503, HTML, { 'retry-after': '30' }, 'unavailable'],
    ['maintenance with the denial', 503, error('Invalid purchase code'), {}, 'unavailable'],
    ['a server error', 500, { message: 'Server Error', exception: 'E' }, {}, 'unavailable'],
    ['a server error with the denial', 500, error('Invalid purchase code'), {}, 'unavailable'],
    ['a page at 200', 200, HTML, {}, 'unavailable'],
    ['a page at 403', 403, HTML, {}, 'unavailable'],
    ['an answer cut off', 200, '{"status":"success","data":', {}, 'unavailable'],
    ['a timeout', 408, HTML, {}, 'unavailable'],
    ['nothing', 200, '', {}, 'unreadable'],
    ['no object', 200, '[]', {}, 'unreadable'],
    ['POST turned into GET', 405, { message: 'not supported' }, {}, 'unreadable'],
  ];

  it.each(REPLIES)('%s (HTTP %i) between proofs', (_what, status, body, headers, expected) => {
    const bytes = Buffer.from(typeof body === 'string' ? body : JSON.stringify(body));
    const head = { httpStatus: status, headers };
    const redactor = createRedactor(new Secret('5f1e0c7a9b3d42868ac04e6df7213b95'));
    const reply = judge(validationQuestion('x'), head, bytes, 0, redactor);
    const calls = within({
      kind: 'code',
      code: 'x',
      begun: 50,
      ended: 51,
      ...hearCode('x', reply),
    });
    const judged = judgeChunk(timeline(calls, bird)).get('x') as CodeJudgement;
    expect(judged.verdict === 'unproven' ? judged.reason : judged.verdict).toBe(expected);
    expect(judged.evidence.httpStatus).toBe(status);
    if (expected === 'limited' && 'retry-after' in headers) {
      expect(judged).toMatchObject({ retryAt: 30_000 });
    }
  });

  it('about another code is no verdict, and casts doubt on denials beside it: answers are mixed up', () => {
    const mixed = code('y', 20, 21, found('z'));
    const calls = [...before, mixed, code('x', 30, 31, denied), ...after];
    expect(judgeChunk(timeline(calls, bird)).get('y')).toMatchObject({ reason: 'another-code' });
    expect(verdict(calls, bird)).toBe('credential-doubted');
  });

  it('that never came is told with what the client says', () => {
    const reply = { kind: 'unavailable', httpStatus: null, reason: 'network' } as const;
    const call = code('x', 50, 51, { ...reply, detail: 'no route', retryAt: null });
    expect(judgeChunk(timeline(within(call), bird)).get('x')).toMatchObject({
      reason: 'unavailable',
      evidence: { httpStatus: null, message: 'no route' },
    });
  });

  it('keeps what the server said as evidence of a denial', () => {
    const call = code('x', 50, 51, denied);
    expect(judgeChunk(timeline(within(call), bird)).get('x')).toEqual({
      verdict: 'invalid',
      reason: 'denied',
      proof: 'canary',
      call,
      evidence: { httpStatus: 404, message: 'Invalid purchase code' },
    });
  });
});

describe('an answer', () => {
  it('needs no proof but itself', () => {
    expect(verdict([code('x', 1, 2, found('x'))])).toBe('valid by purchase');
    expect(verdict(within(code('x', 50, 51, found('x'))), bird)).toBe('valid by purchase');
  });

  it('stands when the key fails afterwards, since a bad key is given none', () => {
    const calls = [code('x', 1, 2, found('x')), account(3, 4, refused)];
    expect(verdict(calls)).toBe('valid by purchase');
  });

  it('that came after the key opened another account is not about this seller', () => {
    const calls = [account(1, 2, opened('eve')), code('x', 3, 4, found('x'))];
    expect(verdict(calls)).toBe('account-changed');
    expect(verdict([...calls, account(5, 6, opened('ada'))], {})).toBe('account-changed');
  });

  it('is about the seller again when the key opened the own account last before it', () => {
    const [ada, eve] = [opened('ada'), opened('eve')];
    const answer = code('x', 5, 6, found('x'));
    expect(verdict([account(1, 2, eve), account(3, 4, ada), answer])).toBe('valid by purchase');
    expect(verdict([account(1, 2, ada), account(3, 4, eve), answer])).toBe('account-changed');
  });

  it('is judged alone as it would be with its chunk, so that it need not wait for the rest', () => {
    const details = fc.constantFrom(opened('ada'), opened('ADA'), opened('eve'), refused, limited);
    const spans = fc.tuple(fc.nat(20), fc.integer({ min: 1, max: 6 }));
    const proofs = fc.array(fc.tuple(spans, details), { maxLength: 6 });
    fc.assert(
      fc.property(proofs, spans, fc.constantFrom('ada', null), (asked, [begun, length], bound) => {
        // Beginnings are even numbers and ends odd ones, since no two are at the same moment.
        const calls = asked.map(([[at, took], reply]) =>
          account(2 * at, 2 * (at + took) + 1, reply),
        );
        const find = code('x', 2 * begun, 2 * (begun + length) + 1, found('x'));
        const inOrder = byEnd(calls.filter(({ outcome }) => outcome.kind === 'affirmed'));
        const whole = judgeChunk(timeline([...calls, find], { account: bound })).get('x');
        const alone = judgeFind(find, inOrder, bound ?? inOrder[0]?.account ?? null);
        expect(alone).toEqual(whole);
      }),
      { examples: [[[[[0, 1], opened('eve')]], [5, 1], 'ada']] },
    );
  });

  it('with any fact of a purchase is one, and with none is none', () => {
    const empty = {
      ...{ licenseType: null, price: null, currency: null, item: null },
      ...{ supportedUntil: null, downloaded: null, purchasedAt: null },
    };
    const answer = (fields: object) => {
      const value = purchase('x', { ...empty, ...fields });
      return verdict([code('x', 1, 2, { kind: 'answered', httpStatus: 200, data: { value } })]);
    };
    expect(answer({})).toBe('no-purchase');
    expect(answer({ currency: 'USD', downloaded: false })).toBe('no-purchase');
    expect(answer({ purchasedAt: '2025-12-01T00:00:00Z' })).toBe('valid by purchase');
    expect(answer({ licenseType: 'Regular' })).toBe('valid by purchase');
  });

  it('outweighs a denial before it, and makes one after it or beside it a contradiction', () => {
    const answer = code('x', 40, 45, found('x'));
    expect(verdict([...within(code('x', 20, 21, denied)), answer], bird)).toBe('valid by purchase');
    expect(verdict([...within(code('x', 50, 51, denied)), answer], bird)).toBe('contradicted');
    expect(verdict([...within(code('x', 43, 44, denied)), answer], bird)).toBe('contradicted');
  });
});

describe('a denial', () => {
  const x = code('x', 50, 51, denied);
  const [openingAccount, openingBird] = before;
  const [closingBird, closingAccount] = after;
  const proofs = [openingAccount, openingBird, closingBird, closingAccount] as ChunkCall[];
  const without = (gone: ChunkCall | undefined): ChunkCall[] => [
    ...proofs.filter((call) => call !== gone),
    x,
  ];

  it('counts between account details before and after, and says that it was no more', () => {
    const calls = [account(1, 2, opened('ada')), x, account(97, 98, opened('ada'))];
    expect(verdict(calls)).toBe('invalid by account');
  });

  it('counts between canaries where one is known', () => {
    expect(verdict(within(x), bird)).toBe('invalid by canary');
  });

  it.each([
    [openingAccount, 'no-account-before'],
    [openingBird, 'no-canary-before'],
    [closingBird, 'no-canary-after'],
    [closingAccount, 'no-account-after'],
  ])('does not count when a proof is missing: %#', (gone, reason) => {
    expect(verdict(without(gone), bird)).toBe(reason);
  });

  it('needs finds as soon as any code of the chunk was found, since then they can be had', () => {
    const own = [account(1, 2, opened('ada')), x, account(97, 98, opened('ada'))];
    expect(verdict([...own, code('y', 10, 11, found('y'))])).toBe('no-canary-after');
    expect(verdict([...own, code('y', 60, 61, found('y'))])).toBe('no-canary-before');
    const both = [code('y', 10, 11, found('y')), code('z', 60, 61, found('z'))];
    expect(verdict([...own, ...both])).toBe('invalid by canary');
  });

  it.each([
    ['before', account(1, 50.5, opened('ada')), openingAccount, 'no-account-before'],
    ['before', canary('bird', 3, 50.5, found('bird')), openingBird, 'no-canary-before'],
    ['after', canary('bird', 50.5, 96, found('bird')), closingBird, 'no-canary-after'],
    ['after', account(50.5, 98, opened('ada')), closingAccount, 'no-account-after'],
  ])(
    'is not proven %s by a call under way at the same time, whose order nobody knows: %#',
    (_side, overlapping, gone, reason) => {
      expect(verdict([...without(gone), overlapping], bird)).toBe(reason);
    },
  );

  it.each([
    ['an account proof refused', account(60, 61, refused)],
    ['an account proof denied', account(60, 61, denied)],
    ['an API switched off for account details', account(60, 61, switchedOff)],
    ['a canary denied', canary('bird', 60, 61, denied)],
    ['a canary refused', canary('bird', 60, 61, refused)],
    ['a canary mixed up', canary('bird', 60, 61, found('x'))],
    ['a proof that fails while the first one is under way', account(0, 1.5, refused)],
    ['a proof that fails while the last one is under way', account(97.5, 99, refused)],
    ['a proof that fails while the code is asked for', account(49, 52, refused)],
    ['a proof that fails before finds, but after account details', account(2.5, 2.7, refused)],
  ])('is not believed beside %s', (_what, failure) => {
    expect(verdict([...within(x), failure], bird)).toBe('proof-failed');
  });

  it.each([
    ['between it and the proof before', { begun: 20, ended: 30 }],
    ['that it was under way in', { begun: 48, ended: 51 }],
    ['between it and the proof after', { begun: 60, ended: 70 }],
    ['that ended while the proof after was under way', { begun: 90, ended: 95.5 }],
  ])('is not believed next to a lull %s', (_what, lull) => {
    const lulls = [lull];
    expect(verdict(within(x), { ...bird, lulls })).toBe('lull');
    const accounts = [account(1, 2, opened('ada')), account(95, 98, opened('ada'))];
    expect(verdict([...accounts, x], { lulls })).toBe('lull');
    // No proof to come would mend it.
    expect(verdict([...before, x], { ...bird, lulls })).toBe('lull');
  });

  it('is believed with a lull before all that proves it, or after', () => {
    const lulls = [
      { begun: 0, ended: 0.5 },
      { begun: 99, ended: 100 },
    ];
    expect(verdict(within(x), { ...bird, lulls })).toBe('invalid by canary');
  });

  it('is believed when a proof failed before all that proves it, or after', () => {
    expect(verdict([...within(x), account(0, 0.5, refused)], bird)).toBe('invalid by canary');
    expect(verdict([...within(x), account(99, 100, refused)], bird)).toBe('invalid by canary');
  });

  it.each([
    ['an account proof limited', account(60, 61, limited)],
    ['an account proof in maintenance', account(60, 61, maintenance)],
    ['a canary limited', canary('bird', 60, 61, limited)],
    ['a code in maintenance', code('y', 60, 61, maintenance)],
  ])('is believed beside %s: weather says nothing of the key', (_what, call) => {
    expect(verdict([...within(x), call], bird)).toBe('invalid by canary');
  });

  it.each([
    ['refused', refused],
    ['answered by an API that is off', switchedOff],
    ['sent to another address', { ...switchedOff, reason: 'redirect' as const }],
  ])('is not believed next to a code that was %s', (_what, reply) => {
    expect(verdict([...within(x), code('y', 60, 61, reply)], bird)).toBe('credential-doubted');
    const bare = [account(1, 2, opened('ada')), x, account(97, 98, opened('ada'))];
    expect(verdict([...bare, code('y', 60, 61, reply)])).toBe('credential-doubted');
  });

  it('is believed when a code found lies between it and the doubt', () => {
    const calls = [...within(x), code('y', 60, 61, found('y')), code('z', 70, 71, refused)];
    expect(verdict(calls, bird)).toBe('invalid by canary');
  });

  it('is not believed when the key opened another account at any time', () => {
    for (const at of [0, 20, 60, 100]) {
      const other = account(at, at + 0.5, opened('eve'));
      expect(verdict([...within(x), other], bird)).toBe('account-changed');
    }
    const calls = within(x).filter(({ kind }) => kind !== 'account');
    const eve = [account(1, 2, opened('eve')), account(97, 98, opened('eve'))];
    expect(verdict([...calls, ...eve], bird)).toBe('account-changed');
  });

  it('is bound to the first account that is named when the seller is bound to none', () => {
    expect(verdict(within(x), { ...bird, account: null })).toBe('invalid by canary');
    const other = account(99, 100, opened('eve'));
    expect(verdict([...within(x), other], { ...bird, account: null })).toBe('account-changed');
  });

  const row = (count: number, from = 50): ChunkCall[] =>
    Array.from({ length: count }, (_, i) =>
      code(i === 0 ? 'x' : `x${i}`, from + i / 50, from + i / 50 + 0.01, denied),
    );

  it('is believed in a row that is not too long, as a key may be bad for its whole length', () => {
    expect(verdict([...before, ...row(LONGEST_RUN), ...after], bird)).toBe('invalid by canary');
    expect(verdict([...before, ...row(LONGEST_RUN + 1), ...after], bird)).toBe('run-too-long');
    const bare = [account(1, 2, opened('ada')), account(97, 98, opened('ada'))];
    expect(verdict([...bare, ...row(LONGEST_RUN + 1)])).toBe('run-too-long');
  });

  it('is in a row no longer than a code found within it, but not one that began before it', () => {
    const long = [...before, ...row(LONGEST_RUN + 1), ...after];
    const between = code('y', 50.3005, 50.3006, found('y'));
    expect(verdict([...long, between], bird)).toBe('invalid by canary');
    const slow = code('y', 49, 50.3006, found('y'));
    expect(verdict([...long, slow], bird)).toBe('run-too-long');
  });

  it('must come as often as it is asked for, with a proof between', () => {
    const twice = { ...bird, denialsNeeded: () => 2 };
    expect(verdict(within(x), twice)).toBe('unconfirmed');
    const again = code('x', 70, 71, denied);
    expect(verdict([...within(x), again], twice)).toBe('unconfirmed');
    const between = canary('bird', 60, 61, found('bird'));
    expect(verdict([...within(x), again, between], twice)).toBe('invalid by canary');
  });

  it('is believed once it is proven, whatever became of other calls for the same code', () => {
    expect(verdict([...within(x), code('x', 60, 61, limited)], bird)).toBe('invalid by canary');
    expect(verdict([...within(x), code('x', 99, 100, denied)], bird)).toBe('invalid by canary');
  });
});

describe('the stories of the field notes', () => {
  it('a wrong key makes no code invalid: its account details are refused', () => {
    const calls = [account(1, 2, refused), code('x', 3, 4, denied), account(5, 6, refused)];
    expect(verdict(calls)).toBe('no-account-before');
  });

  it('the key of a user who sells nothing makes no code invalid: the canary is denied', () => {
    const calls = [
      account(1, 2, opened('ada')),
      canary('bird', 3, 4, denied),
      code('x', 5, 6, denied),
      canary('bird', 7, 8, denied),
      account(9, 10, opened('ada')),
    ];
    expect(verdict(calls, bird)).toBe('no-canary-before');
  });

  it('a key revoked in the middle of a chunk makes no code invalid: the proof after it fails', () => {
    const calls = [...before, code('x', 50, 51, denied), account(97, 98, refused)];
    expect(verdict(calls, bird)).toBe('no-canary-after');
  });

  it('a key revoked and restored makes no code invalid whose calls any proof fell between', () => {
    const calls = [...within(code('x', 50, 51, denied)), canary('bird', 55, 56, denied)];
    expect(verdict(calls, bird)).toBe('proof-failed');
  });
});

it('says of every reason what it means, and when asking again is of use', () => {
  expect(describeUnproven('no-account-after')).toMatch(/not proven afterwards/);
  expect(askAgain('limited')).toBe('later');
  expect(askAgain('unreadable')).toBe('hardly');
});

it('judges a chunk that was recorded and read again as the chunk itself', () => {
  const chunk = timeline([...within(code('x', 50, 51, denied)), code('y', 60, 61, limited)], bird);
  const read = JSON.parse(JSON.stringify(chunk)) as Timeline;
  expect([...judgeChunk(read)]).toEqual([...judgeChunk(chunk)]);
});
