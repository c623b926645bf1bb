import { setTimeout as sleep } from 'node:timers/promises';
import type { App } from '../../app.js';
import type { SellerConfig } from '../../config/index.js';
import { hostName } from '../../domain/address.js';
import { supportAt } from '../../domain/codes/purchase.js';
import { LOOK_SOON_AFTER_MS, describeDenials } from '../../domain/codes/second-look.js';
import type { Purchase, PurchasedItem } from '../../domain/item.js';
import { moment } from '../../domain/moment.js';
import { paceOf } from '../../jobs/codes/pace.js';
import {
  SECOND_LOOK,
  performAuditChunk,
  type AuditDeps,
  type ChunkJob,
} from '../../jobs/codes/perform-chunk.js';
import type { AuditResult, CodeCheck, CodeState } from '../../store/audits/types.js';
import { print, printJson, stdoutLook } from '../console.js';
import { CommandError } from '../errors.js';
import { EXIT, type ExitCode } from '../exit-codes.js';
import type { CommonOptions } from '../options.js';
import { Progress } from '../output/progress.js';
import { pairs, table, type TableCell } from '../output/table.js';
import { age, type Look, paint, safeLine } from '../output/text.js';
import { ownCommand, shellWord } from '../own-command.js';
import { unprovenRemedy, whyUnproven } from './audit-view.js';
import { checkSeller, oneSeller, type CheckOptions } from './options.js';
import { proveCanary } from './prove-key.js';
import { resultOf, type CodeFacts, type Result } from './result-file.js';

/** A code with its verdict and the marketplace's last answer. */
export interface Answer extends CodeFacts {
  readonly code: string;
  readonly httpStatus: number | null;
  readonly message: string | null;
}

/** Asks for codes that were given as arguments, without the queue, and prints the answers. */
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
  // Codes without an answer are reported now: nobody resumes this audit.
  if (audit?.state === 'running') await audits.cancel(auditId);
  signal.throwIfAborted();
  if (audit === null || audit.state === 'failed') {
    throw new CommandError(
      audit?.problem ?? `audit ${auditId} is gone`,
      `check the API key and MARKETPLACE_URL; \`${ownCommand()} doctor\` tries both, and no code was judged`,
    );
  }
  const answers: Answer[] = [];
  for await (const result of audits.results(auditId)) {
    answers.push(await answerFromResult(app, seller, result, audit.problem));
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
  const poll = setInterval(() => {
    void app.store.audits.get(auditId).then(
      (audit) => audit !== null && bar.update(audit.codes - audit.pending),
      () => undefined,
    );
  }, POLL_MS);
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
    clearInterval(poll);
    bar.finish();
  }
}

/** How often the progress is read. */
const POLL_MS = 250;

