import { failed, ok, warning, type Check } from '../service/checks.js';
import { NO_ITEMS } from '../service/needs.js';
import { processEnvironment, type Config, type SellerConfig } from '../config/index.js';
import { proxyOf } from '../domain/proxy.js';
import type { OnWait } from '../domain/budget.js';
import { hostName, isLoopback, sameHost } from '../domain/address.js';
import { prepareItem } from '../catalogue/prepare-item.js';
import { describeFailure, type Failure, type Reply } from '../marketplace/reply.js';
import { failureRemedy } from '../catalogue/problem.js';
import { evenlySpacedBudget, ownRandomParameter, unlimitedBudget } from '../marketplace/budget.js';
import { createMarketplace } from '../marketplace/client.js';
import {
  type Budget,
  type CallRecord,
  type ItemList,
  type Marketplace,
} from '../marketplace/types.js';
import { accountMismatch, describeTwin, isSameName } from '../catalogue/account.js';
import { type Binding, findTwin, readBinding } from '../catalogue/sellers-store.js';
import type { Db } from '../db/db.js';
import { storedBudget, storedRandomParameter } from '../db/budget.js';
import { duration, count, plural } from '../domain/text.js';

export interface OpenedAccount {
  readonly seller: string;
  readonly host: string;
  readonly username: string;
}

interface Findings {
  readonly seller: SellerConfig;
  /** `at` is when the call ended, in milliseconds since 1970. */
  readonly calls: readonly (CallRecord & { readonly at: number })[];
  readonly examination: Examination;
  /** False if the host answers only without the random parameter. */
  readonly isRandomSent: boolean;
  readonly binding: Binding | null;
  /** An older seller in the store with the same account; null: none. */
  readonly twin: string | null;
  /** Accounts of the sellers checked before. */
  readonly others: readonly OpenedAccount[];
}

/**
 * Checks a seller's marketplace and key with at most three requests, not counting redirects.
 * @param store null if it can't be used, so that the budget is not shared with other processes
 * @param others accounts of the sellers checked before
 */
export async function checkMarketplace(
  config: Config,
  seller: SellerConfig,
  {
    db,
    others,
    onWait,
  }: {
    readonly db: Db | null;
    readonly others: readonly OpenedAccount[];
    /** Called when a request waits long for the budget. */
    readonly onWait?: OnWait;
  },
  signal: AbortSignal,
) {
  const calls: Findings['calls'][number][] = [];
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
    const examination = await examine(marketplace, signal);
    const binding = db === null ? null : await readBinding(db, seller.name);
    const isRandomSent = await randomParameter.isSent();
    const { account } = examination;
    const { username } = account.kind === 'answered' ? account.data.value : { username: null };
    const twin =
      db === null || username === null
        ? null
        : await findTwin(db, seller.name, { username, marketplace: hostName(seller.url) });
    const checks = checksOf({ seller, calls, examination, isRandomSent, binding, twin, others });
    return {
      checks: checks.map((check) => ({ ...check, seller: seller.name })),
      requests: countRequests(calls),
      account:
        username === null ? null : { seller: seller.name, host: hostName(seller.url), username },
    };
  } finally {
    await marketplace.close();
  }
}

/** How a marketplace answered; null: that question was not sent. */
type Examination = Awaited<ReturnType<typeof examine>>;

/** Records to read: enough to show which notations the server uses. */
const ENOUGH_RECORDS = 200;

/**
 * Examines a marketplace with up to three requests: the account, the list, and one of its
 * items. Stops at the first failure that makes the others pointless. Changes nothing.
 */
async function examine(marketplace: Marketplace, signal: AbortSignal) {
  const tolerated = new Set<string>();
  const account = await marketplace.account({ signal });
  if (account.kind !== 'answered') return { account, list: null, item: null, tolerated: [] };
  account.data.tolerated.forEach((name) => tolerated.add(name));

  const list = readListStart(await marketplace.items({ signal }), tolerated);
  const firstId = 'firstId' in list ? list.firstId : null;
  const item = firstId === null ? null : await marketplace.item(firstId, { signal });
  if (item?.kind === 'answered') item.data.tolerated.forEach((name) => tolerated.add(name));
  return { account, list, item, tolerated: [...tolerated].sort() };
}

function readListStart(reply: Reply<ItemList>, tolerated: Set<string>) {
  if (reply.kind !== 'answered') return reply;
  const list = reply.data;
  const unreadable: string[] = [];
  let firstId: number | null = null;
  let read = 0;
  for (const { bytes, unfit } of list.records) {
    if (read++ === ENOUGH_RECORDS) break;
    const preparation = unfit === null ? prepareItem(bytes) : null;
    if (preparation?.ok === true) {
      firstId ??= preparation.prepared.item.id;
      preparation.tolerated.forEach((name) => tolerated.add(name));
    } else {
      unreadable.push(preparation?.reason ?? unfit ?? '');
    }
  }
  list.tolerated.forEach((name) => tolerated.add(name));
  list.release();
  return { records: list.count, read: Math.min(read, ENOUGH_RECORDS), unreadable, firstId };
}

