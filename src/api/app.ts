import { Hono, type Context } from 'hono';
import type { z } from 'zod';
import {
  DEFAULT_MAX_AGE,
  lookUpStored,
  MOST_SELLERS,
  type LookUp,
  type SellerLookUps,
  type MaxAge,
} from '../codes/look-up.js';
import type { KnownCode } from '../codes/known-code.js';
import { readFoundEver } from '../codes/situation-store.js';
import { readCell } from '../marketplace/code.js';
import type { Log } from '../domain/log.js';
import { cellMasker } from '../domain/redact.js';
import type { Secret } from '../domain/secret.js';
import { assertWritable, type Db } from '../db/db.js';
import { prefer } from '../service/listen.js';
import { VERSION } from '../version.js';
import { Allowance, CallShare } from './allowance.js';
import { answerOf, noCode, unproven } from './answers.js';
import { addManagement, type ManageParts } from './manage.js';
import { openApi } from './openapi.js';
import { faultsOf, Refusal, type ApiContext, type ApiEnv } from './refusal.js';
import { checkManyRequest, checkRequest, type Answer } from './schemas.js';
import { Callers, type Caller, type Scope } from '../service/tokens-store.js';

/** A seller whose codes can be looked up. */
export interface ApiSeller {
  readonly sellerId: string;
  readonly lookUps: Pick<SellerLookUps, 'ask'>;
  /** Host of the marketplace. Its sellers share a request budget. */
  readonly host: string;
  /** Calls a minute that look-ups at this host may make; Infinity: no limit. */
  readonly callsPerMinute: number;
}

export interface ApiParts {
  readonly db: Db;
  /** By name. */
  readonly sellers: ReadonlyMap<string, ApiSeller>;
  readonly manage: ManageParts;
  /** API keys. One that is sent in place of a code is refused, since codes are stored. */
  readonly keys: readonly Secret[];
  readonly log: Log;
  /** Aborted when the process ends. */
  readonly signal: AbortSignal;
  /** `refused`: too many unknown codes. */
  readonly onAnswer?: (
    seller: string,
    verdict: Answer['verdict'] | 'refused',
    asked: boolean,
  ) => void;
}

/** Largest request bodies, bytes. */
const MAX_BODY = 4 * 1024;
const MAX_BODY_OF_MANY = 32 * 1024;
/** A larger body is read to here, so that its sender gets an answer in place of a broken connection, bytes. */
const MAX_DRAINED = 1024 * 1024;
/** Requests of one token a minute, known codes included. */
const REQUESTS_PER_MINUTE = 300_000;
/** Part of the calls that one token may use. */
const TOKEN_SHARE = 1 / 2;
/** Calls for unknown codes of one token a minute, also without a budget. */
const CALLS_PER_MINUTE = 12_000;
/** Codes of one request that are looked up at a time. */
const CONCURRENCY = 8;
/** The marketplace is asked about no further code of a request after this time, milliseconds. */
const ASKING_MS = 10_000;

interface Question {
  readonly code: string;
  readonly item: number | null;
}

/** The API for programs: look-ups of codes, management, health, and its own description. */
export function apiApp(parts: ApiParts): Hono<ApiEnv> {
  const { db, log } = parts;
  const callers = new Callers(db);
  const lookUps = new LookUps(parts);
  const app = new Hono<ApiEnv>();
  app.use((c, next) => {
    c.header('cache-control', 'no-store');
    c.header('x-content-type-options', 'nosniff');
    return next();
  });
  app.get('/v1/health', async (c) => {
    const isUp = await assertWritable(db).then(
      () => true,
      () => false,
    );
    return c.json({ status: isUp ? 'ok' : 'the database takes no writes' }, isUp ? 200 : 503);
  });
  app.get('/openapi.json', (c) => c.json(openApi(VERSION)));
  for (const [path, method, scope] of DOORS) {
    app.use(path, async (c, next) => {
      if (c.req.method !== method) throw new Refusal(405, `send a ${method} request`);
      c.set('caller', await authenticate(c, callers, scope));
      const socket = (c.env as Partial<ApiEnv['Bindings']> | undefined)?.incoming?.socket;
      if (socket !== undefined) prefer(socket);
      lookUps.admit(c.var.caller);
      return next();
    });
  }
  addManagement(app, db, parts.manage, parts.signal);
  app.post('/v1/codes/check', async (c) => {
    const { code, item, max_age, seller } = await bodyOf(c, checkRequest, MAX_BODY);
    const question = { code, item: item ?? null };
    const of = sellersFor(parts, c.var.caller, seller);
    return c.json(await lookUps.answerAny(question, of, max_age, c.var.caller));
  });
  app.post('/v1/codes/check-many', async (c) => {
    const { codes, max_age, seller } = await bodyOf(c, checkManyRequest, MAX_BODY_OF_MANY);
    const questions = codes.map((one): Question =>
      typeof one === 'string'
        ? { code: one, item: null }
        : { code: one.code, item: one.item ?? null },
    );
    const [of, another] = sellersFor(parts, c.var.caller, seller);
    if (of === undefined || another !== undefined) {
      throw new Refusal(422, 'seller: there are several; name one, or bind the token to one');
    }
    return c.json({ results: await lookUps.answerMany(questions, of, max_age, c.var.caller) });
  });
  app.notFound((c) => problem(c, 404, 'there is no such address; /openapi.json lists them'));
  app.onError((error, c) => {
    if (error instanceof Refusal) {
      if (error.retryAfterS !== null) c.header('retry-after', String(error.retryAfterS));
      if (error.status === 401) c.header('www-authenticate', 'Bearer');
      return problem(c, error.status, error.message);
    }
    log.warn('a request to the API failed', { error });
    c.header('retry-after', '5');
    return problem(c, 503, 'not available right now; try again');
  });
  return app;
}

