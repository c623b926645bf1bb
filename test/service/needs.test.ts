import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { readNeeds } from '../../src/service/needs.js';
import { ensureSeller, parkSeller, pauseSeller } from '../../src/catalogue/sellers-store.js';
import { failAudit } from '../../src/codes/audits-store.js';
import { recordDelivery, requestFeedViews } from '../../src/reporting/feeds-store.js';
import type { Alert } from '../../src/catalogue/types.js';
import { describeAlert } from '../../src/service/alerts/content.js';
import { createMetrics } from '../../src/service/metrics.js';
import { parseExposition } from './exposition.js';
import { enter } from '../codes/support.js';
import { folder, printed, run } from '../cli/support.js';
import { holdItems, KEY } from '../support/mirror.js';
import { textOf, useDashboard } from '../dashboard/dashboard.js';

const { mirror, dashboard } = useDashboard();

/** A seller, its newest run of items, and how long ago that ended. */
async function seller(name: string, state: string | null, hoursAgo = 1, items = 3) {
  const { db, rows } = { db: mirror().db, rows: mirror().rows.bind(mirror()) };
  await ensureSeller(db, name, 'market.example');
  await rows(`UPDATE mirror.sellers SET live_items = $2 WHERE seller_id = $1`, [name, items]);
  if (state === null) return 0n;
  const problem = { failed: 'the marketplace failed with HTTP 500', interrupted: 'it was killed' };
  const [run] = await rows<{ id: string }>(
    `INSERT INTO mirror.runs (seller_id, kind, state, holder, finished_at, problem_code, problem)
     VALUES ($1, 'items', $2, 'a test', now() - $3 * interval '1 hour', $4, $5)
     RETURNING run_id::text AS id`,
    [
      name,
      state,
      hoursAgo,
      state === 'failed' ? 'unavailable' : state === 'interrupted' ? 'interrupted' : null,
      state in problem ? problem[state as 'failed'] : null,
    ],
  );
  return BigInt(run?.id ?? 0);
}

/** One of each state. */
async function everyState() {
  const { db } = mirror();
  for (const name of ['fresh', 'resting'])
    await seller(name, 'succeeded', name === 'fresh' ? 1 : 90);
  await pauseSeller(db, 'resting', 'paused by ada');
  const ids = {
    held: await seller('h', 'held'),
    refused: await seller('k', 'failed'),
    failed: await seller('f', 'failed'),
    interrupted: await seller('i', 'interrupted'),
  };
  await holdItems(mirror(), 'h', ids.held, 1, false);
  await seller('o', 'succeeded', 27);
  await seller('n', null);
  await seller('e', 'succeeded', 1, 0);
  const reason = 'the marketplace refused the API key';
  await parkSeller(db, 'k', { code: 'refused', reason, runId: ids.refused });
  const lists = { sellerId: 'fresh', source: 'orders.csv' };
  const stuck = await enter(mirror(), 'market.example', ['0'.repeat(36)], lists);
  await failAudit(db, stuck, 'the key was refused');
  const open = await enter(mirror(), 'market.example', ['1'.repeat(36)], lists);
  await mirror().rows(
    `UPDATE mirror.audits SET state = 'finished', unproven = 1, pending = 0 WHERE audit_id = $1`,
    [open],
  );
  await requestFeedViews(db, 'bi', ['items']);
  const problem = 'PostgreSQL at db: connect ECONNREFUSED';
  const views = [{ view: 'items', problem }];
  await recordDelivery(db, 'bi', { problem, views, askedAt: null, isFull: false });
  return { ...ids, stuck, open };
}

