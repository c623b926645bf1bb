import { sameHost } from '../domain/address.js';
import { moment } from '../domain/moment.js';
import { busyOutcome, errorOutcome } from '../catalogue/problem.js';
import type { Alert, JobOutcome, RunDeps } from '../catalogue/types.js';
import { tryLock } from '../db/locks.js';
import { bindSeller, ensureSeller } from '../catalogue/sellers-store.js';
import { failAudit, getAudit, noteAuditWait, readAuditTerms } from './audits-store.js';
import { countRunningAudits } from './codes-store.js';
import { StoredLedger } from './ledger-store.js';
import { WorkMemory, type PieceEnd, type Stop } from './piece.js';
import type { Pace } from './progress.js';
import { whyUnproven } from './evidence.js';
import type { Verdict } from './rules.js';
import type { AuditProgress } from './types.js';
import { workPiece } from './work.js';

export interface AuditDeps
  extends Pace, Pick<RunDeps, 'db' | 'marketplace' | 'sellerId' | 'callCount'> {
  /** What this process remembers of each audit; all jobs of a process share it. */
  readonly memories: Map<bigint, WorkMemory>;
  readonly closing?: AbortSignal;
  /** From a denial to the check that confirms it, milliseconds; default a minute. */
  readonly confirmAfterMs?: number;
  /** See `Work`. */
  readonly proveAgainAfterMs?: number;
  /** Somebody waits: see `Work`. */
  readonly isBrief?: boolean;
  /** Called with each verdict that is recorded. */
  readonly onVerdict?: (verdict: Verdict) => void;
}

interface AuditJob {
  readonly auditId: bigint;
  /** If this attempt fails, no other follows. */
  readonly isLastAttempt: boolean;
}

/** Another process, or another job of this process, works on the audit. */
class AuditBusyError extends Error {
  override readonly name = 'AuditBusyError';
}

/** Audits assumed to share the budget of their marketplace, at most. */
const MAX_SHARING = 50;

/**
 * Does a piece of work on an audit, then hands on, so that audits of one marketplace take turns. Never throws: errors
 * become outcomes. Repeating the job is harmless: codes that have a verdict are not checked again.
 */
export async function performAuditPiece(
  deps: AuditDeps,
  job: AuditJob,
  signal: AbortSignal,
): Promise<JobOutcome> {
  const { auditId } = job;
  try {
    signal.throwIfAborted();
    const busy = (): Error => new AuditBusyError(`another job works on audit ${auditId}`);
    const lock = await tryLock(deps.db, `seller-mirror/audit/${auditId}`, busy);
    try {
      return await workUnderLock(deps, job, AbortSignal.any([signal, lock.lost]));
    } finally {
      await lock.release();
    }
  } catch (error) {
    if (error instanceof AuditBusyError && !signal.aborted) {
      return { ...busyOutcome(error.message), isBusy: true };
    }
    return errorOutcome(error, signal);
  }
}

async function workUnderLock(
  deps: AuditDeps,
  job: AuditJob,
  signal: AbortSignal,
): Promise<JobOutcome> {
  const { db, sellerId, marketplace, memories } = deps;
  const { auditId } = job;
  const audit = await getAudit(db, auditId);
  if (audit === null) return { kind: 'done', result: { audit: String(auditId), state: 'gone' } };
  if (audit.state !== 'running') return ended(deps, audit, audit.state);
  const binding = await ensureSeller(db, sellerId, marketplace.host);
  if (binding.username !== null && !sameHost(binding.marketplace, marketplace.host)) {
    const detail = `seller "${sellerId}" belongs to the marketplace ${binding.marketplace}, not ${marketplace.host}`;
    return blocked(deps, job, { reason: 'another-account', notBefore: null, detail }, true);
  }
  const memory = memories.get(auditId) ?? new WorkMemory();
  memories.set(auditId, memory);
  const { knownValid, confirmAfterMs } = await readAuditTerms(db, auditId);
  const ledger = new StoredLedger(db, { ...deps, auditId, knownValid });
  const sharing = await countRunningAudits(db, marketplace.host);
  if (audit.resumeAt !== null) await noteAuditWait(db, auditId, null, null);
  let end: PieceEnd;
  try {
    end = await workPiece({
      market: marketplace,
      ledger,
      memory,
      account: binding.username,
      concurrency: deps.concurrency,
      // Audits of one marketplace take turns, so the calls of each lie further apart.
      spacingMs: deps.spacingMs * Math.min(Math.max(1, sharing), MAX_SHARING),
      confirmAfterMs: deps.confirmAfterMs ?? confirmAfterMs,
      ...(deps.isBrief === undefined ? {} : { isBrief: deps.isBrief }),
      ...(deps.proveAgainAfterMs === undefined
        ? {}
        : { proveAgainAfterMs: deps.proveAgainAfterMs }),
      isGrowing: audit.isLookUps,
      signal: AbortSignal.any([signal, ledger.ended]),
      closing: deps.closing,
    });
  } catch (error) {
    if (!ledger.ended.aborted || signal.aborted) throw error;
    end = { kind: 'done' };
  } finally {
    // Calls since the last write count, too.
    if (!signal.aborted) await ledger.record([]);
  }
  if (binding.username === null && memory.account !== null) {
    await bindSeller(db, sellerId, { username: memory.account, marketplace: marketplace.host });
  }
  const outcome =
    ledger.state === 'running' ? await outcomeOf(deps, job, end) : ended(deps, audit, ledger.state);
  const { revokedSince } = ledger;
  if (!audit.isLookUps || revokedSince === null) return outcome;
  if (outcome.kind !== 'done' && outcome.kind !== 'later') return outcome;
  // The look-ups of a day have no end that would be news, so each piece that revoked codes is.
  const since = new Date(revokedSince).toISOString();
  const alert = { kind: 'codes-no_longer_valid', auditId: String(auditId), since } as const;
  return { ...outcome, alert };
}