/** The method of each address, and the scope that a token needs for it. */
const DOORS: readonly (readonly [path: string, method: 'GET' | 'POST', scope: Scope])[] = [
  ['/v1/codes/*', 'POST', 'codes'],
  ['/v1/status', 'GET', 'manage'],
  ['/v1/sellers/:seller/sync', 'POST', 'manage'],
  ['/v1/runs/:run', 'GET', 'manage'],
  ['/v1/changes', 'GET', 'manage'],
];

function problem(c: Context, status: Refusal['status'] | 503, error: string) {
  return c.json({ error }, status);
}

async function authenticate(c: ApiContext, callers: Callers, scope: Scope): Promise<Caller> {
  const [, token] = /^Bearer +(\S{1,200})$/i.exec(c.req.header('authorization') ?? '') ?? [];
  const caller = token === undefined ? null : await callers.find(token);
  if (caller === null) {
    throw new Refusal(
      401,
      'the token is missing, wrong or revoked: send `Authorization: Bearer TOKEN`; `seller-mirror tokens add NAME` makes one',
    );
  }
  if (caller.scope !== scope) {
    throw new Refusal(
      403,
      `the token has the scope ${caller.scope}, and this needs the scope ${scope}: \`seller-mirror tokens add NAME --scope ${scope}\` makes one`,
    );
  }
  return caller;
}

async function bodyOf<S extends z.ZodType>(
  c: ApiContext,
  schema: S,
  maxBytes: number,
): Promise<z.output<S>> {
  const text = await textOf(c, maxBytes);
  let body: unknown;
  try {
    body = JSON.parse(text);
  } catch {
    throw new Refusal(400, 'the body is no JSON: send {"code": "…"} as application/json');
  }
  const read = schema.safeParse(body);
  if (read.success) return read.data;
  throw new Refusal(422, faultsOf(read.error));
}

/** The body as text. A body without a length is read as a stream, which costs more than the rest of an answer. */
async function textOf(c: ApiContext, maxBytes: number): Promise<string> {
  const length = c.req.header('content-length');
  if (length !== undefined && Number(length) <= maxBytes) return c.req.text();
  const chunks: Uint8Array[] = [];
  let bytes = 0;
  for await (const chunk of (c.req.raw.body ?? []) as AsyncIterable<Uint8Array>) {
    bytes += chunk.length;
    if (bytes <= maxBytes) chunks.push(chunk);
    else if (bytes > MAX_DRAINED) break;
  }
  if (bytes > maxBytes) throw new Refusal(413, 'the request is too large');
  return Buffer.concat(chunks).toString();
}

/** The sellers that a request is about: the one that it or the token names, else all. */
function sellersFor(
  { sellers }: ApiParts,
  caller: Caller,
  asked: string | undefined,
): readonly ApiSeller[] {
  const name = asked ?? caller.sellerId;
  if (name === null) {
    if (sellers.size <= MOST_SELLERS) return [...sellers.values()];
    throw new Refusal(422, `seller: there are more than ${MOST_SELLERS}; name one`);
  }
  const seller = sellers.get(name);
  const isAllowed = caller.sellerId === null || caller.sellerId === name;
  if (seller === undefined || !isAllowed) {
    throw new Refusal(422, 'seller: this token can’t look up codes of that seller');
  }
  return [seller];
}

