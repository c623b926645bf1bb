import type { Config, SellerConfig } from '../config/index.js';
import type { Account } from '../domain/item.js';
import { describeFailure, type Failure } from '../domain/reply.js';
import { examine, type Examination, type ListBeginning } from '../jobs/prove.js';
import { remedyOf } from '../jobs/problem.js';
import { evenlySpacedBudget, unlimitedBudget } from '../marketplace/budget.js';
import { createMarketplace } from '../marketplace/client.js';
import { hostName, isLoopback, sameHost } from '../domain/address.js';
import type { Budget, CallRecord } from '../marketplace/types.js';
import type { Binding } from '../store/sellers.js';
import type { Store } from '../store/store.js';
import { count, duration } from './output/text.js';

/** The outcome of a check. */
export interface Check {
  /** Seller it is about; null for the machine and the store. */
  readonly seller: string | null;
  readonly result: 'ok' | 'warning' | 'failed';
  readonly text: string;
  /** What to do about it; null when it is in order. */
  readonly remedy: string | null;
}

/** Makes checks about one seller, or about none. */
export class Checks {
  constructor(readonly seller: string | null) {}

  ok(text: string): Check {
    return { seller: this.seller, result: 'ok', text, remedy: null };
  }

  warning(text: string, remedy: string): Check {
    return { seller: this.seller, result: 'warning', text, remedy };
  }

  failed(text: string, remedy: string | null): Check {
    return { seller: this.seller, result: 'failed', text, remedy };
  }
}

/** The checks of one seller's marketplace. */
interface SellerChecks {
  readonly checks: readonly Check[];
  /** Requests made, redirects included. */
  readonly requests: number;
  /** The account that the key opens; null when it opens none. */
  readonly account: OpenedAccount | null;
}

/** An account that the key of a seller opens. */
export interface OpenedAccount {
  readonly seller: string;
  readonly host: string;
  readonly username: string;
}

/** A call, and when it was reported, milliseconds since 1970. */
interface Call extends CallRecord {
  readonly at: number;
}

/** All findings of which the checks are made. */
interface Findings {
  readonly seller: SellerConfig;
  readonly checks: Checks;
  readonly calls: readonly Call[];
  readonly seen: Examination;
  /** The account and marketplace of the copy; null when there is none. */
  readonly binding: Binding | null;
  /** Accounts of the sellers that were checked before. */
  readonly others: readonly OpenedAccount[];
}

/**
 * Checks one seller's marketplace with at most three requests within the budget, and those that
 * redirects cost.
 * @param store null when it can't be used: the budget is not shared with other processes then
 * @param others accounts of the sellers that were checked before
 */
export async function checkSeller(
  config: Config,
  seller: SellerConfig,
  { store, others }: { readonly store: Store | null; readonly others: readonly OpenedAccount[] },
  signal: AbortSignal,
): Promise<SellerChecks> {
  const calls: Call[] = [];
  const marketplace = createMarketplace({
    baseUrl: seller.url,
    key: seller.key,
    carriage: seller.carriage,
    allowPlainHttp: config.allowPlainHttp,
    budget: budgetOf(seller, store),
    // One attempt: the first failure is the diagnosis.
    retry: { attempts: 1, baseMs: 500, maxMs: 10_000 },
    onCall: (call) => calls.push({ ...call, at: Date.now() }),
  });
  try {
    const seen = await examine(marketplace, signal);
    const binding = (await store?.sellers.bindingOf(seller.name)) ?? null;
    const findings = { seller, checks: new Checks(seller.name), calls, seen, binding, others };
    return {
      checks: checksOf(findings),
      requests: requestsOf(calls),
      account:
        seen.account.kind === 'answered' ? openedBy(findings, seen.account.data.value) : null,
    };
  } finally {
    await marketplace.close();
  }
}

function budgetOf({ url, requestsPerMinute }: SellerConfig, store: Store | null): Budget {
  if (store !== null) return store.budget(hostName(url), requestsPerMinute);
  return requestsPerMinute === 0 ? unlimitedBudget : evenlySpacedBudget(requestsPerMinute);
}

function requestsOf(calls: readonly Call[]): number {
  return calls.reduce((sum, { redirects }) => sum + 1 + redirects, 0);
}

function openedBy({ seller }: Findings, { username }: Account): OpenedAccount {
  return { seller: seller.name, host: hostName(seller.url), username };
}

function checksOf(findings: Findings): Check[] {
  const { seen } = findings;
  return [
    ...hostChecks(findings),
    ...redirectChecks(findings),
    ...clockChecks(findings),
    ...accountChecks(findings),
    ...listChecks(findings, seen.list),
    ...itemChecks(findings),
    ...shapeChecks(findings),
    ...limitChecks(findings),
  ];
}

/** The first answer's head, if any came. */
function firstServer({ calls }: Findings) {
  return calls.find(({ server }) => server !== null)?.server ?? null;
}

