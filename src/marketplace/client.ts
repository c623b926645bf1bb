import { randomUUID } from 'node:crypto';
import { setMaxListeners } from 'node:events';
import { setTimeout as delay } from 'node:timers/promises';
import { hostName } from '../domain/address.js';
import { BudgetPaused, type Priority } from '../domain/budget.js';
import { Redactor } from '../domain/redact.js';
import { largePlace } from './body.js';
import { evenlySpacedBudget, ownRandomParameter } from './budget.js';
import {
  accountEndpoint,
  itemEndpoint,
  listEndpoint,
  type Endpoint,
  type RecordEndpoint,
  validationEndpoint,
} from './endpoints.js';
import { readBody } from './envelope.js';
import { isSuccess, judge, judgeFailure } from './judge.js';
import { readList } from './list.js';
import { serverFacts } from './rate-limit.js';
import { DEFAULT_RETRY, pauseAfter, type Failure, type Reply } from './reply.js';
import { checkOptions, requestBuilder } from './request.js';
import { RequestSender, type Answer, type Call, type Connect, type Watcher } from './sender.js';
import { TransportError } from './transport-error.js';
import type {
  CallOptions,
  Marketplace,
  MarketplaceOptions,
  ServerFacts,
  Sourced,
} from './types.js';

/** Clock, randomness, sleep and connections, which tests replace. */
export interface Dependencies {
  /** Milliseconds since 1970. */
  readonly now?: () => number;
  /** In [0, 1). */
  readonly random?: () => number;
  /** Rejects with the signal's reason when aborted. */
  readonly sleep?: (ms: number, signal: AbortSignal) => Promise<void>;
  readonly connect?: Connect;
}

const DEFAULT_REQUESTS_PER_MINUTE = 60;
const DEFAULT_IDLE_TIMEOUT_MS = 60_000;
const DEFAULT_REPLY_TIMEOUT_MS = 300_000;
const DEFAULT_LIST_TIMEOUT_MS = 15 * 60_000;
/** With less time than this (ms), a list is not asked for again. */
const SHORTEST_LIST_MS = 1_000;
const MIB = 1024 * 1024;
const DEFAULT_LIST_BYTES = 512 * MIB;
/** A host that refuses requests with the random parameter is tried without it at most this often (ms). */
const TRY_WITHOUT_EVERY_MS = 60_000;

/** A signal that is never aborted. */
const NEVER = new AbortController().signal;

