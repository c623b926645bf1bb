import { setTimeout as delay } from 'node:timers/promises';
import { hostName } from '../domain/address.js';
import { BudgetPaused } from '../domain/budget.js';
import type { Account, Item, Purchase } from '../domain/item.js';
import type { Limited, Reply } from '../domain/reply.js';
import { checkBaseUrl } from './address.js';
import { evenlySpacedBudget } from './budget.js';
import { Courier, type Errand, type Send } from './courier.js';
import { readBody } from './envelope.js';
import { isSuccess, judge, judgeFailure, judgeHead } from './judge.js';
import { openList, type ListLimits } from './list-stream.js';
import {
  accountQuestion,
  itemQuestion,
  listQuestion,
  validationQuestion,
  type Asked,
  type Question,
} from './questions.js';
import { KeyRedactor } from './redaction.js';
import { checkCarriage, DEFAULT_CARRIAGE } from './request.js';
import {
  MAX_ERROR_BYTES,
  type Patience,
  type Response,
  type StreamedResponse,
  type WholeResponse,
} from './response.js';
import { DEFAULT_RETRY, withRetries, type Chance } from './retry.js';
import { serverFacts } from './server-facts.js';
import { TransportError } from './transport-error.js';
import { Transport, type Connect } from './transport.js';
import type {
  Budget,
  CallOptions,
  CallRecord,
  ItemList,
  Marketplace,
  MarketplaceOptions,
  Priority,
  RetryPolicy,
  ServerFacts,
  Sourced,
} from './types.js';

/** What tests may replace. */
export interface Seams extends Partial<Chance> {
  /** How connections are made. */
  readonly connect?: Connect;
}

const DEFAULT_REQUESTS_PER_MINUTE = 60;
const DEFAULT_WAIT_MS = 60_000;
const DEFAULT_REPLY_MS = 300_000;
const DEFAULT_LIST_MS = 6 * 3_600_000;
const MIB = 1024 * 1024;

/**
 * The client of one marketplace account.
 * @throws PlainHttpRefusedError when the key would travel unencrypted to another machine
 * @throws MarketplaceOptionsError when the address or the carriage can't work
 */
export function createMarketplace(options: MarketplaceOptions, seams: Seams = {}): Marketplace {
  const allowPlainHttp = options.allowPlainHttp ?? false;
  const carriage = options.carriage ?? DEFAULT_CARRIAGE;
  checkBaseUrl(options.baseUrl, allowPlainHttp);
  checkCarriage(carriage, options.key);
  return new Client(options, {
    now: seams.now ?? Date.now,
    random: seams.random ?? Math.random,
    sleep: seams.sleep ?? sleep,
    ...(seams.connect === undefined ? {} : { connect: seams.connect }),
  });
}

class Client implements Marketplace {
  readonly host: string;
  readonly #transport: Transport;
  readonly #courier: Courier;
  readonly #budget: Budget;
  readonly #redactor: KeyRedactor;
  readonly #chance: Chance;
  readonly #retry: RetryPolicy;
  readonly #limits: ListLimits & { readonly maxReplyBytes: number };
  readonly #patience: Record<'reply' | 'list', Patience>;
  readonly #onCall: NonNullable<MarketplaceOptions['onCall']>;
  #closed = false;

