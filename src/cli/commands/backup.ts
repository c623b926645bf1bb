import { UserError } from '../../domain/user-error.js';
import { stat } from 'node:fs/promises';
import { Option, type Command } from 'commander';
import { errorCode } from '../../domain/error-code.js';
import { moment } from '../../domain/moment.js';
import { bytes, plural, duration } from '../../domain/text.js';
import { assertWritable, writeWhole } from '../../listing/write-file.js';
import { type BackupManifest, backUp, checkBackup, openBackup, restore } from '../../db/backup.js';
import { openDatabase, openUnmigrated } from '../../db/open.js';
import { printNote, printResult } from '../console.js';
import { usageError, writtenOrFailed } from '../errors.js';
import { action, databaseOptions, readSettings, unlessAborted, withApp } from '../execute.js';
import { takeOverFeed } from './feed.js';
import { type CommonOptions, describeCommand } from '../options.js';
import { withProgress } from '../output/progress.js';
import { safeLine } from '../output/text.js';
import { writeAll } from '../output/write.js';
import { ownCommand } from '../own-command.js';

export function add(program: Command): void {
  const command = program
    .command('backup')
    .argument('<file>', 'the file; an old one is replaced; - is stdout');
  describeCommand(command, {
    about:
      'Writes the whole store, as of one moment, into one compressed file. Syncs and checks go on meanwhile. The file appears only when it is complete. Only its owner can read it, since it holds whole purchase codes; it holds no API keys. `restore` reads it, also into another kind of store, with this version of the program or a newer one.',
    notes:
      'For a large store on your own database server, its tools (pg_dump, replicas) are faster; this command works too.',
    examples: [
      'seller-mirror backup mirror.tar.gz',
      'seller-mirror backup "/backups/mirror-$(date +%a).tar.gz"',
      'seller-mirror backup - | ssh vault "cat > mirror.tar.gz"',
    ],
    options: ['json', 'quiet'],
  }).action(action(backupTo));
}

async function backupTo(signal: AbortSignal, file: string, options: CommonOptions): Promise<void> {
  const isPipe = file === '-';
  if (isPipe && process.stdout.isTTY) {
    throw usageError(
      'a backup can’t be shown on a terminal',
      'name a file, or give stdout to another program: backup - | ssh …',
    );
  }
  if (!isPipe) await assertWritable(file);
  const started = performance.now();
  const database = databaseOptions('backup', signal);
  // Not migrated, so that the store can be backed up before this version migrates it.
  const store = await unlessAborted(openUnmigrated(database), signal);
  if (store === null) {
    throw new UserError(
      `there is no database in ${database.dataDir} yet`,
      'DATA_DIR says where it is; `seller-mirror sync` creates one',
      'FAILED',
    );
  }
  const write = (pieces: AsyncIterable<Uint8Array>): Promise<void> =>
    isPipe ? writePipe(pieces) : writtenOrFailed(writeWhole(file, pieces, signal));
  let manifest: BackupManifest;
  try {
    manifest = await withProgress('backup', async (progress) => {
      const onProgress = (rows: number, total: number): void => progress.update(rows, { total });
      return backUp(store.url, write, { signal, onProgress });
    });
  } finally {
    await store.close();
  }
  if (isPipe) {
    printNote(`✓ ${contentsText(manifest)}\n`);
    return;
  }
  const { size } = await stat(file);
  const took = duration(performance.now() - started);
  await printResult(
    options,
    { file, bytes: size, ...contentsJson(manifest) },
    () => `✓ ${safeLine(file)} · ${bytes(size)} in ${took}\n  ${contentsText(manifest)}\n`,
  );
}

/** Writes a backup to stdout. A reader that leaves early has no backup, so that is an error. */
async function writePipe(pieces: AsyncIterable<Uint8Array>): Promise<void> {
  if (await writeAll(process.stdout, pieces)) return;
  throw new UserError(
    'the program that reads the backup ended before it was complete',
    'see what it printed, then repeat',
    'FAILED',
  );
}

const NAME_A_BACKUP = 'name a file that `seller-mirror backup` wrote';

interface RestoreOptions extends CommonOptions {
  readonly replace?: boolean;
  readonly takeOverFeeds?: boolean;
  readonly check?: boolean;
}