function hostChecks(findings: Findings): Check[] {
  const { seller, checks, seen, calls } = findings;
  const { account } = seen;
  const { url } = seller;
  const server = firstServer(findings);
  if (server === null && account.kind !== 'answered') {
    return [checks.failed(`host: ${describeFailure(account)}`, remedyFor(account, seller))];
  }
  const took = duration(calls[0]?.durationMs ?? 0);
  if (new URL(server?.origin ?? url).protocol === 'https:') {
    return [checks.ok(`host: ${url.host} answers over TLS (${took})`)];
  }
  if (isLoopback(url.hostname)) return [checks.ok(`host: ${url.host}, on this machine (${took})`)];
  return [
    checks.warning(
      `host: ${url.host} is asked over plain http, which shows the API key to everybody on the way`,
      'set MARKETPLACE_URL to its https address',
    ),
  ];
}

/** The remedy for a failure, where a general one would say `doctor`. */
function remedyFor(failure: Failure, { url }: SellerConfig): string {
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
      return `requests go to ${base}/api/…: set MARKETPLACE_URL to what the marketplace’s documentation has before /api, or ask the marketplace whether its API is switched on${path}`;
    }
    default:
      return remedyOf(failure);
  }
}

function redirectChecks(findings: Findings): Check[] {
  const { seller, checks, calls } = findings;
  const { url } = seller;
  const server = firstServer(findings);
  if (server === null || calls.every(({ redirects }) => redirects === 0)) return [];
  const moved = server.origin !== url.origin;
  return [
    moved
      ? checks.warning(
          `address: ${url.origin} redirects to ${server.origin}, which costs requests`,
          `set MARKETPLACE_URL to ${server.origin}${url.pathname.replace(/\/$/, '')}`,
        )
      : checks.ok(`address: ${url.host} redirects to paths with a slash at the end; followed`),
  ];
}

const LARGEST_CLOCK_DIFFERENCE_MS = 60_000;

function clockChecks({ checks, calls }: Findings): Check[] {
  for (const { server, at } of calls) {
    if (server === null || server.date === null) continue;
    const difference = at - server.date;
    if (Math.abs(difference) <= LARGEST_CLOCK_DIFFERENCE_MS) {
      return [checks.ok('clock: the server’s and this machine’s agree')];
    }
    const side = difference > 0 ? 'ahead of' : 'behind';
    return [
      checks.warning(
        `clock: this machine’s is ${duration(Math.abs(difference))} ${side} the server’s`,
        'set this machine’s clock by NTP, or ages and waits are wrong',
      ),
    ];
  }
  return [];
}

function accountChecks(findings: Findings): Check[] {
  const { seller, checks, seen, binding, others } = findings;
  const { account } = seen;
  if (account.kind !== 'answered') {
    // The check of the host reports it.
    if (account.kind === 'unavailable' && account.httpStatus === null) return [];
    return [checks.failed(`key: ${describeFailure(account)}`, remedyFor(account, seller))];
  }
  const { username, balance, currency } = account.data.value;
  const own = openedBy(findings, account.data.value);
  const twin = others.find(
    ({ host, username: other }) => sameHost(host, own.host) && isSameName(other, username),
  );
  if (twin !== undefined) {
    return [
      checks.failed(
        `key: opens the account of ${username}, as that of seller ${twin.seller} does: everything would be mirrored twice`,
        `give ${seller.name} the key of another account, or take one of the two sellers away`,
      ),
    ];
  }
  if (binding !== null && binding.username !== null) {
    if (!isSameName(binding.username, username)) {
      return [
        checks.failed(
          `key: opens the account of ${username}, but the copy of this seller is that of ${binding.username}`,
          `give ${username} a seller name of its own; if the account was only renamed: ${acceptCommand(seller)}`,
        ),
      ];
    }
    if (!sameHost(binding.marketplace, own.host)) {
      return [
        checks.failed(
          `key: the copy of this seller is of the marketplace ${binding.marketplace}, not of ${own.host}`,
          `give the other one a seller name of its own; if the marketplace has only moved: ${acceptCommand(seller)}`,
        ),
      ];
    }
  }
  const money = balance === null ? '' : `, balance ${balance} ${currency ?? ''}`.trimEnd();
  return [checks.ok(`key: opens the account of ${username}${money}`)];
}

function isSameName(one: string, other: string): boolean {
  return one.toLowerCase() === other.toLowerCase();
}

function acceptCommand({ name }: SellerConfig): string {
  return `\`seller-mirror sync account --seller ${name} --accept-account\``;
}

function listChecks({ checks, seller }: Findings, list: ListBeginning | Failure | null): Check[] {
  if (list === null) return [];
  if ('records' in list) return [listCheck(checks, list), ...unreadableChecks(checks, list)];
  if (list.kind !== 'denied') {
    return [checks.failed(`list: ${describeFailure(list)}`, remedyFor(list, seller))];
  }
  return [
    checks.warning(
      'list: the marketplace lists no items; it says the same of an account with exactly one item, and of one that sells nothing',
      'an only item is mirrored with `seller-mirror sync item ID`',
    ),
  ];
}

