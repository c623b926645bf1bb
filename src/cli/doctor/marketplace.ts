import type { Config, SellerConfig } from '../../config/index.js';
import { describeFailure, type Failure } from '../../domain/reply.js';
import { examine, type Examination, type ListBeginning } from '../../jobs/examine.js';
import { problemOf } from '../../jobs/problem.js';
import { evenlySpacedBudget, unlimitedBudget } from '../../marketplace/budget.js';
import { createMarketplace } from '../../marketplace/client.js';
import { hostName, isLoopback } from '../../marketplace/address.js';
import type { Budget, CallRecord } from '../../marketplace/types.js';
import type { Store } from '../../store/store.js';
import { count, duration } from '../output/index.js';
import { Checks, type Check } from './check.js';
import { quirkInWords } from './quirks.js';

/** What came of asking one seller's marketplace. */
export interface SellerFound {
  readonly checks: readonly Check[];
  /** Requests made, redirects included. */
  readonly requests: number;
}

/** A call, and when it was reported, milliseconds since 1970. */
interface Call extends CallRecord {
  readonly at: number;
}

/** Everything known when the checks are put into words. */
interface Findings {
  readonly seller: SellerConfig;
  readonly checks: Checks;
  readonly calls: readonly Call[];
  readonly seen: Examination;
}

/**
 * Asks one seller's marketplace, with at most three requests (and those that redirects cost)
 * within the budget, and judges what it shows.
 * @param store null when it can't be used: then the budget is this process's own
 */
export async function checkSeller(
  config: Config,
  seller: SellerConfig,
  store: Store | null,
  signal: AbortSignal,
): Promise<SellerFound> {
  const calls: Call[] = [];
  const marketplace = createMarketplace({
    baseUrl: seller.url,
    key: seller.key,
    carriage: seller.carriage,
    allowPlainHttp: config.allowPlainHttp,
    budget: budgetOf(seller, store),
    // One attempt: who waits for a diagnosis wants to see the first failure.
    retry: { attempts: 1, baseMs: 500, maxMs: 10_000 },
    onCall: (call) => calls.push({ ...call, at: Date.now() }),
  });
  try {
    const seen = await examine(marketplace, signal);
    const findings = { seller, checks: new Checks(seller.name), calls, seen };
    const bound = (await store?.bindingOf(seller.name))?.username ?? null;
    return { checks: judge(findings, bound), requests: requestsOf(calls) };
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

function judge(findings: Findings, bound: string | null): Check[] {
  const { seen } = findings;
  return [
    ...hostChecks(findings),
    ...redirectChecks(findings),
    ...clockChecks(findings),
    ...accountChecks(findings, bound),
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
    return [checks.failed(`host: ${describeFailure(account)}`, hostRemedy(account))];
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

function hostRemedy(failure: Failure): string {
  if (failure.kind === 'limited') return problemOf(failure).problem.remedy;
  if (failure.kind === 'unavailable' && failure.reason === 'redirect') {
    return 'set MARKETPLACE_URL to the address it redirects to, if that is the same marketplace';
  }
  return 'check the address in MARKETPLACE_URL, and that this machine can reach it (name server, proxy, firewall, certificate)';
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

function accountChecks({ seller, checks, seen }: Findings, bound: string | null): Check[] {
  const { account } = seen;
  if (account.kind === 'answered') {
    const { username, balance, currency } = account.data.value;
    const money = balance === null ? '' : `, balance ${balance} ${currency ?? ''}`.trimEnd();
    if (bound === null || bound.toLowerCase() === username.toLowerCase()) {
      return [checks.ok(`key: opens the account of ${username}${money}`)];
    }
    return [
      checks.failed(
        `key: opens the account of ${username}, but the copy of this seller is that of ${bound}`,
        `give ${username} a seller name of its own; if the account was only renamed: \`seller-mirror sync account --seller ${seller.name} --accept-account\``,
      ),
    ];
  }
  if (account.kind === 'unavailable' && account.httpStatus === null) return []; // told by the host
  return [checks.failed(`key: ${describeFailure(account)}`, problemOf(account).problem.remedy)];
}

function listChecks({ checks }: Findings, list: ListBeginning | Failure | null): Check[] {
  if (list === null) return [];
  if ('records' in list) return [listCheck(checks, list), ...unreadableChecks(checks, list)];
  if (list.kind !== 'denied') {
    return [checks.failed(`list: ${describeFailure(list)}`, problemOf(list).problem.remedy)];
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
