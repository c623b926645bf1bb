import { collectDefaultMetrics, Counter, Gauge, Histogram, Registry } from 'prom-client';
import { VERSION } from './version.js';

const PREFIX = 'seller_mirror_';

/** Seconds, from a call within one machine room to the longest wait for a reply. */
const CALL_SECONDS = [0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 120, 300];
/** Seconds; the usual budget lets one request leave a second. */
const WAIT_SECONDS = [0.01, 0.1, 0.5, 1, 2, 5, 10, 30, 60, 120, 300];
/** Seconds, from an unchanged account to a huge catalogue behind a small budget. */
const WORK_SECONDS = [0.1, 0.5, 1, 2.5, 5, 10, 30, 60, 300, 900, 3_600, 14_400];

/** Everything that is counted and measured, each under the name it has for Prometheus. */
export type Instruments = ReturnType<typeof makeInstruments>;

/** Makes a registry of its own with all instruments on it, those of the process included. */
export function makeInstruments() {
  const registry = new Registry();
  collectDefaultMetrics({ register: registry });
  const registers = [registry];
  const counter = <T extends string>(name: string, help: string, labelNames: T[]) =>
    new Counter({ name: PREFIX + name, help, labelNames, registers });
  const gauge = <T extends string>(name: string, help: string, labelNames: T[]) =>
    new Gauge({ name: PREFIX + name, help, labelNames, registers });
  const histogram = <T extends string>(
    name: string,
    help: string,
    buckets: number[],
    labelNames: T[],
  ) => new Histogram({ name: PREFIX + name, help, buckets, labelNames, registers });

  gauge('build_info', 'Always 1; the label tells which version runs.', ['version']).set(
    { version: VERSION },
    1,
  );
  return {
    registry,
    runs: counter('runs_total', 'Runs that ended here, by how they ended.', [
      'seller',
      'kind',
      'state',
    ]),
    items: counter(
      'items_total',
      'Items that runs found changed; quarantined and missing ones count in every run that meets them.',
      ['seller', 'change'],
    ),
    runSeconds: histogram('run_duration_seconds', 'How long runs took.', WORK_SECONDS, ['kind']),
    calls: counter('api_calls_total', 'Calls of the marketplace, each repetition counted.', [
      'seller',
      'operation',
      'outcome',
    ]),
    callSeconds: histogram(
      'api_call_duration_seconds',
      'How long calls took, without waits for the budget; of a list, up to its beginning.',
      CALL_SECONDS,
      ['operation'],
    ),
    waitSeconds: histogram(
      'budget_wait_seconds',
      'How long calls waited for the request budget.',
      WAIT_SECONDS,
      [],
    ),
    jobs: counter('jobs_total', 'Jobs that were worked on here, by what became of them.', [
      'queue',
      'name',
      'outcome',
    ]),
    jobSeconds: histogram('job_duration_seconds', 'How long work on jobs took.', WORK_SECONDS, [
      'queue',
      'name',
    ]),
    scrapeErrors: counter(
      'scrape_errors_total',
      'Times that series were left out because their source did not answer.',
      ['source'],
    ),
    lastSuccess: gauge(
      'last_success_timestamp_seconds',
      'When the copy was last known to be current; 0: never.',
      ['seller', 'kind'],
    ),
    age: gauge(
      'last_success_age_seconds',
      'Time since then, or since the seller was first met when there was no success.',
      ['seller', 'kind'],
    ),
    parked: gauge('seller_parked', '1 while schedules leave the seller alone.', ['seller']),
    stock: gauge('items', 'Items in the copy, by state.', ['seller', 'state']),
    codes: counter(
      'codes_checked_total',
      'Purchase codes that audits settled here, by verdict; unproven ones were given up.',
      ['seller', 'verdict'],
    ),
    audits: gauge('audits_running', 'Audits of purchase codes that run.', ['seller']),
    pendingCodes: gauge('codes_pending', 'Codes of running audits that are not settled yet.', [
      'seller',
    ]),
    depth: gauge('queue_jobs', 'Jobs in the queue, by state; finished ones are kept a while.', [
      'queue',
      'state',
    ]),
  };
}