/** Answers questions within what each token and all tokens together may ask of the marketplace. */
class LookUps {
  readonly #parts: ApiParts;
  readonly #requests = new Map<bigint, Allowance>();
  /** By host of the marketplace. */
  readonly #calls = new Map<string, CallShare>();
  readonly #callsOfToken = new Map<string, Allowance>();
  /** Calls under way. Callers who ask about the same code share one. */
  readonly #asking = new Map<string, Promise<LookUp>>();

  constructor(parts: ApiParts) {
    this.#parts = parts;
  }

  /** @throws {Refusal} 429 */
  admit({ tokenId }: Caller): void {
    const requests = entry(this.#requests, tokenId, () => new Allowance(REQUESTS_PER_MINUTE));
    if (requests.waitMs > 0) throw tooMany(requests.waitMs);
    requests.charge();
  }

  /**
   * @param askUntil by `performance.now()`: the marketplace is not asked later
   * @throws {Refusal} 429 when the marketplace would have to be asked, and may not be
   */
  async answer(
    { code: text, item }: Question,
    seller: ApiSeller,
    maxAge: number | undefined,
    caller: Caller,
    askUntil = Infinity,
  ): Promise<Answer> {
    const code = this.#codeIn(text);
    if (typeof code !== 'string') return code;
    const { db, onAnswer } = this.#parts;
    const { sellerId } = seller;
    const age = ageOf(maxAge);
    const { answer: found, stored } = await lookUpStored(db, sellerId, code, age);
    const isLate = performance.now() > askUntil;
    const asking = found === null && !isLate ? this.#ask(code, age, seller, caller) : null;
    const lookUp = found ?? (await asking) ?? this.#notAsked(stored.known, isLate, seller, caller);
    const answer = answerOf(lookUp, item, db.clock.now());
    onAnswer?.(sellerId, answer.verdict, asking !== null);
    return answer;
  }

  /**
   * Asks several sellers: stored answers come first, then one marketplace after another, the seller with most purchases
   * first, until one finds the code. A denial is recorded only if no other seller finds it.
   */
  async answerAny(
    question: Question,
    sellers: readonly ApiSeller[],
    maxAge: number | undefined,
    caller: Caller,
  ): Promise<Answer> {
    const [only, another] = sellers;
    if (only !== undefined && another === undefined) {
      return this.answer(question, only, maxAge, caller);
    }
    const code = this.#codeIn(question.code);
    if (typeof code !== 'string') return code;
    const { db, onAnswer } = this.#parts;
    const age = ageOf(maxAge);
    const asked = await Promise.all(
      sellers.map(async (seller) => ({
        seller,
        purchases: await readFoundEver(db, seller.sellerId),
        ...(await lookUpStored(db, seller.sellerId, code, age)),
      })),
    );
    const answers = asked.flatMap(({ seller, answer }) =>
      answer === null ? [] : [{ seller, lookUp: answer, record: null as Recorder | null }],
    );
    if (!answers.some(isFound)) {
      const rest = asked.filter(({ answer }) => answer === null);
      for (const { seller, stored } of rest.sort((a, b) => b.purchases - a.purchases)) {
        let record: Recorder | null = null;
        const asking = this.#ask(code, age, seller, caller, (held) => (record = held));
        const lookUp = (await asking) ?? this.#notAsked(stored.known, false, seller, caller);
        const one = { seller, lookUp, record };
        answers.push(one);
        if (isFound(one)) break;
      }
    }
    const hasFound = answers.some(isFound);
    const done = await Promise.all(
      answers.map(async ({ seller, lookUp, record }) => {
        return { seller, lookUp: record === null || hasFound ? lookUp : await record() };
      }),
    );
    const [best] = done.sort((a, b) => rankOf(a.lookUp) - rankOf(b.lookUp));
    if (best === undefined) throw new Refusal(422, 'seller: none is configured');
    const seller = rankOf(best.lookUp) === 0 ? best.seller.sellerId : null;
    const answer = answerOf(best.lookUp, question.item, db.clock.now());
    onAnswer?.(
      best.seller.sellerId,
      answer.verdict,
      asked.some(({ answer: known }) => known === null),
    );
    return { ...answer, seller };
  }

  /** The code in a text, or why it is none. */
  #codeIn(text: string): string | Answer {
    const read = readCell(text);
    if (!('code' in read)) return noCode(read.fault);
    const { code } = read;
    return cellMasker(this.#parts.keys)(code) === code
      ? code
      : noCode('is an API key: it was neither sent to the marketplace nor stored');
  }

  /** Answers in order. Unknown codes about which the marketplace may not be asked now are unproven. */
  async answerMany(
    questions: readonly Question[],
    seller: ApiSeller,
    maxAge: number | undefined,
    caller: Caller,
  ): Promise<Answer[]> {
    const answers: Answer[] = [];
    const waiting = [...questions.entries()];
    const askUntil = performance.now() + ASKING_MS;
    const lane = async (): Promise<void> => {
      for (let next = waiting.shift(); next !== undefined; next = waiting.shift()) {
        const [at, question] = next;
        answers[at] = await this.answer(question, seller, maxAge, caller, askUntil).catch(
          (error: unknown) => {
            if (!(error instanceof Refusal)) throw error;
            return unproven(error.message, error.retryAfterS);
          },
        );
      }
    };
    await Promise.all(Array.from({ length: CONCURRENCY }, lane));
    return answers;
  }

  /** Asks the marketplace. @returns null if that is not allowed now */
  #ask(
    code: string,
    maxAge: MaxAge,
    seller: ApiSeller,
    caller: Caller,
    onDenied?: (record: Recorder) => void,
  ): Promise<LookUp> | null {
    const key = `${seller.sellerId}\0${code}${onDenied === undefined ? '' : '\0held'}`;
    // Each of several askers must be able to record the denial.
    const running = onDenied === undefined ? this.#asking.get(key) : undefined;
    if (running !== undefined) return running;
    const { all, ofToken } = this.#limits(seller, caller);
    if (all.waitMs > 0 || ofToken.waitMs > 0) return null;
    all.charge();
    ofToken.charge();
    const ask = async (): Promise<LookUp> => {
      // Another caller's look-up may have ended since the store was read.
      const { db } = this.#parts;
      const { answer, stored } = await lookUpStored(db, seller.sellerId, code, maxAge);
      if (answer !== null) {
        all.charge(-1);
        ofToken.charge(-1);
        return answer;
      }
      const lookUp = await seller.lookUps.ask(code, stored, {
        onCalls: (calls) => all.settle(seller.sellerId, calls),
        onDenied,
      });
      // The second check.
      if (lookUp.kind === 'pending' || isBeingChecked(lookUp)) ofToken.charge();
      return lookUp;
    };
    const asking = ask().finally(() => this.#asking.delete(key));
    this.#asking.set(key, asking);
    return asking;
  }

  #notAsked(known: KnownCode | null, isLate: boolean, seller: ApiSeller, caller: Caller): LookUp {
    if (known !== null) return { kind: 'known', known, stale: true, againAfterS: null };
    if (isLate) throw new Refusal(429, 'the other codes of the request took too long', 1);
    this.#parts.onAnswer?.(seller.sellerId, 'refused', false);
    const { all, ofToken } = this.#limits(seller, caller);
    throw tooMany(Math.max(1, all.waitMs, ofToken.waitMs));
  }

