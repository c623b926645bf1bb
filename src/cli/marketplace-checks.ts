import { failed, ok, warning, type Check } from '../service/checks.js';
import { NO_ITEMS } from '../service/needs.js';
import { processEnvironment, type Config, type SellerConfig } from '../config/index.js';
import { proxyOf } from '../domain/proxy.js';
import type { OnWait } from '../domain/budget.js';
import type { Account } from '../domain/item.js';
import { hostName, isLoopback, sameHost } from '../domain/address.js';
import { prepareItem } from '../catalogue/prepare-item.js';
import { describeFailure, type Failure, type Reply } from '../marketplace/reply.js';
import { failureRemedy } from '../catalogue/problem.js';
import { evenlySpacedBudget, ownRandomParameter, unlimitedBudget } from '../marketplace/budget.js';
import { createMarketplace } from '../marketplace/client.js';
import type { Budget, CallRecord, ItemList } from '../marketplace/types.js';
import { accountMismatch, describeTwin, isSameName } from '../catalogue/account.js';
import { findTwin, readBinding } from '../catalogue/sellers-store.js';
import type { Db } from '../db/db.js';
import { storedBudget, storedRandomParameter } from '../db/budget.js';
import { duration, count, plural } from '../domain/text.js';

/** A request, and when it ended (ms since 1970). */
export type TimedCall = CallRecord & { readonly at: number };

/** What the checks of all sellers share. */
export interface Checking {
  /** Null if the store can't be used, so that the budget is not shared with other processes. */
  readonly db: Db | null;
  /** The accounts that keys have opened until now. */
  readonly accounts: {
    readonly seller: string;
    readonly host: string;
    readonly username: string;
  }[];
  /** Called when a request waits long for the budget. */
  readonly onWait: OnWait;
}

/** Requests to a marketplace, further ones after redirects included. */
export function countRequests(calls: readonly TimedCall[]): number {
  return calls.reduce((sum, { redirects }) => sum + 1 + redirects, 0);
}

/**
 * Checks a seller's marketplace and key with at most three requests, not counting redirects: the account, the list, and one
 * of its items. Stops at the first failure that makes the others pointless. Changes nothing.
 * @param calls gets the requests as they are made
 */
export async function* checkMarketplace(
  config: Config,
  seller: SellerConfig,
  { db, accounts, onWait }: Checking,
  calls: TimedCall[],
  signal: AbortSignal,
): AsyncGenerator<Check> {
  const randomParameter =
    db === null ? ownRandomParameter() : storedRandomParameter(db, hostName(seller.url));
  const options = {
    baseUrl: seller.url,
    key: seller.key,
    carriage: seller.carriage,
    listMarks: seller.listMarks,
    maxListBytes: config.maxListBytes,
    allowPlainHttp: config.allowPlainHttp,
    budget: budgetOf(seller, db, onWait),
    randomParameter,
    // No retries, because the first failure is the diagnosis.
    retry: { attempts: 1, baseMs: 500, maxMs: 10_000 },
    onCall: (call: CallRecord) => calls.push({ ...call, at: Date.now() }),
  };
  const marketplace = createMarketplace(options, db === null ? {} : { now: () => db.clock.now() });
  try {
    yield* proxyCheck(seller);
    const account = await marketplace.account({ signal });
    yield* serverChecks(seller, account, calls);
    if (account.kind === 'answered') {
      yield await accountCheck(seller, account.data.value, db, accounts);
      const host = hostName(seller.url);
      accounts.push({ seller: seller.name, host, username: account.data.value.username });
      const tolerated = new Set(account.data.tolerated);
      const list = await marketplace.items({ signal });
      const [checks, id] = readListStart(seller, list, tolerated);
      yield* checks;
      const item = id === null ? null : await marketplace.item(id, { signal });
      if (item !== null) yield itemCheck(item);
      if (item?.kind === 'answered') for (const name of item.data.tolerated) tolerated.add(name);
      yield notationCheck([...tolerated].sort());
    }
    if (!(await randomParameter.isSent())) {
      yield warning(
        'caches: the marketplace answers only without the random parameter that keeps caches from answering; it is left out for a day',
        'ask the marketplace to accept unknown parameters, such as _=1, and to let no cache answer its API',
      );
    }
    yield* limitCheck(seller, calls);
  } finally {
    await marketplace.close();
  }
}

