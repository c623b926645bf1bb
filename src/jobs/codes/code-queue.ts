import {
  isRetriedInBatch,
  type CallResult,
  type UnprovenReason,
} from '../../domain/codes/outcome.js';
import type { CodeCall } from '../../domain/codes/proof.js';
import type { UnprovenCode } from './types.js';

/** Tries of a code in one batch before it stays unproven. */
const MAX_TRIES = 3;

/** The codes of one batch: first those of the list, once each, then the retries. */
export class CodeQueue {
  /** Codes without a verdict after their last try, with the reason. */
  readonly unproven = new Map<string, UnprovenCode>();
  readonly #listed: readonly string[];
  readonly #retries = new Set<string>();
  readonly #tries = new Map<string, number>();
  #next = 0;

  /** @param listed without duplicates */
  constructor(listed: readonly string[]) {
    this.#listed = listed;
  }

  /** The list is done; only retries are left. */
  get isRetrying(): boolean {
    return this.#next >= this.#listed.length;
  }

  get isEmpty(): boolean {
    return this.isRetrying && this.#retries.size === 0;
  }

  /** Codes of the list that were not sent yet. */
  get left(): readonly string[] {
    return this.#listed.slice(this.#next);
  }

  next(): string {
    if (!this.isRetrying) return this.#listed[this.#next++] as string;
    const [code] = this.#retries as Iterable<string> as [string];
    this.#retries.delete(code);
    return code;
  }

  /** Adds codes to validate after the list, unless they are in it. */
  retry(codes: Iterable<string>): void {
    for (const code of codes) if (!this.#listed.includes(code)) this.#retries.add(code);
  }

  /** Records a call that brought no verdict, and queues a retry where that may help. */
  fail({ code, evidence, endedAt: at }: CodeCall, reason: UnprovenReason): void {
    const tries = (this.#tries.get(code) ?? 0) + 1;
    this.#tries.set(code, tries);
    this.unproven.set(code, { reason, evidence, at });
    if (isRetriedInBatch(reason) && tries < MAX_TRIES) this.#retries.add(code);
  }

  /** The unproven codes of the list. */
  report(): ReadonlyMap<string, UnprovenCode> {
    const listed = new Set(this.#listed);
    return new Map([...this.unproven].filter(([code]) => listed.has(code)));
  }
}

/** Canaries to try before all of them count as lost. */
const MAX_LOST = 20;
/** Calls in a row without a sound answer before a canary is given up. */
const MAX_UNSOUND = 2;

/** The codes known to be valid that a batch can prove the key with. */
export class Canaries {
  /** Those that were denied, or got no sound answer. */
  readonly lost = new Set<string>();
  /** Denied canaries. Once another code is found, they are validated like codes of the list. */
  readonly denied: Set<string>;
  #unsound = 0;

  /**
   * @param known codes to try, the best first
   * @param found a valid code of the batch before; null: none
   * @param denied canaries that earlier batches were denied
   */
  constructor(
    readonly known: readonly string[],
    public found: string | null,
    denied: readonly string[],
  ) {
    this.denied = new Set(denied);
  }

  /** The canary to send: the last code found, else the next one not tried; null when all are lost. */
  get next(): string | null {
    if (this.found !== null) return this.found;
    if (this.lost.size >= MAX_LOST) return null;
    return this.known.find((code) => !this.lost.has(code)) ?? null;
  }

  /** A denial means that the canary became invalid or that the key is bad; another canary decides. */
  recordReply({ code, outcome: { kind } }: { readonly code: string } & CallResult): void {
    if (kind === 'success') this.found = code;
    if (kind === 'denied') this.denied.add(code);
    const isUnsound = kind === 'suspect' && ++this.#unsound % MAX_UNSOUND === 0;
    if (kind !== 'denied' && !isUnsound) return;
    this.lost.add(code);
    if (this.found === code) this.found = null;
  }
}
