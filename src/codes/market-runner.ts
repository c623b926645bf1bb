/** The real `Market`: calls the marketplace, and records many results at a time. */

import type { Db } from '../db/db.js';
import type { CallOptions, Marketplace } from '../marketplace/types.js';
import { foundPurchase } from './known-code.js';
import type { CodeResult, FoundProof } from './ledger.js';
import type { AccountAnswer, Answer, CodeAnswer, ItemAnswer, Market } from './market.js';

/** Results are recorded after this time, milliseconds. A kill loses no more, but for purchases that wait for a look. */
const EVERY_MS = 200;
/** Or when there are so many. */
const FULL = 500;

interface CallerOptions extends Pick<CallOptions, 'onRequest'> {
  readonly db: Pick<Db, 'clock'>;
  readonly marketplace: Pick<Marketplace, 'account' | 'validate' | 'item'>;
  /** Ends calls at once. */
  readonly signal: AbortSignal;
  /** Called when a code was asked about. */
  readonly onCode?: (form: string) => void;
}

/** Makes the calls of the plan. Each throws the signal's reason once it is aborted. */
export class Caller {
  readonly #options: CallerOptions;

  constructor(options: CallerOptions) {
    this.#options = options;
  }

  account(): Promise<AccountAnswer> {
    return this.#call((options) => this.#options.marketplace.account(options));
  }

  item(id: number): Promise<ItemAnswer> {
    return this.#call((options) => this.#options.marketplace.item(id, options));
  }

  async code(form: string, onNewConnection = false): Promise<CodeAnswer> {
    const { marketplace, onCode } = this.#options;
    const { reply, ...times } = await this.#call((options) =>
      marketplace.validate(form, { ...options, onNewConnection }),
    );
    onCode?.(form);
    // No more is kept than the store does.
    const isAnswered = reply.kind === 'answered';
    return { ...times, reply: isAnswered ? { ...reply, data: foundPurchase(reply.data) } : reply };
  }

  async #call<R>(send: (options: CallOptions) => Promise<R>): Promise<Answer<R>> {
    const { db, signal, onRequest } = this.#options;
    let sentAt = db.clock.now();
    const reply = await send({
      signal,
      priority: 'audit',
      onRequest: () => {
        sentAt = db.clock.now();
        return onRequest?.() ?? (() => undefined);
      },
    });
    return { sentAt, at: db.clock.now(), reply };
  }
}

export interface MarketRunnerOptions extends CallerOptions {
  readonly ledger: Pick<Market, 'record' | 'proven'>;
  readonly concurrency: number;
}

/** Makes calls, and records their results in a ledger. */
export class MarketRunner extends Caller implements Market {
  readonly concurrency: number;
  readonly #ledger: MarketRunnerOptions['ledger'];
  #results: CodeResult[] = [];
  #timer: NodeJS.Timeout | null = null;
  #writing: Promise<void> = Promise.resolve();
  #hasFailed = false;

  constructor(options: MarketRunnerOptions) {
    super(options);
    this.#ledger = options.ledger;
    this.concurrency = options.concurrency;
  }

  proven(found: readonly FoundProof[]): Promise<void> {
    return this.#ledger.proven(found);
  }

  /** Resolves when more may come. @throws the error of an earlier write */
  async record(results: readonly CodeResult[]): Promise<void> {
    this.#results.push(...results);
    if (this.#results.length >= FULL || this.#hasFailed) return this.flush();
    this.#timer ??= setTimeout(() => {
      this.flush().catch(() => (this.#hasFailed = true));
    }, EVERY_MS);
  }

  /** Records everything, after the writes that are under way. @throws the error of a write */
  flush(): Promise<void> {
    if (this.#timer !== null) clearTimeout(this.#timer);
    this.#timer = null;
    this.#writing = this.#writeAfter(this.#writing);
    return this.#writing;
  }

  async #writeAfter(earlier: Promise<void>): Promise<void> {
    await earlier;
    if (this.#results.length > 0) await this.#ledger.record(this.#results.splice(0));
  }
}
