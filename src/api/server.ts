import { once, setMaxListeners } from 'node:events';
import type { App } from '../app.js';
import { callsAllowed, type SellerConfig } from '../config/index.js';
import { isLoopback } from '../domain/address.js';
import type { Log } from '../domain/log.js';
import type { Queues } from '../service/queue/queues.js';
import { askForRuns } from '../service/ask.js';
import { readBoard } from '../service/board.js';
import { LIMITS, serve, type WebServer } from '../service/listen.js';
import { SellerLookUps } from '../codes/look-up.js';
import { apiApp, type ApiParts, type ApiSeller } from './app.js';

const API = { name: 'the API', setting: 'API_LISTEN' };

const API_LIMITS = {
  ...LIMITS,
  /** Programs keep their connections open. */
  connections: 512,
  keepAliveMs: 60_000,
  idleMs: 75_000,
  /** A request may wait for a run. */
  responseMs: 75_000,
};

/**
 * Serves the API for programs at `API_LISTEN`.
 * @returns null when it is off
 * @throws {UserError} when it can't listen on the address
 */
export async function startApi(
  app: App,
  queues: Queues,
  log: Log,
  onAnswer?: ApiParts['onAnswer'],
): Promise<WebServer | null> {
  const { config, db, signal } = app;
  const { listen } = config.api;
  if (listen === null) return null;
  if (!isLoopback(listen.host)) {
    log.warn('the API is open to other machines without TLS: put a proxy with TLS in front of it');
  }
  const ended = new AbortController();
  const until = AbortSignal.any([signal, ended.signal]);
  // Each look-up under way listens.
  setMaxListeners(0, until);
  const open = await Promise.all(
    config.sellers.map((seller) => openSeller(app, queues, seller, until)),
  );
  const parts: ApiParts = {
    db,
    sellers: new Map(open.map(({ seller }) => [seller.sellerId, seller])),
    manage: {
      board: (only) => readBoard(db, config, new Date(db.clock.now()), only),
      ask: async (seller, askedBy) =>
        config.sellers.some(({ name }) => name === seller)
          ? askForRuns(app, queues, seller, { kind: 'sync' }, askedBy)
          : null,
    },
    keys: config.sellers.map(({ key }) => key),
    log,
    signal: until,
    ...(onAnswer === undefined ? {} : { onAnswer }),
  };
  const server = await serve(() => apiApp(parts), listen, API, API_LIMITS, log);
  return {
    url: server.url,
    async close() {
      await server.close();
      ended.abort(new Error('the API is closed'));
      await Promise.all(open.map(({ closed }) => closed));
    },
  };
}

/** Opens a client of the seller's marketplace, until the signal. */
async function openSeller(
  app: App,
  queues: Queues,
  { name }: SellerConfig,
  signal: AbortSignal,
): Promise<{ readonly seller: ApiSeller; readonly closed: Promise<void> }> {
  const config = app.config.sellers.find((seller) => seller.name === name) as SellerConfig;
  return new Promise((resolve, reject) => {
    const closed = app.withMarketplace(config, {}, async (deps) => {
      const { db, sellerId, marketplace } = deps;
      const confirm = (auditId: bigint): Promise<void> => queues.addAudit(sellerId, auditId);
      const seller: ApiSeller = {
        sellerId,
        lookUps: new SellerLookUps({ db, sellerId, marketplace, confirm, signal }),
        host: marketplace.host,
        callsPerMinute: callsAllowed(app.config)(sellerId),
      };
      resolve({ seller, closed });
      if (!signal.aborted) await once(signal, 'abort');
    });
    closed.catch(reject);
  });
}
