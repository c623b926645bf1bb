import { stat } from 'node:fs/promises';
import type { Command } from 'commander';
import { assertWritable, IntakeError, writeWhole } from '../../intake/index.js';
import { backUp } from '../../store/backup/write.js';
import { contentsJson, contentsText } from '../backup/contents-text.js';
import { findStore } from '../backup/store-url.js';
import { print, printJson } from '../console.js';
import { CommandError } from '../errors.js';
import { configFor, execute, unlessAborted } from '../execute.js';
import { EXIT, type ExitCode } from '../exit-codes.js';
import { withCommonOptions, type CommonOptions } from '../options.js';
import { bytes, duration, Progress, safeLine } from '../output/index.js';

/** `backup FILE`: the store in one file. */
export function addBackup(program: Command): void {
  const command = program
    .command('backup')
    .description(
      'Writes all that the mirror knows, as it is at one moment, into one compressed file, while syncs and audits go on. The file is written whole or not at all, and is readable to its owner only: it holds whole purchase codes. API keys are not in it. `restore` brings it back, also into another kind of store.',
    )
    .argument('<file>', 'the file; what is there is replaced')
    .addHelpText(
      'after',
      '\nA database server of your own has tools for large stores (pg_dump, replicas); this works with it, too.\n\nExamples:\n  $ seller-mirror backup mirror.tar.gz\n  $ seller-mirror backup "/backups/mirror-$(date +%a).tar.gz"',
    );
  withCommonOptions(command, { seller: false }).action((file: string, options: CommonOptions) =>
    execute((signal) => backupTo(file, options, signal)),
  );
}

async function backupTo(
  file: string,
  { json }: CommonOptions,
  signal: AbortSignal,
): Promise<ExitCode> {
  if (file === '-') {
    const why = 'backup writes to a file, which it checks and puts in place whole, not to stdout';
    throw new CommandError(why, 'name a file, such as mirror.tar.gz', EXIT.usage);
  }
  await assertWritable(file);
  const started = performance.now();
  const name = 'seller-mirror backup';
  const store = await unlessAborted(findStore(await configFor('store'), name, signal), signal);
  const progress = new Progress({ output: process.stderr, label: 'backup' });
  try {
    const backup = backUp(store.url, {
      signal,
      onProgress: (rows, total) => progress.update(rows, { total }),
    });
    await writeWhole(file, backup.bytes, { signal });
    progress.finish();
    const { size } = await stat(file);
    const manifest = backup.manifest();
    if (json === true) await printJson({ file, bytes: size, ...contentsJson(manifest) });
    else {
      await print(
        `✓ ${safeLine(file)} · ${bytes(size)} in ${duration(performance.now() - started)}\n`,
        `  ${contentsText(manifest)}\n`,
      );
    }
    return EXIT.done;
  } catch (error) {
    // Before, it was the name that was wrong.
    if (error instanceof IntakeError) throw new CommandError(error.message, error.remedy);
    throw error;
  } finally {
    progress.finish();
    await store.close();
  }
}
