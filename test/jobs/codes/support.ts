import { hash } from 'node:crypto';
import { setTimeout as sleep } from 'node:timers/promises';
import { onTestFinished } from 'vitest';
import type { Unavailable } from '../../../src/domain/reply.js';
import { Secret } from '../../../src/domain/secret.js';
import { askCodes } from '../../../src/jobs/codes/ask-codes.js';
import type { AskOptions, AskReport, SettledCode } from '../../../src/jobs/codes/types.js';
import { unlimitedBudget } from '../../../src/marketplace/budget.js';
import { createMarketplace } from '../../../src/marketplace/client.js';
import type { Marketplace, MarketplaceOptions } from '../../../src/marketplace/types.js';
import {
  Purchases,
  seededCatalogue,
  startSimulator,
  type Simulator,
  type SimulatorOptions,
} from '../../../src/simulator/index.js';
import { KEY, never } from '../../support/mirror.js';

/** How many seeded purchases a seller of these tests has. */
export const SOLD = 5_000;
/** A purchase that no list of these tests holds. */
export const CANARY = 4_999;

/** A simulated seller with purchases, and a client of theirs. */
export interface Shop {
  readonly sim: Simulator;
  readonly purchases: Purchases;
  readonly marketplace: Marketplace;
  readonly canary: string;
  client(options?: Partial<MarketplaceOptions>): Marketplace;
  /** What the marketplace would say of a code with a good key. */
  truth(code: string): 'valid' | 'invalid';
  /** Requests so far with this code. */
  timesAsked(code: string): number;
}

/** Opens a shop that is closed when the test ends. */
export async function openShop(options: Partial<SimulatorOptions> = {}): Promise<Shop> {
  const purchases = new Purchases({ seed: 11, count: SOLD });
  const catalogue = seededCatalogue({ seed: 3, count: 20, descriptionBytes: 40 });
  const sellers = [{ key: KEY, username: 'ada', catalogue, purchases }];
  const sim = await startSimulator({ sellers, ...options });
  const opened: Marketplace[] = [];
  onTestFinished(async () => {
    await Promise.all(opened.map((one) => one.close()));
    await sim.close();
  });
  const client = (more: Partial<MarketplaceOptions> = {}): Marketplace => {
    const marketplace = createMarketplace({
      baseUrl: new URL(sim.url),
      key: new Secret(KEY),
      retry: { attempts: 2, baseMs: 1, maxMs: 20 },
      budget: unlimitedBudget,
      ...more,
    });
    opened.push(marketplace);
    return marketplace;
  };
  return {
    sim,
    purchases,
    marketplace: client(),
    canary: purchases.codeAt(CANARY),
    client,
    truth: (code) => (purchases.find(code, catalogue)?.state === 'valid' ? 'valid' : 'invalid'),
    timesAsked: (code) =>
      sim.log.filter(({ parameters }) => parameters['purchase_code'] === code).length,
  };
}

/** The shop as it is when the marketplace fails on some codes, whenever it is asked for them. */
export function failingOn(shop: Shop, codes: Iterable<string>): Shop {
  const failing = new Set(codes);
  const failure: Unavailable = {
    ...{ kind: 'unavailable', httpStatus: 500, reason: 'server-error' },
    ...{ detail: 'failed', retryAt: null },
  };
  const marketplace: Marketplace = Object.create(shop.marketplace);
  marketplace.account = (options) => shop.marketplace.account(options);
  marketplace.validate = (code, options) =>
    failing.has(code) ? Promise.resolve(failure) : shop.marketplace.validate(code, options);
  return { ...shop, marketplace };
}

/** The shop, which also enters into `asked` each code that is validated. */
export function telling(shop: Shop, asked: string[]): Shop {
  const marketplace: Marketplace = Object.create(shop.marketplace);
  marketplace.account = (options) => shop.marketplace.account(options);
  marketplace.validate = (code, options) => {
    asked.push(code);
    return shop.marketplace.validate(code, options);
  };
  return { ...shop, marketplace };
}

/**
 * The shop behind a cache that has all replies to these codes at hand. It gives each `at once`, or
 * those to all calls under way `together`.
 */
export async function cached(
  shop: Shop,
  codes: readonly string[],
  manner: 'at once' | 'together',
): Promise<Shop> {
  const account = await shop.marketplace.account();
  const known = [...codes, shop.canary].map(
    async (code) => [code, await shop.marketplace.validate(code)] as const,
  );
  const replies = new Map(await Promise.all(known));
  let next: Promise<void> | null = null;
  const together = (): Promise<void> => {
    next ??= sleep(1).then(() => void (next = null));
    return next;
  };
  const marketplace: Marketplace = Object.create(shop.marketplace);
  marketplace.account = async () => {
    if (manner === 'together') await together();
    return account;
  };
  marketplace.validate = async (code) => {
    if (manner === 'together') await together();
    return replies.get(code) as Awaited<ReturnType<Marketplace['validate']>>;
  };
  return { ...shop, marketplace };
}

/** A list of `count` codes of which every `nth` is invalid; from 2: 1 would leave none valid. */
export function listOf({ purchases }: Shop, count: number, nth = 10): string[] {
  return Array.from({ length: count }, (_, i) =>
    i % nth === nth - 1 ? `nobody-bought-${i}` : purchases.codeAt(i),
  );
}

/** The codes in an order without a pattern, the same each time. */
export function shuffled(codes: readonly string[]): string[] {
  const place = (code: string): string => hash('sha1', code);
  return [...codes].sort((a, b) => (place(a) < place(b) ? -1 : 1));
}

/** Asks for codes and keeps what was told on the way. */
export async function ask(
  { marketplace, canary }: Shop,
  options: Partial<AskOptions> & Pick<AskOptions, 'codes'>,
): Promise<AskReport & { readonly settled: readonly SettledCode[] }> {
  const settled: SettledCode[] = [];
  const report = await askCodes(marketplace, {
    account: 'ada',
    canaries: [canary],
    concurrency: 8,
    spacingMs: 0,
    now: Date.now,
    signal: never,
    ...options,
    onSettled: (news) => {
      settled.push(...news);
      return options.onSettled?.(news);
    },
  });
  return { ...report, settled };
}

/** What was told of each code, as a verdict. */
export function verdictsOf({
  settled,
  unproven,
}: AskReport & { readonly settled: readonly SettledCode[] }): Record<string, string> {
  return Object.fromEntries([
    ...settled.map(({ code, kind }) => [code, kind === 'found' ? 'valid' : 'invalid'] as const),
    ...[...unproven.keys()].map((code) => [code, 'unproven'] as const),
  ]);
}

/** What the verdicts should be. */
export function truthOf(shop: Shop, codes: readonly string[]): Record<string, string> {
  return Object.fromEntries(codes.map((code) => [code, shop.truth(code)]));
}