describe('what needs somebody', () => {
  it('has one urgency, the same words and the same remedy in each face', async () => {
    const ids = await everyState();
    const { db } = mirror();
    const feed = { name: 'bi', place: 'a target', views: ['items'], sellers: null };
    const config = { ...dashboard().config, feeds: [feed as never] };
    const { needs } = await readNeeds({ config, db }, new Date());
    expect(
      needs.map(({ kind, tone, title, text, remedy }) => [kind, tone, title, text, remedy]),
    ).toEqual([
      [
        'decision',
        'warn',
        'h: removals wait for you',
        '1 of 4 items are no longer listed (1 Theme 1), more than a run removes by itself; none of them is proven to be gone; present items are mirrored and nothing was removed',
        `if they are really gone, \`seller-mirror sync --accept-removals ${ids.held}\` removes them; if not, \`seller-mirror sync --keep-removals ${ids.held}\` keeps them as missing`,
      ],
      [
        'stopped',
        'bad',
        'k is stopped',
        'the marketplace refused the API key; schedules skip this seller until that is fixed',
        'fix the key, then `seller-mirror sync --seller k` resumes the schedule',
      ],
      [
        'failed',
        'bad',
        'f: the last run failed',
        'the marketplace failed with HTTP 500',
        'run `seller-mirror sync` again; the copy is unchanged',
      ],
      [
        'feed',
        'bad',
        'Feed bi does not deliver',
        'items not delivered: PostgreSQL at db: connect ECONNREFUSED',
        '`seller-mirror feed check bi` tests the target, `seller-mirror feed run bi` delivers',
      ],
      [
        'check',
        'bad',
        `fresh: check ${ids.stuck} can’t go on`,
        'the key was refused',
        `fix this, then run \`seller-mirror audits resume ${ids.stuck}\`; recorded codes are not checked again`,
      ],
      [
        'interrupted',
        'warn',
        'i: the last run was interrupted',
        'it was killed',
        'run `seller-mirror sync` again to continue; nothing is half done',
      ],
      [
        'unproven',
        'warn',
        `fresh: check ${ids.open} left 1 code unproven`,
        '1 code got no verdict',
        'check the list again later',
      ],
      [
        'stale',
        'warn',
        'n was never mirrored',
        'its items were never mirrored',
        'check that `seller-mirror run` is running; `seller-mirror sync --seller n` mirrors it now',
      ],
      [
        'stale',
        'warn',
        'o: the copy is stale',
        'its items were last mirrored more than 26 hours ago',
        'check that `seller-mirror run` is running; `seller-mirror sync --seller o` mirrors it now',
      ],
      [
        'no-items',
        'warn',
        'e: no items',
        'the list names no item, which is also so for an account with exactly one',
        'if there is one, run `seller-mirror sync item ID`',
      ],
    ]);
    const visitor = await dashboard().login();
    const at = new Date();
    const ofRun = (kind: 'run-failed' | 'run-held', id: bigint) => of({ kind, runId: String(id) });
    const of = (alert: Alert) => describeAlert({ db, staleAfterHours: 26 }, alert, at);
    const alerts = [
      await ofRun('run-held', ids.held),
      await of({ kind: 'seller-parked', seller: 'k', runId: String(ids.refused) }),
      await ofRun('run-failed', ids.failed),
      await ofRun('run-failed', ids.interrupted),
      await of({ kind: 'copy-stale', seller: 'n', since: null }),
    ];
    expect(alerts).toMatchObject(
      needs
        .filter(({ seller, kind }) => seller !== 'o' && /deci|stop|fail|inter|stale/.test(kind))
        .map(({ tone, title, text, remedy, page }) => ({ tone, title, text, remedy, page })),
    );
    const metrics = createMetrics({
      sellers: [...new Set(needs.flatMap(({ seller }) => seller ?? []))],
      counts: () => Promise.resolve(null),
      state: () => readNeeds({ config, db }, at),
      lookUps: () => Promise.resolve([]),
      audits: () => Promise.resolve([]),
      feeds: [],
    });
    const samples = parseExposition(await metrics.text());
    const counted = samples.filter(({ name }) => name === 'seller_mirror_needs');
    expect(new Set(counted.map(({ labels }) => labels['kind']))).toEqual(
      new Set(needs.map(({ kind }) => kind)),
    );
    const file = join(folder(), 'sellers.json');
    const url = 'http://127.0.0.1:1';
    const names = new Set(needs.flatMap((one) => one.seller ?? []));
    const sellers = [...names].map((name) => ({ name, url, keyEnv: 'KEY' }));
    writeFileSync(file, JSON.stringify({ sellers }));
    const env = { DATABASE_URL: mirror().databaseUrl, SELLERS_FILE: file, KEY };
    const faces = {
      status: await printed(['status'], env),
      doctor: (await run(['doctor'], env)).stdout,
      overview: await visitor.page('/'),
    };
    for (const [face, shown] of Object.entries(faces)) {
      for (const { kind, text, remedy, since } of needs) {
        // None knows the feed: it is not in their settings. To `doctor`, a new seller is no finding.
        if (kind === 'feed') continue;
        if (face === 'doctor' && kind === 'stale' && since === null) continue;
        for (const words of [text, remedy]) {
          const pattern = plain(words).replace(/[.*+?^${}()|[\]\\]/g, '\\$&');
          expect(plain(shown), face).toMatch(new RegExp(pattern, 'i'));
        }
      }
    }
  });
});

describe('checks and sellers among what needs somebody', () => {
  const list = async (sellerId: string, state: 'failed' | 'finished') => {
    const lists = { sellerId, source: 'orders.csv' };
    const id = await enter(mirror(), 'market.example', ['0'.repeat(36)], lists);
    if (state === 'failed') await failAudit(mirror().db, id, 'the key was refused');
    else {
      const unproven = `UPDATE mirror.audits SET state = 'finished', unproven = 1, pending = 0`;
      await mirror().rows(`${unproven} WHERE audit_id = $1`, [id]);
    }
    return id;
  };
  const titles = async (sellers: readonly string[]) => {
    const { config } = dashboard();
    const named = sellers.map((name) => ({ ...config.sellers[0], name }));
    const some = { ...config, sellers: named as unknown as typeof config.sellers };
    const { needs } = await readNeeds({ config: some, db: mirror().db }, new Date());
    return needs.map(({ title }) => title);
  };

  it('shows a failed check behind many newer unproven ones, of this seller or others', async () => {
    for (const name of ['a', 'b']) await seller(name, 'succeeded');
    const stuck = await list('a', 'failed');
    const open = [await list('a', 'finished')];
    for (let n = 0; n < 4; n++) open.push(await list('b', 'finished'));
    const left = (name: string, id?: bigint) => `${name}: check ${id} left 1 code unproven`;
    expect(await titles(['a', 'b'])).toEqual([
      `a: check ${stuck} can’t go on`,
      ...[4, 3, 2].map((n) => left('b', open[n])),
      left('a', open[0]),
    ]);
  });

  it('leaves out sellers that are no longer configured: nobody can act on their key or schedule', async () => {
    await seller('kept', 'failed');
    await seller('gone', 'failed');
    await list('gone', 'failed');
    expect(await titles(['kept'])).toEqual(['kept: the last run failed']);
    expect((await titles([])).length).toBe(3);
  });
});

/** Without what each face adds: tags, line breaks, backticks and the way to start the program. */
function plain(text: string): string {
  return textOf(text)
    .replaceAll('&#39;', "'")
    .replaceAll(/`|npx |(?:node )?\S*(?=seller-mirror )/g, '')
    .replaceAll(/\s+/g, ' ')
    .replaceAll(/ (?=[;,.])/g, '');
}
