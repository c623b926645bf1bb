import { createServer } from 'node:http';
import type { IncomingHttpHeaders, IncomingMessage, Server, ServerResponse } from 'node:http';
import { createServer as createSecureServer } from 'node:https';
import type { AddressInfo } from 'node:net';
import type { RedirectOptions } from './answer.js';
import { chooseEncoding, deliver } from './delivery.js';
import { Faults } from './faults.js';
import { respond } from './handler.js';
import { Limits } from './limits.js';
import type { LimitOptions } from './limits.js';
import { Prerendered } from './operations.js';
import { profiles } from './profiles.js';
import type { Language, ProfileName, Quirks } from './profiles.js';
import { visibleAccount, visibleItem } from './render.js';
import { Seller } from './seller.js';
import type { SellerSpec } from './seller.js';
import type { Operation, SimAccount, SimItem } from './types.js';

export interface SimulatorOptions {
  /** Default 0: any free port. */
  readonly port?: number;
  /** Default 127.0.0.1. */
  readonly host?: string;
  /** Path below which the API lives, such as `/shop`; default none. */
  readonly basePath?: string;
  /** Default `documented`. */
  readonly profile?: ProfileName;
  /** Single quirks that differ from the profile. */
  readonly quirks?: Partial<Quirks>;
  readonly sellers: readonly SellerSpec[];
  /** Per client address; default 0, no limit. */
  readonly requestsPerMinute?: number;
  readonly limit?: Partial<LimitOptions>;
  /** Default `en`. */
  readonly language?: Language;
  /** Status of every error envelope; default: that of the field notes' error table. */
  readonly errorStatus?: number;
  /** Serve TLS with this certificate. */
  readonly https?: { readonly key: string; readonly cert: string };
  readonly redirects?: RedirectOptions;
  /** Host names served, without port; others get a 421 page. Default: all. */
  readonly knownHosts?: readonly string[];
  /** A request header in which the key is looked for too; default none (field notes). */
  readonly keyHeader?: string;
  /** `auto`: br or gzip, whichever the client accepts. Default `none`. */
  readonly compression?: 'auto' | 'gzip' | 'br' | 'none';
  /** Render each list once to a temporary file and send it from there. No use with an unstable order. */
  readonly prerender?: boolean;
  /** Called for each request when its answer has ended or was cut off. */
  readonly onAnswered?: (entry: LogEntry) => void;
  /** Milliseconds since 1970, for limits and their headers; default the system's clock. */
  readonly now?: () => number;
}

/** A request as the server saw it, without its key. Filled in while it is answered. */
export interface LogEntry {
  /** Milliseconds since 1970. */
  readonly at: number;
  /** Null when the path is none of the four. */
  operation: Operation | null;
  readonly method: string;
  /** Without the query. */
  readonly path: string;
  readonly host: string;
  readonly userAgent: string;
  readonly accept: string;
  /** Names in lower case; the header that carries the key is masked. */
  readonly headers: IncomingHttpHeaders;
  parameterPlacement: 'query' | 'form' | 'json' | 'header' | 'mixed' | 'none';
  keySeenIn: 'query' | 'form' | 'json' | 'header' | null;
  /** Which of the sellers the key belongs to, counted from 0; -1 for none of them. */
  keyIndex: number;
  sellerName: string | null;
  parameters: Record<string, string>;
  /** 0 until an answer begins; stays 0 when the connection is reset before that. */
  status: number;
  /** Bytes of the body handed to the connection. */
  bytesSent: number;
  /** The whole answer was handed over. */
  finished: boolean;
}

const KEPT = 100_000;
const SLACK = 10_000;

/** Appends to the log; forgets the oldest entries beyond the last 100,000 (with some slack). */
export function record(log: LogEntry[], entry: LogEntry): void {
  log.push(entry);
  if (log.length >= KEPT + SLACK) log.splice(0, log.length - KEPT);
}

/** A marketplace on a port: the four operations of the spec, with faults and changes at will. */
export class Simulator {
  /** The newest 100,000 requests, oldest first. */
  readonly log: LogEntry[] = [];
  readonly faults = new Faults();
  readonly limits: Limits;
  readonly prerendered: Prerendered | null;
  /** Defects of the simulator itself; always empty in a sound test. */
  readonly defects: unknown[] = [];
  quirks: Quirks;
  language: Language;
  errorStatus: number | null;
  readonly #server: Server;
  readonly #sellers = new Map<string, Seller>();
  #hooks: { left: number; run: () => void }[] = [];
  #serial = 0;

