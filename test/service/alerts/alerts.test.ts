import { mkdirSync, rmSync, writeFileSync } from 'node:fs';
import type { Socket } from 'node:net';
import { join } from 'node:path';
import { Webhook as Verifier } from 'standardwebhooks';
import { describe, expect, it } from 'vitest';
import { folder, fileWith, marketOf, run } from '../../cli/support.js';
import { startServer, type Answer } from '../../support/http-server.js';
import { KEY, useMirror } from '../../support/mirror.js';
import { until } from '../../support/until.js';
import { startJobs, useServices } from '../support.js';

const mirror = useMirror();
useServices();

const SECRET = `whsec_${Buffer.alloc(32, 3).toString('base64')}`;

interface Message {
  readonly type: string;
  readonly timestamp: string;
  readonly data: Readonly<Record<string, unknown>>;
}

const DASHBOARD_URL = 'https://mirror.example';

/** A marketplace, and a receiver of alerts that answers by `script`. */
async function world(items = 5, script: (index: number) => Answer = () => ({ status: 204 })) {
  const { sim, catalogue, env: basic } = await marketOf(mirror(), items);
  const server = await startServer((_, index) => script(index));
  const env = {
    ...basic,
    ALERT_WEBHOOK_URL: server.url.href,
    ALERT_WEBHOOK_SECRET: SECRET,
    ALLOW_PLAIN_HTTP: 'true',
    STALE_AFTER_HOURS: '26',
    SYNC_CRON: 'off',
  };
  return {
    sim,
    catalogue,
    env,
    server,
    sync: (...args: string[]) => run(['sync', ...args], env),
    messages: (): Message[] =>
      server.requests.map(
        ({ body, headers }) => new Verifier(SECRET).verify(body, headers) as Message,
      ),
    /** Starts a service, which finds what is to be sent. */
    serve: (more: Readonly<Record<string, string>> = {}) =>
      startJobs(mirror(), sim.url, { ...env, ...more }),
  };
}
type World = Awaited<ReturnType<typeof world>>;

const recorded = () =>
  mirror().rows<{ type: string; outcome: string | null; note: string | null }>(
    'SELECT type, outcome, note FROM mirror.alerts ORDER BY created_at',
  );

/** Moves what was done into the past. */
const age = (hours: number) =>
  mirror().rows(
    `UPDATE mirror.runs SET started_at = started_at - $1 * interval '1 hour',
            finished_at = finished_at - $1 * interval '1 hour'`,
    [hours],
  );

/** Makes all retries due, and empties the queue. */
async function forgetJobs(): Promise<void> {
  await mirror().rows('UPDATE mirror.alerts SET retry_at = NULL');
  await mirror().rows('TRUNCATE bullmq.job CASCADE');
}

const pause = () =>
  mirror().rows(
    `UPDATE mirror.sellers SET parked_at = now(), parked_code = 'paused', parked_reason = 'paused by ada'`,
  );

async function accept({ sync }: World): Promise<void> {
  const [run] = await mirror().rows(`SELECT run_id FROM mirror.runs WHERE state = 'held'`);
  await sync('--accept-removals', String(run?.['run_id']));
}

/** What people are told of. */
const CAUSES: Readonly<Record<string, (world: World) => Promise<unknown>>> = {
  async failed({ sim, sync }) {
    sim.faults.always('list', { kind: 'reply', status: 200, body: '{"private":"balance 12"}' });
    await sync();
    sim.faults.clear();
  },
  async held({ catalogue, sync }) {
    await sync();
    for (const { id } of [...catalogue.truth()].slice(0, 30)) catalogue.remove(id);
    await sync();
  },
  async refused({ sim, sync, serve }) {
    sim.faults.always('any', { kind: 'key-refused' });
    await sync('--queue');
    // This service may send the alert, too.
    const service = await serve({ DASHBOARD_URL });
    await until(async () => (await recorded()).length > 0);
    await service.stop();
    sim.faults.clear();
  },
  async stale({ sync }) {
    await sync();
    await age(27);
  },
};

