import {
  enqueueNext,
  performAuditChunk,
  type AuditDeps,
} from '../../../src/jobs/codes/perform-chunk.js';
import type { MirrorOutcome } from '../../../src/jobs/mirror-outcome.js';
import type { Marketplace } from '../../../src/marketplace/types.js';
import type { AuditProgress, NewAudit } from '../../../src/store/audits/types.js';
import { never, type Mirror } from '../../support/mirror.js';

export const SELLER = 'main';

/** Enters a list of codes. */
export async function enter(
  { store }: Mirror,
  host: string,
  codes: readonly string[],
  options: Partial<NewAudit> = {},
): Promise<bigint> {
  await store.sellers.ensure(options.sellerId ?? SELLER, host);
  const loader = await store.audits.begin({
    sellerId: SELLER,
    source: 'arguments',
    layout: {},
    columns: ['code'],
    maxAgeSeconds: null,
    canary: null,
    chunkSize: 100,
    ...options,
  });
  await loader.add(codes.map((code, i) => ({ line: i + 1, code, columns: [code] })));
  return (await loader.finish()).auditId;
}

/** A queue in memory: chunks that wait, each once. */
export class ChunkQueue {
  readonly #waiting: { readonly auditId: bigint; readonly chunk: number }[] = [];
  /** The most that waited at a time. */
  longest = 0;

  readonly add = (auditId: bigint, chunk: number): Promise<void> => {
    const isThere = this.#waiting.some((one) => one.auditId === auditId && one.chunk === chunk);
    if (!isThere) this.#waiting.push({ auditId, chunk });
    this.longest = Math.max(this.longest, this.#waiting.length);
    return Promise.resolve();
  };

  take(): { readonly auditId: bigint; readonly chunk: number } | undefined {
    return this.#waiting.shift();
  }
}

export function auditDeps(
  { store }: Mirror,
  marketplace: Marketplace,
  options: Partial<AuditDeps> = {},
): AuditDeps {
  return {
    store,
    marketplace,
    sellerId: SELLER,
    callCount: () => 0,
    concurrency: 8,
    spacingMs: 0,
    carried: new Map(),
    lookAfterMs: 0,
    enqueueChunk: () => Promise.resolve(),
    ...options,
  };
}

/** Told of each chunk that is to be done again, before it is. */
export type OnOutcome = (outcome: MirrorOutcome) => Promise<void> | void;

/** Works on audits, one chunk at a time and without pauses, until nothing is in the queue. */
export async function workThrough(
  deps: AuditDeps,
  audits: readonly bigint[],
  onOutcome: OnOutcome = () => undefined,
  signal = never,
): Promise<ChunkQueue> {
  const queue = new ChunkQueue();
  const working = { ...deps, enqueueChunk: queue.add };
  for (const auditId of audits) await enqueueNext(deps.store, auditId, queue.add);
  for (let next = queue.take(); next !== undefined; next = queue.take()) {
    const outcome = await performAuditChunk(working, { ...next, isLastAttempt: false }, signal);
    if (outcome.kind === 'done' || outcome.kind === 'give-up') continue;
    await onOutcome(outcome);
    await queue.add(next.auditId, next.chunk);
  }
  return queue;
}

export async function progress({ store }: Mirror, auditId: bigint): Promise<AuditProgress> {
  const audit = await store.audits.get(auditId);
  if (audit === null) throw new Error(`there is no audit ${auditId}`);
  return audit;
}

/** The audit's verdict on each code. */
export async function auditVerdicts(
  { store }: Mirror,
  auditId: bigint,
): Promise<Record<string, string | null>> {
  const verdicts: Record<string, string | null> = {};
  for await (const { code, verdict } of store.audits.results(auditId)) {
    if (code !== null) verdicts[code] = verdict;
  }
  return verdicts;
}