/** The answer about a code of the audit; a code without a verdict is unproven. @param problem of the audit */
async function answerFromResult(
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

/** Checks shown of a code; all of them are in mirror.code_checks. */
const SHOWN_CHECKS = 50;

/** Shows what is known of a code, and its checks. Does not ask the marketplace. */
export async function showCode(
  app: App,
  code: string,
  { seller, json }: CommonOptions,
): Promise<ExitCode> {
  const { store, config } = app;
  await checkSeller(app, seller);
  const sellerId = seller ?? oneSeller(config, undefined).name;
  const state = (await store.audits.knownCodes(sellerId, [code])).get(code);
  if (state === undefined) {
    const program = ownCommand();
    // A few digits are probably the number of an audit.
    const audit = /^\d{1,9}$/.test(code)
      ? `; \`${program} audits show ${code}\` shows the audit`
      : '';
    throw new CommandError(
      'this code was never in a list, and never asked for',
      `\`${program} codes check ${shellWord(code)}\` asks for it${audit}`,
    );
  }
  const checks = await store.audits.checksOf(state.codeId, SHOWN_CHECKS);
  const answer = answerFromChecks(state, checks);
  const now = new Date();
  if (json === true) {
    const { verdictSince, firstCheckedAt } = state;
    await printJson({ ...answerJson(answer, now), verdictSince, firstCheckedAt, checks });
  } else {
    const look = stdoutLook();
    await print(answerLines(answer, now, look), '\n', checksTable(checks, look));
  }
  return EXIT.done;
}

/** The newest proven verdict; where there is none, why the last check proved nothing. */
function answerFromChecks(state: CodeState, checks: readonly CodeCheck[]): Answer {
  const { code, known, proof, denials, lastCheckId } = state;
  const verdict = known?.verdict ?? 'unproven';
  // An invalid code's last denial is recorded before it becomes the proof.
  const check = known === null ? checks[0] : checks.find(({ checkId }) => checkId === lastCheckId);
  const reason = verdict === 'invalid' ? 'denied' : check?.reason;
  return {
    code,
    verdict,
    reason: reason ?? 'it was not asked for yet',
    proof: proof ?? 'none',
    denials,
    purchase: known?.purchase ?? null,
    checkedAt: known === null ? (check?.checkedAt ?? null) : new Date(known.checkedAt),
    httpStatus: check?.httpStatus ?? null,
    message: check?.message ?? null,
  };
}

function checksTable(checks: readonly CodeCheck[], look: Look): string {
  if (checks.length === 0) return '';
  return table(
    checks,
    [
      { header: 'checked', value: ({ checkedAt }) => moment(checkedAt) },
      { header: 'audit', value: ({ auditId }) => auditId },
      { header: 'verdict', value: ({ verdict }) => verdict },
      { header: 'proof', value: ({ proof }) => proof },
      { header: 'status', value: ({ httpStatus }) => httpStatus },
      {
        header: 'reason',
        value: ({ verdict, reason }) => (verdict === 'unproven' ? whyUnproven(reason) : ''),
      },
      { header: 'the marketplace said', value: ({ message }) => message ?? '' },
    ],
    look,
  );
}

const MARKS = { valid: ['✓', 'green'], invalid: ['✗', 'red'], unproven: ['?', 'yellow'] } as const;

/** Formats the answer about one code for a person. */
export function answerLines(answer: Answer, now: Date, look: Look): string {
  const { verdict, code } = answer;
  const [mark, colour] = MARKS[verdict];
  const head = `${paint(colour, mark, look)} ${safeLine(code)} · ${paint(colour, verdict, look)}\n`;
  const details = pairs(
    detailsOf(answer, now).filter(([, value]) => value !== null),
    look,
    '  ',
  );
  return head + details;
}

function detailsOf(answer: Answer, now: Date): (readonly [string, TableCell])[] {
  const { verdict, reason, purchase, checkedAt } = answer;
  const checked: [string, TableCell] = [
    'checked',
    checkedAt === null ? null : `${moment(checkedAt)}, ${age(checkedAt, now)}`,
  ];
  if (verdict === 'unproven') {
    return [
      ['why', `${whyUnproven(reason)}${saidBy(answer)}`],
      ['what to do', unprovenRemedy(reason)],
      checked,
    ];
  }
  const invalid = verdict === 'invalid';
  const known = purchase === null ? [] : purchaseLines(purchase, invalid, now);
  return [
    ...(invalid && known.length > 0
      ? [['was', 'valid before; probably refunded or cancelled'] as const]
      : []),
    ...known,
    ['proof', proofText(answer)],
    checked,
  ];
}

function purchaseLines(
  purchase: Purchase,
  invalid: boolean,
  now: Date,
): (readonly [string, TableCell])[] {
  const { licenseType, item, price, currency, purchasedAt, downloaded } = purchase;
  return [
    ['licence', licenseType],
    ['item', item === null ? null : itemText(item)],
    ['price', price === null ? null : [price, currency].filter((text) => text !== null).join(' ')],
    ['purchased', purchasedAt === null ? null : moment(new Date(purchasedAt))],
    ['support', invalid ? null : supportText(purchase, now)],
    ['downloaded', downloaded === null ? null : downloaded ? 'yes' : 'no'],
  ];
}

/** The item's id and name, or its address where both are missing. */
function itemText({ id, name, url }: PurchasedItem): string | null {
  const parts = [id, name].filter((part) => part !== null);
  return parts.length === 0 ? url : parts.join(' · ');
}

function supportText(purchase: Purchase, now: Date): string {
  const { supportedUntil } = purchase;
  const state = supportAt(purchase, now.getTime());
  if (supportedUntil === null) return state;
  const until = new Date(supportedUntil);
  const verb = state === 'active' ? 'until' : 'since';
  return `${state} ${verb} ${moment(until)}, ${age(until, now)}`;
}

function proofText(answer: Answer): string {
  const { denials } = answer;
  const denied = `${denials === null ? 'denied' : describeDenials(denials)}${saidBy(answer)}`;
  switch (answer.proof) {
    case 'purchase':
      return 'the marketplace answered with the purchase';
    case 'canary':
      return `${denied}, while the API key opened the account and found a valid code before and after`;
    case 'account':
      return `${denied}, while the API key opened the account before and after; a code known to be valid (--canary) would prove more`;
    default:
      return answer.proof;
  }
}

/** ` (404 "Invalid purchase code")`. */
function saidBy({ httpStatus, message }: Answer): string {
  const parts = [
    httpStatus === null ? '' : String(httpStatus),
    message === null || message === '' ? '' : JSON.stringify(message),
  ].filter((part) => part !== '');
  return parts.length === 0 ? '' : ` (${parts.join(' ')})`;
}

/** Formats an answer for `--json`: the columns of a result, reason, evidence, the server's answer. */
export function answerJson(answer: Answer, now: Date): object {
  const { code, reason, httpStatus, message, proof, denials } = answer;
  const result: Result = { ...resultOf(answer, now.getTime()), proof };
  const evidence = denials === null ? null : describeDenials(denials);
  return { code, ...result, reason, evidence, http_status: httpStatus, message };
}
