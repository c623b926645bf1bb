import type { Checkpoints, Verdict } from '../../domain/codes/proof.js';
import type { Confirm, DenialCounts, Denials } from '../../domain/codes/second-look.js';
import type { NewVerdict, KnownCode } from '../../domain/codes/known-code.js';
import type { Json, Purchase } from '../../domain/item.js';
import type {
  Audit,
  AuditCode,
  CodeCheck as Row,
  PurchaseCode,
} from '../generated/prisma/client.js';

/** An audit is there when its whole list is: a list on its way has no state. */
export type AuditState = 'running' | 'finished' | 'cancelled' | 'failed';

export interface NewAudit {
  readonly sellerId: string;
  /** A file's name, `stdin`, `arguments` or `recheck`. */
  readonly source: string;
  readonly layout: Json;
  readonly columns: readonly string[];
  /** Verdicts younger than this are taken over without asking; null: none. */
  readonly maxAgeSeconds: number | null;
  /** A code that a person says is valid. */
  readonly canary: string | null;
  /** Which denied codes are asked for again before they are invalid; default `auto`. */
  readonly confirm?: Confirm;
  readonly chunkSize: number;
}

export type AuditRow =
  | { readonly line: number; readonly code: string; readonly columns: readonly string[] }
  | { readonly line: number; readonly rejected: string; readonly columns: readonly string[] };

/** Counts of a list that was loaded. */
export interface AuditSize extends Pick<Audit, 'lines' | 'rejected' | 'codes' | 'reused'> {
  /** Chunks that hold codes to be asked. */
  readonly chunks: number;
}

export interface EnteredAudit extends AuditSize {
  readonly auditId: bigint;
}

/** A code of a chunk that is not settled yet. */
export interface PendingCode extends Pick<
  AuditCode,
  'position' | 'codeId' | 'attempts' | 'lastDeniedAt'
> {
  readonly code: string;
  readonly known: KnownCode | null;
}

export interface CodeResult {
  readonly position: number;
  readonly codeId: bigint;
  readonly checkedAt: Date;
  /** Those around a denial that counts; else null. */
  readonly checkpoints: Checkpoints | null;
  readonly news: NewVerdict;
  /** Why, in a word for programs. */
  readonly reason: string;
  /** The kind of proof: `purchase`, `canary`, `account` or `none`. */
  readonly proof: string;
  readonly httpStatus: number | null;
  readonly message: string | null;
  /** SHA-256 of the raw reply, hexadecimal; null when there was none. */
  readonly rawHash: string | null;
  /** True: the audit gives up on it, and it counts as unproven for good. */
  readonly final: boolean;
  /** True: a denial that counts. The code is asked for again before it is called invalid. */
  readonly denied?: true;
}

/** A code that was known to be valid and denied as a canary. */
export type DeniedCanary = { readonly code: string } & Pick<
  CodeResult,
  'checkedAt' | 'checkpoints' | 'proof' | 'httpStatus' | 'message'
>;

/** The counts that decide which denied codes are asked for again. */
export interface DeniedCodes extends DenialCounts {
  /** Codes that were not asked for yet, or without anything that counts. */
  readonly open: number;
}

export interface Recorded {
  /** Results that were new, each with a row in the ledger. */
  readonly recorded: number;
  /** Codes that were settled by them. */
  readonly settled: number;
  readonly state: AuditState;
  /** True once for each audit: these results settled its last code. */
  readonly finished: boolean;
}

/** A chunk, locked for this process. */
export interface HeldChunk {
  readonly auditId: bigint;
  readonly chunk: number;
  readonly sellerId: string;
  /** A code that a person says is valid. */
  readonly canary: string | null;
  /** Aborts when the lock is lost, so that another process may work on the chunk. */
  readonly lost: AbortSignal;
  /** @throws {StoreConnectionError} when the lock is lost */
  readonly assertHeld: () => void;
}

/** The file that the result of an audit goes to. */
export interface ResultFile {
  /** Absolute. */
  readonly path: string;
  readonly format: 'csv' | 'json' | 'ndjson' | 'xlsx';
  /** CSV with decimal commas, for an Excel that writes 19,90. */
  readonly decimalComma: boolean;
  /** When the result was written there after the audit had finished; null: not yet. */
  readonly writtenAt: Date | null;
}

/** How far an audit is. `codes` = `valid` + `invalid` + `unproven` + `pending`. */
export interface AuditProgress
  extends
    Pick<Audit, 'auditId' | 'sellerId' | 'state' | 'source' | 'createdAt' | 'finishedAt'>,
    Pick<Audit, 'lines' | 'rejected' | 'codes' | 'reused' | 'valid' | 'invalid' | 'unproven'>,
    Pick<Audit, 'pending' | 'denied' | 'apiCalls' | 'chunkSize' | 'problem'> {
  /** Null when nobody named a file. */
  readonly result: ResultFile | null;
}

export interface AuditList {
  readonly layout: Json;
  readonly columns: readonly string[];
  /** Since when its records are no longer kept; null while they are. */
  readonly prunedAt: Date | null;
}

/** A record of the list with what came of its code. */
export interface AuditResult {
  readonly line: number;
  readonly columns: readonly string[];
  /** Null where the record holds none. */
  readonly code: string | null;
  /** Why the record holds no code. */
  readonly rejected: string | null;
  /** What this audit found; null when it did not settle the code (yet). */
  readonly verdict: Verdict | null;
  /** Taken over from a fresh verdict. */
  readonly reused: boolean;
  /** Of the newest check that the audit knows; null when the code was not asked for yet. */
  readonly checkedAt: Date | null;
  readonly reason: string | null;
  readonly proof: string | null;
  /** Of an invalid code the denials that made it so. */
  readonly denials: Denials | null;
  /** As known at present; also of a code that was valid once. */
  readonly purchase: Purchase | null;
}

/** What is left to do of a seller's audits. */
export interface AuditBacklog {
  readonly sellerId: string;
  /** Audits that run. */
  readonly running: number;
  /** Their codes that are not settled yet. */
  readonly pending: number;
}

/** How many codes have no verdict for the same reason. */
export type UnprovenCount = { readonly reason: string; readonly codes: number };

export interface CodeState extends Pick<
  PurchaseCode,
  'codeId' | 'code' | 'proof' | 'lastCheckId' | 'verdictSince' | 'firstCheckedAt'
> {
  /** Null when it was never proven. */
  readonly known: KnownCode | null;
  /** Of an invalid code the denials that made it so. */
  readonly denials: Denials | null;
}

/** A row of the ledger. */
export interface CodeCheck
  extends
    Pick<Row, 'checkId' | 'auditId' | 'checkedAt' | 'checkpointBefore' | 'checkpointAfter'>,
    Pick<Row, 'verdict' | 'reason' | 'proof' | 'httpStatus' | 'message'> {
  /** As in `CodeResult`. */
  readonly rawHash: string | null;
}