  constructor(readonly options: SimulatorOptions) {
    const { requestsPerMinute = 0, limit, now = Date.now } = options;
    this.limits = new Limits({ requestsPerMinute, ...limit }, now);
    this.prerendered = options.prerender === true ? new Prerendered() : null;
    this.quirks = { ...profiles[options.profile ?? 'documented'], ...options.quirks };
    this.language = options.language ?? 'en';
    this.errorStatus = options.errorStatus ?? null;
    for (const spec of options.sellers) this.addSeller(spec);
    const handle = (request: IncomingMessage, response: ServerResponse): void => {
      void this.#handle(request, response);
    };
    this.#server =
      options.https === undefined
        ? createServer(handle)
        : createSecureServer(options.https, handle);
    // Long, so that no idle connection is closed just as a test sends its next request.
    this.#server.keepAliveTimeout = 120_000;
  }

  /** The base address, without a trailing slash. */
  get url(): string {
    const { https, host = '127.0.0.1', basePath = '' } = this.options;
    const name = host.includes(':') ? `[${host}]` : host;
    return `${https === undefined ? 'http' : 'https'}://${name}:${this.port}${basePath}`;
  }

  get port(): number {
    return (this.#server.address() as AddressInfo).port;
  }

  /** Requests so far; goes up before each is answered. */
  get requestCount(): number {
    return this.#serial;
  }

  get sellers(): readonly Seller[] {
    return [...this.#sellers.values()];
  }

  /** The owner of a key. Throws when the key is unknown. */
  seller(key: string): Seller {
    const seller = this.#sellers.get(key);
    if (seller === undefined) throw new Error('no seller of the simulator has this key');
    return seller;
  }

  /** The owner of a key from a request; null when it is unknown. */
  owner(key: string | undefined): Seller | null {
    return (key === undefined ? undefined : this.#sellers.get(key)) ?? null;
  }

  /** Adds a seller. If another seller has the key, it now belongs to the new one. */
  addSeller(spec: SellerSpec): Seller {
    const seller = new Seller(spec);
    this.#sellers.set(spec.key.trim(), seller);
    return seller;
  }

  /** Makes a key unknown. */
  revoke(key: string): void {
    this.#sellers.delete(key);
  }

  /** Switches to a profile, with quirks that differ from it. */
  setProfile(name: ProfileName, quirks: Partial<Quirks> = {}): void {
    this.quirks = { ...profiles[name], ...quirks };
  }

  /** The items a correct client ends up with: each listed one once, in any order. */
  *truth(key: string): Generator<SimItem> {
    for (const item of this.seller(key).catalogue.truth()) yield visibleItem(item, this.quirks);
  }

  /** The account a correct client ends up with. */
  accountTruth(key: string): SimAccount {
    return visibleAccount(this.seller(key).account, this.quirks);
  }

  /** Calls `run` once, just before the request after the next `count` ones is answered. */
  afterRequests(count: number, run: () => void): void {
    this.#hooks.push({ left: count, run });
  }

  async listen(): Promise<this> {
    const { port = 0, host = '127.0.0.1' } = this.options;
    await new Promise<void>((resolve, reject) => {
      this.#server.once('error', reject).listen(port, host, resolve);
    });
    return this;
  }

  /** Stops listening, ends open connections at once, removes temporary files. May be called twice. */
  async close(): Promise<void> {
    const closed = new Promise((resolve) => this.#server.close(resolve));
    this.#server.closeAllConnections();
    await closed;
    await this.prerendered?.close();
  }

  async #handle(request: IncomingMessage, response: ServerResponse): Promise<void> {
    response.on('error', () => undefined);
    const due = this.#hooks.filter((hook) => hook.left-- <= 0);
    this.#hooks = this.#hooks.filter((hook) => !due.includes(hook));
    for (const hook of due) hook.run();
    const entry = firstEntry(request);
    record(this.log, entry);
    response.once('finish', () => (entry.finished = true));
    response.once('close', () => this.options.onAnswered?.(entry));
    try {
      const { answer, faults } = await respond(this, request, entry, ++this.#serial);
      const accepted = request.headers['accept-encoding'] ?? '';
      const encoding = chooseEncoding(this.options.compression ?? 'none', accepted);
      await deliver(response, answer, faults, encoding, entry);
    } catch (error) {
      // A client that disconnected is not a defect.
      if (!response.destroyed) this.defects.push(error);
      response.destroy();
    }
  }
}

/** Starts a simulated marketplace. Rejects when the port is taken. */
export async function startSimulator(options: SimulatorOptions): Promise<Simulator> {
  return new Simulator(options).listen();
}

function firstEntry(request: IncomingMessage): LogEntry {
  const { headers } = request;
  return {
    at: Date.now(),
    operation: null,
    method: request.method ?? '',
    path: request.url?.split('?')[0] ?? '',
    host: headers.host ?? '',
    userAgent: headers['user-agent'] ?? '',
    accept: headers.accept ?? '',
    headers,
    parameterPlacement: 'none',
    keySeenIn: null,
    keyIndex: -1,
    sellerName: null,
    parameters: {},
    status: 0,
    bytesSent: 0,
    finished: false,
  };
}
