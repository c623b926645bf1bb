/** Makes the requests of the plan: calls the marketplace, and records many results at a time. */

import type { Db } from '../db/db.js';
import type { CallOptions, Marketplace } from '../marketplace/types.js';
import { foundPurchase } from './known-code.js';
import type { Answer, Call, CodeReply, Recording, Runner } from './requests.js';
import type { CodeResult, FoundProof } from './ledger.js';

/** Results are recorded after this time, milliseconds. A kill loses no more, but for purchases that wait for a look. */
const EVERY_MS = 200;
/** Or when there are so many. */
const FULL = 500;

interface Records {
  record(results: readonly CodeResult[]): Promise<void>;
  proven(found: readonly FoundProof[]): Promise<void>;
}

export interface MarketRunnerOptions {
  readonly db: Pick<Db, 'clock'>;
  readonly marketplace: Pick<Marketplace, 'account' | 'validate' | 'item'>;
  readonly ledger: Records;
  readonly concurrency: number;
  /** Ends calls at once. */
  readonly signal: AbortSignal;
  /** Called when a call was answered. */
  readonly onCall?: (call: Call) => void;
}

/** Runs requests over a marketplace and a ledger. */
export class MarketRunner implements Runner {
  readonly #options: MarketRunnerOptions;
  #results: CodeResult[] = [];
  #timer: NodeJS.Timeout | null = null;
  #writing: Promise<void> = Promise.resolve();
  #hasFailed = false;

  constructor(options: MarketRunnerOptions) {
    this.#options = options;
  }

  get concurrency(): number {
    return this.#options.concurrency;
  }

  /** @throws the signal's reason */
  async ask(call: Call): Promise<Answer> {
    const { db, marketplace, signal, onCall } = this.#options;
    const answer = await callMarket(db, marketplace, call, { signal, priority: 'audit' });
    onCall?.(call);
    return answer;
  }

  /** Resolves when more may come. @throws the error of an earlier write */
  async record(request: Recording): Promise<void> {
    if (request.kind === 'proven') {
      await this.#options.ledger.proven(request.found);
      return;
    }
    this.#results.push(...request.results);
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
    if (this.#results.length > 0) await this.#options.ledger.record(this.#results.splice(0));
  }
}

type CallMarket = Pick<Marketplace, 'account' | 'validate' | 'item'>;

/** Makes one call. @throws the signal's reason */
export async function callMarket(
  { clock }: Pick<Db, 'clock'>,
  marketplace: CallMarket,
  call: Call,
  options: CallOptions,
): Promise<Answer> {
  let sentAt = clock.now();
  const onRequest = () => {
    sentAt = clock.now();
    return options.onRequest?.() ?? (() => undefined);
  };
  const reply = await answerOf(marketplace, call, { ...options, onRequest });
  return { sentAt, at: clock.now(), ...reply };
}

async function answerOf(marketplace: CallMarket, call: Call, options: CallOptions) {
  switch (call.kind) {
    case 'account':
      return { kind: call.kind, reply: await marketplace.account(options) };
    case 'item':
      return { kind: call.kind, reply: await marketplace.item(call.id, options) };
    case 'validate': {
      const reply = await askForm(marketplace, call.form, options, call.onNewConnection);
      return { kind: call.kind, reply };
    }
  }
}

/** Asks about one form of a code. Of an answer it keeps no more than the store does. */
export async function askForm(
  marketplace: Pick<Marketplace, 'validate'>,
  form: string,
  options: CallOptions,
  onNewConnection = false,
): Promise<CodeReply> {
  const reply = await marketplace.validate(form, { ...options, onNewConnection });
  return reply.kind === 'answered' ? { ...reply, data: foundPurchase(reply.data) } : reply;
}
