import { createReadStream } from 'node:fs';
import { stat } from 'node:fs/promises';
import type { Command } from 'commander';
import type { Config } from '../../config/index.js';
import { NotABackupError } from '../../store/backup/error.js';
import type { BackupManifest } from '../../store/backup/manifest.js';
import { checkBackup, restore, type OpenFile } from '../../store/backup/restore.js';
import { openDatabase } from '../../store/open.js';
import { contentsJson, contentsText } from '../backup/contents-text.js';
import { print, printJson } from '../console.js';
import { CommandError } from '../errors.js';
import { configFor, execute, unlessAborted } from '../execute.js';
import { EXIT, type ExitCode } from '../exit-codes.js';
import { withCommonOptions, type CommonOptions } from '../options.js';
import { Progress, safeLine } from '../output/index.js';
import { ownCommand } from '../own-command.js';

interface RestoreOptions extends CommonOptions {
  readonly replace?: true;
  readonly check?: true;
}

/** `restore FILE`: the store as `backup` wrote it. */
export function addRestore(program: Command): void {
  const command = program
    .command('restore')
    .description(
      'Brings back what `backup` wrote, into an empty store or, with --replace, in the place of what the store has. The file is checked whole before anything is changed, and the store changes at one moment or not at all. No other process may use it meanwhile.',
    )
    .argument('<file>', 'the backup')
    .option('--replace', 'what the store has now goes')
    .option('--check', 'only make sure that the file can be restored')
    .addHelpText(
      'after',
      '\nAfterwards `sync` brings the copy up to date, and audits that were running go on with `run` or `audits resume`. Who follows the feed of changes begins anew.\n\nExamples:\n  $ seller-mirror restore mirror.tar.gz --check\n  $ DATA_DIR=./elsewhere seller-mirror restore mirror.tar.gz',
    );
  withCommonOptions(command, { seller: false }).action((file: string, options: RestoreOptions) =>
    execute((signal) => restoreFrom(file, options, signal)),
  );
}

async function restoreFrom(
  file: string,
  { json, replace, check }: RestoreOptions,
  signal: AbortSignal,
): Promise<ExitCode> {
  await assertReadable(file);
  const open: OpenFile = () => createReadStream(file, { highWaterMark: 1 << 18 });
  const manifest = await checkBackup(open, signal).catch((error: unknown) => {
    if (!(error instanceof NotABackupError)) throw error;
    throw new CommandError(`${safeLine(file)} is not a seller-mirror backup`, NAME_A_BACKUP);
  });
  const config = check === true ? null : await configFor('store');
  if (config !== null) await restoreStore(config, open, manifest, replace === true, signal);
  if (json === true) {
    await printJson({ file, restored: check !== true, ...contentsJson(manifest) });
    return EXIT.done;
  }
  const contents = `${contentsText(manifest)}\n`;
  if (config === null) await print(`✓ ${safeLine(file)} is whole\n  ${contents}`);
  else {
    const next = `  \`${ownCommand()} sync\` brings it up to date\n`;
    await print(`✓ restored from ${safeLine(file)}\n  ${contents}`, next);
  }
  return EXIT.done;
}

async function restoreStore(
  { databaseUrl, dataDir }: Config,
  open: OpenFile,
  manifest: BackupManifest,
  replace: boolean,
  signal: AbortSignal,
): Promise<void> {
  const applicationName = 'seller-mirror restore';
  const database = await unlessAborted(
    openDatabase({ databaseUrl, dataDir, applicationName, signal }),
    signal,
  );
  const progress = new Progress({ output: process.stderr, label: 'restore' });
  try {
    await restore(database.url, open, manifest, {
      replace,
      signal,
      onProgress: (rows, total) => progress.update(rows, { total }),
    });
  } finally {
    progress.finish();
    await database.close();
  }
}

const NAME_A_BACKUP = 'name a file that `seller-mirror backup` wrote';

async function assertReadable(file: string): Promise<void> {
  const found = await stat(file).catch((error: unknown) => error as NodeJS.ErrnoException);
  if (!(found instanceof Error) && found.isFile()) return;
  const code = found instanceof Error ? found.code : null;
  const problem =
    code === null
      ? 'is no ordinary file'
      : code === 'ENOENT'
        ? 'there is no such file'
        : `it can't be read (${code ?? 'for no known reason'})`;
  throw new CommandError(`${safeLine(file)}: ${problem}`, NAME_A_BACKUP, EXIT.usage);
}
