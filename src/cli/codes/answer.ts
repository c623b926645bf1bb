import type { App } from '../../app.js';
import type { SellerConfig } from '../../config/index.js';
import { SHORT_WAIT_MS } from '../../codes/rules.js';
import { answerFromChecks, type Answer } from '../../codes/audit-result.js';
import { enterLists, listOfCodes, codesToCheck, verifyKnownValid } from '../../codes/enter-list.js';
import type { AuditResult, EnteredAudit } from '../../codes/types.js';
import { noteWait, print, printJson, stdoutLook, write } from '../console.js';
import type { JobOutcome } from '../../catalogue/types.js';
import { CommandError } from '../errors.js';
import { EXIT, type ExitCode } from '../exit-codes.js';
import { assertSeller, type CommonOptions } from '../options.js';
import { withProgress } from '../output/progress.js';
import { listingTable } from '../listing.js';
import { CHECKS } from '../../codes/codes-listing.js';
import { plural } from '../../domain/text.js';
import { ownCommand, shellWord } from '../own-command.js';
import { throwKeyFault } from './check-lists.js';
import { failsOn, auditOptions, oneSeller, type CheckOptions } from './options.js';
import { answerJson, answerLines } from './audit-view.js';
import { getAudit, cancelAudit } from '../../codes/audits-store.js';
import { readAuditResults } from '../../codes/results-store.js';
import { readCodeState, readCodeChecks } from '../../codes/codes-store.js';
import { giveUpCheck } from '../../codes/check.js';
import { workOnAudit } from './run-audit.js';

/** Checks codes given as arguments and prints the answer about each. */
export async function answerCodes(
  app: App,
  seller: SellerConfig,
  codes: readonly string[],
  options: CheckOptions,
): Promise<ExitCode> {
  return printAnswers(app, await checkCodes(app, seller, codes, options), options);
}

/**
 * Checks codes of a seller, and returns the answer about each.
 * @param isAlone no other seller is asked
 * @throws {CommandError} when the check failed, such as with a refused key, and nobody else is asked
 */
export async function checkCodes(
  app: App,
  seller: SellerConfig,
  codes: readonly string[],
  options: CheckOptions,
  isAlone = true,
): Promise<readonly Answer[]> {
  const { signal } = app;
  const { auditId, ...entered } = await enterCodes(app, seller, codes, options);
  const { db } = app;
  const total = entered.codes - entered.reused;
  let waitsFor: string | null = null;
  await withProgress(
    `checking ${plural(total, 'code')}`,
    async (bar) => {
      let done = 0;
      const onVerdict = (): void => bar.update(++done);
      const onOutcome = async (outcome: JobOutcome): Promise<boolean> => {
        if (outcome.kind !== 'later' || outcome.isBusy === true) return false;
        const { reason, delayMs } = outcome;
        waitsFor = reason;
        if (reason !== 'second-check') return delayMs > PATIENCE_MS;
        const denied = (await getAudit(db, auditId))?.denied ?? 0;
        const codes = total === 1 ? 'denied' : `${plural(denied, 'code')} denied`;
        bar.note(`${codes}; checking again in ${Math.ceil(delayMs / 1000)} s`);
        return false;
      };
      const onWait = (ms: number | null): void => bar.wait(ms);
      const work = { attempts: 1, isWatched: true, onVerdict, onOutcome, onWait };
      const how = { closing: signal, ...work };
      await workOnAudit(app, { auditId, sellerId: seller.name }, how, signal);
    },
    { total },
  );
  const audit = await getAudit(db, auditId);
  // Nobody resumes this audit.
  if (audit?.state === 'running') {
    if (signal.aborted) await cancelAudit(db, auditId);
    else await giveUpCheck(db, audit, waitsFor);
  }
  signal.throwIfAborted();
  if (audit === null || (isAlone && audit.state === 'failed')) {
    throw new CommandError(
      audit?.problem ?? `audit ${auditId} was deleted`,
      `check the API key and MARKETPLACE_URL; \`${ownCommand()} doctor\` tests both, and no code got a verdict`,
    );
  }
  const answers: Answer[] = [];
  for await (const result of readAuditResults(db, auditId)) {
    answers.push(answerFromResult(result, audit.problem));
  }
  return answers;
}

/** Prints answers. Where several sellers were asked, each says who sold the code. */
export async function printAnswers(
  { signal }: App,
  answers: readonly (Answer & { readonly seller?: string | null })[],
  options: CheckOptions,
): Promise<ExitCode> {
  signal.throwIfAborted();
  const now = new Date();
  if (options.json === true) {
    await printJson(
      answers.map((answer) => {
        const { seller } = answer;
        const sold = seller === undefined ? {} : { seller };
        return { ...answerJson(answer, now, options.item), ...sold };
      }),
    );
  } else {
    await print(
      answers.map((answer) => answerLines(answer, now, stdoutLook(), options.item)).join('\n'),
    );
  }
  if (answers.some((answer) => failsOn(options, answer, now.getTime()))) return EXIT.refused;
  return answers.some(({ verdict }) => verdict === 'unproven') ? EXIT.unproven : EXIT.done;
}

/** Somebody waits at the terminal: for a marketplace that needs longer (ms), the codes stay unproven. */
const PATIENCE_MS = 10_000;

/** Creates an audit of the codes, unless the marketplace denies the code that the user knows is valid. */
async function enterCodes(
  app: App,
  seller: SellerConfig,
  codes: readonly string[],
  options: CheckOptions,
): Promise<EnteredAudit> {
  const { knownValid } = options;
  const { signal } = app;
  const terms = { confirmAfterMs: SHORT_WAIT_MS, ...auditOptions(options) };
  return enterLists(app.db, seller, [listOfCodes(codes)], terms, {
    signal,
    async onLoaded(size) {
      if (knownValid === undefined || codesToCheck(size) === 0) return;
      throwKeyFault(
        await app.withMarketplace(seller, { onWait: noteWait(seller.name) }, ({ marketplace }) =>
          verifyKnownValid(marketplace, knownValid, signal),
        ),
      );
    },
  });
}

/** Returns the answer about a code of the audit. @param problem of the audit: why a code was never asked for */
function answerFromResult(result: AuditResult, problem: string | null): Answer {
  const { code, verdict, reason, proof } = result;
  return {
    ...result,
    code: code ?? '',
    verdict: verdict ?? 'unproven',
    reason: (result.checkedAt === null ? problem : null) ?? reason ?? 'it was not checked',
    proof: proof ?? 'none',
  };
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
    throw new CommandError(
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
