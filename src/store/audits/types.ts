import type { CodeNews } from '../../domain/codes/settle.js';
import type { KnownCode } from '../../domain/codes/known-code.js';
import type { Json } from '../../domain/item.js';

export type AuditState = 'loading' | 'running' | 'finished' | 'cancelled' | 'failed';

/** A list of codes to be checked. */
export interface NewAudit {
  readonly sellerId: string;
  /** A file's name, `stdin`, `arguments` or `recheck`. */
  readonly source: string;
  readonly layout: Json;
  /** Names of the list's own columns, in their order. */
  readonly columns: readonly string[];
  /** Verdicts younger than this are taken over without asking; null: none. */
  readonly maxAgeSeconds: number | null;
  /** A code that a person says is valid. */
  readonly canary: string | null;
  /** Codes of a chunk. */
  readonly chunkSize: number;
}

/** A record of the list, ready for the store. */
export type AuditRow =
  | { readonly line: number; readonly code: string; readonly columns: readonly string[] }
  | { readonly line: number; readonly rejected: string; readonly columns: readonly string[] };

/** What a list came to once it was loaded. */
export interface AuditSize {
  readonly lines: number;
  readonly rejected: number;
  /** Distinct codes. */
  readonly codes: number;
  /** Of these, taken over from a fresh verdict. */
  readonly reused: number;
  /** Chunks that hold codes to be asked. */
  readonly chunks: number;
}

/** A list on its way into the store; nothing of it is seen before `finish`. */
export interface AuditLoader {
  readonly auditId: bigint;
  /** Takes rows in the list's order; resolves when more may come. */
  add(rows: readonly AuditRow[]): Promise<void>;
  /** Makes the audit ready to be worked on, or, with nothing to ask, finished. */
  finish(): Promise<AuditSize>;
  /** Leaves nothing behind. */
  abort(): Promise<void>;
}

/** A code of a chunk that is not settled yet. */
export interface PendingCode {
  readonly position: number;
  readonly codeId: bigint;
  readonly code: string;
  /** Times it was asked for in this audit without a proven verdict. */
  readonly attempts: number;
  readonly known: KnownCode | null;
}

/** What came of asking for a code. */
export interface CodeResult {
  readonly position: number;
  readonly codeId: bigint;
  readonly checkedAt: Date;
  readonly news: CodeNews;
  /** Why, in a word for programs. */
  readonly reason: string;
  /** What proved it: `purchase`, `canary`, `account` or `none`. */
  readonly proof: string;
  readonly httpStatus: number | null;
  readonly message: string | null;
  /** SHA-256 of the raw reply; null when there was none. */
  readonly rawHash: Uint8Array | null;
  /** True: the audit gives up on it, and it counts as unproven for good. */
  readonly final: boolean;
}

/** How far an audit is. */
export interface AuditProgress {
  readonly auditId: bigint;
  readonly sellerId: string;
  readonly state: AuditState;
  readonly source: string;
  readonly createdAt: Date;
  readonly finishedAt: Date | null;
  readonly lines: number;
  readonly rejected: number;
  readonly codes: number;
  readonly reused: number;
  readonly valid: number;
  readonly invalid: number;
  readonly unproven: number;
  /** Not settled yet. */
  readonly pending: number;
  readonly apiCalls: number;
  readonly chunkSize: number;
  readonly problem: string | null;
}
