/**
 * Works on checks, whoever asked for them: a list, arguments, a schedule, the dashboard, the look-up API. The plan decides
 * what is asked next (`plan.ts`), the ledger is the only record (`ledger-store.ts`), and this loop obeys the one over the
 * other, a piece at a time, so that checks of one marketplace take turns.
 */

import { isUserError, UserError } from '../domain/user-error.js';
import { bindSeller, ensureSeller, type Binding } from '../catalogue/sellers-store.js';
import { busyOutcome, errorOutcome } from '../catalogue/problem.js';
import type { Alert, JobOutcome, RunDeps } from '../catalogue/types.js';
import type { Db } from '../db/db.js';
import { withLock } from '../db/locks.js';
import { sameHost } from '../domain/address.js';
import { failAudit, getAudit, noteAuditWait, readAuditTerms } from './audits-store.js';
import { countRunningAudits } from './codes-store.js';
import { isReason, whyUnproven } from './evidence.js';
import { Ledger } from './ledger-store.js';
import { MarketRunner } from './market-runner.js';
import { firstPass, nextStep, resumed, secondCheck, type Step } from './plan.js';
import { Meter } from './meter.js';
import type { Pace } from './progress.js';
import { LOOK_UPS_GATHER_MS, type Verdict } from './rules.js';
import { readSellerSituation } from './situation-store.js';
import type { Market } from './market.js';
import type { AuditProgress } from './types.js';
import { isForPerson, type Situation, type Stop } from './situation.js';

export interface CheckDeps
  extends Pace, Pick<RunDeps, 'db' | 'marketplace' | 'sellerId' | 'callCount'> {
  /** Ends the work in order: what was answered is proven and recorded. */
  readonly closing?: AbortSignal | undefined;
  /** Called with each verdict that is recorded. */
  readonly onVerdict?: (verdict: Verdict) => void;
}

export interface CheckJob {
  readonly auditId: bigint;
  /** If this attempt fails, no other follows. */
  readonly isLastAttempt: boolean;
}

/** A piece of work ends with the first step that ends after this time, milliseconds. */
const PIECE_MS = 10_000;
/** Checks assumed to share the budget of their marketplace, at most. */
const MAX_SHARING = 50;

/**
 * Does a piece of work on a check, then hands on. Never throws: errors become outcomes. Repeating it is harmless: codes
 * that have a verdict are not checked again.
 */
export async function performCheck(
  deps: CheckDeps,
  job: CheckJob,
  signal: AbortSignal,
): Promise<JobOutcome> {
  const { auditId } = job;
  try {
    signal.throwIfAborted();
    const busy = (): Error => new UserError(`another job works on check ${auditId}`, '', 'BUSY');
    return await withLock(deps.db, `seller-mirror/audit/${auditId}`, busy, ({ lost }) =>
      workUnderLock(deps, job, AbortSignal.any([signal, lost])),
    );
  } catch (error) {
    if (isUserError(error, 'BUSY') && !signal.aborted) {
      return { ...busyOutcome(error.message), isBusy: true };
    }
    return errorOutcome(error, signal);
  }
}

/**
 * Ends a check that nobody waits for any longer: codes without a verdict become unproven, and the next scheduled re-check
 * takes them.
 * @param why the check waited, as its outcome said
 */
export async function giveUpCheck(
  db: Db,
  { auditId, sellerId }: Pick<AuditProgress, 'auditId' | 'sellerId'>,
  why: string | null,
): Promise<void> {
  const ledger = new Ledger(db, { auditId, sellerId, callCount: () => 0 });
  const waited = why !== null && isReason(why) ? why : 'unavailable';
  await ledger.giveUp((last) => {
    if (last === 'denied') return 'unconfirmed';
    return last !== null && isReason(last) ? last : waited;
  });
}

