import { Webhook as Verifier } from 'standardwebhooks';
import { describe, expect, it } from 'vitest';
import { Secret } from '../../../src/domain/secret.js';
import {
  deliverAlert,
  findFeedAlerts,
  findStaleSellers,
} from '../../../src/service/alerts/alerts.js';
import { insertAlert } from '../../../src/service/alerts/alerts-store.js';
import { describeAlert } from '../../../src/service/alerts/content.js';
import { findNews } from '../../../src/service/alerts/news-store.js';
import type { Alert } from '../../../src/catalogue/types.js';
import { performMirrorTask, type MirrorRequest } from '../../../src/catalogue/mirror-task.js';
import { syncAccount } from '../../../src/catalogue/account.js';
import { syncItems } from '../../../src/catalogue/sync-items.js';
import { createWebhook } from '../../../src/service/alerts/webhook.js';
import { startServer, type Script } from '../../support/http-server.js';
import { KEY, never, useMirror } from '../../support/mirror.js';
import { pauseSeller, parkSeller } from '../../../src/catalogue/sellers-store.js';
import {
  readFeedRequest,
  recordDelivery,
  requestFeedViews,
  markFeedStale,
} from '../../../src/reporting/feeds-store.js';
import { readSellerStatuses } from '../../../src/catalogue/status-store.js';
import { openMarket } from '../../catalogue/market.js';

const mirror = useMirror();
const SECRET = `whsec_${Buffer.alloc(32, 3).toString('base64')}`;

const market = (count = 5) => openMarket(mirror(), count, {}, { jobId: 'sync.main.1' });

async function receiver(script: Script = { status: 204 }) {
  const server = await startServer(script);
  const url = new Secret(server.url.href);
  const deps = {
    db: mirror().db,
    retryAt: () => new Date(Date.now() + 60_000),
    channel: createWebhook({ url, format: 'standard', secret: new Secret(SECRET) }, 5_000),
    dashboardUrl: null,
  };
  const received = (): unknown[] =>
    server.requests.map(({ body, headers }) => new Verifier(SECRET).verify(body, headers));
  return { server, deps, received };
}

function job(): MirrorRequest {
  return { kind: 'sync', dueAt: new Date(), byHand: false };
}

/** Performs the job and returns the alert about it. */
async function alertOf(deps: Parameters<typeof performMirrorTask>[0]): Promise<Alert> {
  const outcome = await performMirrorTask(deps, job(), never);
  // The queue stores the outcome as JSON.
  expect(JSON.parse(JSON.stringify(outcome))).toEqual(outcome);
  expect(JSON.stringify(outcome)).not.toContain('balance');
  const news = await findNews(mirror().db, { sellers: ['main'], watchedAccounts: ['main'] });
  const [alert, ...others] = news;
  if (alert === undefined) throw new Error(`no alert: ${outcome.kind}`);
  expect(others).toEqual([]);
  return alert;
}

/** Records an alert, as if it had just happened. */
async function record(alert: Alert, alertId: string): Promise<void> {
  const { db } = mirror();
  const content = await describeAlert({ db, staleAfterHours: 26 }, alert, new Date());
  if (content === null) throw new Error(`nothing to tell about ${alert.kind}`);
  const type = alert.kind.replace('-', '.');
  await insertAlert(db, { alertId, type, message: { alert, content } }, ['webhook']);
}

/** Records an alert and sends it. */
async function deliver(
  deps: Parameters<typeof deliverAlert>[0],
  alert: Alert,
  alertId: string,
): ReturnType<typeof deliverAlert> {
  await record(alert, alertId);
  return deliverAlert(deps, { alertId, channel: 'webhook' }, never);
}

/** A market after a mirror job that failed for good, with the job's alert. */
async function failedMarket(fault: 'server-error' | 'key-refused') {
  const opened = await market();
  opened.sim.faults.always(fault === 'server-error' ? 'list' : 'any', { kind: fault });
  return { ...opened, alert: await alertOf(opened.deps) };
}

