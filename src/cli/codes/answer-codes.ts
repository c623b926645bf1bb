import { setTimeout as sleep } from 'node:timers/promises';
import type { App } from '../../app.js';
import type { SellerConfig } from '../../config/index.js';
import { hostName } from '../../domain/address.js';
import { LOOK_SOON_AFTER_MS } from '../../domain/codes/second-look.js';
import { paceOf } from '../../jobs/codes/pace.js';
import {
  performAuditChunk,
  SECOND_LOOK,
  type AuditDeps,
  type ChunkJob,
} from '../../jobs/codes/perform-chunk.js';
import type { AuditResult } from '../../store/audits/types.js';
import { print, printJson, stdoutLook } from '../console.js';
import { CommandError } from '../errors.js';
import { EXIT, type ExitCode } from '../exit-codes.js';
import { Progress } from '../output/index.js';
import { ownCommand } from '../own-command.js';
import { answerJson, answerLines, type Answer } from './answer.js';
import type { CheckOptions } from './options.js';
import { proveCanary } from './prove-key.js';

/** Answers about codes that a person typed: asked for here and now, without the queue. */
export async function answerCodes(
  app: App,
  seller: SellerConfig,
  codes: readonly string[],
  options: CheckOptions,
  signal: AbortSignal,
): Promise<ExitCode> {
  const auditId = await enterCodes(app, seller, codes, options, signal);
  const { audits } = app.store;
  await ask(app, seller, auditId, codes.length, signal);
  const audit = await audits.get(auditId);
  // What was not answered is told now; nobody is to go on with it.
  if (audit?.state === 'running') await audits.cancel(auditId);
  signal.throwIfAborted();
  if (audit === null || audit.state === 'failed') {
    throw new CommandError(
      audit?.problem ?? `there is no audit ${auditId} any more`,
      `check the API key and MARKETPLACE_URL; \`${ownCommand()} doctor\` tries both, and no code was judged`,
    );
  }
  const answers: Answer[] = [];
  for await (const result of audits.results(auditId)) {
    answers.push(await answerOf(app, seller, result, audit.problem));
  }
  const now = new Date();
  if (options.json === true) {
    await printJson(answers.map((answer) => answerJson(answer, now)));
  } else {
    await print(answers.map((answer) => answerLines(answer, now, stdoutLook())).join('\n'));
  }
  const isAny = (wanted: Answer['verdict']): boolean =>
    answers.some(({ verdict }) => verdict === wanted);
  if (options.failOn === 'invalid' && isAny('invalid')) return EXIT.invalid;
  return isAny('unproven') ? EXIT.unproven : EXIT.done;
}

async function enterCodes(
  app: App,
  seller: SellerConfig,
  codes: readonly string[],
  { maxAge, canary, confirm = 'auto' }: CheckOptions,
  signal: AbortSignal,
): Promise<bigint> {
  const { store } = app;
  await store.sellers.ensure(seller.name, hostName(seller.url));
  const loader = await store.audits.begin({
    sellerId: seller.name,
    source: 'arguments',
    layout: { lists: [] },
    columns: ['code'],
    maxAgeSeconds: maxAge === undefined ? null : Math.floor(maxAge / 1000),
    canary: canary ?? null,
    confirm,
    chunkSize: codes.length,
  });
  try {
    await loader.add(codes.map((code, index) => ({ line: index + 1, code, columns: [code] })));
    const { codes: all, reused } = await loader.measure();
    if (canary !== undefined && reused < all) await proveCanary(app, seller, canary, signal);
    return (await loader.finish()).auditId;
  } catch (error) {
    await loader.abort();
    throw error;
  }
}

async function ask(
  app: App,
  seller: SellerConfig,
  auditId: bigint,
  codes: number,
  signal: AbortSignal,
): Promise<void> {
  const label = codes === 1 ? 'asking' : `asking for ${codes} codes`;
  const bar = new Progress({ output: process.stderr, label, total: codes });
  const look = setInterval(() => {
    void app.store.audits.get(auditId).then(
      (audit) => audit !== null && bar.update(audit.codes - audit.pending),
      () => undefined,
    );
  }, LOOK_MS);
  try {
    await app.withJobs(seller, {}, async ({ store, marketplace, sellerId, callCount }) => {
      let next: number | null = 0;
      const deps: AuditDeps = {
        ...{ store, marketplace, sellerId, callCount, ...paceOf(seller.requestsPerMinute) },
        ...{ carried: new Map(), lookAfterMs: LOOK_SOON_AFTER_MS },
        enqueueChunk: (_, chunk) => {
          next = chunk;
          return Promise.resolve();
        },
      };
      while (next !== null) {
        const job: ChunkJob = { auditId, chunk: next, isLastAttempt: true };
        next = null;
        const outcome = await performAuditChunk(deps, job, signal);
        if (outcome.kind !== 'later' || job.chunk !== SECOND_LOOK) continue;
        await sleep(outcome.delayMs, undefined, { signal }).catch(() => undefined);
        next = SECOND_LOOK;
      }
    });
  } finally {
    clearInterval(look);
    bar.finish();
  }
}

const LOOK_MS = 250;

/** A code that the audit did not settle is unproven for now. @param problem of the audit */
async function answerOf(
  { store }: App,
  seller: SellerConfig,
  result: AuditResult,
  problem: string | null,
): Promise<Answer> {
  const { verdict, reason, proof, denials, purchase, checkedAt } = result;
  const code = result.code ?? '';
  const state = (await store.audits.knownCodes(seller.name, [code])).get(code);
  const [check] = state === undefined ? [] : await store.audits.checksOf(state.codeId, 1);
  const heard = reason === null ? undefined : check;
  return {
    code,
    verdict: verdict ?? 'unproven',
    reason: reason ?? problem ?? 'it was not asked for',
    proof: proof ?? 'none',
    denials,
    purchase,
    checkedAt,
    httpStatus: heard?.httpStatus ?? null,
    message: heard?.message ?? null,
  };
}