async function workUnderLock(
  deps: CheckDeps,
  job: CheckJob,
  signal: AbortSignal,
): Promise<JobOutcome> {
  const { db, sellerId, marketplace } = deps;
  const { auditId } = job;
  const audit = await getAudit(db, auditId);
  if (audit === null) return { kind: 'done', result: { audit: String(auditId), state: 'gone' } };
  if (audit.state !== 'running') return ended(audit, audit.state);
  const binding = await ensureSeller(db, sellerId, marketplace.host);
  if (binding.username !== null && !sameHost(binding.marketplace, marketplace.host)) {
    const detail = `the copy of "${sellerId}" is of ${binding.marketplace}, not of ${marketplace.host}`;
    return paused(deps, audit, job, { reason: 'another-marketplace', detail }, true);
  }
  // A machine that slept has a wrong idea of the time until it asks.
  await db.clock.measure();
  const ledger = new Ledger(db, { ...deps, auditId });
  await ledger.forgetFuture();
  let end: PieceEnd;
  try {
    end = await workPiece({ ...deps, audit, binding, ledger }, signal);
  } catch (error) {
    if (!ledger.ended.aborted || signal.aborted) throw error;
    end = 'ended';
  } finally {
    // Calls since the last write count, too.
    if (!signal.aborted) await ledger.record([]);
  }
  return ledger.state === 'running'
    ? outcomeOf(deps, audit, ledger, job, end)
    : ended(audit, ledger.state);
}

/** How a piece of work ended: by a step that is no work, or because its time was over, or the process closes. */
type PieceEnd = Extract<Step, { kind: 'wait' | 'pause' }> | 'more' | 'closing' | 'ended';

interface Piece extends CheckDeps {
  readonly audit: AuditProgress;
  readonly binding: Binding;
  readonly ledger: Ledger;
}

/** Obeys the plan until nothing is due, or others should have their turn. */
async function workPiece(piece: Piece, signal: AbortSignal): Promise<PieceEnd> {
  const { db, audit, ledger, binding, sellerId, marketplace, closing } = piece;
  const { auditId } = audit;
  if (audit.resumeAt !== null) await noteAuditWait(db, auditId, null, null);
  const both = AbortSignal.any([signal, ledger.ended]);
  const meter = new Meter(db, audit, piece);
  const runner = new MarketRunner({ ...piece, signal: both, onCode: (form) => meter.note(form) });
  const beganAt = performance.now();
  let memory = resumed(await ledger.memory());
  let username = binding.username;
  try {
    for (;;) {
      const facts = await ledger.facts();
      if (ledger.state !== 'running') return 'ended';
      if (closing?.aborted === true) return 'closing';
      const situation = await readSituation(piece, runner, username);
      const step = nextStep(facts, memory, situation);
      meter.begin(step, facts);
      switch (step.kind) {
        case 'first-pass': {
          const codes = await ledger.open(step.after, step.limit);
          meter.list(codes.flatMap(({ forms }) => forms.slice(0, 1)));
          memory = await firstPass(codes, situation, memory);
          break;
        }
        case 'second-check':
          meter.list(step.codes.map(({ form }) => form));
          memory = await secondCheck(step.codes, facts, situation, memory);
          break;
        case 'settle':
          await ledger.record(step.results);
          continue;
        case 'give-up':
          await ledger.giveUp(() => step.reason);
          continue;
        case 'finished':
          // Only a check without open and denied codes that still runs: its counts are written again.
          await ledger.record([]);
          return 'ended';
        case 'wait':
        case 'pause':
          await ledger.remember(memory);
          return step;
      }
      await runner.flush();
      await ledger.remember(memory);
      if (username === null && memory.account !== null) {
        username = memory.account;
        await bindSeller(db, sellerId, { username, marketplace: marketplace.host });
      }
      if (performance.now() - beganAt >= PIECE_MS) return 'more';
    }
  } finally {
    await meter.end();
    if (!both.aborted) await runner.flush();
  }
}

async function readSituation(
  piece: Piece,
  market: Market,
  account: string | null,
): Promise<Situation> {
  const { db, audit, sellerId, marketplace, spacingMs, closing } = piece;
  const { auditId, codes, isLookUps } = audit;
  const terms = await readAuditTerms(db, auditId);
  const seller = await readSellerSituation(db, sellerId, auditId, terms.knownValid);
  const sharing = await countRunningAudits(db, marketplace.host);
  return {
    ...seller,
    market,
    account,
    waitMs: terms.confirmAfterMs,
    heldUntil: terms.heldUntil,
    gatherMs: isLookUps ? Math.min(LOOK_UPS_GATHER_MS, terms.confirmAfterMs) : Infinity,
    vouchMs: 0,
    // Checks of one marketplace take turns, so the calls of each lie further apart.
    spacingMs: spacingMs * Math.min(Math.max(1, sharing), MAX_SHARING),
    codes,
    now: () => db.clock.now(),
    dice: Math.random,
    isClosing: () => closing?.aborted === true,
  };
}