function budgetOf({ url, requestsPerMinute }: SellerConfig, db: Db | null, onWait: OnWait): Budget {
  if (db !== null) return storedBudget(db, hostName(url), requestsPerMinute, onWait);
  return requestsPerMinute === 0 ? unlimitedBudget : evenlySpacedBudget(requestsPerMinute);
}

function* proxyCheck({ url }: SellerConfig): Generator<Check> {
  const proxy = proxyOf(url, processEnvironment());
  if (proxy !== null) yield ok(`proxy: requests go through ${proxy.address} (${proxy.variable})`);
}

const LARGEST_CLOCK_DIFFERENCE_MS = 60_000;

/** What the first answer says about host, address and clock, and why a key could not be tried. */
function* serverChecks(
  seller: SellerConfig,
  account: Reply<unknown>,
  [call]: readonly TimedCall[],
): Generator<Check> {
  const { url } = seller;
  const server = call?.server ?? null;
  if (server === null && account.kind !== 'answered') {
    yield failed(`host: ${describeFailure(account)}`, remedyFor(account, seller));
  } else {
    const took = duration(call?.durationMs ?? 0);
    const isEncrypted = new URL(server?.origin ?? url).protocol === 'https:';
    if (isEncrypted) yield ok(`host: ${url.host} answers over TLS (${took})`);
    else if (isLoopback(url.hostname)) yield ok(`host: ${url.host}, on this machine (${took})`);
    else {
      yield warning(
        `host: ${url.host} is reached over plain http, which exposes the API key to the network`,
        'set MARKETPLACE_URL to its https address',
      );
    }
  }
  if (server !== null && call?.redirects !== 0) {
    yield server.origin === url.origin
      ? ok(`address: ${url.host} redirects to paths with a trailing slash, which is followed`)
      : warning(
          `address: ${url.origin} redirects to ${server.origin}, which costs requests`,
          `set MARKETPLACE_URL to ${server.origin}${url.pathname.replace(/\/$/, '')}`,
        );
  }
  if (call !== undefined && server !== null && server.date !== null) {
    const ahead = call.at - server.date;
    yield Math.abs(ahead) <= LARGEST_CLOCK_DIFFERENCE_MS
      ? ok('clock: the server’s and this machine’s agree')
      : warning(
          `clock: this machine’s is ${duration(Math.abs(ahead))} ${ahead > 0 ? 'ahead of' : 'behind'} the server’s`,
          'synchronize this machine’s clock by NTP; otherwise ages and delays are wrong',
        );
  }
  // Without any status, the host was reported.
  if (account.kind === 'answered') return;
  if (account.kind === 'unavailable' && account.httpStatus === null) return;
  yield failed(`key: ${describeFailure(account)}`, remedyFor(account, seller));
}

/** The remedy for a failure. The general remedies would only recommend `doctor`. */
function remedyFor(failure: Failure, { url }: SellerConfig): string {
  if (failure.kind === 'unreadable' && failure.flaw !== undefined) return failureRemedy(failure);
  switch (failure.kind === 'unavailable' ? failure.reason : failure.kind) {
    case 'network':
      return 'check the address in MARKETPLACE_URL, and that this machine can reach it (name server, proxy, firewall, certificate)';
    case 'redirect':
      return 'set MARKETPLACE_URL to the address it redirects to, if that is the same marketplace';
    case 'html':
    case 'switched-off':
    case 'unreadable': {
      const base = `${url.origin}${url.pathname.replace(/\/+$/, '')}`;
      const path = url.pathname === '/' ? '' : `; is ${url.pathname} right?`;
      return `requests go to ${base}/api/…; set MARKETPLACE_URL to the part before /api in the marketplace’s documentation, or ask the marketplace whether its API is switched on${path}`;
    }
    default:
      return failureRemedy(failure);
  }
}