/** @throws {MarketplaceOptionsError} when an option is unknown or can't work */
export function createMarketplace(
  options: MarketplaceOptions,
  dependencies: Dependencies = {},
): Marketplace {
  const { baseUrl, key, carriage, allowPlainHttp } = checkOptions(options);
  const { now = Date.now, random = Math.random, sleep = abortableSleep } = dependencies;
  const { retry = DEFAULT_RETRY, onCall, listMarks = 'check' } = options;
  const budget = options.budget ?? evenlySpacedBudget(DEFAULT_REQUESTS_PER_MINUTE);
  const randomParameter = options.randomParameter ?? ownRandomParameter();
  const redactor = new Redactor([key]);
  const {
    maxListBytes = DEFAULT_LIST_BYTES,
    headersTimeoutMs: headersMs = DEFAULT_IDLE_TIMEOUT_MS,
    bodyTimeoutMs: silenceMs = DEFAULT_IDLE_TIMEOUT_MS,
    replyTimeoutMs = DEFAULT_REPLY_TIMEOUT_MS,
    listTimeoutMs = DEFAULT_LIST_TIMEOUT_MS,
  } = options;
  const sender = new RequestSender({
    baseUrl,
    allowPlainHttp,
    headersMs,
    silenceMs,
    build: requestBuilder(key, carriage),
    budget,
    redactor,
    now,
    connect: dependencies.connect ?? null,
  });
  let triedWithoutAt = -Infinity;
  let isClosed = false;

  /** What a call needs beside its endpoint. @param read makes a reply of an answer whose headers show no failure */
  interface Reading<T> {
    readonly priority: Priority;
    readonly maxBytes: number;
    readonly tooLarge: string;
    readonly read: (answer: Answer) => Reply<T>;
  }

  /** Makes one call with its retries. */
  async function call<T>(
    endpoint: Endpoint,
    { read, ...reading }: Reading<T>,
    { onRequest, onBytes, priority = reading.priority, signal = NEVER }: CallOptions,
  ): Promise<Reply<T>> {
    if (isClosed) throw new Error('this marketplace client is closed');
    // Each open call adds a listener. Node would warn of a leak at the eleventh.
    setMaxListeners(0, signal);
    const isList = endpoint === listEndpoint;
    const request: Call = {
      ...reading,
      endpoint,
      priority,
      signal,
      longestPauseMs: retry.maxMs,
      mayBeLarge: isList,
      onBytes: isList ? onBytes : undefined,
      deadline: { at: performance.now() + listTimeoutMs },
    };
    const send = (number: number, random: string | null): Promise<Reply<T>> => {
      // A list has one limit for all attempts, because a marketplace that drips holds up every other seller.
      if (!isList) request.deadline.at = performance.now() + replyTimeoutMs;
      return attempt(request, random, number, onRequest, read);
    };
    for (let number = 1; ; number++) {
      const mark = (await randomParameter.isSent()) ? randomUUID().replaceAll('-', '') : null;
      let reply = await send(number, mark);
      if (mark !== null && mayRefuseParameter(reply) && isTimeToTryWithout()) {
        const without = await send(number, null);
        if (without.kind === 'answered') {
          await randomParameter.leaveOut();
          reply = without;
        }
      }
      const pause = pauseAfter(reply, number, retry, now(), random());
      if (pause === null) return reply;
      const leftMs = request.deadline.at - performance.now() - pause;
      if (isList && leftMs < SHORTEST_LIST_MS) return reply;
      await sleep(pause, signal);
    }
  }

  function isTimeToTryWithout(): boolean {
    const isTime = performance.now() - triedWithoutAt >= TRY_WITHOUT_EVERY_MS;
    if (isTime) triedWithoutAt = performance.now();
    return isTime;
  }

  async function attempt<T>(
    request: Call,
    random: string | null,
    number: number,
    onRequest: CallOptions['onRequest'],
    read: (answer: Answer) => Reply<T>,
  ): Promise<Reply<T>> {
    const { priority, signal, longestPauseMs } = request;
    const requestedAt = performance.now();
    try {
      await budget.acquire(priority, signal, longestPauseMs);
    } catch (error) {
      return toFailure(error);
    }
    const sentAt = performance.now();
    // The wait for the budget is no time of the reply.
    request.deadline.at += sentAt - requestedAt;
    let redirects = 0;
    let furtherWaitedMs = 0;
    let server: ServerFacts | null = null;
    const watcher: Watcher = {
      onFurther: (ms) => {
        redirects++;
        furtherWaitedMs += ms;
      },
      onHead: (origin, { headers }) => void (server = serverFacts(origin, headers)),
    };
    const send = async (): Promise<Reply<T>> => {
      const answer = await sender.send(request, random, watcher);
      return 'kind' in answer ? answer : read(answer);
    };
    const onReply = onRequest?.();
    let reply: Reply<T> | null = null;
    try {
      reply = await send().catch(toFailure);
    } finally {
      onReply?.(reply);
    }
    onCall?.({
      operation: request.endpoint.operation,
      attempt: number,
      outcome: reply.kind,
      httpStatus: reply.httpStatus,
      redirects,
      durationMs: performance.now() - sentAt - furtherWaitedMs,
      waitedMs: sentAt - requestedAt + furtherWaitedMs,
      server,
    });
    return reply;
  }

  function fetchRecord<T>(
    endpoint: RecordEndpoint<T>,
    priority: Priority,
    callOptions: CallOptions = {},
  ): Promise<Reply<Sourced<T>>> {
    const { maxBytes } = endpoint;
    const reading: Reading<Sourced<T>> = {
      priority,
      maxBytes,
      tooLarge: `the answer is larger than ${maxBytes / MIB} MiB, the most that is read`,
      read: ({ httpStatus, body }) => judge(endpoint, httpStatus, body, redactor),
    };
    return call(endpoint, reading, callOptions);
  }

  return {
    host: hostName(baseUrl),
    account: (callOptions) => fetchRecord(accountEndpoint, 'mirror', callOptions),
    items: (callOptions = {}) => {
      const mib = Math.round(maxListBytes / MIB);
      return call(
        listEndpoint,
        {
          priority: 'mirror',
          maxBytes: maxListBytes,
          tooLarge: `the list is larger than ${mib} MB, the most that is read (MAX_LIST_MB)`,
          read: (answer) => {
            const { httpStatus, body, hasLargePlace } = answer;
            if (!isSuccess(httpStatus)) {
              return judgeFailure(listEndpoint, httpStatus, readBody(body), redactor);
            }
            const release = hasLargePlace ? () => largePlace.free() : () => undefined;
            const reply = readList(answer, redactor, listMarks, release);
            if (reply.kind !== 'answered') release();
            return reply;
          },
        },
        callOptions,
      );
    },
    item: (id, callOptions) => fetchRecord(itemEndpoint(id), 'mirror', callOptions),
    async validate(code, callOptions) {
      if (code.trim() === key.reveal().trim()) {
        throw new TypeError('one of the codes is the API key of this client; remove it');
      }
      if (callOptions?.onNewConnection !== true) {
        return fetchRecord(validationEndpoint(code), 'audit', callOptions);
      }
      const own = createMarketplace({ ...options, budget, randomParameter }, dependencies);
      try {
        return await own.validate(code, { ...callOptions, onNewConnection: false });
      } finally {
        await own.close();
      }
    },
    async close() {
      isClosed = true;
      await sender.close();
    },
  };
}

/**
 * True for a reply that a host may give because of the random parameter. A denial and a refusal of the key never are: a
 * key that went bad must not switch the parameter off.
 */
function mayRefuseParameter(reply: Reply<unknown>): boolean {
  if (['answered', 'denied', 'refused'].includes(reply.kind)) return false;
  if (reply.kind === 'unavailable' && reply.reason === 'redirect') return true;
  return [400, 414, 422].includes(reply.httpStatus ?? 0);
}

/** Turns a failed request or a paused budget into a failure; throws any other error. */
function toFailure(error: unknown): Failure {
  if (error instanceof TransportError) return error.failure;
  if (!(error instanceof BudgetPaused)) throw error;
  return { kind: 'limited', httpStatus: null, retryAt: error.until };
}

async function abortableSleep(ms: number, signal: AbortSignal): Promise<void> {
  try {
    await delay(ms, undefined, { signal });
  } catch (error) {
    throw signal.aborted ? signal.reason : error;
  }
}
