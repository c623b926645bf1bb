import { hash } from 'node:crypto';
import { afterEach } from 'vitest';
import { startApi } from '../../src/api/server.js';
import type { Answer } from '../../src/api/schemas.js';
import { Purchases, seededCatalogue, type Simulator } from '../../src/simulator/index.js';
import { startJobs, useServices } from '../service/support.js';
import { silentLog } from '../../src/domain/log.js';
import { KEY, type Mirror } from '../support/mirror.js';
import { until } from '../support/until.js';

/** A look-up API in a service on a test's database, in front of a simulated marketplace. */
export interface Desk {
  readonly url: string;
  readonly sim: Simulator;
  readonly purchases: Purchases;
  /** The nth code that was sold. */
  readonly sold: (n: number) => string;
  readonly send: (path: string, init?: RequestInit) => Promise<Response>;
  /** Posts a question. @param body text is sent as it is */
  readonly post: (body: object | string, token?: string) => Promise<Response>;
  /** The answer to a question that gets one. */
  readonly ask: (body: object, token?: string) => Promise<Answer>;
  /** The answers to some. */
  readonly askMany: (body: object) => Promise<readonly Answer[]>;
  readonly status: (body: object, token?: string) => Promise<number>;
  /** Lets a minute pass and a worker come, until no denied code waits. */
  readonly secondCheck: () => Promise<void>;
}

export interface DeskOptions {
  readonly env?: Readonly<Record<string, string>>;
  /** Another marketplace than a new one. */
  readonly sim?: Simulator;
}

/** A token of a program is stored as its hash. @returns the token */
export async function addToken(
  mirror: Mirror,
  name: string,
  seller: string | null = null,
): Promise<string> {
  const token = tokenOf(name);
  await mirror.rows(
    'INSERT INTO mirror.api_tokens (name, seller_id, token_hash) VALUES ($1, $2, $3)',
    [name, seller, hash('sha256', token, 'buffer')],
  );
  return token;
}

const catalogue = seededCatalogue({ seed: 3, count: 20, descriptionBytes: 40 });

/** The seller of these tests, with 5,000 purchases. */
export function newSeller(username = 'ada') {
  return { key: KEY, username, catalogue, purchases: new Purchases({ seed: 11, count: 5_000 }) };
}

/** Opens look-up APIs for the tests of a file, and closes them before their services. */
export function useDesks(mirror: () => Mirror): (options?: DeskOptions) => Promise<Desk> {
  useServices();
  const open: { close(): Promise<void> }[] = [];
  afterEach(() => Promise.all(open.splice(0).map((api) => api.close())));
  return async ({ env = {}, sim: given } = {}) => {
    const seller = newSeller();
    const sim = given ?? (await mirror().simulate({ sellers: [seller] }));
    const settings = { API_LISTEN: '127.0.0.1:0', ...env };
    const { app, queues } = await startJobs(mirror(), sim.url, settings, {
      scheduler: false,
      worker: false,
    });
    const api = await startApi(app, queues, silentLog);
    if (api === null) throw new Error('the API is off');
    open.push(api);
    const names = await mirror().rows(`SELECT FROM mirror.api_tokens WHERE name = 'desk'`);
    const desk = names.length > 0 ? tokenOf('desk') : await addToken(mirror(), 'desk');
    const sold = Array.from({ length: 200 }, (_, n) => seller.purchases.codeAt(n)).filter(
      (code) => seller.purchases.find(code, catalogue)?.state === 'valid',
    );
    const send: Desk['send'] = (path, init) => fetch(api.url + path, init);
    const post: Desk['post'] = (body, token = desk) => {
      const isMany = typeof body === 'object' && 'codes' in body;
      return send(isMany ? '/v1/codes/check-many' : '/v1/codes/check', {
        method: 'POST',
        headers: { authorization: `Bearer ${token}`, 'content-type': 'application/json' },
        body: typeof body === 'string' ? body : JSON.stringify(body),
      });
    };
    const answerTo = async <T>(body: object, token?: string): Promise<T> => {
      const response = await post(body, token);
      if (response.status !== 200) throw new Error(await response.text());
      return (await response.json()) as T;
    };
    return {
      url: api.url,
      sim,
      purchases: seller.purchases,
      sold: (n) => sold[n] ?? '',
      send,
      post,
      ask: answerTo,
      askMany: async (body) => (await answerTo<{ results: Answer[] }>(body)).results,
      async status(body, token) {
        const response = await post(body, token);
        await response.body?.cancel();
        return response.status;
      },
      async secondCheck() {
        const waiting = `verdict IS NULL AND denied_at IS NOT NULL`;
        await mirror().rows(
          `UPDATE mirror.audit_codes SET asked_at = asked_at - interval '2 min',
                  first_denied_at = first_denied_at - interval '2 min' WHERE ${waiting}`,
        );
        const worker = await startJobs(mirror(), sim.url, env, { scheduler: false });
        await until(async () => {
          const rows = await mirror().rows(`SELECT FROM mirror.audit_codes WHERE ${waiting}`);
          return rows.length === 0;
        });
        await worker.stop();
      },
    };
  };
}

function tokenOf(name: string): string {
  return `smt_${name.padEnd(43, '0')}`;
}

/** Codes that nobody bought. */
export function unsold(count: number): string[] {
  return Array.from({ length: count }, (_, n) => `nobody-bought-${n}`);
}
