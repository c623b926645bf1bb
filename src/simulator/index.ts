/** A simulated marketplace for tests, demo and benches. Has the same API, with quirks and faults on demand. */
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { frameworkError, htmlAnswer, redirectAnswer, type Answer } from './answer.js';
import { chooseEncoding, deliver } from './delivery.js';
import { faultAnswer, Faults, type Fault } from './faults.js';
import { Limits, type LimitOptions } from './limits.js';
import {
  answerOperation,
  parameter,
  Prerendered,
  readParameters,
  type Parameters,
} from './operations.js';
import { profiles, type Language, type ProfileName, type Quirks } from './profiles.js';
import { visibleAccount, visibleItem } from './render.js';
import { sellerOf, type Seller, type SellerSpec } from './seller.js';
import type { LogEntry, Operation, SimAccount, SimItem } from './types.js';

export { Catalogue, recordsCatalogue, seededCatalogue } from './catalogue.js';
export { notationQuirks } from './profiles.js';
export { Purchases, seededPurchases } from './seller.js';
export type { LogEntry, SimItem, SimPurchase } from './types.js';
export { profiles };
export type { Fault, Language, ProfileName, Quirks, Seller, SellerSpec };

export interface SimulatorOptions {
  /** Default 0: any free port. */
  readonly port?: number;
  readonly host?: string;
  readonly profile?: ProfileName;
  readonly quirks?: Partial<Quirks>;
  readonly sellers: readonly SellerSpec[];
  /** Per client address; default 0, no limit. */
  readonly requestsPerMinute?: number;
  readonly limit?: Partial<LimitOptions>;
  readonly language?: Language;
  /** `auto`: br or gzip if the client accepts it. Default `none`. */
  readonly compression?: 'auto' | 'none';
  /** Renders each list once to a temporary file and sends it from there. Has no effect with an unstable order. */
  readonly prerender?: boolean;
  /** Called for each request when its answer has ended or was cut off. */
  readonly onAnswered?: (entry: LogEntry) => void;
  /** Clock for limits and their headers, milliseconds since 1970; default the system's clock. */
  readonly now?: () => number;
}

const LOG_ENTRIES = 100_000;

interface Route {
  readonly operation: Operation;
  readonly method: 'GET' | 'POST';
}

const ROUTES: Readonly<Record<string, Route>> = {
  '/api/account/details': { operation: 'account', method: 'GET' },
  '/api/items/all': { operation: 'list', method: 'GET' },
  '/api/items/item': { operation: 'item', method: 'GET' },
  '/api/purchases/validation': { operation: 'validate', method: 'POST' },
};
/** The parameter that clients add so that no cache answers. Servers ignore it. */
const RANDOM_PARAMETER = '_';
const BROWSERS = /Mozilla|Chrome|Firefox|Opera|Edge/;

/** A marketplace on a local port: the four operations (API 4), with faults and changes on demand. */
export class Simulator {
  /** The newest 100,000 requests at least, oldest first. */
  readonly log: LogEntry[] = [];
  readonly faults = new Faults();
  readonly limits: Limits;
  /** Unexpected errors of the simulator itself. Tests expect none. */
  readonly defects: unknown[] = [];
  quirks: Quirks;
  language: Language;
  readonly #options: SimulatorOptions;
  readonly #now: () => number;
  readonly #prerendered: Prerendered | null;
  readonly #server = createServer((request, response) => void this.#handle(request, response));
  readonly #sellers = new Map<string, Seller>();
  #hooks: { left: number; run: () => unknown }[] = [];
  #serial = 0;

  constructor(options: SimulatorOptions) {
    const { requestsPerMinute = 0, limit, now = Date.now } = options;
    this.#options = options;
    this.#now = now;
    this.limits = new Limits({ requestsPerMinute, ...limit }, now);
    this.#prerendered = options.prerender === true ? new Prerendered() : null;
    this.quirks = { ...profiles[options.profile ?? 'documented'], ...options.quirks };
    this.language = options.language ?? 'en';
    for (const spec of options.sellers) this.addSeller(spec);
    // Long enough that no idle connection is closed just when a test sends its next request.
    this.#server.keepAliveTimeout = 120_000;
  }

  get url(): string {
    const { host = '127.0.0.1' } = this.#options;
    return `http://${host.includes(':') ? `[${host}]` : host}:${this.port}`;
  }

