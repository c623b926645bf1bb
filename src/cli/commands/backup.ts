import { createReadStream } from 'node:fs';
import { stat } from 'node:fs/promises';
import type { Command } from 'commander';
import type { Config } from '../../config/index.js';
import { moment } from '../../domain/moment.js';
import { IntakeError, assertWritable, writeWhole } from '../../intake/index.js';
import { NotABackupError, type BackupManifest } from '../../store/backup/format.js';
import { checkBackup, restore, type OpenFile } from '../../store/backup/restore.js';
import { backUp } from '../../store/backup/write.js';
import { describeEmbedded, openEmbedded } from '../../store/embedded/index.js';
import { openDatabase } from '../../store/open.js';
import { print, printJson } from '../console.js';
import { CommandError, usageError } from '../errors.js';
import { configFor, execute, unlessAborted } from '../execute.js';
import { EXIT, type ExitCode } from '../exit-codes.js';
import { type CommonOptions, withCommonOptions } from '../options.js';
import { Progress } from '../output/progress.js';
import { bytes, duration, plural, safeLine } from '../output/text.js';
import { ownCommand } from '../own-command.js';

/** `backup FILE`: the store in one file. */
export function addBackup(program: Command): void {
  const command = program
    .command('backup')
    .description(
      'Writes the whole store, as of one moment, into one compressed file, while syncs and audits go on. The file is written whole or not at all. Only its owner can read it: it holds whole purchase codes. It holds no API keys. `restore` restores it, also into another kind of store.',
    )
    .argument('<file>', 'the file; replaced if it exists')
    .addHelpText(
      'after',
      '\nFor large stores on a database server of your own, use its tools (pg_dump, replicas); this works too.\n\nExamples:\n  $ seller-mirror backup mirror.tar.gz\n  $ seller-mirror backup "/backups/mirror-$(date +%a).tar.gz"',
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
    throw usageError(why, 'name a file, such as mirror.tar.gz');
  }
  await assertWritable(file);
  const started = performance.now();
  const store = await unlessAborted(openUnmigrated(await configFor('store'), signal), signal);
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
    // Not wrong usage any more: the file's name was checked before.
    if (error instanceof IntakeError) throw new CommandError(error.message, error.remedy);
    throw error;
  } finally {
    progress.finish();
    await store.close();
  }
}

/**
 * Opens the configured store without migrating it, so that a backup can be made before another
 * version of the program migrates it.
 * @throws {CommandError} when there is no embedded store yet
 */
async function openUnmigrated(
  { databaseUrl, dataDir }: Config,
  signal: AbortSignal,
): Promise<{ readonly url: string; close(): Promise<void> }> {
  if (databaseUrl !== null) return { url: databaseUrl.reveal(), close: () => Promise.resolve() };
  if ((await describeEmbedded(dataDir)) === null) {
    throw new CommandError(
      `there is no database in ${dataDir} yet`,
      'DATA_DIR says where it is; `seller-mirror sync` creates one',
    );
  }
  return openEmbedded({ dataDir, applicationName: 'seller-mirror backup', signal });
}

const NAME_A_BACKUP = 'name a file that `seller-mirror backup` wrote';

interface RestoreOptions extends CommonOptions {
  readonly replace?: true;
  readonly check?: true;
}

/** `restore FILE`: brings back the store that `backup` wrote. */
export function addRestore(program: Command): void {
  const command = program
    .command('restore')
    .description(
      'Restores a backup into an empty store or, with --replace, into one whose contents it replaces. The whole file is checked before anything is changed, and the store changes all at once or not at all. No other process may use the store meanwhile.',
    )
    .argument('<file>', 'the backup')
    .option('--replace', 'delete what the store has now')
    .option('--check', 'only check that the file can be restored')
    .addHelpText(
      'after',
      '\nAfterwards `sync` brings the copy up to date, and `run` or `audits resume` continue audits that were running. Followers of the change feed must start over.\n\nExamples:\n  $ seller-mirror restore mirror.tar.gz --check\n  $ DATA_DIR=./elsewhere seller-mirror restore mirror.tar.gz',
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
  if (config === null) await print(`✓ ${safeLine(file)} is complete\n  ${contents}`);
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

async function assertReadable(file: string): Promise<void> {
  const found = await stat(file).catch((error: unknown) => error as NodeJS.ErrnoException);
  if (!(found instanceof Error) && found.isFile()) return;
  const code = found instanceof Error ? found.code : null;
  const problem =
    code === null
      ? 'not an ordinary file'
      : code === 'ENOENT'
        ? 'there is no such file'
        : `it can't be read (${code ?? 'for no known reason'})`;
  throw usageError(`${safeLine(file)}: ${problem}`, NAME_A_BACKUP);
}

/** The tables that a summary counts, with the words for their rows. */
const SHOWN: readonly (readonly [table: string, one: string, many?: string])[] = [
  ['sellers', 'seller'],
  ['items', 'item'],
  ['item_versions', 'superseded state'],
  ['item_changes', 'change'],
  ['purchase_codes', 'purchase code'],
  ['code_checks', 'check'],
  ['audits', 'audit'],
  ['runs', 'run'],
];

/** Summary of a backup: `the state of 2026-11-21 02:00:12Z: 1 seller · 100 items`. */
function contentsText({ createdAt, tables }: BackupManifest): string {
  const parts = SHOWN.flatMap(([table, one, many]) => {
    const rows = tables.find(({ name }) => name === table)?.rows ?? 0;
    return rows === 0 ? [] : [plural(rows, one, many)];
  });
  return `the state of ${moment(new Date(createdAt))}: ${parts.join(' · ') || 'no rows'}`;
}

/** The same for scripts. */
function contentsJson({ createdAt, migrations, tables }: BackupManifest): object {
  const rows = Object.fromEntries(tables.map((table) => [table.name, table.rows]));
  return { createdAt, migrations, rows };
}