const iso = expect.stringMatching(/^\d{4}-\d\d-\d\dT[\d:.]+Z$/) as string;
const id = expect.stringMatching(/^\d+$/) as string;
const text = expect.any(String) as string;

/** What an alert tells, and what makes it needless before it could be sent. */
interface Story {
  readonly cause: keyof typeof CAUSES;
  readonly type: string;
  readonly data: object;
  readonly change: (world: World) => Promise<unknown>;
  readonly why: RegExp;
}

describe('an alert', () => {
  it.each<[string, Story]>([
    [
      'a run that failed, without quoting the marketplace, until a later one succeeds',
      {
        cause: 'failed',
        type: 'run.failed',
        data: {
          seller: 'main',
          runId: id,
          kind: 'items',
          state: 'failed',
          startedAt: iso,
          finishedAt: iso,
          counts: expect.objectContaining({ listed: 0, apiCalls: 1 }) as object,
          problem: {
            code: 'unreadable',
            message: expect.stringContaining('seller-mirror runs show') as string,
            remedy: text,
          },
        },
        change: ({ sync }) => sync(),
        why: /run \d+ has succeeded since/,
      },
    ],
    [
      'removals that wait, how many, and how to decide, until somebody does',
      {
        cause: 'held',
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
            remedy: expect.stringMatching(/`seller-mirror sync --accept-removals \d+`/) as string,
          },
        },
        change: accept,
        why: /nothing is held/,
      },
    ],
    [
      'a seller that is stopped, and how to resume, until it goes on',
      {
        cause: 'refused',
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
        change: ({ sync }) => sync('account'),
        why: /no longer stopped/,
      },
    ],
    [
      'a copy that is stale, and since when, until it is fresh',
      {
        cause: 'stale',
        type: 'copy.stale',
        data: { seller: 'main', lastSuccess: iso },
        change: ({ sync }) => sync('items'),
        why: /were mirrored since/,
      },
    ],
  ])('tells of %s', async (_what, { cause, type, data, change, why }) => {
    const at = await world(40, () => ({ status: 500 }));
    await CAUSES[cause]?.(at);
    const first = await at.serve({ DASHBOARD_URL });
    await until(() => at.messages().length > 0);
    expect(new Set(at.messages().map((one) => one.type))).toEqual(new Set([type]));
    await first.stop();
    const link = expect.stringMatching(
      /^https:\/\/mirror\.example\/(?:runs|sellers)\/\w+$/,
    ) as string;
    expect(at.messages()[0]).toMatchObject({ type, timestamp: iso, data: { ...data, link } });
    const [{ body } = { body: '' }] = at.server.requests;
    for (const secret of [KEY, 'balance 12']) expect(body).not.toContain(secret);
    await change(at);
    await forgetJobs();
    await at.serve();
    await until(async () => (await recorded()).some(({ outcome }) => outcome === 'dropped'));
    const same = (await recorded()).filter((one) => one.type === type);
    expect(same).toMatchObject([{ note: expect.stringMatching(why) as string }]);
  });

  it('has the same id at each retry, which comes no sooner than the receiver asks', async () => {
    const at = await world(5, (index) =>
      index === 0 ? { status: 503, headers: { 'retry-after': '1200' } } : { status: 204 },
    );
    await CAUSES['failed']?.(at);
    const first = await at.serve();
    const retry = async (): Promise<number | undefined> => {
      const [row] = await mirror().rows<{ after: number }>(
        'SELECT extract(epoch FROM retry_at - now())::int AS after FROM mirror.alerts WHERE retry_at IS NOT NULL',
      );
      return row?.after;
    };
    await until(async () => (await retry()) !== undefined);
    expect(await retry()).toBeGreaterThan(1_100);
    await first.stop();
    await forgetJobs();
    await at.serve();
    await until(() => at.messages().length >= 2);
    const ids = at.server.requests.map(({ headers }) => headers['webhook-id'] ?? '');
    expect(ids[1]).toBe(ids[0]);
    // A dot would make the signed text ambiguous.
    expect(ids[0]).toMatch(/^msg_[\w-]+$/);
  });

  it('is not sent again after another worker has sent it, whatever comes of a late attempt', async () => {
    const sentElsewhere = async (socket: Socket): Promise<void> => {
      await mirror().rows(`UPDATE mirror.alerts SET ended_at = now(), outcome = 'sent'`);
      socket.end('HTTP/1.1 503 Busy\r\ncontent-length: 0\r\nconnection: close\r\n\r\n');
    };
    const at = await world(5, () => ({ raw: (socket) => void sentElsewhere(socket) }));
    await CAUSES['failed']?.(at);
    const { queues } = await at.serve();
    await until(() => at.server.requests.length > 0);
    await until(async () => (await queues.counts()).alerts.active === 0);
    expect(await recorded()).toMatchObject([{ outcome: 'sent', note: null }]);
  });
});