  #limits({ host, callsPerMinute }: ApiSeller, { tokenId }: Caller) {
    const own = Math.min(Math.max(1, callsPerMinute * TOKEN_SHARE), CALLS_PER_MINUTE);
    return {
      all: entry(this.#calls, host, () => new CallShare(callsPerMinute)),
      ofToken: entry(this.#callsOfToken, `${tokenId} ${host}`, () => new Allowance(own)),
    };
  }
}

/** Records a denial that was held back. */
type Recorder = () => Promise<LookUp>;

/** An old verdict does not count where the code was denied just now. */
function isFound(one: { readonly lookUp: LookUp; readonly record: Recorder | null }): boolean {
  return rankOf(one.lookUp) === 0 && one.record === null;
}

/** What says most about a code that several sellers were asked about: 0 for a purchase. */
function rankOf(lookUp: LookUp): number {
  if (lookUp.kind === 'pending') return 1;
  if (lookUp.kind === 'unproven') return 2;
  return { valid: 0, no_longer_valid: 3, invalid: 4 }[lookUp.known.verdict];
}

function ageOf(maxAge: number | undefined): MaxAge {
  return maxAge === undefined ? DEFAULT_MAX_AGE : { valid: maxAge, invalid: maxAge };
}

/** An old verdict was denied just now. */
function isBeingChecked(lookUp: LookUp): boolean {
  return lookUp.kind === 'known' && lookUp.againAfterS !== null;
}

function entry<K, T>(of: Map<K, T>, key: K, make: () => T): T {
  const found = of.get(key) ?? make();
  of.set(key, found);
  return found;
}

function tooMany(waitMs: number): Refusal {
  const seconds = Math.ceil(waitMs / 1000);
  return new Refusal(429, `too many requests: ask again in ${seconds} s`, seconds);
}
