import { duration } from '../domain/text.js';

/** Time between two measurements (ms). */
const MEASURE_EVERY_MS = 60_000;
/** Own clocks that differ more from the database's (ms) are worth a warning. */
const WARN_ABOVE_MS = 5_000;
/** An answer that took longer (ms) says too little, once a time is known. */
const LONGEST_WAY_MS = 1_000;

/**
 * The time of all processes of one store: the database's time at the last measurement, plus what this process's
 * monotonic clock counted since. Machines whose own clocks differ, or are set meanwhile, agree by it on what came a minute
 * after what.
 */
export interface Clock {
  /** Milliseconds since 1970. Before the first measurement it is this machine's own time. */
  now(): number;
  /**
   * Asks the database for its time. The last measurement stays if the answer took more than a second.
   * @throws {Error} of the driver; the last measurement then stays, too
   */
  measure(): Promise<void>;
  /**
   * Measures now, and each minute until `stop`; a measurement that fails later is left out.
   * @param onDifference called with a warning when this machine's own clock is more than 5 s off
   * @throws {Error} of the driver, if the first measurement fails
   */
  start(onDifference: (warning: string) => void): Promise<void>;
  stop(): void;
}

/** Clocks of this process, milliseconds. */
export interface OwnClocks {
  /** Since 1970; it may be wrong, and it may be set. */
  wall(): number;
  monotonic(): number;
}

const OWN_CLOCKS: OwnClocks = { wall: () => Date.now(), monotonic: () => performance.now() };

/**
 * @param ask asks the database for its time, milliseconds since 1970
 * @param own replaced by tests
 */
export function createClock(ask: () => Promise<number>, own: OwnClocks = OWN_CLOCKS): Clock {
  /** The database's time (ms since 1970) when the monotonic clock was 0. */
  let zero: number | null = null;
  let timer: NodeJS.Timeout | null = null;
  let warn: ((warning: string) => void) | null = null;
  let isWarned = false;

  const askOnce = async (): Promise<{ readonly wayMs: number; readonly zero: number }> => {
    const before = own.monotonic();
    const time = await ask();
    const after = own.monotonic();
    // The database read its clock somewhere between the question and its answer.
    return { wayMs: after - before, zero: time - (before + after) / 2 };
  };
  const measure = async (): Promise<void> => {
    // The first question may have waited for a connection.
    const [first, second] = [await askOnce(), await askOnce()];
    const better = first.wayMs < second.wayMs ? first : second;
    if (zero !== null && better.wayMs > LONGEST_WAY_MS) return;
    ({ zero } = better);
    const aheadMs = own.wall() - (zero + own.monotonic());
    const differs = Math.abs(aheadMs) > WARN_ABOVE_MS;
    if (differs && !isWarned) warn?.(warningOf(aheadMs));
    isWarned = differs && warn !== null;
  };
  return {
    now: () => Math.floor(zero === null ? own.wall() : zero + own.monotonic()),
    measure,
    async start(onDifference) {
      warn = onDifference;
      await measure();
      timer ??= setInterval(() => void measure().catch(() => undefined), MEASURE_EVERY_MS).unref();
    },
    stop() {
      if (timer !== null) clearInterval(timer);
      timer = null;
    },
  };
}

function warningOf(aheadMs: number): string {
  const side = aheadMs > 0 ? 'ahead of' : 'behind';
  return (
    `this machine’s clock is ${duration(Math.abs(aheadMs))} ${side} the database’s, whose time is used; ` +
    'synchronize both by NTP'
  );
}
