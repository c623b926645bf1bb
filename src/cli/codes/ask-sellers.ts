/**
 * Checks codes given as arguments for several sellers, since nobody may know who sold them. One seller after another is
 * asked until one finds the code. Only codes that nobody found get the full check, with each seller.
 */

import { setMaxListeners } from 'node:events';
import type { App } from '../../app.js';
import { answerFromChecks, type Answer } from '../../codes/audit-result.js';
import { readCodeChecks, readCodeState } from '../../codes/codes-store.js';
import { codesToCheck, listOfCodes, measureLists } from '../../codes/enter-list.js';
import { lookUpNow, lookUpStored, MOST_SELLERS, type LookUp } from '../../codes/look-up.js';
import { checkCost } from '../../codes/progress.js';
import { SHORT_WAIT_MS } from '../../codes/rules.js';
import { SellerKey } from '../../codes/seller-key.js';
import { readFoundEver } from '../../codes/situation-store.js';
import type { SellerConfig } from '../../config/index.js';
import { plural } from '../../domain/text.js';
import { printJson, printNote } from '../console.js';
import { usageError } from '../errors.js';
import { EXIT, type ExitCode } from '../exit-codes.js';
import { withProgress } from '../output/progress.js';
import { safeLine } from '../output/text.js';
import { checkCodes, printAnswers } from './answer.js';
import { costText } from './audit-view.js';
import { auditOptions, type CheckOptions } from './options.js';

/** Asks all sellers about the codes, and prints the answer about each, with the seller who sold it. */
export async function answerOfAny(
  app: App,
  sellers: readonly SellerConfig[],
  codes: readonly string[],
  options: CheckOptions,
): Promise<ExitCode> {
  refuse(sellers, options);
  const search = new Search(app, await mostPurchasesFirst(app, sellers), codes, options);
  await withProgress(`asking ${plural(sellers.length, 'seller')}`, () => search.run());
  for (const seller of search.unansweredFirst()) {
    const open = search.open;
    if (open.length === 0) break;
    for (const answer of await checkCodes(app, seller, open, options, false)) {
      search.take(seller, answer);
    }
  }
  return printAnswers(app, search.answers(), options);
}

/** Prints what the codes would cost: each is asked of one seller at least, and of all at most. */
export async function costOfAny(
  app: App,
  sellers: readonly SellerConfig[],
  codes: readonly string[],
  options: CheckOptions,
): Promise<ExitCode> {
  refuse(sellers, options);
  const costs = [];
  for (const seller of await mostPurchasesFirst(app, sellers)) {
    const { name, requestsPerMinute } = seller;
    const terms = auditOptions(options);
    const events = { signal: app.signal };
    const size = await measureLists(app.db, seller, [listOfCodes(codes)], terms, events);
    const cost = checkCost(
      {
        toCheck: codesToCheck(size),
        requestsPerMinute,
        foundEver: await readFoundEver(app.db, name),
        confirmAfterMs: options.confirmAfter ?? SHORT_WAIT_MS,
      },
      app.db.clock.now(),
    );
    costs.push({ seller: name, size, cost });
    printNote(`${safeLine(name)}: ${costText(cost, requestsPerMinute, size.codes)}\n`);
  }
  const factor = sellers.length;
  printNote(
    `${plural(factor, 'seller')}: up to ${factor} × the calls of one; a code that nobody sold is asked once more of each\n`,
  );
  if (options.json === true) await printJson({ dryRun: true, factor, sellers: costs });
  return EXIT.done;
}

/** @throws {CommandError} when the question needs one seller */
function refuse(sellers: readonly SellerConfig[], { knownValid }: CheckOptions): void {
  if (sellers.length > MOST_SELLERS) {
    throw usageError(
      `${sellers.length} sellers are configured, and at most ${MOST_SELLERS} are asked about a code`,
      'choose one with --seller',
    );
  }
  if (knownValid === undefined) return;
  throw usageError(
    'a code that you know is valid belongs to one seller, and several are configured',
    `choose one with --seller: ${sellers.map(({ name }) => name).join(', ')}`,
  );
}

async function mostPurchasesFirst(
  { db }: App,
  sellers: readonly SellerConfig[],
): Promise<readonly SellerConfig[]> {
  const found = new Map<SellerConfig, number>();
  for (const seller of sellers) found.set(seller, await readFoundEver(db, seller.name));
  return [...sellers].sort((a, b) => (found.get(b) ?? 0) - (found.get(a) ?? 0));
}

/** An answer, and who sold the code; null: nobody, as far as we know. */
interface SellersAnswer extends Answer {
  readonly seller: string | null;
}

/** Finds out who sold each code. Denials decide nothing here, and are not recorded. */
class Search {
  readonly #app: App;
  readonly #sellers: readonly SellerConfig[];
  readonly #codes: readonly string[];
  readonly #maxAgeS: number;
  readonly #answers = new Map<string, SellersAnswer>();
  /** Codes for which a seller gave no answer. */
  readonly #unanswered = new Map<SellerConfig, number>();

