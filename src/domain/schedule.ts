/** What a cron expression says, field by field; made by the queue's cron library. */
export interface CronPattern {
  /** Sorted, each within 0 to 59. */
  readonly seconds: readonly number[];
  readonly minutes: readonly number[];
  /** Sorted, each within 0 to 23. */
  readonly hours: readonly number[];
  /** Whether the pattern runs on a day of the calendar; `month` is 1 to 12. */
  readonly matchesDay: (year: number, month: number, day: number) => boolean;
}
