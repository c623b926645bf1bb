import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import type { OpenRequest, RunFacts, SellerFacts } from '../../src/catalogue/requests.js';
import {
  askedTasks,
  dueFeed,
  dueTasks,
  feedWait,
  schedulesOf,
  type Schedule,
  type Since,
} from '../../src/service/due.js';

const at = (time: string): Date => new Date(`2026-11-${time}Z`);
const schedule = (kind: Schedule['kind'], cron: string): Schedule => {
  return { kind, name: 'main', cron, timeZone: 'UTC' };
};
const NIGHTLY = schedule('sync', '0 2 * * *');
const WEEKLY = schedule('recheck', '0 4 * * sat');

/** It is noon of Saturday, 21 November; a scheduler has run for days. */
const NOON: Since = { now: at('21T12:00'), startedAt: at('01T00:00'), catchUp: true };
const TICK = '21T02:00';

type Last = NonNullable<RunFacts['last']>;
const run = (dueAt: string, state: Last['state'], more: Partial<Last> = {}): RunFacts => ({
  goodAt: state === 'succeeded' || state === 'held' ? at(dueAt) : null,
  last: { dueAt: at(dueAt), state, retryAt: null, isLocked: false, ...more },
});

function seller(more: Partial<SellerFacts> = {}): SellerFacts {
  return {
    seller: 'main',
    createdAt: at('01T00:00'),
    isParked: false,
    recheckDueAt: null,
    isRechecking: false,
    account: run('20T02:00', 'succeeded'),
    items: run('20T02:00', 'succeeded'),
    ...more,
  };
}

/** The kinds and times of the jobs, such as `sync 21T02:00`. */
function due(facts: SellerFacts | undefined, since: Partial<Since> = {}, schedules = [NIGHTLY]) {
  const known = new Map(facts === undefined ? [] : [['main', facts]]);
  const tasks = dueTasks(schedules, known, { ...NOON, ...since });
  return tasks.map((task) => `${task.kind} ${'dueAt' in task ? task.dueAt.slice(8, 16) : ''}`);
}

