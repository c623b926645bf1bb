// The rest loads after the check of Node's version, because old versions can't parse it. The check has no exports.
import '../../bin/check-node.cjs'; // oxlint-disable-line import/no-unassigned-import

const { runProgram } = await import('./program.js');
await runProgram(process.argv);