async function outcomeOf(
  deps: CheckDeps,
  audit: AuditProgress,
  ledger: Ledger,
  job: CheckJob,
  end: PieceEnd,
): Promise<JobOutcome> {
  const { db } = deps;
  const { auditId } = job;
  if (end === 'closing') return { kind: 'hand-back' };
  if (end === 'more' || end === 'ended') {
    await noteAuditWait(db, auditId, null, null);
    return { kind: 'later', reason: 'next piece', delayMs: 0 };
  }
  if (end.kind === 'pause') {
    const { account } = await ledger.memory();
    return paused(deps, audit, job, end.stop, account === null);
  }
  const { until, what, stop } = end;
  const now = db.clock.now();
  // Checks that wait for the same marketplace go on one after another.
  const spreadMs = stop === null ? 0 : Math.random() * Math.min(until - now, 15_000);
  const delayMs = Math.ceil(Math.max(0, until - now) + spreadMs);
  const problem = stop !== null ? describeStop(stop) : what === 'retry' ? NO_ANSWERS : null;
  await noteAuditWait(db, auditId, problem, now + delayMs);
  return { kind: 'later', reason: stop === null ? what : stop.reason, delayMs };
}

/** Without a word, a check whose answers never count would look stuck. */
const NO_ANSWERS = 'some codes got no answer that counts; they are tried again';

/**
 * A person must act. If the key never worked for this check it fails at once, so that whoever started it learns of it. A
 * key that did work may be in the middle of a rotation. A marketplace whose answers prove nothing says nothing of the key:
 * after the last attempt its codes are unproven, and the next re-check takes them.
 */
async function paused(
  { db }: CheckDeps,
  audit: AuditProgress,
  { auditId, isLastAttempt }: CheckJob,
  stop: Stop,
  wasNeverGood: boolean,
): Promise<JobOutcome> {
  // The marketplace's own words stay in the store.
  const problem = `check ${auditId} can’t go on: ${stop.reason}; see \`seller-mirror audits show ${auditId}\``;
  const isKeyFault = isForPerson(stop.reason);
  if (!isLastAttempt && !(wasNeverGood && isKeyFault)) {
    await noteAuditWait(db, auditId, describeStop(stop), null);
    return { kind: 'retry', problem, notBefore: null, alert: null };
  }
  if (!isKeyFault && stop.reason !== 'no-api') {
    await giveUpCheck(db, audit, stop.reason);
    return ended(audit, 'finished');
  }
  await failAudit(db, auditId, describeStop(stop));
  return { kind: 'give-up', problem, alert: finishedAlert(auditId) };
}

/**
 * Alerts again: the worker that finished the check may have been killed first. Each alert is sent once. Look-ups
 * finish many times a day, which is no news; codes that they revoke are, and are found in the store.
 */
function ended(
  { auditId, isLookUps }: Pick<AuditProgress, 'auditId' | 'isLookUps'>,
  state: string,
): JobOutcome {
  const isNews = state === 'finished' && !isLookUps;
  const alert = isNews ? finishedAlert(auditId) : null;
  return { kind: 'done', result: { audit: String(auditId), state }, alert };
}

function finishedAlert(auditId: bigint): Alert {
  return { kind: 'audit-finished', auditId: String(auditId) };
}

/** Says why a check waits. */
function describeStop({ reason, detail }: Stop): string {
  const text = STOP_TEXTS[reason] ?? whyUnproven(reason);
  return `${text}${detail === null || detail === '' ? '' : `: ${detail}`}`;
}

const STOP_TEXTS: Readonly<Record<string, string>> = {
  challenge:
    'the marketplace’s bot protection blocks this program; ask its operator to allow API requests from this address',
  'known-valid-denied':
    'three codes that were known to be valid are denied, so no denial can be proven; name a valid code with --known-valid CODE',
};