function listCheck(checks: Checks, { records, whole }: ListBeginning): Check {
  const number = count(records);
  return checks.ok(
    whole
      ? `list: ${number} ${records === 1 ? 'item' : 'items'}`
      : `list: ${number} items or more; the rest was not read`,
  );
}

function unreadableChecks(checks: Checks, { unreadable, records }: ListBeginning): Check[] {
  if (unreadable.length === 0) return [];
  const text = `records: ${count(unreadable.length)} of ${count(records)} can’t be read, the first because: ${unreadable[0] ?? ''}`;
  return [
    unreadable.length * 2 > records
      ? checks.failed(text, 'check that MARKETPLACE_URL is the base address of the API')
      : checks.warning(text, 'a run keeps them in mirror.quarantine and mirrors the others'),
  ];
}

function itemChecks({ checks, seen }: Findings): Check[] {
  const { item } = seen;
  if (item === null) return [];
  if (item.kind === 'answered') return [checks.ok(`item: ${item.data.value.id} can be looked up`)];
  return [
    checks.warning(
      `item: a listed one can’t be looked up: ${describeFailure(item)}`,
      'items that leave the list stay missing in the copy as long as look-ups fail',
    ),
  ];
}

function shapeChecks({ checks, seen }: Findings): Check[] {
  if (seen.list === null) return [];
  const { tolerated } = seen;
  if (tolerated.length === 0) return [checks.ok('notation: as documented')];
  const words = tolerated.map(quirkInWords).join('; ');
  return [checks.ok(`notation: differs from the documentation, and is understood: ${words}`)];
}

function limitChecks({ seller, checks, calls }: Findings): Check[] {
  const own = seller.requestsPerMinute;
  const ours = own === 0 ? 'without a limit' : `${count(own)} a minute at most`;
  const servers = calls.flatMap(({ server }) => (server === null ? [] : [server]));
  const last = servers.findLast(({ limit }) => limit !== null);
  if (last === undefined || last.limit === null) {
    return servers.length === 0 ? [] : [checks.ok(`limit: the server shows none; asked ${ours}`)];
  }
  const { limit, remaining } = last;
  const left = remaining === null ? '' : `, ${count(remaining)} left`;
  if (own === 0 || own > limit) {
    return [
      checks.warning(
        `limit: the server allows ${count(limit)} a minute${left}, and is asked ${ours}`,
        `set REQUESTS_PER_MINUTE to ${limit}`,
      ),
    ];
  }
  if (remaining !== null && limit - remaining > limit / 2 + requestsOf(calls)) {
    return [
      checks.warning(
        `limit: the server allows ${count(limit)} a minute${left}: others use the same allowance`,
        'lower REQUESTS_PER_MINUTE, or ask from an address of your own',
      ),
    ];
  }
  return [checks.ok(`limit: the server allows ${count(limit)} a minute${left}; asked ${ours}`)];
}

/** Descriptions of quirks. */
const WORDS: Readonly<Record<string, string>> = {
  'envelope.bom': 'a byte order mark stands before the JSON',
  'envelope.preamble': 'other text, such as PHP warnings, stands before the JSON',
  'envelope.items-object': 'the list is an object with numbered keys instead of an array',
  'envelope.status': 'the word in `status` is translated',
  'tags.comma-separated': 'tags come as one text, separated by commas',
  'options.object': 'options come as an object of names and values',
  'screenshots.object': 'screenshots come as an object with numbered keys',
  'money.text': 'amounts of money come as text',
  'money.float-noise': 'amounts of money carry noise such as 21.099999999999998',
  'money.rounded': 'amounts of money have more than two decimals; they are rounded',
  'timestamp.empty': 'timestamps that are not known come as empty text or as a date of zeros',
  'timestamp.no-zone': 'timestamps come without a time zone; they are taken for UTC',
  'map.empty-array': 'empty objects come as []',
  'text.unstorable-characters':
    'texts hold characters that PostgreSQL can’t store; they are replaced',
};

const ENDINGS: readonly (readonly [string, string])[] = [
  ['.entry-not-text', 'has entries that are no text; they are kept as JSON'],
  ['.not-text', 'comes as something else than text; it is kept as text'],
  ['.one-text', 'comes as one text instead of a list'],
  ['.object', 'comes as an object with numbered keys instead of an array'],
  ['.text', 'comes as text instead of a number'],
];

/** Describes a tolerated quirk. */
export function quirkInWords(name: string): string {
  const words = WORDS[name];
  if (words !== undefined) return words;
  const ending = ENDINGS.find(([end]) => name.endsWith(end));
  return ending === undefined ? name : `${name.slice(0, -ending[0].length)} ${ending[1]}`;
}
