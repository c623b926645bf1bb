// The rest loads after the check of Node's version, because old versions can't parse it. The check has no exports.
import '../../bin/check-node.cjs'; // oxlint-disable-line import/no-unassigned-import
import { setDefaultAutoSelectFamilyAttemptTimeout } from 'node:net';

// Node 20 gives each address of a name a quarter of a second, which is too short for a server on another continent.
setDefaultAutoSelectFamilyAttemptTimeout(2_500);

try {
  const { runProgram } = await import('./program.js');
  await runProgram(process.argv);
} catch (error) {
  // Loading the program opens hundreds of files at once, before anything can explain an error.
  if (!/^(?:EMFILE|ENFILE)$/.test(String((error as NodeJS.ErrnoException).code))) throw error;
  process.stderr.write(
    'error: the system lets this program open too few files\n  → raise the limit to 1024 or more: ulimit -n 1024 (systemd: LimitNOFILE, Docker: ulimits)\n',
  );
  process.exitCode = 1;
}
