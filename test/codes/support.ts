import { onTestFinished } from 'vitest';
import { Secret } from '../../src/domain/secret.js';
import { performCheck, type CheckDeps } from '../../src/codes/check.js';
import type { JobOutcome } from '../../src/catalogue/types.js';
import { unlimitedBudget } from '../../src/marketplace/budget.js';
import { createMarketplace } from '../../src/marketplace/client.js';
import type { Marketplace, MarketplaceOptions } from '../../src/marketplace/types.js';
import {
  Purchases,
  seededCatalogue,
  type Simulator,
  type SimulatorOptions,
  startSimulator,
} from '../../src/simulator/index.js';
import type { AuditProgress, NewAudit } from '../../src/codes/types.js';
import { ensureSeller } from '../../src/catalogue/sellers-store.js';
import { enterAudit } from '../../src/codes/enter-store.js';
import { getAudit } from '../../src/codes/audits-store.js';
import { readResults } from '../../src/codes/results-store.js';
import { KEY, type Mirror, never } from '../support/mirror.js';

/** How many seeded purchases a seller of these tests has. */
const SOLD = 5_000;
/** Index of a purchase that is in no list of these tests. */
const CANARY = 4_999;

/** A simulated seller with purchases, and a client. */
export interface Shop {
  readonly sim: Simulator;
  readonly purchases: Purchases;
  readonly marketplace: Marketplace;
  readonly canary: string;
  client(options?: Partial<MarketplaceOptions>): Marketplace;
  /** The verdict of the marketplace, given a good key. */
  truth(code: string): 'valid' | 'invalid';
  /** Validations of this code so far. */
  timesValidated(code: string): number;
}

/** Opens a shop and closes it when the test ends. */
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
    timesValidated: (code) =>
      sim.log.filter(({ parameters }) => parameters['purchase_code'] === code).length,
  };
}

/** The shop, with some calls of its marketplace replaced. */
export function intercepted(
  shop: Shop,
  calls: Partial<Pick<Marketplace, 'account' | 'validate'>>,
): Shop {
  const real = shop.marketplace;
  const marketplace: Marketplace = Object.create(real);
  marketplace.account = calls.account ?? ((options) => real.account(options));
  marketplace.validate = calls.validate ?? ((code, options) => real.validate(code, options));
  return { ...shop, marketplace };
}

/** A list of `count` codes; every `nth` is invalid. @param nth at least 2 */
export function listOf({ purchases }: Shop, count: number, nth = 10): string[] {
  return Array.from({ length: count }, (_, i) =>
    i % nth === nth - 1 ? `nobody-bought-${i}` : purchases.codeAt(i),
  );
}

/** The true verdicts. */
export function truthOf(shop: Shop, codes: readonly string[]): Record<string, string> {
  return Object.fromEntries(codes.map((code) => [code, shop.truth(code)]));
}

export const SELLER = 'main';

/** Enters a list of codes. */
export async function enter(
  { db }: Mirror,
  host: string,
  codes: readonly string[],
  options: Partial<NewAudit> = {},
): Promise<bigint> {
  await ensureSeller(db, options.sellerId ?? SELLER, host);
  const audit = {
    sellerId: SELLER,
    source: 'arguments',
    layout: {},
    columns: ['code'],
    maxAgeSeconds: null,
    knownValid: null,
    confirmAfterMs: 0,
    ...options,
  };
  const rows = codes.map((code, i) => ({ line: i + 1, code, columns: [code] }));
  return (await enterAudit(db, audit, rows)).auditId;
}

export function auditDeps(
  { db }: Mirror,
  marketplace: Marketplace,
  options: Partial<CheckDeps> = {},
): CheckDeps {
  return {
    db,
    marketplace,
    sellerId: SELLER,
    callCount: () => 0,
    concurrency: 8,
    spacingMs: 0,
    ...options,
  };
}

/** Called with the outcome of each piece that must run again later. */
export type OnOutcome = (outcome: JobOutcome) => Promise<void> | void;

/** Works on audits in turn, piece by piece and without pauses, until all have ended. */
export async function workThrough(
  deps: CheckDeps,
  audits: readonly bigint[],
  onOutcome: OnOutcome = () => undefined,
  signal = never,
): Promise<void> {
  const waiting = [...audits];
  for (let auditId = waiting.shift(); auditId !== undefined; auditId = waiting.shift()) {
    const outcome = await performCheck(deps, { auditId, isLastAttempt: false }, signal);
    if (outcome.kind === 'done' || outcome.kind === 'give-up') continue;
    const isNext = outcome.kind === 'later' && outcome.delayMs === 0;
    if (!isNext) await onOutcome(outcome);
    if (!isNext) await endPause(deps, auditId);
    waiting.push(auditId);
  }
}

/** Lets a check go on that waits, as if its time had come. */
async function endPause({ db }: CheckDeps, auditId: bigint): Promise<void> {
  await db.pool.query(
    `UPDATE mirror.audits SET memory = memory || '{"hold": null, "retryAt": 0}' WHERE audit_id = $1`,
    [auditId],
  );
  await db.pool.query(
    `UPDATE mirror.audit_codes SET asked_at = asked_at - interval '1 hour',
            first_denied_at = first_denied_at - interval '1 hour'
      WHERE audit_id = $1 AND verdict IS NULL`,
    [auditId],
  );
}

export async function progress({ db }: Mirror, auditId: bigint): Promise<AuditProgress> {
  const audit = await getAudit(db, auditId);
  if (audit === null) throw new Error(`there is no audit ${auditId}`);
  return audit;
}

/** The audit's verdict on each code. */
export async function auditVerdicts(
  { db }: Mirror,
  auditId: bigint,
): Promise<Record<string, string | null>> {
  const verdicts: Record<string, string | null> = {};
  for await (const { code, verdict } of readResults(db, [{ auditId, sellerId: SELLER }])) {
    if (code !== null) verdicts[code] = verdict === 'pending' ? null : verdict;
  }
  return verdicts;
}
