import { setMaxListeners } from 'node:events';
import { setTimeout as delay } from 'node:timers/promises';
import { hostName } from '../domain/address.js';
import { BudgetPaused, type Priority } from '../domain/budget.js';
import { KeyRedactor } from '../domain/redact.js';
import type { Reply } from '../domain/reply.js';
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
import { openList } from './list-stream.js';
import { serverFacts } from './rate-limit.js';
import { readAccess, requestBuilder } from './request.js';
import { DEFAULT_RETRY, pauseAfter } from './retry.js';
import { RequestSender, type Call } from './sender.js';
import { Transport, TransportError, type Connect, type HttpResponse } from './transport.js';
import type {
  CallOptions,
  CallRecord,
  Marketplace,
  MarketplaceOptions,
  ServerFacts,
  Sourced,
} from './types.js';

/** Clock, chance, waiting and connections; tests replace them. */
export interface Seams {
  /** Milliseconds since 1970. */
  readonly now?: () => number;
  /** At least 0 and less than 1. */
  readonly random?: () => number;
  /** Rejects with the signal's reason when it is aborted. */
  readonly sleep?: (ms: number, signal: AbortSignal) => Promise<void>;
  readonly connect?: Connect;
}

const DEFAULT_REQUESTS_PER_MINUTE = 60;
const DEFAULT_WAIT_MS = 60_000;
const DEFAULT_REPLY_MS = 300_000;
const DEFAULT_LIST_MS = 6 * 3_600_000;
const MIB = 1024 * 1024;

/** @throws MarketplaceOptionsError when the key, the address or the carriage can't work */
export function createMarketplace(options: MarketplaceOptions, seams: Seams = {}): Marketplace {
  const { baseUrl, key, carriage, allowPlainHttp } = readAccess(options);
  const { now = Date.now, random = Math.random, sleep = sleepFor } = seams;
  const { retry = DEFAULT_RETRY, onCall } = options;
  const budget = options.budget ?? evenlySpacedBudget(DEFAULT_REQUESTS_PER_MINUTE);
  const redactor = new KeyRedactor(key);
  const transport = new Transport(seams.connect);
  const build = requestBuilder(key, carriage);
  const sender = new RequestSender({
    baseUrl,
    allowPlainHttp,
    build,
    transport,
    budget,
    redactor,
    now,
  });
  const maxReplyBytes = options.maxReplyBytes ?? 64 * MIB;
  const listLimits = {
    maxListBytes: options.maxListBytes ?? 16 * 1024 * MIB,
    maxRecordBytes: options.maxRecordBytes ?? 64 * MIB,
  };
  const waits = {
    headersMs: options.headersTimeoutMs ?? DEFAULT_WAIT_MS,
    silenceMs: options.bodyTimeoutMs ?? DEFAULT_WAIT_MS,
  };
  const replyTimeouts = { ...waits, totalMs: options.replyTimeoutMs ?? DEFAULT_REPLY_MS };
  const listTimeouts = { ...waits, totalMs: options.listTimeoutMs ?? DEFAULT_LIST_MS };
  let isClosed = false;

  /** One call with its retries. @param read reads an answer whose head shows no failure */
  async function call<T>(
    endpoint: Endpoint,
    defaultPriority: Priority,
    { deadline, priority = defaultPriority, ...callOptions }: CallOptions,
    read: (response: HttpResponse, signal: AbortSignal) => Promise<Reply<T>>,
  ): Promise<Reply<T>> {
    if (isClosed) throw new Error('this marketplace client is closed');
    const given = callOptions.signal ?? new AbortController().signal;
    const signal = deadline?.with(given) ?? given;
    // Each open call adds a listener; Node warns of a leak from the eleventh on.
    setMaxListeners(0, signal);
    const timeouts = endpoint === listEndpoint ? listTimeouts : replyTimeouts;
    const planned: Call = { endpoint, priority, signal, timeouts, longestPauseMs: retry.maxMs };
    try {
      for (let number = 1; ; number++) {
        const reply = await attempt(planned, number, deadline, read);
        const pause = pauseAfter(reply, number, retry, now(), random());
        if (pause === null) return reply;
        await sleep(pause, signal);
      }
    } catch (error) {
      if (deadline?.isOver === true && !given.aborted) return deadline.failure;
      throw error;
    }
  }

  async function attempt<T>(
    planned: Call,
    number: number,
    deadline: CallOptions['deadline'],
    read: (response: HttpResponse, signal: AbortSignal) => Promise<Reply<T>>,
  ): Promise<Reply<T>> {
    const { priority, signal, longestPauseMs } = planned;
    const asked = performance.now();
    try {
      await budget.acquire(priority, signal, longestPauseMs);
    } catch (error) {
      return failureOf(error);
    }
    const started = performance.now();
    let redirects = 0;
    let redirectsWaitedMs = 0;
    let server: ServerFacts | null = null;
    const send = async (): Promise<Reply<T>> => {
      const response = await sender.send(planned, (ms) => {
        redirects++;
        redirectsWaitedMs += ms;
      });
      if ('kind' in response) return response;
      server = serverFacts(response);
      const failure = judgeHead(response, now());
      if (failure === null) return read(response, signal);
      response.discard();
      return failure;
    };
    deadline?.sent();
    let reply: Reply<T> | null = null;
    try {
      reply = await send().catch(failureOf);
    } finally {
      deadline?.ended(reply);
    }
    onCall?.({
      operation: planned.endpoint.operation,
      attempt: number,
      outcome: reply.kind,
      httpStatus: reply.httpStatus,
      redirects,
      durationMs: performance.now() - started - redirectsWaitedMs,
      waitedMs: started - asked + redirectsWaitedMs,
      server,
    } satisfies CallRecord);
    return reply;
  }

  function ask<T>(
    endpoint: RecordEndpoint<T>,
    priority: Priority,
    callOptions: CallOptions = {},
  ): Promise<Reply<Sourced<T>>> {
    return call(endpoint, priority, callOptions, async (response) => {
      const body = await response.body(maxReplyBytes);
      return judge(endpoint, response.httpStatus, body, redactor);
    });
  }

  return {
    host: hostName(baseUrl),
    account: (callOptions) => ask(accountEndpoint, 'mirror', callOptions),
    items: (callOptions = {}) =>
      call(listEndpoint, 'mirror', callOptions, async (response, signal) => {
        const { httpStatus } = response;
        if (isSuccess(httpStatus)) return openList(response, listLimits, redactor, signal);
        const reading = readBody(await response.body(maxReplyBytes));
        return judgeFailure(listEndpoint, httpStatus, reading, redactor);
      }),
    item: (id, callOptions) => ask(itemEndpoint(id), 'mirror', callOptions),
    async validate(code, callOptions) {
      if (code.trim() === key.reveal().trim()) {
        throw new TypeError('a code is the API key of this client; take it out of the codes');
      }
      return ask(validationEndpoint(code), 'audit', callOptions);
    },
    async close() {
      isClosed = true;
      await transport.close();
    },
  };
}

/** @throws the error, unless it is a failed request or says that the budget is paused */
function failureOf(error: unknown): Exclude<Reply<never>, { kind: 'answered' }> {
  if (error instanceof TransportError) return error.failure;
  if (!(error instanceof BudgetPaused)) throw error;
  return { kind: 'limited', httpStatus: null, retryAt: error.until };
}

async function sleepFor(ms: number, signal: AbortSignal): Promise<void> {
  try {
    await delay(ms, undefined, { signal });
  } catch (error) {
    throw signal.aborted ? signal.reason : error;
  }
}
