import type { App } from '../../app.js';
import type { CodeCheck, CodeState } from '../../store/audits/types.js';
import { print, printJson, stdoutLook } from '../console.js';
import { CommandError } from '../errors.js';
import { EXIT, type ExitCode } from '../exit-codes.js';
import { moment } from '../../domain/moment.js';
import { table, type Look } from '../output/index.js';
import type { CommonOptions } from '../options.js';
import { ownCommand, shellWord } from '../own-command.js';
import { answerJson, answerLines, type Answer } from './answer.js';
import { checkSeller } from './find-audit.js';
import { oneSeller } from './options.js';
import { whyUnproven } from './unproven-text.js';

/** As many checks as a person reads; all of them are in mirror.code_checks. */
const SHOWN_CHECKS = 50;

/** What is known of a code, and the checks of it; the marketplace is not asked. */
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
    // Codes are hardly ever nothing but a few digits.
    const audit = /^\d{1,9}$/.test(code)
      ? `; \`${program} audits show ${code}\` shows the audit`
      : '';
    throw new CommandError(
      'this code was never in a list, and never asked for',
      `\`${program} codes check ${shellWord(code)}\` asks for it${audit}`,
    );
  }
  const checks = await store.audits.checksOf(state.codeId, SHOWN_CHECKS);
  const answer = answerOf(state, checks);
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

/** The newest verdict that was proven; where there is none, why the last check proved nothing. */
function answerOf(state: CodeState, checks: readonly CodeCheck[]): Answer {
  const { code, known, proof, denials, lastCheckId } = state;
  const verdict = known?.verdict ?? 'unproven';
  // The last denial of an invalid code is recorded before it is known to be the last.
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