function budgetOf(
  { url, requestsPerMinute }: SellerConfig,
  db: Db | null,
  onWait: OnWait | undefined,
): Budget {
  if (db !== null) return storedBudget(db, hostName(url), requestsPerMinute, onWait);
  return requestsPerMinute === 0 ? unlimitedBudget : evenlySpacedBudget(requestsPerMinute);
}

function countRequests(calls: Findings['calls']): number {
  return calls.reduce((sum, { redirects }) => sum + 1 + redirects, 0);
}

function checksOf(findings: Findings): Check[] {
  return [
    proxyCheck(findings.seller),
    hostCheck(findings),
    redirectCheck(findings),
    clockCheck(findings),
    accountCheck(findings),
    ...listChecks(findings),
    itemCheck(findings),
    notationCheck(findings),
    randomCheck(findings),
    limitCheck(findings),
  ].filter((check) => check !== null);
}

function proxyCheck({ url }: SellerConfig): Check | null {
  const proxy = proxyOf(url, processEnvironment());
  if (proxy === null) return null;
  return ok(`proxy: requests go through ${proxy.address} (${proxy.variable})`);
}

function firstServer({ calls }: Findings) {
  return calls.find(({ server }) => server !== null)?.server ?? null;
}

function hostCheck(findings: Findings): Check {
  const { seller, calls } = findings;
  const { account } = findings.examination;
  const { url } = seller;
  const server = firstServer(findings);
  if (server === null && account.kind !== 'answered') {
    return failed(`host: ${describeFailure(account)}`, remedyFor(account, seller));
  }
  const took = duration(calls[0]?.durationMs ?? 0);
  if (new URL(server?.origin ?? url).protocol === 'https:') {
    return ok(`host: ${url.host} answers over TLS (${took})`);
  }
  if (isLoopback(url.hostname)) return ok(`host: ${url.host}, on this machine (${took})`);
  return warning(
    `host: ${url.host} is reached over plain http, which exposes the API key to the network`,
    'set MARKETPLACE_URL to its https address',
  );
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

function redirectCheck(findings: Findings): Check | null {
  const { url } = findings.seller;
  const server = firstServer(findings);
  if (server === null || findings.calls.every(({ redirects }) => redirects === 0)) return null;
  if (server.origin === url.origin) {
    return ok(`address: ${url.host} redirects to paths with a trailing slash, which is followed`);
  }
  return warning(
    `address: ${url.origin} redirects to ${server.origin}, which costs requests`,
    `set MARKETPLACE_URL to ${server.origin}${url.pathname.replace(/\/$/, '')}`,
  );
}

const LARGEST_CLOCK_DIFFERENCE_MS = 60_000;

function clockCheck({ calls }: Findings): Check | null {
  const differences = calls.flatMap(({ server, at }) =>
    server === null || server.date === null ? [] : [at - server.date],
  );
  const [difference] = differences;
  if (difference === undefined) return null;
  if (Math.abs(difference) <= LARGEST_CLOCK_DIFFERENCE_MS) {
    return ok('clock: the server’s and this machine’s agree');
  }
  const side = difference > 0 ? 'ahead of' : 'behind';
  return warning(
    `clock: this machine’s is ${duration(Math.abs(difference))} ${side} the server’s`,
    'synchronize this machine’s clock by NTP; otherwise ages and delays are wrong',
  );
}

function accountCheck({
  seller,
  examination: { account },
  binding,
  twin: stored,
  others,
}: Findings): Check | null {
  if (account.kind !== 'answered') {
    // hostCheck reports it.
    if (account.kind === 'unavailable' && account.httpStatus === null) return null;
    return failed(`key: ${describeFailure(account)}`, remedyFor(account, seller));
  }
  const { username, balance, currency } = account.data.value;
  const host = hostName(seller.url);
  const twin = others.find((one) => sameHost(one.host, host) && isSameName(one.username, username));
  if (twin !== undefined) {
    return failed(
      `key: opens the account of ${username}, like the key of seller ${twin.seller}; everything would be mirrored twice`,
      `give ${seller.name} the key of another account, or remove one of the two sellers`,
    );
  }
  if (stored !== null) {
    const { message, remedy } = describeTwin(seller.name, stored, username);
    return failed(`key: ${message}`, remedy);
  }
  const opened = { username, marketplace: host };
  const mismatch = binding === null ? null : accountMismatch(seller.name, binding, opened);
  if (mismatch !== null) return failed(`key: ${mismatch.message}`, mismatch.remedy);
  const money = balance === null ? '' : `, balance ${balance} ${currency ?? ''}`.trimEnd();
  return ok(`key: opens the account of ${username}${money}`);
}

function listChecks({ examination: { list }, seller }: Findings): Check[] {
  if (list === null) return [];
  if (!('records' in list)) {
    return [
      list.kind === 'denied'
        ? warning(`list: ${NO_ITEMS.text}`, NO_ITEMS.remedy)
        : failed(`list: ${describeFailure(list)}`, remedyFor(list, seller)),
    ];
  }
  const { records, read, unreadable } = list;
  const items = `${plural(records, 'item')}${read < records ? `; the first ${count(read)} were read` : ''}`;
  if (unreadable.length === 0) return [ok(`list: ${items}`)];
  const text = `records: ${count(unreadable.length)} of ${count(read)} can’t be read; the first one because: ${unreadable[0] ?? ''}`;
  return [
    ok(`list: ${items}`),
    unreadable.length * 2 > read
      ? failed(text, 'check that MARKETPLACE_URL is the base address of the API')
      : warning(text, 'a sync keeps them in mirror.quarantine and mirrors the others'),
  ];
}

function itemCheck({ examination: { item } }: Findings): Check | null {
  if (item === null) return null;
  if (item.kind === 'answered') return ok(`item: ${item.data.value.id} can be looked up`);
  return warning(
    `item: a listed item can’t be looked up: ${describeFailure(item)}`,
    'while look-ups fail, items that are no longer listed stay `missing` in the copy',
  );
}

function notationCheck({ examination: { list, tolerated } }: Findings): Check | null {
  if (list === null) return null;
  if (tolerated.length === 0) return ok('notation: as documented');
  const differences = plural(tolerated.length, 'known difference');
  const text = `notation: readable, with ${differences} from the documentation (--verbose lists them)`;
  return { ...ok(text), details: tolerated.map(describeTolerated) };
}

function randomCheck({ isRandomSent }: Findings): Check | null {
  if (isRandomSent) return null;
  return warning(
    'caches: the marketplace answers only without the random parameter that keeps caches from answering; it is left out for a day',
    'ask the marketplace to accept unknown parameters, such as _=1, and to let no cache answer its API',
  );
}

function limitCheck({ seller, calls }: Findings): Check | null {
  const own = seller.requestsPerMinute;
  const pace = own === 0 ? 'unlimited' : `at most ${count(own)} a minute`;
  const servers = calls.flatMap(({ server }) => server ?? []);
  const { limit = null, remaining = null } = servers.findLast((one) => one.limit !== null) ?? {};
  if (limit === null) {
    return servers.length === 0 ? null : ok(`limit: the server states none; requests: ${pace}`);
  }
  const left = remaining === null ? '' : `, ${count(remaining)} left`;
  const allowed = `limit: the server allows ${count(limit)} a minute${left}`;
  if (own === 0 || own > limit) {
    return warning(`${allowed}; requests: ${pace}`, `set REQUESTS_PER_MINUTE to ${limit}`);
  }
  if (remaining !== null && limit - remaining > limit / 2 + countRequests(calls)) {
    return warning(
      `${allowed}; others share the limit`,
      'lower REQUESTS_PER_MINUTE, or send requests from your own IP address',
    );
  }
  return ok(`${allowed}; requests: ${pace}`);
}

/** Descriptions of tolerated differences, by name. */
const DIFFERENCES: Readonly<Record<string, string>> = {
  'envelope.bom': 'a byte order mark precedes the JSON',
  'envelope.preamble': 'other text, such as PHP warnings, precedes the JSON',
  'envelope.items-in-data': 'the list is in `data`',
  'envelope.items-object': 'the list is an object with numbered keys instead of an array',
  'envelope.status': 'the word in `status` is translated',
  'tags.comma-separated': 'tags come as one text, separated by commas',
  'options.object': 'options come as an object of names and values',
  'screenshots.object': 'screenshots come as an object with numbered keys',
  'money.text': 'amounts of money come as text',
  'money.float-noise': 'amounts of money have rounding errors such as 21.099999999999998',
  'money.rounded': 'amounts of money have more than two decimals; they are rounded',
  'timestamp.empty': 'unknown timestamps come as empty text or as a date of zeros',
  'timestamp.no-zone': 'timestamps come without a time zone; they are read as UTC',
  'map.empty-array': 'empty objects come as []',
  'text.unstorable-characters':
    'texts contain characters that PostgreSQL can’t store; they are replaced',
};

/** Descriptions of tolerated differences of one field, by the end of their name. */
const FIELD_DIFFERENCES: readonly (readonly [string, string])[] = [
  ['.entry-not-text', 'has entries that are not text; they are kept as JSON'],
  ['.not-text', 'comes as another type than text; it is kept as text'],
  ['.one-text', 'comes as one text instead of a list'],
  ['.object', 'comes as an object with numbered keys instead of an array'],
  ['.text', 'comes as text instead of a number'],
];

/** Describes a tolerated difference from the documentation. @param name such as `tags.comma-separated` */
function describeTolerated(name: string): string {
  const description = DIFFERENCES[name];
  if (description !== undefined) return description;
  const found = FIELD_DIFFERENCES.find(([end]) => name.endsWith(end));
  return found === undefined ? name : `${name.slice(0, -found[0].length)} ${found[1]}`;
}
