import type { Denials } from './evidence.js';
import type { KnownCode } from './known-code.js';
import type { Json } from '../domain/item.js';
import type { Audit, CodeCheck as Row, PurchaseCode } from '../db/generated/prisma/client.js';

/** A draft is an uploaded list whose check was not started. Only `drafts-store` reads it. */
export type AuditState = 'draft' | 'running' | 'finished' | 'cancelled' | 'failed';

export interface NewAudit {
  readonly sellerId: string;
  /** A file's name, `stdin`, `arguments` or `recheck`. */
  readonly source: string;
  readonly layout: Json;
  readonly columns: readonly string[];
  /** Verdicts younger than this are reused without a call. Null: check every code. */
  readonly maxAgeSeconds: number | null;
  /** A code that the user says is valid. */
  readonly knownValid: string | null;
  /** From a denial to the second check, milliseconds. */
  readonly confirmAfterMs: number;
  /** The uploaded list that becomes this audit. */
  readonly draftId?: bigint | undefined;
}

/** Counts of a loaded list. */
export type AuditSize = Pick<Audit, 'lines' | 'rejected' | 'codes' | 'reused'>;

export interface EnteredAudit extends AuditSize {
  readonly auditId: bigint;
}

/** The file for the result of an audit. */
export interface ResultFile {
  /** Absolute path. */
  readonly path: string;
  readonly format: 'csv' | 'json' | 'ndjson' | 'xlsx';
  /** CSV with decimal commas, for an Excel that writes 19,90. */
  readonly decimalComma: boolean;
  /** When the final result was written. Null: not yet. */
  readonly writtenAt: Date | null;
}

/** What a running check has asked, as its row has it: told once a second, apart from what was recorded. */
export interface AskedSoFar {
  readonly phase: 'first pass' | 'second check';
  /** Codes of the phase that were asked, and all of them. */
  readonly asked: number;
  readonly total: number;
  /** Rounds of the second check that may follow at most, for the code with the fewest. */
  readonly rounds: number;
  /** Milliseconds that the budget needs for the rest; null without a budget. */
  readonly leftMs: number | null;
}

/** Progress of an audit. `codes` = `valid` + `invalid` + `noLongerValid` + `unproven` + `pending`. */
export interface AuditProgress
  extends
    Pick<Audit, 'auditId' | 'sellerId' | 'state' | 'source' | 'createdAt' | 'finishedAt'>,
    Pick<Audit, 'lines' | 'rejected' | 'codes' | 'reused' | 'valid' | 'invalid'>,
    Pick<
      Audit,
      'noLongerValid' | 'unproven' | 'pending' | 'denied' | 'apiCalls' | 'problem' | 'resumeAt'
    > {
  /** What was asked so far; null before the first call. */
  readonly asked: AskedSoFar | null;
  /** True: the codes that were looked up one at a time on a day. */
  readonly isLookUps: boolean;
  /** Null if no file was chosen. */
  readonly result: ResultFile | null;
}

export interface AuditList {
  readonly layout: Json;
  readonly columns: readonly string[];
  /** When its records were deleted. Null: they are stored. */
  readonly prunedAt: Date | null;
}

/** The work left in a seller's running audits. */
export interface AuditBacklog {
  readonly sellerId: string;
  /** Running audits. */
  readonly running: number;
  /** Their unsettled codes. */
  readonly pending: number;
}

/** Number of codes without a verdict for one reason. */
export type UnprovenCount = { readonly reason: string; readonly codes: number };

export interface CodeState extends Pick<
  PurchaseCode,
  'codeId' | 'code' | 'proof' | 'lastCheckId' | 'verdictSince' | 'firstCheckedAt'
> {
  /** Null if it was never proven. */
  readonly known: KnownCode | null;
  /** The denials that made an invalid code invalid. */
  readonly denials: Denials | null;
  /** As in `RecordFacts`. */
  readonly hasUnknownItem: boolean;
}

/** One check of a code, as the database has it. */
export interface StoredCheck
  extends
    Pick<Row, 'checkId' | 'auditId' | 'checkedAt' | 'provenBefore' | 'provenAfter'>,
    Pick<Row, 'verdict' | 'reason' | 'proof' | 'httpStatus' | 'message'> {
  /** As in `CodeResult`. */
  readonly rawHash: string | null;
}