  constructor(
    app: App,
    sellers: readonly SellerConfig[],
    codes: readonly string[],
    { maxAge }: CheckOptions,
  ) {
    this.#app = app;
    this.#sellers = sellers;
    this.#codes = codes;
    // No stored verdict is as young as that.
    this.#maxAgeS = maxAge === undefined ? -1 : Math.floor(maxAge / 1000);
  }

  /** Codes that nobody is known to have sold. */
  get open(): readonly string[] {
    return this.#codes.filter((code) => this.#answers.get(code)?.verdict !== 'valid');
  }

  async run(): Promise<void> {
    const { asks, valid } = await this.#readStore();
    for (const [seller, code] of valid) await this.#takeStored(seller, code);
    // Who sold the code the last time comes first.
    for (const isTurn of [(ask: Ask) => ask.soldIt, (ask: Ask) => !ask.soldIt]) {
      for (const seller of this.#sellers) {
        const open = this.open;
        const turn = asks.filter((ask) => {
          return ask.seller === seller && isTurn(ask) && open.includes(ask.code);
        });
        if (turn.length > 0) await this.#ask(seller, turn);
      }
    }
  }

  /** Sellers for the full check. One that gave no answer may have sold a code that the others deny. */
  unansweredFirst(): readonly SellerConfig[] {
    const count = (seller: SellerConfig): number => this.#unanswered.get(seller) ?? 0;
    return [...this.#sellers].sort((a, b) => count(b) - count(a));
  }

  /** Keeps the answer of a seller if it says more than those before. */
  take(seller: SellerConfig, answer: Answer): void {
    const { code, verdict } = answer;
    const before = this.#answers.get(code);
    if (before !== undefined && RANKS[before.verdict] <= RANKS[verdict]) return;
    this.#answers.set(code, { ...answer, seller: verdict === 'valid' ? seller.name : null });
  }

  answers(): readonly SellersAnswer[] {
    return this.#codes.flatMap((code) => this.#answers.get(code) ?? []);
  }

  /** Reads who must be asked, and what is known to be valid already. */
  async #readStore() {
    const { db } = this.#app;
    const maxAge = { valid: this.#maxAgeS, invalid: this.#maxAgeS };
    const asks: Ask[] = [];
    const valid: (readonly [SellerConfig, string])[] = [];
    for (const seller of this.#sellers) {
      for (const code of this.#codes) {
        const { answer, stored } = await lookUpStored(db, seller.name, code, maxAge);
        const isFresh = answer?.kind === 'known' && !answer.stale;
        const soldIt = stored.known?.verdict === 'valid';
        if (!isFresh) asks.push({ seller, code, soldIt });
        else if (soldIt) valid.push([seller, code]);
      }
    }
    return { asks, valid };
  }

  async #ask(seller: SellerConfig, turn: readonly Ask[]): Promise<void> {
    await this.#app.withMarketplace(seller, {}, async ({ db, sellerId, marketplace }) => {
      const key = new SellerKey(db, sellerId, marketplace);
      // Denials are held back, so there is nothing to confirm.
      const confirm = (): Promise<void> => Promise.resolve();
      const deps = { db, sellerId, marketplace, key, confirm };
      // Each call listens while it runs.
      setMaxListeners(0, this.#app.signal);
      for (const [at, { code }] of turn.entries()) {
        const { stored } = await lookUpStored(db, sellerId, code, NEVER_YOUNG);
        let isDenied = false;
        const onDenied = (): void => void (isDenied = true);
        const { signal } = this.#app;
        const lookUp = await lookUpNow(deps, code, stored, signal, undefined, onDenied);
        signal.throwIfAborted();
        if (isDenied) continue;
        if (!isFound(lookUp)) {
          // The other codes would wait as long; the full check asks about all of them.
          this.#unanswered.set(seller, turn.length - at);
          return;
        }
        await this.#takeStored(seller, code);
      }
    });
  }

  async #takeStored(seller: SellerConfig, code: string): Promise<void> {
    const { db } = this.#app;
    const state = await readCodeState(db, seller.name, code);
    if (state === null) return;
    const checks = await readCodeChecks(db, state.codeId, CHECKS_READ);
    // The store may have the code in the marketplace's spelling.
    this.take(seller, { ...answerFromChecks(state, checks), code });
  }
}

/** A seller who must be asked about a code. */
interface Ask {
  readonly seller: SellerConfig;
  readonly code: string;
  /** The code was valid at this seller when it was last checked. */
  readonly soldIt: boolean;
}

const NEVER_YOUNG = { valid: -1, invalid: -1 };
/** The check that proved a verdict is among the newest. */
const CHECKS_READ = 50;

/** What says most about a code comes first: with a seller who can't answer, nobody knows that nobody sold it. */
const RANKS = { valid: 0, unproven: 1, no_longer_valid: 2, invalid: 3 } as const;

function isFound(lookUp: LookUp): boolean {
  return lookUp.kind === 'known' && !lookUp.stale && lookUp.known.verdict === 'valid';
}
