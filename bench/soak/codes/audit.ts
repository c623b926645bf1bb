import { setTimeout as sleep } from 'node:timers/promises';
import type { Person } from '../processes.js';

const MOST_CHECKS = 5;
const MOST_FAILURES = 12;

/**
 * Sees a list to its end as a person would: watches its audit, resumes it when the command was killed
 * or the audit failed, and checks the list again when codes are left without a verdict.
 * @returns how often the list was checked, and how often a failed audit was resumed
 */
export async function pursue(person: Person, list: string, result: string, patience: AbortSignal) {
  let checks = 1;
  let failures = 0;
  let audit = await enter(person, list, []);
  while (!patience.aborted && checks <= MOST_CHECKS && failures <= MOST_FAILURES) {
    const { code, stderr } = await person.type(['audits', 'resume', audit, '--out', result]);
    switch (code) {
      case 0:
        return { done: true, checks, failures };
      case 4:
        checks++;
        audit = await enter(person, list, ['--max-age', '1d']);
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

/** Begins an audit of the list; killed or refused, begins again unless the audit is there. */
async function enter(person: Person, list: string, more: readonly string[]): Promise<string> {
  const before = await newest(person);
  for (let tries = 0; tries < MOST_FAILURES; tries++) {
    await person.type(['codes', 'check', list, '--column', 'code', '--detach', ...more]);
    const now = await newest(person);
    if (now !== null && now !== before) return now;
    await sleep(2_000);
  }
  throw new Error('the list could not be entered');
}

async function newest(person: Person): Promise<string | null> {
  // A list that is asked for just as the person is killed is asked for again.
  for (;;) {
    const { code, stdout } = await person.type(['audits', 'list', '--limit', '1', '--json']);
    if (code !== 0) continue;
    const [audit] = JSON.parse(stdout) as { audit_id: number | string }[];
    return audit === undefined ? null : String(audit.audit_id);
  }
}
