import { setTimeout as delay } from 'node:timers/promises';
import { hostName } from '../domain/address.js';
import { BudgetPaused } from '../domain/budget.js';
import type { Account, Item, Purchase } from '../domain/item.js';
import { KeyRedactor } from '../domain/redact.js';
import type { Limited, Reply } from '../domain/reply.js';
import { evenlySpacedBudget } from './budget.js';
import {
  accountEndpoint,
  itemEndpoint,
  listEndpoint,
  type Endpoint,
  type RecordEndpoint,
  validationEndpoint,
} from './endpoints.js';
import { readBody } from './envelope.js';
import { isSuccess, judge, judgeFailure, judgeHead } from './judge.js';
import { openList, type ListLimits } from './list-stream.js';
import { serverFacts } from './rate-limit.js';
import { DEFAULT_CARRIAGE, checkBaseUrl, checkCarriage, readAccess } from './request.js';
import {
  MAX_ERROR_BYTES,
  TransportError,
  type Timeouts,
  type Response,
  type StreamedResponse,
  type WholeResponse,
} from './response.js';
import { DEFAULT_RETRY, withRetries, type Timing } from './retry.js';
import { RequestSender, type Call, type Send } from './sender.js';
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

/** Clock, chance and connections; tests replace them. */
export interface Seams extends Partial<Timing> {
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
 * @throws MarketplaceOptionsError when the address, the key or the carriage can't work
 */
export function createMarketplace(options: MarketplaceOptions, seams: Seams = {}): Marketplace {
  const access = readAccess(options);
  const allowPlainHttp = options.allowPlainHttp ?? false;
  const carriage = options.carriage ?? DEFAULT_CARRIAGE;
  checkBaseUrl(access.baseUrl, allowPlainHttp);
  checkCarriage(carriage, access.key);
  return new Client(
    { ...options, ...access },
    {
      now: seams.now ?? Date.now,
      random: seams.random ?? Math.random,
      sleep: seams.sleep ?? sleep,
      ...(seams.connect === undefined ? {} : { connect: seams.connect }),
    },
  );
}

class Client implements Marketplace {
  readonly host: string;
  readonly #transport: Transport;
  readonly #sender: RequestSender;
  readonly #budget: Budget;
  readonly #redactor: KeyRedactor;
  readonly #timing: Timing;
  readonly #retry: RetryPolicy;
  readonly #limits: ListLimits & { readonly maxReplyBytes: number };
  readonly #timeouts: Record<'reply' | 'list', Timeouts>;
  readonly #onCall: NonNullable<MarketplaceOptions['onCall']>;
  #closed = false;

  constructor(
    options: MarketplaceOptions & ReturnType<typeof readAccess>,
    seams: Timing & Pick<Seams, 'connect'>,
  ) {
    this.host = hostName(options.baseUrl);
    this.#timing = seams;
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
    this.#timeouts = {
      reply: { ...waits, totalMs: options.replyTimeoutMs ?? DEFAULT_REPLY_MS },
      list: { ...waits, totalMs: options.listTimeoutMs ?? DEFAULT_LIST_MS },
    };
    this.#onCall = options.onCall ?? (() => {});
    this.#sender = new RequestSender({
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
    return this.#ask(accountEndpoint, 'mirror', options);
  }

