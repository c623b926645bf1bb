#!/usr/bin/env node
// Only these come before the check: old versions of Node can't even read the rest.
import '../../check-node.cjs'; // oxlint-disable-line import/no-unassigned-import
import { describeLoadError } from './open-files.js';

import('./program.js')
  .then(({ runProgram }) => runProgram(process.argv))
  .catch((error: unknown) => {
    const lines = describeLoadError(error);
    if (lines === null) throw error;
    process.stderr.write(`error: ${lines.join('\n  → ')}\n`);
    process.exit(1);
  });