describe('the time of a schedule', () => {
  it.each<[string, SellerFacts, boolean]>([
    ['is due while the last run was for an earlier one', seller(), true],
    ['is answered by a run for it', seller({ items: run(TICK, 'succeeded') }), false],
    ['is answered by a held run', seller({ items: run(TICK, 'held') }), false],
    [
      'is answered by a run by hand that began after it',
      seller({ items: { ...run('20T02:00', 'succeeded'), goodAt: at('21T09:00') } }),
      false,
    ],
    ['is answered by a run that failed for good', seller({ items: run(TICK, 'failed') }), false],
    [
      'is answered by an account whose run failed for good, since no run of items follows it',
      seller({ account: run(TICK, 'failed') }),
      false,
    ],
    [
      'is not answered by a later run of the account alone',
      seller({ account: run('21T11:00', 'failed') }),
      true,
    ],
    [
      'waits for the retry of a failed run',
      seller({ items: run(TICK, 'failed', { retryAt: at('21T12:30') }) }),
      false,
    ],
    [
      'is due again when the retry is',
      seller({ items: run(TICK, 'failed', { retryAt: at('21T11:59') }) }),
      true,
    ],
    [
      'is due if its retry is further ahead than any backoff: a clock was wrong',
      seller({ items: run(TICK, 'failed', { retryAt: at('29T12:00') }) }),
      true,
    ],
    [
      'is worked on while a run for it holds the lock',
      seller({ items: run(TICK, 'running', { isLocked: true }) }),
      false,
    ],
    ['is due again if that process died', seller({ items: run(TICK, 'running') }), true],
    ['is due again if its run was interrupted', seller({ items: run(TICK, 'interrupted') }), true],
    ['is not due while the seller is stopped or paused', seller({ isParked: true }), false],
    ['is not due if the seller is newer', seller({ createdAt: at('21T03:00') }), false],
    [
      'is due if the seller was added while a clock was ahead',
      seller({ createdAt: at('29T03:00') }),
      true,
    ],
  ])('%s', (_rule, facts, isDue) => {
    expect(due(facts)).toEqual(isDue ? [`sync ${TICK}`] : []);
  });

  it('is due on resuming, once, however many were missed', () => {
    const facts = seller({ items: run('15T02:00', 'succeeded') });
    expect(due({ ...facts, isParked: true })).toEqual([]);
    expect(due(facts)).toEqual([`sync ${TICK}`]);
  });

  it('makes a first copy at once, and no second one if that fails for good', () => {
    const none: RunFacts = { goodAt: null, last: null };
    const added = seller({ createdAt: at('21T11:59'), account: none, items: none });
    expect(due(undefined)).toEqual([`sync ${TICK}`]);
    expect(due(added)).toEqual([`sync ${TICK}`]);
    expect(due({ ...added, items: run(TICK, 'failed') })).toEqual([]);
    const restarted = { catchUp: false, startedAt: at('21T11:30') };
    expect(due(undefined, restarted)).toEqual([]);
  });

  it('of a schedule that was added or changed begins with the next one', () => {
    const changed = schedule('sync', '0 11 * * *');
    const restarted = { startedAt: at('21T11:30') };
    expect(due(seller(), restarted, [changed])).toEqual([]);
    expect(
      due(
        seller({ account: { goodAt: at('20T02:00'), last: null } }),
        { startedAt: at('21T12:00') },
        [schedule('account', '30 11 * * *')],
      ),
    ).toEqual([]);
    const since = { startedAt: at('21T10:00') };
    expect(due(seller(), since, [changed])).toEqual(['sync 21T11:00']);
  });

  it.each([
    ['21T02:04', 1],
    ['21T02:06', 0],
    ['20T23:00', 1],
    // It was started while a clock was ahead: as if it started now.
    ['29T23:00', 0],
  ])('without CATCH_UP, and with the oldest scheduler of %s: %i job', (startedAt, jobs) => {
    const since = { startedAt: at(startedAt), catchUp: false };
    expect(due(seller(), since)).toHaveLength(jobs);
    const retry = seller({ items: run(TICK, 'failed', { retryAt: at('21T11:00') }) });
    expect(due(retry, since)).toHaveLength(1);
  });

  it('has one job for account and items when both are due at once', () => {
    const both = [NIGHTLY, schedule('account', '0 2 * * *')];
    expect(due(seller(), {}, both)).toEqual([`sync ${TICK}`]);
    expect(due(seller({ items: run(TICK, 'succeeded') }), {}, both)).toEqual([`account ${TICK}`]);
  });

  it('is answered by nothing that began in the future, since such facts are not read', () => {
    fc.assert(
      fc.property(fc.integer({ min: 1, max: 60 }), (nights) => {
        const last = new Date(at('21T02:00').getTime() - nights * 86_400_000);
        const facts = seller({
          createdAt: new Date(0),
          items: {
            goodAt: last,
            last: { dueAt: last, state: 'succeeded', retryAt: null, isLocked: false },
          },
        });
        expect(due(facts)).toEqual([`sync ${TICK}`]);
      }),
    );
  });
});

describe('a re-check', () => {
  const facts = seller({ recheckDueAt: at('14T04:00') });

  it('is due until one was made for its time, or nothing needed one', () => {
    expect(due(facts, {}, [WEEKLY])).toEqual(['recheck 21T04:00']);
    expect(due({ ...facts, recheckDueAt: at('21T04:00') }, {}, [WEEKLY])).toEqual([]);
  });

  it('is left out a day later, while the last one is running, and while the seller is stopped', () => {
    expect(due(facts, { now: at('22T03:59') }, [WEEKLY])).toHaveLength(1);
    expect(due(facts, { now: at('22T04:01') }, [WEEKLY])).toEqual([]);
    expect(due({ ...facts, isRechecking: true }, {}, [WEEKLY])).toEqual([]);
    expect(due({ ...facts, isParked: true }, {}, [WEEKLY])).toEqual([]);
    expect(due(undefined, {}, [WEEKLY])).toEqual([]);
  });
});

describe('a feed', () => {
  const daily = schedule('feed', '0 5 * * *');

  it.each([
    ['20T05:00', '21T05:00'],
    ['21T05:00', null],
    // Asked for while a clock was ahead.
    ['29T05:00', '21T05:00'],
  ])('that was last asked for at %s is due for %s', (askedAt, tick) => {
    expect(dueFeed(daily, at(askedAt), NOON)).toEqual(tick === null ? null : at(tick));
  });

  it('that is new begins with its next time', () => {
    expect(dueFeed(daily, null, { ...NOON, startedAt: at('21T06:00') })).toBeNull();
  });
});

