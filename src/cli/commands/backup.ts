import { createReadStream } from 'node:fs';
import { stat } from 'node:fs/promises';
import type { Command } from 'commander';
import type { Config } from '../../config/index.js';
import { moment } from '../../domain/moment.js';
import { IntakeError } from '../../intake/types.js';
import { assertWritable, writeWhole } from '../../intake/write-whole.js';
import { NotABackupError, type BackupManifest } from '../../store/backup/format.js';
import { checkBackup, restore } from '../../store/backup/restore.js';
import { backUp } from '../../store/backup/write.js';
import { errorCode } from '../../domain/error-code.js';
import { openDatabase, openUnmigrated } from '../../store/open.js';
import { printResult } from '../console.js';
import { CommandError, usageError } from '../errors.js';
import { action, configFor, unlessAborted } from '../execute.js';
import { type CommonOptions, described } from '../options.js';
import { Progress } from '../output/progress.js';
import { bytes } from '../../domain/units.js';
import { duration, plural, safeLine } from '../output/text.js';
import { ownCommand } from '../own-command.js';

export function add(program: Command): void {
  const command = program.command('backup').argument('<file>', 'the file; replaced if it exists');
  described(command, {
    about:
      'Writes the whole store, as of one moment, into one compressed file, while syncs and audits go on. The file is written whole or not at all. Only its owner can read it: it holds whole purchase codes. It holds no API keys. `restore` restores it, also into another kind of store.',
    notes:
      'For large stores on a database server of your own, use its tools (pg_dump, replicas); this works too.',
    examples: [
      'seller-mirror backup mirror.tar.gz',
      'seller-mirror backup "/backups/mirror-$(date +%a).tar.gz"',
    ],
    options: ['json'],
  }).action(action(backupTo));
}

async function backupTo(signal: AbortSignal, file: string, options: CommonOptions): Promise<void> {
  if (file === '-') {
    const why = 'backup writes to a file, which it checks and puts in place whole, not to stdout';
    throw usageError(why, 'name a file, such as mirror.tar.gz');
  }
  await assertWritable(file);
  const started = performance.now();
  const store = await unlessAborted(openStore(await configFor('store'), signal), signal);
  const progress = new Progress('backup');
  const onProgress = (rows: number, total: number): void => progress.update(rows, { total });
  const backup = backUp(store.url, { signal, onProgress });
  try {
    await writeWhole(file, backup.bytes, signal);
  } catch (error) {
    // Not wrong usage any more: the file's name was checked before.
    if (error instanceof IntakeError) throw new CommandError(error.message, error.remedy);
    throw error;
  } finally {
    progress.finish();
    await store.close();
  }
  const { size } = await stat(file);
  const took = duration(performance.now() - started);
  const manifest = backup.manifest();
  await printResult(options, { file, bytes: size, ...contentsJson(manifest) }, () =>
    [`✓ ${safeLine(file)} · ${bytes(size)} in ${took}\n`, `  ${contentsText(manifest)}\n`].join(''),
  );
}

/**
 * The configured store, not migrated, so that it can be backed up before another version migrates it.
 * @throws {CommandError} when there is no embedded store yet
 */
async function openStore({ databaseUrl, dataDir }: Config, signal: AbortSignal) {
  const applicationName = 'seller-mirror backup';
  const store = await openUnmigrated({ databaseUrl, dataDir, applicationName, signal });
  if (store !== null) return store;
  throw new CommandError(
    `there is no database in ${dataDir} yet`,
    'DATA_DIR says where it is; `seller-mirror sync` creates one',
  );
}

const NAME_A_BACKUP = 'name a file that `seller-mirror backup` wrote';

interface RestoreOptions extends CommonOptions {
  readonly replace?: boolean;
  readonly check?: boolean;
}

export function addRestore(program: Command): void {
  const command = program
    .command('restore')
    .argument('<file>', 'the backup')
    .option('--replace', 'delete what the store has now')
    .option('--check', 'only check that the file can be restored');
  described(command, {
    about:
      'Restores a backup into an empty store or, with --replace, into one whose contents it replaces. The whole file is checked before anything is changed, and the store changes all at once or not at all. No other process may use the store meanwhile.',
    notes:
      'Afterwards `sync` brings the copy up to date, and `run` or `audits resume` continue audits that were running. Followers of the change feed must start over.',
    examples: [
      'seller-mirror restore mirror.tar.gz --check',
      'DATA_DIR=./elsewhere seller-mirror restore mirror.tar.gz',
    ],
    options: ['json'],
  }).action(action(restoreFrom));
}

async function restoreFrom(
  signal: AbortSignal,
  file: string,
  options: RestoreOptions,
): Promise<void> {
  const { replace = false, check = false } = options;
  await assertReadable(file);
  const open = () => createReadStream(file, { highWaterMark: 1 << 18 });
  const manifest = await checkBackup(open, signal).catch((error: unknown) => {
    if (!(error instanceof NotABackupError)) throw error;
    throw new CommandError(`${safeLine(file)} is not a seller-mirror backup`, NAME_A_BACKUP);
  });
  if (!check) {
    const { databaseUrl, dataDir } = await configFor('store');
    const applicationName = 'seller-mirror restore';
    const opening = openDatabase({ databaseUrl, dataDir, applicationName, signal });
    const database = await unlessAborted(opening, signal);
    const progress = new Progress('restore');
    const onProgress = (rows: number, total: number): void => progress.update(rows, { total });
    try {
      await restore(database.url, open, manifest, { replace, signal, onProgress });
    } finally {
      progress.finish();
      await database.close();
    }
  }
  await printResult(options, { file, restored: !check, ...contentsJson(manifest) }, () => {
    const contents = `  ${contentsText(manifest)}\n`;
    if (check) return `✓ ${safeLine(file)} is complete\n${contents}`;
    const next = `  \`${ownCommand()} sync\` brings it up to date\n`;
    return `✓ restored from ${safeLine(file)}\n${contents}${next}`;
  });
}

async function assertReadable(file: string): Promise<void> {
  const problem = await stat(file).then(
    (found) => (found.isFile() ? null : 'not an ordinary file'),
    (error: unknown) => {
      const code = errorCode(error);
      return code === 'ENOENT' ? 'there is no such file' : `it can't be read (${code})`;
    },
  );
  if (problem !== null) throw usageError(`${safeLine(file)}: ${problem}`, NAME_A_BACKUP);
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

function contentsJson({ createdAt, migrations, tables }: BackupManifest): object {
  const rows = Object.fromEntries(tables.map((table) => [table.name, table.rows]));
  return { createdAt, migrations, rows };
}