  constructor(options: MarketplaceOptions, seams: Chance & Pick<Seams, 'connect'>) {
    this.host = hostName(options.baseUrl);
    this.#chance = seams;
    this.#transport = new Transport(seams.connect);
    this.#budget = options.budget ?? evenlySpacedBudget(DEFAULT_REQUESTS_PER_MINUTE);
    this.#redactor = new KeyRedactor(options.key);
    this.#retry = options.retry ?? DEFAULT_RETRY;
    this.#limits = {
      maxReplyBytes: options.maxReplyBytes ?? 64 * MIB,
      maxListBytes: options.maxListBytes ?? 16 * 1024 * MIB,
      maxRecordBytes: options.maxRecordBytes ?? 64 * MIB,
    };
    const waits = {
      headersMs: options.headersTimeoutMs ?? DEFAULT_WAIT_MS,
      silenceMs: options.bodyTimeoutMs ?? DEFAULT_WAIT_MS,
    };
    this.#patience = {
      reply: { ...waits, totalMs: options.replyTimeoutMs ?? DEFAULT_REPLY_MS },
      list: { ...waits, totalMs: options.listTimeoutMs ?? DEFAULT_LIST_MS },
    };
    this.#onCall = options.onCall ?? (() => {});
    this.#courier = new Courier({
      baseUrl: options.baseUrl,
      key: options.key,
      carriage: options.carriage ?? DEFAULT_CARRIAGE,
      allowPlainHttp: options.allowPlainHttp ?? false,
      budget: this.#budget,
      redactor: this.#redactor,
      now: () => seams.now(),
    });
  }

  account(options?: CallOptions): Promise<Reply<Sourced<Account>>> {
    return this.#ask(accountQuestion, 'mirror', options);
  }

  items(options?: CallOptions): Promise<Reply<ItemList>> {
    return this.#call(listQuestion, 'list', 'mirror', options, {
      send: (target, request, { patience, signal }) =>
        this.#transport.stream(target, request, patience, signal),
      read: (response: StreamedResponse, signal) => this.#readList(response, signal),
    });
  }

  item(id: number, options?: CallOptions): Promise<Reply<Sourced<Item>>> {
    return this.#ask(itemQuestion(id), 'mirror', options);
  }

  validate(code: string, options?: CallOptions): Promise<Reply<Sourced<Purchase>>> {
    return this.#ask(validationQuestion(code), 'audit', options);
  }

  async close(): Promise<void> {
    this.#closed = true;
    await this.#transport.close();
  }

  #ask<T>(
    question: Question<T>,
    priority: Priority,
    options: CallOptions = {},
  ): Promise<Reply<Sourced<T>>> {
    return this.#call(question, 'reply', priority, options, {
      send: this.#gather,
      read: async (response: WholeResponse) => {
        const body = await response.body();
        return judge(question, response, body, this.#chance.now(), this.#redactor);
      },
    });
  }

  readonly #gather: Send<WholeResponse> = (target, request, { patience, signal }) =>
    this.#transport.gather(target, request, patience, this.#limits.maxReplyBytes, signal);

  async #readList(response: StreamedResponse, signal: AbortSignal): Promise<Reply<ItemList>> {
    if (isSuccess(response.httpStatus)) {
      return openList(response, this.#limits, this.#redactor, signal);
    }
    const reading = readBody(await beginningOf(response));
    return judgeFailure(listQuestion, response.httpStatus, reading, this.#redactor);
  }

  /** One call with its repetitions. */
  async #call<T, R extends Response>(
    asked: Asked,
    patience: 'reply' | 'list',
    defaultPriority: Priority,
    options: CallOptions = {},
    manner: Manner<T, R>,
  ): Promise<Reply<T>> {
    if (this.#closed) throw new Error('this marketplace client is closed');
    const { deadline } = options;
    const given = options.signal ?? new AbortController().signal;
    const signal = deadline?.with(given) ?? given;
    const errand: Errand = {
      asked,
      priority: options.priority ?? defaultPriority,
      signal,
      patience: this.#patience[patience],
      longestPauseMs: this.#retry.maxMs,
    };
    const ask = async (number: number): Promise<Reply<T>> => {
      const asking = performance.now();
      const paused = await this.#acquire(errand);
      if (paused !== null) return paused;
      const started = performance.now();
      deadline?.sent();
      const attempt = await this.#attempt(errand, manner).catch((error: unknown) => {
        deadline?.ended(null);
        throw error;
      });
      const { reply, redirects, waitedMs, server } = attempt;
      deadline?.ended(reply);
      this.#onCall({
        operation: asked.operation,
        attempt: number,
        outcome: reply.kind,
        httpStatus: reply.httpStatus,
        redirects,
        durationMs: performance.now() - started - waitedMs,
        waitedMs: started - asking + waitedMs,
        server,
      });
      return reply;
    };
    try {
      return await withRetries(this.#retry, this.#chance, signal, ask);
    } catch (error) {
      if (deadline?.isOver === true && !given.aborted) return deadline.failure;
      throw error;
    }
  }

  /** Takes a request from the budget; null, or the reply that stands for a long pause. */
  async #acquire({ priority, signal, longestPauseMs }: Errand): Promise<Limited | null> {
    try {
      await this.#budget.acquire(priority, signal, longestPauseMs);
      return null;
    } catch (error) {
      return pausedReply(error);
    }
  }

  async #attempt<T, R extends Response>(
    errand: Errand,
    { send, read }: Manner<T, R>,
  ): Promise<Attempt<T>> {
    let redirects = 0;
    let waitedMs = 0;
    let server: ServerFacts | null = null;
    const cameTo = (reply: Reply<T>): Attempt<T> => ({ reply, redirects, waitedMs, server });
    try {
      const outcome = await this.#courier.run(errand, send, (ms) => {
        redirects++;
        waitedMs += ms;
      });
      if ('kind' in outcome) return cameTo(outcome);
      server = serverFacts(outcome);
      const settled = judgeHead(outcome, this.#chance.now());
      if (settled === null) return cameTo(await read(outcome, errand.signal));
      outcome.discard();
      return cameTo(settled);
    } catch (error) {
      return cameTo(error instanceof TransportError ? error.failure : pausedReply(error));
    }
  }
}

/** How an answer is fetched; `read` is given what its head leaves open. */
interface Manner<T, R extends Response> {
  readonly send: Send<R>;
  readonly read: (response: R, signal: AbortSignal) => Promise<Reply<T>>;
}

/** What one attempt came to; `waitedMs` is for its redirects only. */
interface Attempt<T> extends Pick<CallRecord, 'redirects' | 'waitedMs' | 'server'> {
  readonly reply: Reply<T>;
}

/** @throws the error, when it is no long pause */
function pausedReply(error: unknown): Limited {
  if (error instanceof BudgetPaused)
    return { kind: 'limited', httpStatus: null, retryAt: error.until };
  throw error;
}

/** What is read of an error's body: more of it does not matter. */
async function beginningOf(response: StreamedResponse): Promise<Buffer> {
  const parts: Buffer[] = [];
  let size = 0;
  for await (const chunk of response.chunks(Number.POSITIVE_INFINITY)) {
    parts.push(chunk);
    size += chunk.length;
    if (size > MAX_ERROR_BYTES) break;
  }
  return Buffer.concat(parts);
}

async function sleep(ms: number, signal: AbortSignal): Promise<void> {
  try {
    await delay(ms, undefined, { signal });
  } catch (error) {
    throw signal.aborted ? signal.reason : error;
  }
}
