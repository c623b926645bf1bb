// The rest loads after the check of Node's version, because old versions can't parse it.
import '../../bin/check-node.cjs'; // oxlint-disable-line import/no-unassigned-import
import { describeLoadError } from './open-files.js';

import('./program.js')
  .then(({ runProgram }) => runProgram(process.argv))
  .catch((error: unknown) => {
    const lines = describeLoadError(error);
    if (lines === null) throw error;
    process.stderr.write(`error: ${lines.join('\n  → ')}\n`);
    process.exit(1);
  });