  get port(): number {
    return (this.#server.address() as AddressInfo).port;
  }

  /** Requests so far, including those being answered. */
  get requestCount(): number {
    return this.#serial;
  }

  get sellers(): readonly Seller[] {
    return [...this.#sellers.values()];
  }

  /** The owner of a key. @throws when the key is unknown */
  seller(key: string): Seller {
    const seller = this.#sellers.get(key);
    if (seller === undefined) throw new Error('no seller of the simulator has this key');
    return seller;
  }

  /** Adds a seller. A key that another seller has goes to the new one. */
  addSeller(spec: SellerSpec): Seller {
    const seller = sellerOf(spec);
    this.#sellers.set(spec.key.trim(), seller);
    return seller;
  }

  revoke(key: string): void {
    this.#sellers.delete(key);
  }

  setProfile(name: ProfileName, quirks: Partial<Quirks> = {}): void {
    this.quirks = { ...profiles[name], ...quirks };
  }

  /** The items that a correct client ends up with: each listed item once, in any order. */
  *truth(key: string): Generator<SimItem> {
    for (const item of this.seller(key).catalogue.truth()) yield visibleItem(item, this.quirks);
  }

  accountTruth(key: string): SimAccount {
    return visibleAccount(this.seller(key).account, this.quirks);
  }

  /** Calls `run` once, after `count` more requests; the next one is answered when it is done. */
  afterRequests(count: number, run: () => unknown): void {
    this.#hooks.push({ left: count, run });
  }

  async listen(): Promise<this> {
    const { port = 0, host = '127.0.0.1' } = this.#options;
    await new Promise<void>((resolve, reject) => {
      this.#server.once('error', reject).listen(port, host, resolve);
    });
    return this;
  }

  /** Closes all connections and deletes temporary files. May be called twice. */
  async close(): Promise<void> {
    const closed = new Promise((resolve) => this.#server.close(resolve));
    this.#server.closeAllConnections();
    await closed;
    await this.#prerendered?.close();
  }

  async #handle(request: IncomingMessage, response: ServerResponse): Promise<void> {
    response.on('error', () => undefined);
    const due = this.#hooks.filter((hook) => hook.left-- <= 0);
    this.#hooks = this.#hooks.filter((hook) => !due.includes(hook));
    for (const hook of due) await hook.run();
    const url = new URL((request.url ?? '/').replace(/^\/*/, '/'), 'http://any');
    const route = ROUTES[url.pathname.replace(/\/+$/, '')] ?? null;
    const entry: LogEntry = {
      at: Date.now(),
      operation: route?.operation ?? null,
      method: request.method ?? '',
      path: request.url?.split('?')[0] ?? '',
      hasKey: false,
      sellerName: null,
      parameters: {},
      random: null,
      status: 0,
      bytesSent: 0,
      finished: false,
    };
    this.log.push(entry);
    if (this.log.length > 2 * LOG_ENTRIES) this.log.splice(0, LOG_ENTRIES);
    response.once('finish', () => (entry.finished = true));
    response.once('close', () => this.#options.onAnswered?.(entry));
    try {
      const serial = ++this.#serial;
      const { answer, faults } = await this.#respond(request, url, route, entry, serial);
      const accepted = request.headers['accept-encoding'] ?? '';
      const encoding = this.#options.compression === 'auto' ? chooseEncoding(accepted) : null;
      await deliver(response, answer, faults, encoding, entry);
    } catch (error) {
      // A disconnected client is not a defect.
      if (!response.destroyed) this.defects.push(error);
      response.destroy();
    }
  }

  /** Answers like a deployed server: first the limit, then faults, then the operation. */
  async #respond(
    request: IncomingMessage,
    url: URL,
    route: Route | null,
    entry: LogEntry,
    serial: number,
  ): Promise<{ readonly answer: Answer; readonly faults: readonly Fault[] }> {
    const parameters = await readParameters(request, url.searchParams);
    const key = parameter(parameters, 'api_key');
    const owner = this.#sellers.get(key ?? '') ?? null;
    entry.hasKey = key !== undefined;
    entry.sellerName = owner?.username ?? null;
    const { api_key: _, [RANDOM_PARAMETER]: random = null, ...logged } = parameters;
    entry.parameters = logged;
    entry.random = random;
    const wantsJson = /json/.test(request.headers.accept ?? '');
    if (route === null) return { answer: answerOtherPath(url, wantsJson), faults: [] };
    const limit = this.limits.take(request.socket.remoteAddress ?? '');
    if (limit.isExceeded) {
      const answer = frameworkError(429, 'Too Many Attempts.', true, limit.headers);
      return { answer, faults: [] };
    }
    const faults = this.faults.take(route.operation);
    const answer =
      this.#answerFault(request, faults, parameters, random) ??
      this.#checkRequest(request, route.method, wantsJson) ??
      (await answerOperation({
        operation: route.operation,
        parameters,
        seller: faults.some(({ kind }) => kind === 'key-refused') ? null : owner,
        quirks: this.quirks,
        language: faults.find((fault) => fault.kind === 'translated')?.language ?? this.language,
        serial,
        prerendered: this.#prerendered,
      }));
    const headers = { ...limit.headers, ...answer.headers };
    return { answer: { ...answer, headers }, faults };
  }

  #answerFault(
    request: IncomingMessage,
    faults: readonly Fault[],
    parameters: Parameters,
    random: string | null,
  ): Answer | null {
    const { url: target = '/', headers } = request;
    const host = headers.host ?? '';
    const context = { host, target, input: parameters, random, now: this.#now() };
    // The last one wins, so `next` overrides `always`.
    for (const fault of faults.toReversed()) {
      const answer = faultAnswer(fault, context);
      if (answer !== null) return answer;
    }
    return null;
  }

  #checkRequest(
    { method = '', headers }: IncomingMessage,
    expected: Route['method'],
    wantsJson: boolean,
  ): Answer | null {
    if (this.quirks.browserRedirect && BROWSERS.test(headers['user-agent'] ?? '')) {
      return redirectAnswer(302, `http://${headers.host}/`);
    }
    const allowed = expected === 'GET' ? 'GET, HEAD' : 'POST';
    if (allowed.split(', ').includes(method)) return null;
    const message = `The ${method} method is not supported for this route. Supported methods: ${allowed}.`;
    return frameworkError(405, message, wantsJson, { Allow: allowed });
  }
}

/** @throws when the port is taken */
export async function startSimulator(options: SimulatorOptions): Promise<Simulator> {
  return new Simulator(options).listen();
}

function answerOtherPath({ pathname }: URL, wantsJson: boolean): Answer {
  if (pathname === '/') return htmlAnswer(200, 'Marketplace');
  return frameworkError(404, wantsJson ? 'The route could not be found.' : 'Not Found', wantsJson);
}