/** Whether the key opens the account that this seller mirrors, and no other seller does. */
async function accountCheck(
  seller: SellerConfig,
  { username, balance, currency }: Account,
  db: Db | null,
  accounts: Checking['accounts'],
): Promise<Check> {
  const host = hostName(seller.url);
  const other = accounts.find(
    (one) => sameHost(one.host, host) && isSameName(one.username, username),
  );
  if (other !== undefined) {
    return failed(
      `key: opens the account of ${username}, like the key of seller ${other.seller}; everything would be mirrored twice`,
      `give ${seller.name} the key of another account, or remove one of the two sellers`,
    );
  }
  const opened = { username, marketplace: host };
  const twin = db === null ? null : await findTwin(db, seller.name, opened);
  const binding = db === null ? null : await readBinding(db, seller.name);
  const problem =
    twin === null
      ? binding && accountMismatch(seller.name, binding, opened)
      : describeTwin(seller.name, twin, username);
  if (problem !== null) return failed(`key: ${problem.message}`, problem.remedy);
  const money = balance === null ? '' : `, balance ${balance} ${currency ?? ''}`.trimEnd();
  return ok(`key: opens the account of ${username}${money}`);
}

/** Records to read: enough to show which notations the server uses. */
const ENOUGH_RECORDS = 200;

/**
 * Reads the beginning of a list.
 * @param tolerated gets the differences of notation
 * @returns the checks, and the id of an item to look up
 */
function readListStart(
  seller: SellerConfig,
  reply: Reply<ItemList>,
  tolerated: Set<string>,
): readonly [checks: Check[], id: number | null] {
  if (reply.kind === 'denied') return [[warning(`list: ${NO_ITEMS.text}`, NO_ITEMS.remedy)], null];
  if (reply.kind !== 'answered') {
    return [[failed(`list: ${describeFailure(reply)}`, remedyFor(reply, seller))], null];
  }
  const list = reply.data;
  const unreadable: string[] = [];
  let id: number | null = null;
  let read = 0;
  for (const { bytes, unfit } of list.records) {
    if (read === ENOUGH_RECORDS) break;
    read += 1;
    const preparation = unfit === null ? prepareItem(bytes) : null;
    if (preparation?.ok === true) {
      id ??= preparation.prepared.item.id;
      for (const name of preparation.tolerated) tolerated.add(name);
    } else unreadable.push(preparation?.reason ?? unfit ?? '');
  }
  for (const name of list.tolerated) tolerated.add(name);
  list.release();
  const part = read < list.count ? `; the first ${count(read)} were read` : '';
  const checks = [ok(`list: ${plural(list.count, 'item')}${part}`)];
  if (unreadable.length > 0) {
    const text = `records: ${count(unreadable.length)} of ${count(read)} can’t be read; the first one because: ${unreadable[0] ?? ''}`;
    checks.push(
      unreadable.length * 2 > read
        ? failed(text, 'check that MARKETPLACE_URL is the base address of the API')
        : warning(text, 'a sync keeps them in mirror.quarantine and mirrors the others'),
    );
  }
  return [checks, id];
}

function itemCheck(item: Reply<{ readonly value: { readonly id: number } }>): Check {
  if (item.kind === 'answered') return ok(`item: ${item.data.value.id} can be looked up`);
  return warning(
    `item: a listed item can’t be looked up: ${describeFailure(item)}`,
    'while look-ups fail, items that are no longer listed stay `missing` in the copy',
  );
}

/** The names of differences are those that `runs show` lists. */
function notationCheck(tolerated: readonly string[]): Check {
  if (tolerated.length === 0) return ok('notation: as documented');
  const differences = plural(tolerated.length, 'known difference');
  return ok(
    `notation: readable, with ${differences} from the documentation: ${tolerated.join(', ')}`,
  );
}

function* limitCheck(
  { requestsPerMinute: own }: SellerConfig,
  calls: readonly TimedCall[],
): Generator<Check> {
  const pace = own === 0 ? 'unlimited' : `at most ${count(own)} a minute`;
  const servers = calls.flatMap(({ server }) => server ?? []);
  const { limit = null, remaining = null } = servers.findLast((one) => one.limit !== null) ?? {};
  if (servers.length === 0) return;
  if (limit === null) return void (yield ok(`limit: the server states none; requests: ${pace}`));
  const left = remaining === null ? '' : `, ${count(remaining)} left`;
  const allowed = `limit: the server allows ${count(limit)} a minute${left}`;
  if (own === 0 || own > limit) {
    yield warning(`${allowed}; requests: ${pace}`, `set REQUESTS_PER_MINUTE to ${limit}`);
  } else if (remaining !== null && limit - remaining > limit / 2 + countRequests(calls)) {
    yield warning(
      `${allowed}; others share the limit`,
      'lower REQUESTS_PER_MINUTE, or send requests from your own IP address',
    );
  } else yield ok(`${allowed}; requests: ${pace}`);
}
