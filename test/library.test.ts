import { execFile } from 'node:child_process';
import { mkdir, mkdtemp, readFile, rm, symlink, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import { describe, expect, it, onTestFinished } from 'vitest';
import * as library from '../src/index.js';
import {
  checkCodes,
  createMarketplace,
  evenlySpacedBudget,
  Secret,
  type CheckCodesOptions,
  type CheckedCode,
  type MarketplaceOptions,
} from '../src/index.js';
import { intercepted, listOf, openShop, truthOf } from './codes/support.js';
import { fillStore } from './reporting/data.js';
import { KEY, Mirror } from './support/mirror.js';
import type { CodeMarket } from '../src/codes/piece.js';

const ROOT = fileURLToPath(new URL('..', import.meta.url));
const run = promisify(execFile);

async function all(options: CheckCodesOptions): Promise<CheckedCode[]> {
  const out: CheckedCode[] = [];
  for await (const one of checkCodes({ confirmAfterMs: 0, ...options })) out.push(one);
  return out;
}

function verdicts(list: readonly CheckedCode[]): Record<string, string> {
  return Object.fromEntries(list.map(({ code, verdict }) => [code, verdict]));
}

describe('checkCodes', () => {
  it('yields each code once with its true verdict and purchase', async () => {
    const shop = await openShop();
    const codes = listOf(shop, 300);
    const { marketplace, canary } = shop;
    const list = await all({ marketplace, codes, knownValid: [canary] });
    expect(list.length).toBe(codes.length);
    expect(verdicts(list)).toEqual(truthOf(shop, codes));
    for (const { verdict, purchase, raw, proof } of list) {
      expect(purchase !== null && raw !== null).toBe(verdict === 'valid');
      expect(proof).toBe(verdict === 'valid' ? 'purchase' : 'known-valid');
    }
    // One per code, one more per denied code, and proofs: for windows, and after some purchases each.
    const proofs = 0.12 * 30 + 0.02 * codes.length + 5;
    expect(shop.sim.requestCount).toBeLessThanOrEqual(codes.length + 30 + proofs);
  });

  it.each([
    ['twice', [2, 3]],
    ['from then on', [2, 3, 4, 5, 6, 7, 8, 9]],
  ])('yields a code once that is denied %s when it serves as a proof', async (_, deniedCalls) => {
    const shop = await openShop();
    const v = [0, 1, 2, 3].map((index) => shop.purchases.codeAt(index));
    let calls = 0;
    const { marketplace } = intercepted(shop, {
      validate: (code, options) => {
        const isDenied = code === v[0] && deniedCalls.includes(++calls);
        return shop.marketplace.validate(isDenied ? 'nobody-bought-this' : code, options);
      },
    });
    const codes = [...v.slice(0, 2), 'bad-1', 'bad-2', ...v.slice(2)];
    const list = await all({ marketplace, codes, concurrency: 1 });
    expect(list.map(({ code }) => code).sort()).toEqual(codes.toSorted());
    expect(verdicts(list)).toMatchObject({ [v[0] ?? '']: 'valid' });
  });

  it('does not yield a denied known valid code that is not in the list', async () => {
    const shop = await openShop();
    const codes = listOf(shop, 20);
    const { marketplace } = shop;
    const list = await all({ marketplace, codes, knownValid: ['refunded'] });
    expect(verdicts(list)).toEqual(truthOf(shop, codes));
  });

  it('checks a code in several notations once, and says why a text is no code', async () => {
    const shop = await openShop();
    const code = shop.purchases.codeAt(1);
    const codes = [code, ` ${code}\r`, `"${code}"`, '', 'a\0b'];
    const list = await all({ marketplace: shop.marketplace, codes });
    expect(list.map(({ verdict, reason }) => `${verdict}: ${reason}`).sort()).toEqual([
      'unproven: control-characters',
      'unproven: empty',
      'valid: answered',
    ]);
    expect(shop.timesValidated(code)).toBe(1);
  });

  it('trusts no denial near an answer about another code, because the server mixed up answers', async () => {
    const shop = await openShop();
    const [first, denied, last] = [0, 1, 2].map((index) => shop.purchases.codeAt(index)) as [
      ...[string, string, string],
    ];
    // Once, the answers to the second and the third code are swapped.
    const purchase = { purchase_code: denied, license_type: 'Regular License', price: '10.00' };
    const answers = [
      { status: 404, body: { status: 'error', msg: 'Invalid purchase code' } },
      { status: 200, body: { status: 'success', data: { purchase } } },
    ];
    shop.sim.afterRequests(2, () => {
      for (const { status, body } of answers) {
        shop.sim.faults.next('validate', { kind: 'reply', status, body: JSON.stringify(body) });
      }
    });
    const codes = [first, denied, 'nobody-bought-this', last];
    const list = await all({ marketplace: shop.marketplace, codes, concurrency: 1 });
    expect(verdicts(list)).toEqual(truthOf(shop, codes));
  });

  it('stops if every answer is about another code', async () => {
    const shop = await openShop();
    const purchase = { purchase_code: '****', license_type: 'Regular License', price: '10.00' };
    const body = JSON.stringify({ status: 'success', data: { purchase } });
    shop.sim.faults.always('validate', { kind: 'reply', status: 200, body });
    const codes = listOf(shop, 60);
    const list = await all({ marketplace: shop.marketplace, codes, patienceMs: 10 });
    expect(new Set(list.map(({ verdict }) => verdict))).toEqual(new Set(['unproven']));
    // Each code once, and some proofs of the key.
    expect(shop.sim.requestCount).toBeLessThan(90);
  });

  it('reads a list only as fast as it checks it, so that it may be of any length', async () => {
    const shop = await openShop();
    let read = 0;
    let ahead = 0;
    let seen = 0;
    function* codes(): Generator<string> {
      for (const code of listOf(shop, 1_000)) {
        read++;
        yield code;
      }
    }
    const { marketplace } = shop;
    const options = { marketplace, codes: codes(), confirmAfterMs: 0 };
    for await (const _ of checkCodes(options)) ahead = Math.max(ahead, read - ++seen);
    expect(seen).toBe(1_000);
    // Codes that are being checked, verdicts that wait, and the denied codes that are to be confirmed.
    expect(ahead).toBeLessThanOrEqual(3 * 100 + 100);
  });

  it('stops when the key is refused, and says so for every code', async () => {
    const shop = await openShop();
    const codes = listOf(shop, 400);
    shop.sim.afterRequests(100, () => shop.sim.revoke(KEY));
    const list = await all({ marketplace: shop.marketplace, codes });
    expect(list.length).toBe(400);
    expect(list.at(-1)).toMatchObject({ verdict: 'unproven', reason: 'refused', checkedAt: null });
    for (const { code, verdict } of list) {
      expect(verdict === 'unproven' || verdict === shop.truth(code)).toBe(true);
    }
    expect(shop.sim.requestCount).toBeLessThan(150);
  });

  it('yields unproven, not invalid, if an outage outlasts its patience', async () => {
    const shop = await openShop();
    shop.sim.faults.always('any', { kind: 'html' });
    const codes = listOf(shop, 100);
    const list = await all({ marketplace: shop.marketplace, codes, patienceMs: 10 });
    expect(new Set(list.map(({ verdict }) => verdict))).toEqual(new Set(['unproven']));
    expect(list.length).toBe(100);
    // Only the first calls, and those when patience ends.
    expect(shop.sim.requestCount).toBeLessThan(40);
  });

  it('waits out an outage within its patience, although the usual pause is longer', async () => {
    const shop = await openShop();
    shop.sim.faults.always('any', { kind: 'html' });
    const codes = listOf(shop, 100);
    setTimeout(() => shop.sim.faults.clear(), 200);
    const list = await all({ marketplace: shop.marketplace, codes, patienceMs: 2_000 });
    expect(verdicts(list)).toEqual(truthOf(shop, codes));
  });

  it('does not count waiting for its own slow budget against its patience', async () => {
    const shop = await openShop();
    const marketplace = shop.client({ budget: evenlySpacedBudget(240) });
    const codes = listOf(shop, 4, 4);
    const list = await all({ marketplace, codes, knownValid: [shop.canary], patienceMs: 150 });
    expect(verdicts(list)).toEqual(truthOf(shop, codes));
  });

  it('ends on an abort while it waits for its list', async () => {
    const shop = await openShop();
    const abort = new AbortController();
    async function* codes(): AsyncGenerator<string> {
      yield shop.purchases.codeAt(1);
      abort.abort(new Error('enough'));
      await new Promise(() => undefined);
    }
    const { marketplace } = shop;
    const checking = all({ marketplace, codes: codes(), signal: abort.signal });
    await expect(checking).rejects.toThrow('enough');
  });

  it.each([{ confirmAfterMs: Number.NaN }, { patienceMs: 0 }, { patienceMs: -1 }])(
    'refuses %j',
    async (options) => {
      const { marketplace } = await openShop();
      await expect(all({ marketplace, codes: ['a'], ...options })).rejects.toThrow(RangeError);
    },
  );

  it.each([25.5, 26, 1.5, 0, Number.NaN, Infinity])(
    'refuses a concurrency of %d',
    async (concurrency) => {
      const { marketplace } = await openShop();
      await expect(all({ marketplace, codes: ['a'], concurrency })).rejects.toThrow(
        `concurrency is ${concurrency}; it must be a whole number from 1 to 25`,
      );
    },
  );

  it.each([
    [1, 'number'],
    [null, 'null'],
    [undefined, 'undefined'],
    [{ code: 'a' }, 'object'],
  ])('says which code is not a string: %j', async (code, kind) => {
    const { marketplace } = await openShop();
    const codes = ['a', code] as string[];
    await expect(all({ marketplace, codes })).rejects.toThrow(
      new TypeError(`code 2 of codes is not a string but ${kind}; give every code as a string`),
    );
  });

  it('never sends the API key as a code, because servers log codes', async () => {
    const shop = await openShop();
    const codes = [shop.purchases.codeAt(1), ` "${KEY}"`];
    await expect(all({ marketplace: shop.marketplace, codes })).rejects.toThrow(
      'one of the codes is the API key of this client; remove it',
    );
    expect(shop.timesValidated(KEY)).toBe(0);
  });

  it('throws errors of the client to its consumer, even if that is busy with a value', async () => {
    const shop = await openShop();
    const { marketplace } = shop;
    const codes = listOf(shop, 500);
    const failures: unknown[] = [];
    const unhandled = (error: unknown): void => void failures.push(error);
    process.on('unhandledRejection', unhandled);
    onTestFinished(() => void process.off('unhandledRejection', unhandled));
    const reading = async (): Promise<void> => {
      let isFirst = true;
      for await (const _ of checkCodes({ marketplace, codes })) {
        await marketplace.close();
        if (isFirst) await new Promise((resolve) => setTimeout(resolve, 50));
        isFirst = false;
      }
    };
    await expect(reading()).rejects.toThrow('closed');
    expect(failures).toEqual([]);
  });

  it('throws the reason of an abort during a pause', async () => {
    const shop = await openShop();
    shop.sim.faults.always('any', { kind: 'html' });
    const { marketplace } = shop;
    const signal = AbortSignal.timeout(500);
    const checking = all({ marketplace, codes: listOf(shop, 20), signal });
    await expect(checking).rejects.toMatchObject({ name: 'TimeoutError' });
  });

  it('refuses a string instead of a list, because its characters would become codes', async () => {
    const { marketplace } = await openShop();
    await expect(all({ marketplace, codes: 'a-code' })).rejects.toThrow(TypeError);
  });

  it('yields the codes that have a verdict before it throws the reason of an abort', async () => {
    const shop = await openShop();
    const abort = new AbortController();
    shop.sim.afterRequests(200, () => abort.abort(new Error('enough')));
    const seen: CheckedCode[] = [];
    const { marketplace } = shop;
    const options = { marketplace, codes: listOf(shop, 500, 100), signal: abort.signal };
    const reading = async (): Promise<void> => {
      for await (const one of checkCodes(options)) seen.push(one);
    };
    await expect(reading()).rejects.toThrow('enough');
    // The last purchases have no verdict yet: account details have not been read since.
    expect(seen.length).toBeGreaterThan(100);
  });

  it('stops when its consumer stops', async () => {
    const shop = await openShop();
    const { marketplace } = shop;
    for await (const _ of checkCodes({ marketplace, codes: listOf(shop, 5_000) })) break;
    const asked = shop.sim.requestCount;
    await new Promise((resolve) => setTimeout(resolve, 50));
    // Only calls that were under way.
    expect(shop.sim.requestCount - asked).toBeLessThanOrEqual(8);
    expect(asked).toBeLessThan(500);
  });

  it('aborts calls under way when its consumer stops, so that it does not wait for them', async () => {
    const shop = await openShop();
    let asked = 0;
    let held = 0;
    let cut = 0;
    const marketplace: CodeMarket = {
      account: (call) => shop.marketplace.account(call),
      validate: (code, call = {}) => {
        if (++asked <= 30) return shop.marketplace.validate(code, call);
        held++;
        return new Promise((_, reject) => {
          call.signal?.addEventListener('abort', () => {
            cut++;
            reject(call.signal?.reason as Error);
          });
        });
      },
    };
    const codes = listOf(shop, 80).filter((code) => shop.truth(code) === 'valid');
    for await (const { verdict } of checkCodes({ marketplace, codes })) {
      expect(verdict).toBe('valid');
      break;
    }
    expect(held).toBeGreaterThan(0);
    expect(cut).toBe(held);
  });
});

describe('createMarketplace', () => {
  const baseUrl = 'https://market.example';
  it.each<[unknown, string]>([
    [undefined, 'createMarketplace needs { baseUrl, key }'],
    [{ key: KEY }, 'baseUrl is missing; pass an address such as https://market.example'],
    [
      { baseUrl: '', key: KEY },
      'baseUrl is missing; pass an address such as https://market.example',
    ],
    [{ baseUrl: 'market', key: KEY }, 'baseUrl is not an address such as https://market.example'],
    [{ baseUrl: 7, key: KEY }, 'baseUrl is not an address such as https://market.example'],
    [{ baseUrl: 'ftp://a.example', key: KEY }, 'the marketplace address must begin with https://'],
    [{ baseUrl: 'http://a.example', key: KEY }, 'a.example would get the API key over plain http'],
    [{ baseUrl }, 'key is missing; pass the API key'],
    [{ baseUrl, key: ' ' }, 'key is missing; pass the API key'],
    [{ baseUrl, key: new Secret('') }, 'key is missing; pass the API key'],
    [{ baseUrl, key: 7 }, 'key has the type number; pass a string or a Secret'],
    [
      { baseUrl, key: KEY, retries: 3 },
      'createMarketplace has no option "retries"; it has baseUrl,',
    ],
    ...[null, 0, -1, Number.NaN, '5'].map((value): [unknown, string] => [
      { baseUrl, key: KEY, maxListBytes: value },
      'maxListBytes must be a number above 0',
    ]),
    [
      { baseUrl, key: KEY, listTimeoutMs: Infinity },
      'listTimeoutMs must be a number above 0 up to 2147483647',
    ],
  ])('refuses %j with a reason', (options, message) => {
    const create = (): unknown => createMarketplace(options as MarketplaceOptions);
    expect(create).toThrow(library.MarketplaceOptionsError);
    expect(create).toThrow(message);
  });
});

describe('the package', () => {
  /** A folder of a program that has installed the package. */
  async function installed(): Promise<string> {
    const folder = await mkdtemp(join(tmpdir(), 'seller-mirror-library-'));
    onTestFinished(() => rm(folder, { recursive: true, force: true }));
    await mkdir(join(folder, 'node_modules'));
    await symlink(ROOT, join(folder, 'node_modules', 'seller-mirror'), 'dir');
    await writeFile(join(folder, 'package.json'), '{ "type": "module" }');
    return folder;
  }

  it('runs the example', async () => {
    const shop = await openShop();
    const folder = await installed();
    const example = await readFile(join(ROOT, 'examples/check-codes.mjs'), 'utf8');
    await writeFile(join(folder, 'check-codes.mjs'), example);
    const valid = shop.purchases.codeAt(1);
    const { stdout } = await run(process.execPath, ['check-codes.mjs', valid], {
      cwd: folder,
      env: { MARKETPLACE_URL: shop.sim.url, MARKETPLACE_API_KEY: KEY },
    });
    expect(stdout).toMatch(new RegExp(`^${valid} valid \\w+ .*\n$`));
  });

  it('has a sample in its docs that a strict compiler accepts', async () => {
    const docs = await readFile(join(ROOT, 'docs/library.md'), 'utf8');
    const [, sample = ''] = /```js\n([\s\S]*?)```/.exec(docs) ?? [];
    const folder = await installed();
    await writeFile(join(folder, 'sample.ts'), `const codes = ['a'];\n${sample}`);
    await compile(folder, 'sample.ts');
  });

  it('has types', async () => {
    const folder = await installed();
    const program = `
      import { checkCodes, createMarketplace, MarketplaceOptionsError, Secret, type CheckedCode, type Reply } from 'seller-mirror';
      const marketplace = createMarketplace({ baseUrl: new URL('https://a.example'), key: new Secret('k') });
      createMarketplace({ baseUrl: 'https://a.example', key: 'k' });
      export const isMine = (error: unknown): boolean => error instanceof MarketplaceOptionsError;
      export async function first(): Promise<CheckedCode | undefined> {
        for await (const one of checkCodes({ marketplace, codes: ['a'] })) return one;
        return undefined;
      }
      export const kind: (reply: Reply<string>) => 'answered' | 'denied' | 'refused' | 'limited' | 'unavailable' | 'unreadable' = ({ kind }) => kind;
      // @ts-expect-error a variable that may not be set is no key
      createMarketplace({ baseUrl: 'https://a.example', key: process.env.KEY });`;
    await writeFile(join(folder, 'program.ts'), program);
    await compile(folder, 'program.ts');
  });

  it('runs the example of a report, which compiles', async () => {
    const mirror = await Mirror.open();
    onTestFinished(() => mirror.close());
    await fillStore(mirror);
    await mirror.rows(
      `UPDATE mirror.purchase_codes SET purchased_at = now() WHERE code IN ('P1', 'P2') AND seller_id = 'main'`,
    );
    const folder = await installed();
    const example = await readFile(join(ROOT, 'examples/report.ts'), 'utf8');
    await writeFile(join(folder, 'report.ts'), example);
    await compile(folder, 'report.ts');
    const { stdout } = await run(process.execPath, ['report.js'], {
      cwd: folder,
      env: { DATABASE_URL: mirror.databaseUrl },
    });
    expect(stdout.split('\n')).toEqual([
      'New purchases this month',
      '  2 × Vivid Icon Set 1001: 20.00 USD',
      'Prices that changed last week',
      '  Vivid Icon Set 1001, regular: 10.00 → 12.50 USD',
      '  Vivid Icon Set 1001, extended: 50.00 → 40.00 USD',
      '  Vivid Shop Theme 1004, regular: 10.00 → 20.00 EUR',
      '  Modern Dashboard 1002, regular: 10.00 → none EUR',
      '',
    ]);
  });

  /** Compiles a program into its folder. */
  async function compile(folder: string, program: string): Promise<void> {
    const options = ['--strict', '--target', 'es2023'];
    const modules = ['--module', 'nodenext', '--moduleResolution', 'nodenext', '--types', 'node'];
    const roots = ['--typeRoots', join(ROOT, 'node_modules/@types')];
    const compiler = join(ROOT, 'node_modules/typescript/bin/tsc');
    const args = [compiler, ...options, ...modules, ...roots, program];
    await run(process.execPath, args, { cwd: folder });
  }

  it('loads no client of a database or queue', async () => {
    const folder = await installed();
    const hook = `export async function resolve(name, context, next) {
      const found = await next(name, context);
      process._rawDebug(found.url);
      return found;
    }`;
    await writeFile(join(folder, 'hook.mjs'), hook);
    const register = `import { register } from 'node:module'; register('./hook.mjs', import.meta.url);`;
    await writeFile(join(folder, 'register.mjs'), register);
    await writeFile(join(folder, 'program.mjs'), `import 'seller-mirror';`);
    const args = ['--import', './register.mjs', 'program.mjs'];
    const { stderr: loaded } = await run(process.execPath, args, { cwd: folder });
    expect(loaded).toContain('/undici/');
    expect(loaded).not.toMatch(/node_modules\/(?:pg|bullmq|ioredis|@prisma|pino|zod)\//);
  });

  it('exports only its public API', () => {
    expect(Object.keys(library).sort()).toEqual([
      'MarketplaceOptionsError',
      'PlainHttpRefusedError',
      'Secret',
      'checkCodes',
      'createMarketplace',
      'describeFailure',
      'evenlySpacedBudget',
      'openMirror',
      'unlimitedBudget',
    ]);
  });
});
