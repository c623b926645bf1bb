#!/usr/bin/env node
// Only these load before the check of Node's version: old versions can't parse the rest.
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
