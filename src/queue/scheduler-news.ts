import type { Log } from '../domain/log.js';
import type { ScheduleKey, ScheduleState } from '../store/schedules.js';
import { wordsOf } from './errors.js';
import { afterFailure, afterSuccess, NO_OUTAGE } from './outage.js';
import { credibleAt, type TickPlan, type Timetable } from './ticks.js';

/** Tells what a scheduler does, in few lines. */
export class SchedulerNews {
  readonly #log: Log;
  #outage = NO_OUTAGE;
  #warnedOfClock = false;

  constructor(log: Log) {
    this.#log = log;
  }

  enqueued({ seller, kind }: ScheduleKey, tick: string, jobId: string, added: boolean): void {
    const facts = { seller, kind, tick, job: jobId };
    if (added) this.#log.info('a schedule is due: its job is in the queue', facts);
    else this.#log.debug('the job of a tick was in the queue already', facts);
  }

  passed(
    { seller, kind, cron }: Timetable,
    { missed, why }: Extract<TickPlan, { kind: 'pass' }>,
  ): void {
    const facts = { seller, kind, cron, missed: missed?.toISOString() ?? null };
    if (why === 'changed') this.#log.info('a schedule was changed', facts);
    else if (why === 'covered') this.#log.info('a run made good what a schedule missed', facts);
    else this.#log.info('a tick passed while nothing ran, and is not caught up', facts);
  }

  /** Looks at records of ticks that are not to come for a while; one line for all of them. */
  recorded(states: readonly ScheduleState[], now: Date): void {
    const ahead = states.flatMap(({ record }) =>
      record !== null && record.lastTick > credibleAt(now) ? [record.lastTick] : [],
    );
    if (ahead[0] === undefined || this.#warnedOfClock) return;
    this.#warnedOfClock = true;
    this.#log.warn('ticks of a time to come are on record: a clock is or was wrong', {
      schedules: ahead.length,
      recorded: ahead[0].toISOString(),
      now: now.toISOString(),
    });
  }

  /** Queue or database can't be used. */
  failed(error: unknown): void {
    const { state, say } = afterFailure(this.#outage, Date.now());
    this.#outage = state;
    if (say !== 'lost') return;
    this.#log.warn('schedules wait: what is due is made good when queue and database work again', {
      reason: wordsOf(error),
    });
  }

  worked(): void {
    const { state, say } = afterSuccess(this.#outage);
    this.#outage = state;
    if (say === 'back') this.#log.info('schedules go on');
  }
}
