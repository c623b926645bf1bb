// The rest loads after the check of Node's version, because old versions can't parse it. The check has no exports.
import '../../bin/check-node.cjs'; // oxlint-disable-line import/no-unassigned-import
import { setDefaultAutoSelectFamilyAttemptTimeout } from 'node:net';

// Node 20 gives each address of a name a quarter of a second, which is too short for a server on another continent.
setDefaultAutoSelectFamilyAttemptTimeout(2_500);

const { runProgram } = await import('./program.js');
await runProgram(process.argv);
