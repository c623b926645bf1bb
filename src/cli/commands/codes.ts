import type { Command } from 'commander';
import { addCancel } from '../codes/cancel.js';
import { addCheck } from '../codes/check.js';
import { addExport } from '../codes/export.js';
import { addList } from '../codes/list.js';
import { addRecheck } from '../codes/recheck.js';
import { addResume } from '../codes/resume.js';
import { addShow } from '../codes/show.js';

/** `codes check|resume|list|show|export|cancel|recheck`: audits of purchase codes. */
export function addCodes(program: Command): void {
  const codes = program
    .command('codes')
    .summary('check purchase codes, with proof')
    .description(
      'Checks purchase codes, one or a million. A code is called invalid only when the marketplace denied it between two proofs of the API key; what can’t be proven either way is unproven. What was answered is kept, and never asked again when an audit goes on.',
    )
    .addHelpText(
      'after',
      '\nExamples:\n  $ seller-mirror codes check 86781236-23d0-4b3c-7dfa-c1c147e0dece\n  $ seller-mirror codes check customers.csv --column code --out result.csv',
    );
  for (const add of [addCheck, addResume, addList, addShow, addExport, addCancel, addRecheck]) {
    add(codes);
  }
}