/** The messages that a receiver gets for an alert. */
async function messagesOf(alert: Alert): Promise<unknown[]> {
  const { deps, received } = await receiver();
  await deliver(deps, alert, 'a');
  return received();
}

const iso = expect.stringMatching(/^\d{4}-\d\d-\d\dT[\d:.]+Z$/) as string;
const id = expect.stringMatching(/^\d+$/) as string;
const text = expect.any(String) as string;

describe('an alert', () => {
  it('of a failed run says what failed and what to do', async () => {
    const { alert } = await failedMarket('server-error');
    const { deps: to, received } = await receiver();
    expect(await deliver(to, alert, 'run-failed.1')).toEqual({
      kind: 'done',
      result: { delivered: 204 },
    });
    expect(received()).toEqual([
      {
        type: 'run.failed',
        timestamp: iso,
        data: {
          seller: 'main',
          runId: id,
          kind: 'items',
          state: 'failed',
          startedAt: iso,
          finishedAt: iso,
          counts: expect.objectContaining({ listed: 0, apiCalls: 2 }) as object,
          problem: {
            code: 'unavailable',
            message: 'the marketplace failed with HTTP 500',
            remedy: text,
          },
        },
      },
    ]);
  });

  it('has a link when the dashboard’s URL is configured', async () => {
    const { alert } = await failedMarket('server-error');
    const { deps: to, received } = await receiver();
    await deliver({ ...to, dashboardUrl: 'https://mirror.example' }, alert, 'a');
    const runId = alert.kind === 'run-failed' ? alert.runId : '';
    expect(received()).toMatchObject([{ data: { link: `https://mirror.example/runs/${runId}` } }]);
  });

  it('of a held run says how many items are missing and how to decide', async () => {
    const { sim, catalogue, deps } = await market(40);
    await performMirrorTask(deps, job(), never);
    for (const item of [...catalogue.truth()].slice(0, 30))
      sim.seller(KEY).catalogue.remove(item.id);
    expect(await messagesOf(await alertOf(deps))).toMatchObject([
      {
        type: 'run.held',
        data: {
          state: 'held',
          counts: { listed: 10, missing: 30, removed: 0 },
          held: { items: 30, confirmed: 30, present: 40 },
          problem: {
            code: 'held',
            message: expect.stringMatching(
              /^30 of 40 items are no longer listed \(1\d{3} /,
            ) as string,
            remedy: expect.stringMatching(
              /`seller-mirror sync --accept-removals \d+`.*--keep-removals \d+`/,
            ) as string,
          },
        },
      },
    ]);
  });

  it('of a parked seller says how to resume', async () => {
    const { alert } = await failedMarket('key-refused');
    expect(await messagesOf(alert)).toMatchObject([
      {
        type: 'seller.parked',
        data: {
          seller: 'main',
          runId: id,
          since: iso,
          problem: {
            code: 'refused',
            remedy: 'fix the key, then `seller-mirror sync --seller main` resumes the schedule',
          },
        },
      },
    ]);
  });

  it('of a stale copy says since when', async () => {
    const { deps } = await market();
    await syncItems(deps, never);
    const later = new Date(Date.now() + 27 * 3_600_000);
    const [alert] = findStaleSellers(await readSellerStatuses(mirror().db), ['main'], 26, later);
    if (alert === undefined) throw new Error('not stale');
    expect(await messagesOf(alert)).toMatchObject([
      { type: 'copy.stale', data: { seller: 'main', lastSuccess: alert.since } },
    ]);
  });

  it('quotes no data of the marketplace', async () => {
    const { sim, deps } = await market();
    sim.faults.always('account', { kind: 'reply', status: 200, body: '{"private":"balance 12"}' });
    const { server, deps: to } = await receiver();
    await deliver(to, await alertOf(deps), 'a');
    expect(server.requests[0]?.body).toContain('"code":"unreadable"');
    expect(server.requests[0]?.body).not.toContain('balance');
    expect(server.requests[0]?.body).not.toContain(KEY);
  });

  it('of a run that died before recording its failure says so', async () => {
    const { deps } = await market();
    await syncAccount(deps, never);
    await mirror().rows(
      `INSERT INTO mirror.runs (seller_id, kind, state, holder) VALUES ('main', 'items', 'running', 'x')`,
    );
    const [run] = await mirror().rows<{ id: string }>('SELECT max(run_id) AS id FROM mirror.runs');
    expect(await messagesOf({ kind: 'run-failed', runId: run?.id ?? '' })).toMatchObject([
      {
        data: {
          state: 'interrupted',
          problem: { message: expect.stringContaining('ended') as string },
        },
      },
    ]);
  });

  it('has the same id at each retry of its job, and another id in another job', async () => {
    const { alert } = await failedMarket('server-error');
    const { server, deps: to } = await receiver([
      { status: 503, headers: { 'retry-after': '60' } },
      { status: 200 },
    ]);
    const first = await deliver(to, alert, 'run-failed.1');
    expect(first).toMatchObject({
      kind: 'later',
      reason: expect.stringContaining('503') as string,
    });
    await deliver(to, alert, 'run-failed.1');
    await deliver(to, alert, 'run-failed.2');
    const ids = server.requests.map(({ headers }) => headers['webhook-id'] ?? '');
    expect(ids[1]).toBe(ids[0]);
    expect(ids[2]).not.toBe(ids[0]);
    // A dot would make the signed text ambiguous.
    for (const messageId of ids) expect(messageId).toMatch(/^msg_[\w-]+$/);
  });
});

describe('an alert that could not be sent in time', () => {
  /** Why an alert is dropped after a change. */
  async function dropped(alert: Alert, change: () => Promise<unknown>): Promise<string> {
    await record(alert, 'late');
    await change();
    const { server, deps } = await receiver();
    const outcome = await deliverAlert(deps, { alertId: 'late', channel: 'webhook' }, never);
    expect(server.requests).toEqual([]);
    if (outcome.kind !== 'done') throw new Error(JSON.stringify(outcome));
    return String(outcome.result['dropped']);
  }

  it('is dropped when a later run of the same kind has succeeded', async () => {
    const { sim, deps, alert } = await failedMarket('server-error');
    sim.faults.clear();
    await syncAccount(deps, never);
    const { server, deps: to } = await receiver();
    await deliver(to, alert, 'a');
    expect(server.requests.length, 'an account run does not cover the items').toBe(1);
    const reason = await dropped(alert, () => syncItems(deps, never));
    expect(reason).toMatch(/run \d+ has succeeded since/);
  });

  it('is dropped when the seller is no longer stopped, or paused', async () => {
    const { sim, deps, alert } = await failedMarket('key-refused');
    sim.faults.clear();
    expect(await dropped(alert, () => syncAccount(deps, never))).toMatch(/no longer stopped/);
  });

  it('is dropped when a person has paused the seller', async () => {
    const { alert } = await failedMarket('key-refused');
    const pause = () => pauseSeller(mirror().db, 'main', 'paused by ada');
    expect(await dropped(alert, pause)).toMatch(/has been paused since/);
  });

  it('is dropped when the copy is fresh again', async () => {
    const { deps } = await market();
    const alert = {
      kind: 'copy-stale',
      seller: 'main',
      since: '2026-01-01T00:00:00.000Z',
    } as const;
    expect(await dropped(alert, () => syncItems(deps, never))).toMatch(/mirrored since/);
  });
});

describe('stale feeds', () => {
  const hours = (number: number): Date => new Date(Date.now() + number * 3_600_000);
  const bi = { name: 'bi', views: ['items', 'purchases'] };
  const find = (at: Date) => findFeedAlerts(mirror().db, [bi], 3, at);
  const note = async (problem: string | null, views = bi.views): Promise<unknown> => {
    const { db } = mirror();
    const { askedAt } = await readFeedRequest(db, 'bi');
    return recordDelivery(db, 'bi', {
      problem,
      views: views.map((view) => ({ view, problem })),
      askedAt,
      isFull: false,
    });
  };

  it('have one alert while their target lacks rows, and one when it has caught up', async () => {
    const { db } = mirror();
    await requestFeedViews(db, 'bi', bi.views);
    await requestFeedViews(db, 'bi', bi.views);
    await note('PostgreSQL at db: connect ECONNREFUSED');
    expect(await find(hours(2.9))).toEqual([]);
    const [stale] = await find(hours(3.1));
    expect(stale).toMatchObject({ kind: 'feed-stale', feed: 'bi' });
    if (stale === undefined) return;
    await requestFeedViews(db, 'bi', bi.views);
    await note('PostgreSQL at db: the disk is full');
    expect(await find(hours(5))).toEqual([stale]);
    const message = await describeAlert({ db: mirror().db, staleAfterHours: 26 }, stale, hours(5));
    expect(message).toMatchObject({ data: { views: bi.views } });
    expect(message).toMatchObject({ text: expect.stringContaining('the disk is full') as string });
    await note(null);
    const [over] = await find(hours(6));
    expect(over).toEqual({ ...stale, kind: 'feed-recovered' });
    await markFeedStale(db, 'bi', null);
    expect(await find(hours(7))).toEqual([]);
    expect(
      await describeAlert(
        { db: mirror().db, staleAfterHours: 26 },
        { ...stale, kind: 'feed-recovered' },
        hours(7),
      ),
    ).toEqual(expect.objectContaining({ tone: 'good', title: 'Feed bi delivers again' }));
  });

  it('include feeds with one failing view, although the others are delivered', async () => {
    await requestFeedViews(mirror().db, 'bi', bi.views);
    await note(null, ['purchases']);
    await note('column name is date', ['items']);
    const [stale] = await find(hours(4));
    expect(stale?.kind).toBe('feed-stale');
    if (stale === undefined) return;
    expect(
      await describeAlert({ db: mirror().db, staleAfterHours: 26 }, stale, hours(4)),
    ).toMatchObject({
      data: { views: ['items'] },
    });
  });

  it('exclude feeds that have nothing to deliver or are no longer configured', async () => {
    const { db } = mirror();
    await requestFeedViews(db, 'bi', bi.views);
    await note(null);
    await requestFeedViews(db, 'old', ['items']);
    expect(await find(hours(9))).toEqual([]);
  });
});

describe('stale sellers', () => {
  const hours = (number: number): Date => new Date(Date.now() + number * 3_600_000);

  it('are those whose items are too old, with the same alert each time', async () => {
    const { deps } = await market();
    await syncItems(deps, never);
    const at = async (number: number) =>
      findStaleSellers(await readSellerStatuses(mirror().db), ['main'], 26, hours(number));
    expect(await at(25.9)).toEqual([]);
    const stale = await at(26.1);
    expect(stale).toEqual([{ kind: 'copy-stale', seller: 'main', since: iso }]);
    expect(await at(40)).toEqual(stale);
  });

  it('exclude new sellers without a success, and sellers that are not configured', async () => {
    const { sim, deps } = await market();
    sim.faults.always('any', { kind: 'server-error' });
    await syncAccount(deps, never);
    const { db } = mirror();
    expect(findStaleSellers(await readSellerStatuses(db), ['main'], 26, hours(1))).toEqual([]);
    expect(findStaleSellers(await readSellerStatuses(db), ['main'], 26, hours(27))).toEqual([
      { kind: 'copy-stale', seller: 'main', since: null },
    ]);
    expect(findStaleSellers(await readSellerStatuses(db), ['other'], 26, hours(27))).toEqual([]);
  });

  it('exclude parked and paused sellers', async () => {
    const { deps } = await market();
    const { db } = mirror();
    const { runId } = await syncItems(deps, never);
    const find = async () =>
      findStaleSellers(await readSellerStatuses(db), ['main'], 26, hours(27));
    expect(await find()).toHaveLength(1);
    await parkSeller(db, 'main', { code: 'refused', reason: 'x', runId });
    expect(await find()).toEqual([]);
    await pauseSeller(db, 'main', 'paused by ada');
    expect(await find()).toEqual([]);
  });
});