async function outcomeOf(deps: AuditDeps, job: AuditJob, end: PieceEnd): Promise<JobOutcome> {
  const { db } = deps;
  const { auditId } = job;
  switch (end.kind) {
    case 'closed':
      return { kind: 'hand-back' };
    case 'done':
    case 'more':
      await noteAuditWait(db, auditId, null, null);
      return { kind: 'later', reason: 'next piece', delayMs: 0 };
    case 'wait':
      await noteAuditWait(db, auditId, whyWaits(end), Date.now() + end.delayMs);
      return { kind: 'later', reason: end.until, delayMs: Math.ceil(end.delayMs) };
    case 'pause': {
      // Audits that paused together go on one after another.
      const delayMs = Math.ceil(
        end.delayMs * (end.stop.notBefore === null ? 1 + Math.random() : 1),
      );
      await noteAuditWait(db, auditId, describeStop(end.stop), Date.now() + delayMs);
      return { kind: 'later', reason: end.stop.reason, delayMs };
    }
    case 'blocked': {
      return blocked(deps, job, end.stop, await isUntried(deps, auditId));
    }
  }
}

/** Without a word, an audit whose answers never count would look stuck. */
function whyWaits(end: PieceEnd & { readonly kind: 'wait' }): string | null {
  if (end.until === 'confirm' || end.reason === null) return null;
  const codes = end.codes === 1 ? '1 code' : `${end.codes} codes`;
  return `${codes} without an answer that counts: ${whyUnproven(end.reason)}`;
}

/** Whether no check of the audit has brought a verdict or a denial yet. */
async function isUntried({ db }: AuditDeps, auditId: bigint): Promise<boolean> {
  const audit = await getAudit(db, auditId);
  return (
    audit !== null &&
    audit.valid + audit.invalid + audit.noLongerValid + audit.denied === audit.reused
  );
}

/**
 * A person must act. If the key never worked for this audit it fails at once, so that whoever started it learns of it. A
 * key that did work may be in the middle of a rotation.
 */
async function blocked(
  { db, memories }: AuditDeps,
  { auditId, isLastAttempt }: AuditJob,
  stop: Stop,
  wasNeverGood: boolean,
): Promise<JobOutcome> {
  // The marketplace's own words stay in the store.
  const problem = `audit ${auditId} can’t go on: ${stop.reason}; see \`seller-mirror audits show ${auditId}\``;
  const isKeyFault = stop.reason === 'refused' || stop.reason === 'another-account';
  if (!isLastAttempt && !(wasNeverGood && isKeyFault)) {
    await noteAuditWait(db, auditId, describeStop(stop), null);
    return { kind: 'retry', problem, notBefore: stop.notBefore, alert: null };
  }
  await failAudit(db, auditId, describeStop(stop));
  memories.delete(auditId);
  return { kind: 'give-up', problem, alert: finishedAlert(auditId) };
}

/**
 * Alerts again: the worker that finished the audit may have been killed first. Each alert is sent once. Look-ups
 * finish many times a day, which is no news; codes that they revoke are.
 */
function ended(
  { memories }: AuditDeps,
  { auditId, isLookUps }: Pick<AuditProgress, 'auditId' | 'isLookUps'>,
  state: string,
): JobOutcome {
  memories.delete(auditId);
  const isNews = state === 'finished' && !isLookUps;
  const alert = isNews ? finishedAlert(auditId) : null;
  return { kind: 'done', result: { audit: String(auditId), state }, alert };
}

function finishedAlert(auditId: bigint): Alert {
  return { kind: 'audit-finished', auditId: String(auditId) };
}

/** Says why an audit waits. */
function describeStop({ reason, notBefore, detail }: Stop): string {
  const text = STOP_TEXTS[reason] ?? whyUnproven(reason);
  const until = notBefore === null ? '' : `, not before ${moment(new Date(notBefore))}`;
  return `${text}${until}${detail === null || detail === '' ? '' : `: ${detail}`}`;
}

const STOP_TEXTS: Readonly<Record<string, string>> = {
  challenge:
    'the marketplace’s bot protection blocks this program; ask its operator to allow API requests from this address',
  'known-valid-denied':
    'every code that was known to be valid is denied, so no denial can be proven; name a valid code with --known-valid CODE',
};
