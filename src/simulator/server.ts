import { createServer } from 'node:http';
import type { IncomingMessage, Server, ServerResponse } from 'node:http';
import { createServer as createSecureServer } from 'node:https';
import type { AddressInfo } from 'node:net';
import { deliver } from './delivery.js';
import { chooseEncoding } from './chunks.js';
import { Faults } from './faults.js';
import { respond } from './handler.js';
import { Limits } from './limits.js';
import { record } from './log.js';
import type { LogEntry } from './log.js';
import type { SimulatorOptions } from './options.js';
import { Prerendered } from './prerender.js';
import { profiles } from './profiles.js';
import type { ProfileName, Quirks } from './profiles.js';
import { Seller } from './seller.js';
import type { SellerSpec } from './seller.js';
import type { SimAccount, SimItem } from './types.js';
import { visibleAccount, visibleItem } from './visible.js';
import type { Language } from './words.js';

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
    // Idle connections stay open, so that no test meets a connection that ends just as it is used.
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

  /** The owner of a key as it came, or null. */
  owner(key: string | undefined): Seller | null {
    return (key === undefined ? undefined : this.#sellers.get(key)) ?? null;
  }

  /** Adds a seller. A key that is known goes over to them: the account changes under the key. */
  addSeller(spec: SellerSpec): Seller {
    const seller = new Seller(spec);
    this.#sellers.set(spec.key.trim(), seller);
    return seller;
  }

  /** The key is unknown from now on. */
  revoke(key: string): void {
    this.#sellers.delete(key);
  }

  /** Speaks another dialect from now on: a profile, with quirks that differ from it. */
  setProfile(name: ProfileName, quirks: Partial<Quirks> = {}): void {
    this.quirks = { ...profiles[name], ...quirks };
  }

  /** What the list says at present: what a perfect client ends up with, once each, in any order. */
  *truth(key: string): Generator<SimItem> {
    for (const item of this.seller(key).catalogue.truth()) yield visibleItem(item, this.quirks);
  }

  /** What account details say at present. */
  accountTruth(key: string): SimAccount {
    return visibleAccount(this.seller(key).account, this.quirks);
  }

  /** Runs `run` after `count` more requests came in, just before the next one is looked at. */
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
      // A client that went away is no defect.
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