describe('a feed that waits', () => {
  const second = 1_000;
  it.each<[string, Parameters<typeof feedWait>[0], number | null]>([
    ['was never asked for', { askedAt: null, failedAt: null, failures: 0, waitingSince: null }, null],
    ['has delivered all', { askedAt: at('21T10:00'), failedAt: at('21T10:01'), failures: 0, waitingSince: null }, null],
    ['is left alone until no sync has ended for half a minute',
      { askedAt: at('21T11:59:50'), failedAt: null, failures: 0, waitingSince: at('21T11:58') }, 20 * second],
    ['waits for ten minutes at most, while syncs end all the time',
      { askedAt: at('21T11:59:59'), failedAt: null, failures: 0, waitingSince: at('21T11:50') }, 0],
    ['was asked for while a clock was ahead',
      { askedAt: at('29T11:00'), failedAt: null, failures: 0, waitingSince: at('29T11:00') }, 30 * second],
    ['failed, and waits twice as long after each failure',
      { askedAt: at('21T11:00'), failedAt: at('21T11:59'), failures: 3, waitingSince: at('21T11:00') }, 60 * second],
    ['failed often, and waits for an hour at most',
      { askedAt: at('20T11:00'), failedAt: at('21T11:59:59'), failures: 99, waitingSince: at('20T11:00') }, 3_599 * second],
    ['failed, and its pause is over',
      { askedAt: at('21T11:00'), failedAt: at('21T11:59'), failures: 1, waitingSince: at('21T11:00') }, 0],
    ['failed while a clock was ahead, so that the pause is not believed',
      { askedAt: at('21T11:00'), failedAt: at('29T11:00'), failures: 9, waitingSince: at('21T11:00') }, 0],
  ])('%s: %#', (_what, facts, waitMs) => {
    expect(feedWait(facts, true, NOON.now)).toBe(waitMs);
  }); // prettier-ignore

  it('does so at once if a schedule has asked for it', () => {
    const facts = { askedAt: NOON.now, failedAt: null, failures: 0, waitingSince: NOON.now };
    expect(feedWait(facts, false, NOON.now)).toBe(0);
  });
});

describe('what people asked for', () => {
  const open = (kind: OpenRequest['kind'], more: Partial<OpenRequest> = {}): OpenRequest => {
    const nothing = { itemId: null, retryAt: null };
    return { seller: 'main', kind, dueAt: at('21T11:00'), ...nothing, ...more };
  };
  const kinds = (...requests: OpenRequest[]): string[] =>
    askedTasks(requests, NOON.now).map(({ kind }) => kind);

  it('has one job for each request, with the parts that no run has answered', () => {
    expect(kinds(open('account'), open('items'))).toEqual(['sync']);
    expect(kinds(open('items'))).toEqual(['items']);
    expect(kinds(open('account'))).toEqual(['account']);
    expect(kinds(open('item', { itemId: 7 }))).toEqual(['item']);
    expect(kinds(open('items'), open('items', { dueAt: at('21T11:30') }))).toHaveLength(2);
  });

  it('waits for the retry of a part that failed', () => {
    const retryAt = at('21T12:30');
    expect(kinds(open('account', { retryAt }), open('items'))).toEqual([]);
    expect(kinds(open('account', { retryAt: at('21T11:30') }), open('items'))).toEqual(['sync']);
  });
});

it('schedules are those that the settings name', () => {
  const main = { name: 'main', timeZone: 'UTC', syncCron: '0 2 * * *', accountCron: null };
  const feeds = [
    { name: 'bi', timeZone: 'UTC', cron: '0 5 * * *' },
    { name: 'lake', timeZone: 'UTC', cron: null },
  ];
  const found = schedulesOf({ sellers: [{ ...main, auditCron: '0 4 * * 6' }], feeds });
  expect(found.map(({ kind, name }) => `${kind} ${name}`)).toEqual([
    'sync main',
    'recheck main',
    'feed bi',
  ]);
});