export function addRestore(program: Command): void {
  const check = new Option('--check', 'only check that the file can be restored');
  const command = program
    .command('restore')
    .argument('<file>', 'the backup')
    .option('--replace', 'delete what the store holds now')
    .option('--take-over-feeds', 'then make this store the owner of its feeds’ tables')
    .addOption(check.conflicts(['replace', 'takeOverFeeds']));
  describeCommand(command, {
    about:
      'Restores a backup into an empty store or, with --replace, over the contents of one. It changes everything or nothing. No other process may use the store meanwhile.',
    notes:
      'Then `sync` brings the copy up to date, and `run` or `audits resume` continues checks that were running. The tables of feeds hold what was there before, so their feeds stop until this store takes them over.',
    examples: [
      'seller-mirror restore mirror.tar.gz --check',
      'DATA_DIR=./elsewhere seller-mirror restore mirror.tar.gz',
    ],
    options: ['json', 'quiet'],
  }).action(action(restoreFrom));
}

async function restoreFrom(
  signal: AbortSignal,
  file: string,
  options: RestoreOptions,
): Promise<void> {
  const { replace = false, check = false, takeOverFeeds = false } = options;
  await assertReadable(file);
  const backup = await openBackup(file);
  const { manifest } = backup;
  if (check) await checkBackup(backup, signal);
  else {
    const opening = openDatabase(databaseOptions('restore', signal));
    const database = await unlessAborted(opening, signal);
    try {
      await withProgress('restore', (progress) => {
        const onProgress = (rows: number, total: number): void => progress.update(rows, { total });
        return restore(database.url, backup, { replace, signal, onProgress });
      });
    } finally {
      await database.close();
    }
  }
  const feeds = check ? [] : await feedsAfter(takeOverFeeds, signal);
  await printResult(options, { file, restored: !check, ...contentsJson(manifest), feeds }, () => {
    const contents = `  ${contentsText(manifest)}\n`;
    if (check) return `✓ ${safeLine(file)} is complete\n${contents}`;
    const next = `  \`${ownCommand()} sync\` brings it up to date\n`;
    const steps = feeds.map(({ feed, problem }) =>
      problem === null
        ? `  feed ${feed}: this store fills its tables\n`
        : `  feed ${feed}: ${safeLine(problem)}\n    → \`${ownCommand()} feed take-over ${feed}\`\n`,
    );
    return `✓ restored from ${safeLine(file)}\n${contents}${next}${steps.join('')}`;
  });
}

/** What becomes of the configured feeds. @returns for each, why it waits for a person; null if it does not */
async function feedsAfter(
  isTakeOver: boolean,
  signal: AbortSignal,
): Promise<{ readonly feed: string; readonly problem: string | null }[]> {
  const { feeds } = readSettings('store');
  if (feeds.length === 0) return [];
  if (!isTakeOver) {
    const problem = 'its tables may hold what was here before';
    return feeds.map((feed) => ({ feed: feed.name, problem }));
  }
  return withApp('restore', 'store', signal, async (app) => {
    const done: { feed: string; problem: string | null }[] = [];
    for (const feed of feeds) {
      const problem = await takeOverFeed(app, feed).then(
        () => null,
        (error: unknown) => {
          if (!(error instanceof UserError)) throw error;
          return `${error.message}: ${error.remedy}`;
        },
      );
      done.push({ feed: feed.name, problem });
    }
    return done;
  });
}

async function assertReadable(file: string): Promise<void> {
  const problem = await stat(file).then(
    (found) => (found.isFile() ? null : 'not an ordinary file'),
    (error: unknown) => {
      const code = errorCode(error);
      return code === 'ENOENT' ? 'there is no such file' : `it can’t be read (${code})`;
    },
  );
  if (problem !== null) throw usageError(`${safeLine(file)}: ${problem}`, NAME_A_BACKUP);
}

/** The tables that a summary counts, each with the noun for one row. */
const COUNTED: Readonly<Record<string, string>> = {
  sellers: 'seller',
  items: 'item',
  item_versions: 'superseded state',
  item_changes: 'change',
  purchase_codes: 'purchase code',
  code_checks: 'answer',
  audits: 'check',
  runs: 'run',
};

/** Summary of a backup: `the state of 2026-11-21 02:00:12Z: 1 seller · 100 items`. */
function contentsText({ createdAt, tables }: BackupManifest): string {
  const parts = Object.entries(COUNTED).flatMap(([table, noun]) => {
    const rows = tables[table] ?? 0;
    return rows === 0 ? [] : [plural(rows, noun)];
  });
  return `the state of ${moment(new Date(createdAt))}: ${parts.join(' · ') || 'no rows'}`;
}

function contentsJson({ createdAt, migrations, tables }: BackupManifest): object {
  return { createdAt, migrations, rows: tables };
}