  items(options?: CallOptions): Promise<Reply<ItemList>> {
    return this.#call(listEndpoint, 'list', 'mirror', options, {
      send: (target, request, { timeouts, signal }) =>
        this.#transport.stream(target, request, timeouts, signal),
      read: (response: StreamedResponse, signal) => this.#readList(response, signal),
    });
  }

  item(id: number, options?: CallOptions): Promise<Reply<Sourced<Item>>> {
    return this.#ask(itemEndpoint(id), 'mirror', options);
  }

  validate(code: string, options?: CallOptions): Promise<Reply<Sourced<Purchase>>> {
    return this.#ask(validationEndpoint(code), 'audit', options);
  }

  async close(): Promise<void> {
    this.#closed = true;
    await this.#transport.close();
  }

  #ask<T>(
    endpoint: RecordEndpoint<T>,
    priority: Priority,
    options: CallOptions = {},
  ): Promise<Reply<Sourced<T>>> {
    return this.#call(endpoint, 'reply', priority, options, {
      send: this.#collect,
      read: async (response: WholeResponse) => {
        const body = await response.body();
        return judge(endpoint, response, body, this.#timing.now(), this.#redactor);
      },
    });
  }

  readonly #collect: Send<WholeResponse> = (target, request, { timeouts, signal }) =>
    this.#transport.collect(target, request, timeouts, this.#limits.maxReplyBytes, signal);

  async #readList(response: StreamedResponse, signal: AbortSignal): Promise<Reply<ItemList>> {
    if (isSuccess(response.httpStatus)) {
      return openList(response, this.#limits, this.#redactor, signal);
    }
    const reading = readBody(await errorBody(response));
    return judgeFailure(listEndpoint, response.httpStatus, reading, this.#redactor);
  }

  /** One call with its retries. */
  async #call<T, R extends Response>(
    endpoint: Endpoint,
    timeouts: 'reply' | 'list',
    defaultPriority: Priority,
    options: CallOptions = {},
    steps: CallSteps<T, R>,
  ): Promise<Reply<T>> {
    if (this.#closed) throw new Error('this marketplace client is closed');
    const { deadline } = options;
    const given = options.signal ?? new AbortController().signal;
    const signal = deadline?.with(given) ?? given;
    const call: Call = {
      endpoint,
      priority: options.priority ?? defaultPriority,
      signal,
      timeouts: this.#timeouts[timeouts],
      longestPauseMs: this.#retry.maxMs,
    };
    const ask = async (number: number): Promise<Reply<T>> => {
      const asking = performance.now();
      const paused = await this.#acquire(call);
      if (paused !== null) return paused;
      const started = performance.now();
      deadline?.sent();
      const attempt = await this.#attempt(call, steps).catch((error: unknown) => {
        deadline?.ended(null);
        throw error;
      });
      const { reply, redirects, waitedMs, server } = attempt;
      deadline?.ended(reply);
      this.#onCall({
        operation: endpoint.operation,
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
      return await withRetries(this.#retry, this.#timing, signal, ask);
    } catch (error) {
      if (deadline?.isOver === true && !given.aborted) return deadline.failure;
      throw error;
    }
  }

  /** Takes a request from the budget. Returns a reply when it is paused for too long, else null. */
  async #acquire({ priority, signal, longestPauseMs }: Call): Promise<Limited | null> {
    try {
      await this.#budget.acquire(priority, signal, longestPauseMs);
      return null;
    } catch (error) {
      return pausedReply(error);
    }
  }

  async #attempt<T, R extends Response>(
    call: Call,
    { send, read }: CallSteps<T, R>,
  ): Promise<Attempt<T>> {
    let redirects = 0;
    let waitedMs = 0;
    let server: ServerFacts | null = null;
    const result = (reply: Reply<T>): Attempt<T> => ({ reply, redirects, waitedMs, server });
    try {
      const outcome = await this.#sender.send(call, send, (ms) => {
        redirects++;
        waitedMs += ms;
      });
      if ('kind' in outcome) return result(outcome);
      server = serverFacts(outcome);
      const settled = judgeHead(outcome, this.#timing.now());
      if (settled === null) return result(await read(outcome, call.signal));
      outcome.discard();
      return result(settled);
    } catch (error) {
      return result(error instanceof TransportError ? error.failure : pausedReply(error));
    }
  }
}

/** How a call is sent and its answer read; `read` is called when the head alone decides nothing. */
interface CallSteps<T, R extends Response> {
  readonly send: Send<R>;
  readonly read: (response: R, signal: AbortSignal) => Promise<Reply<T>>;
}

/** Result of one attempt; `waitedMs` counts the waits of its redirects only. */
interface Attempt<T> extends Pick<CallRecord, 'redirects' | 'waitedMs' | 'server'> {
  readonly reply: Reply<T>;
}

/** @throws the error, unless it says that the budget is paused */
function pausedReply(error: unknown): Limited {
  if (error instanceof BudgetPaused)
    return { kind: 'limited', httpStatus: null, retryAt: error.until };
  throw error;
}

/** The first MiB of an error's body. */
async function errorBody(response: StreamedResponse): Promise<Buffer> {
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