describe('a seller that is stopped or stale', () => {
  it('has one alert, also while it is being stopped, and none once a person has paused it', async () => {
    const at = await world(5, () => ({ status: 500 }));
    await CAUSES['refused']?.(at);
    const look = async (): Promise<void> => await (await at.serve()).stop();
    // The run has ended, and the seller is not stopped yet.
    await mirror().rows('UPDATE mirror.sellers SET parked_at = NULL, parked_code = NULL');
    await look();
    await age(27);
    await pause();
    await forgetJobs();
    await at.serve();
    await until(async () => (await recorded()).some(({ outcome }) => outcome === 'dropped'));
    expect(await recorded()).toMatchObject([
      { type: 'seller.parked', note: expect.stringContaining('has been paused since') as string },
    ]);
  });
});

describe('a paused seller', () => {
  it('has an alert of a run that somebody asked for and whose key is refused: nothing stops it', async () => {
    const at = await world();
    await at.sync();
    await pause();
    at.sim.faults.always('any', { kind: 'key-refused' });
    await at.sync('--queue');
    await at.serve();
    await until(() => at.messages().length > 0);
    expect(at.messages()).toMatchObject([
      { type: 'run.failed', data: { seller: 'main', problem: { code: 'refused' } } },
    ]);
  });
});

describe('a feed that does not deliver', () => {
  it('has one alert while its target lacks rows, and one when it has caught up', async () => {
    const at = await world();
    const place = join(folder(), 'lake');
    writeFileSync(place, 'a file where a folder should be');
    const lake = { name: 'lake', folder: place, format: 'csv', views: ['item_history', 'items'] };
    const feeds = { FEEDS_FILE: fileWith(JSON.stringify({ feeds: [lake] }), 'json') };
    await run(['sync'], { ...at.env, ...feeds });
    const first = await at.serve({ ...feeds, FEED_STALE_AFTER_HOURS: '3' });
    await mirror().rows(`UPDATE mirror.feed_views SET waiting_since = now() - interval '4 hours'`);
    await first.stop();
    await forgetJobs();
    const second = await at.serve({ ...feeds, FEED_STALE_AFTER_HOURS: '3' });
    await until(() => at.messages().some(({ type }) => type === 'feed.stale'));
    await second.stop();
    rmSync(place);
    mkdirSync(place);
    const delivered = await run(['feed', 'run', 'lake'], { ...at.env, ...feeds });
    expect(delivered.code, delivered.stderr + delivered.stdout).toBe(0);
    await at.serve(feeds);
    await until(() => at.messages().some(({ type }) => type === 'feed.recovered'));
    expect(at.messages()).toMatchObject([
      { type: 'feed.stale', data: { feed: 'lake', views: lake.views } },
      { type: 'feed.recovered', data: { feed: 'lake' } },
    ]);
  });
});
