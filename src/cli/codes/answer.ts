import { UserError } from '../../domain/user-error.js';
import type { App } from '../../app.js';
import type { JobOutcome } from '../../catalogue/types.js';
import {
  answerFromChecks,
  readBestResults,
  type Answer,
  type BestResult,
} from '../../codes/audit-result.js';
import { cancelAudit } from '../../codes/audits-store.js';
import { giveUpCheck } from '../../codes/check.js';
import { CHECKS } from '../../codes/codes-listing.js';
import { readCodeChecks, readCodeState } from '../../codes/codes-store.js';
import { codesToCheck, listOfCodes, verifyKnownValid } from '../../codes/enter-list.js';
import { SHORT_WAIT_MS } from '../../codes/rules.js';
import type { AuditProgress, AuditSize } from '../../codes/types.js';
import type { SellerConfig } from '../../config/index.js';
import { noteWait, print, printJson, stdoutLook, write } from '../console.js';
import { usageError } from '../errors.js';
import { EXIT, type ExitCode } from '../exit-codes.js';
import { listingTable } from '../listing.js';
import { assertSeller, type CommonOptions } from '../options.js';
import { ownCommand, shellWord } from '../own-command.js';
import { askSellers } from './ask-sellers.js';
import { answerJson, answerLines } from './audit-view.js';
import { throwKeyFault } from './check-lists.js';
import { auditOptions, failsOn, oneSeller, type CheckOptions } from './options.js';
import { workOrWatch } from './run-audit.js';

/** Checks codes given as arguments, and prints the answer about each. Where several sellers are asked, it says who sold it. */
export async function answerCodes(
  app: App,
  sellers: readonly SellerConfig[],
  codes: readonly string[],
  options: CheckOptions,
): Promise<ExitCode> {
  const { db, signal } = app;
  const { knownValid } = options;
  const terms = { confirmAfterMs: SHORT_WAIT_MS, ...auditOptions(options) };
  const [seller] = sellers;
  const onLoaded = async (size: AuditSize): Promise<void> => {
    if (seller === undefined || knownValid === undefined || codesToCheck(size) === 0) return;
    throwKeyFault(
      await app.withMarketplace(seller, { onWait: noteWait(seller.name) }, ({ marketplace }) =>
        verifyKnownValid(marketplace, knownValid, signal),
      ),
    );
  };
  const work = {
    isWatched: true,
    onLoaded,
    finish: (audit: AuditProgress) => finishNow(app, audit),
  };
  const audits = await askSellers(app, sellers, [listOfCodes(codes)], terms, work);
  const problem = audits.find(({ state }) => state === 'failed')?.problem;
  if (audits.every(({ state }) => state === 'failed')) {
    throw new UserError(
      problem ?? 'the check has failed',
      `check the API key and MARKETPLACE_URL; \`${ownCommand()} doctor\` tests both, and no code got a verdict`,
      'FAILED',
    );
  }
  const answers = (await readBestResults(db, audits)).map((result) => answerIn(result, problem));
  return printAnswers(answers, options, sellers.length > 1);
}

/** Somebody waits at the terminal: for a marketplace that needs longer (ms), the codes stay unproven. */
const PATIENCE_MS = 10_000;

/** Works on an audit to its end. What needs longer is given up: nobody resumes it. */
async function finishNow(app: App, audit: AuditProgress): Promise<void> {
  const { db, signal } = app;
  if (audit.state !== 'running') return;
  let waitsFor: string | null = null;
  const isEnough = (outcome: JobOutcome): boolean => {
    if (outcome.kind !== 'later' || outcome.isBusy === true) return false;
    waitsFor = outcome.reason;
    return waitsFor !== 'second-check' && outcome.delayMs > PATIENCE_MS;
  };
  const how = { resume: null, attempts: 1, isWatched: true, isEnough };
  const ended = await workOrWatch(app, audit, how);
  if (signal.aborted) await cancelAudit(db, audit.auditId);
  else if (ended?.state === 'running') await giveUpCheck(db, ended, waitsFor);
}

/** The answer about a code of an audit. @param problem why a code may have never been asked for */
function answerIn(result: BestResult, problem: string | null | undefined): SellersAnswer {
  const { code, verdict, reason, proof } = result;
  return {
    ...result,
    code: code ?? '',
    verdict: verdict ?? 'unproven',
    reason: reason ?? problem ?? 'it was not checked',
    proof: proof ?? 'none',
  };
}

type SellersAnswer = Answer & Pick<BestResult, 'seller'>;

async function printAnswers(
  answers: readonly SellersAnswer[],
  options: CheckOptions,
  namesSeller: boolean,
): Promise<ExitCode> {
  const now = new Date();
  const { item } = options;
  if (options.json === true) {
    await printJson(
      answers.map((answer) => {
        const { seller } = answer;
        return { ...answerJson(answer, now, item), ...(namesSeller ? { seller } : {}) };
      }),
    );
  } else {
    const lines = answers.map((answer) => {
      const seller = namesSeller ? answer.seller : null;
      return answerLines({ ...answer, seller }, now, stdoutLook(), item);
    });
    await print(lines.join('\n'));
  }
  if (answers.some((answer) => failsOn(options, answer, now.getTime()))) return EXIT.refused;
  return answers.some(({ verdict }) => verdict === 'unproven') ? EXIT.unproven : EXIT.done;
}

/** Maximum number of checks to show, the newest first. All are in mirror.code_checks. */
const SHOWN_CHECKS = 50;

/** Prints what is known about a code, and its checks. Makes no request to the marketplace. */
export async function showCode(
  app: App,
  code: string,
  { seller, json }: CommonOptions,
): Promise<ExitCode> {
  const { db, config } = app;
  await assertSeller(app, seller);
  const sellerId = seller ?? oneSeller(config, undefined).name;
  const state = await readCodeState(db, sellerId, code);
  if (state === null) {
    const program = ownCommand();
    // A few digits are probably the id of an audit.
    const audit = /^\d{1,9}$/.test(code)
      ? `; \`${program} audits show ${code}\` shows the audit`
      : '';
    throw usageError(
      'this code was never in a list, and never checked',
      `\`${program} codes check ${shellWord(code)}\` checks it${audit}`,
    );
  }
  const checks = await readCodeChecks(db, state.codeId, SHOWN_CHECKS);
  const answer = answerFromChecks(state, checks);
  const now = new Date();
  if (json === true) {
    const { verdictSince, firstCheckedAt } = state;
    await printJson({ ...answerJson(answer, now), verdictSince, firstCheckedAt, checks });
  } else {
    const look = stdoutLook();
    await print(answerLines(answer, now, look), '\n');
    if (checks.length > 0) await write(listingTable(CHECKS, checks));
  }
  return EXIT.done;
}
