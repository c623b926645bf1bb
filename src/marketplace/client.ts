import { randomBytes } from 'node:crypto';
import { setMaxListeners } from 'node:events';
import { setTimeout as delay } from 'node:timers/promises';
import { hostName } from '../domain/address.js';
import { BudgetPaused, type Priority } from '../domain/budget.js';
import { Redactor } from '../domain/redact.js';
import { type Failure, type Reply, DEFAULT_RETRY, pauseAfter } from './reply.js';
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
import { isSuccess, judge, judgeFailure, judgeHead } from './judge.js';
import { openList } from './list-stream.js';
import { serverFacts } from './rate-limit.js';
import { checkOptions, requestBuilder } from './request.js';
import { RequestSender, type Call } from './sender.js';
import { Transport, type Connect, type HttpResponse } from './transport.js';
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
const DEFAULT_LIST_TIMEOUT_MS = 6 * 3_600_000;
const MIB = 1024 * 1024;
/** A host that refuses requests with the random parameter is tried without it at most this often (ms). */
const TRY_WITHOUT_EVERY_MS = 60_000;

/** @throws {MarketplaceOptionsError} when an option is unknown or can't work */
export function createMarketplace(
  options: MarketplaceOptions,
  dependencies: Dependencies = {},
): Marketplace {
  const { baseUrl, key, carriage, allowPlainHttp } = checkOptions(options);
  const { now = Date.now, random = Math.random, sleep = abortableSleep } = dependencies;
  const { retry = DEFAULT_RETRY, onCall } = options;
  const budget = options.budget ?? evenlySpacedBudget(DEFAULT_REQUESTS_PER_MINUTE);
  const redactor = new Redactor([key]);
  const transport = new Transport(redactor, dependencies.connect);
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
  const {
    maxListBytes = 16 * 1024 * MIB,
    maxRecordBytes = 64 * MIB,
    headersTimeoutMs: headersMs = DEFAULT_IDLE_TIMEOUT_MS,
    bodyTimeoutMs: silenceMs = DEFAULT_IDLE_TIMEOUT_MS,
    replyTimeoutMs = DEFAULT_REPLY_TIMEOUT_MS,
    listTimeoutMs = DEFAULT_LIST_TIMEOUT_MS,
  } = options;
  const replyTimeouts = { headersMs, silenceMs, totalMs: replyTimeoutMs };
  const listTimeouts = { headersMs, silenceMs, totalMs: listTimeoutMs };
  const randomParameter = options.randomParameter ?? ownRandomParameter();
  let triedWithoutAt = -Infinity;
  let isClosed = false;

  /** Makes one call with its retries. @param read reads the body of a response whose headers show no failure */
  async function call<T>(
    endpoint: Endpoint,
    defaultPriority: Priority,
    callOptions: CallOptions,
    read: (response: HttpResponse, signal: AbortSignal) => Promise<Reply<T>>,
  ): Promise<Reply<T>> {
    if (isClosed) throw new Error('this marketplace client is closed');
    const { onRequest, priority = defaultPriority } = callOptions;
    const signal = callOptions.signal ?? new AbortController().signal;
    // Each open call adds a listener. Node would warn of a leak at the eleventh.
    setMaxListeners(0, signal);
    const timeouts = endpoint === listEndpoint ? listTimeouts : replyTimeouts;
    const request = { endpoint, priority, signal, timeouts, longestPauseMs: retry.maxMs };
    const send = (number: number, random: string | null): Promise<Reply<T>> =>
      attempt({ ...request, random }, number, onRequest, read);
    for (let number = 1; ; number++) {
      const mark = (await randomParameter.isSent()) ? randomBytes(12).toString('hex') : null;
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
    number: number,
    onRequest: CallOptions['onRequest'],
    read: (response: HttpResponse, signal: AbortSignal) => Promise<Reply<T>>,
  ): Promise<Reply<T>> {
    const { priority, signal, longestPauseMs } = request;
    const requestedAt = performance.now();
    try {
      await budget.acquire(priority, signal, longestPauseMs);
    } catch (error) {
      return toFailure(error);
    }
    const sentAt = performance.now();
    let redirects = 0;
    let redirectsWaitedMs = 0;
    let server: ServerFacts | null = null;
    const send = async (): Promise<Reply<T>> => {
      const response = await sender.send(request, (ms) => {
        redirects++;
        redirectsWaitedMs += ms;
      });
      if ('kind' in response) return response;
      server = serverFacts(response.origin, response.headers);
      const failure = judgeHead(response, now());
      if (failure === null) return read(response, signal);
      response.discard();
      return failure;
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
      durationMs: performance.now() - sentAt - redirectsWaitedMs,
      waitedMs: sentAt - requestedAt + redirectsWaitedMs,
      server,
    });
    return reply;
  }

  function fetchRecord<T>(
    endpoint: RecordEndpoint<T>,
    priority: Priority,
    callOptions: CallOptions = {},
  ): Promise<Reply<Sourced<T>>> {
    return call(endpoint, priority, callOptions, async (response) => {
      const body = await response.body(endpoint.maxBytes);
      return judge(endpoint, response.httpStatus, body, redactor);
    });
  }

  return {
    host: hostName(baseUrl),
    account: (callOptions) => fetchRecord(accountEndpoint, 'mirror', callOptions),
    items: (callOptions = {}) =>
      call(listEndpoint, 'mirror', callOptions, async (response, signal) => {
        const { httpStatus } = response;
        if (isSuccess(httpStatus)) {
          return openList(response, { maxListBytes, maxRecordBytes }, redactor, signal);
        }
        const reading = readBody(await response.body(MIB));
        return judgeFailure(listEndpoint, httpStatus, reading, redactor);
      }),
    item: (id, callOptions) => fetchRecord(itemEndpoint(id), 'mirror', callOptions),
    async validate(code, callOptions) {
      if (code.trim() === key.reveal().trim()) {
        throw new TypeError('one of the codes is the API key of this client; remove it');
      }
      return fetchRecord(validationEndpoint(code), 'audit', callOptions);
    },
    async close() {
      isClosed = true;
      await transport.close();
    },
  };
}

/**
 * True for a reply that a host may give because of the random parameter. A denial, 401 and 403 never are: a key
 * that went bad must not switch the parameter off.
 */
function mayRefuseParameter(reply: Reply<unknown>): boolean {
  if (reply.kind === 'answered' || reply.kind === 'denied') return false;
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
