import { setTimeout as sleep } from 'node:timers/promises';
import type { Terminal } from '../processes.js';

const MAX_CHECKS = 5;
const MAX_FAILURES = 12;

/**
 * Audits a list to its end, as a person would: resumes the audit after the command was killed or the audit
 * failed, and checks the list again while codes have no verdict.
 * @returns how often the list was checked, and how often the audit failed
 */
export async function auditToEnd(
  terminal: Terminal,
  list: string,
  result: string,
  timeout: AbortSignal,
) {
  let checks = 1;
  let failures = 0;
  let audit = await startAudit(terminal, list, [], timeout);
  while (!timeout.aborted && checks <= MAX_CHECKS && failures <= MAX_FAILURES) {
    const { code, stderr } = await terminal.run(['audits', 'resume', audit, '--out', result]);
    switch (code) {
      case 0:
        return { done: true, checks, failures };
      case 4:
        checks++;
        audit = await startAudit(terminal, list, ['--max-age', '1d'], timeout);
        break;
      case 1:
        failures++;
        await sleep(5_000);
        break;
      case null:
      case 130:
        break;
      default:
        throw new Error(`audits resume ended with ${code}: ${stderr}`);
    }
  }
  return { done: false, checks, failures };
}

/** Starts an audit of the list. Tries again if the command was killed or failed before the audit existed. */
async function startAudit(
  terminal: Terminal,
  list: string,
  more: readonly string[],
  timeout: AbortSignal,
): Promise<string> {
  const before = await newestAudit(terminal);
  // A key that is revoked just now refuses the list.
  while (!timeout.aborted) {
    await terminal.run(['codes', 'check', list, '--column', 'code', '--detach', ...more]);
    const now = await newestAudit(terminal);
    if (now !== null && now !== before) return now;
    await sleep(2_000);
  }
  throw new Error('could not start an audit of the list');
}

async function newestAudit(terminal: Terminal): Promise<string | null> {
  // Repeats the command if it was killed.
  for (;;) {
    const { code, stdout } = await terminal.run(['audits', 'list', '--limit', '1', '--json']);
    if (code !== 0) continue;
    const [audit] = JSON.parse(stdout) as { audit_id: number | string }[];
    return audit === undefined ? null : String(audit.audit_id);
  }
}
