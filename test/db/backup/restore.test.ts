import { buffer } from 'node:stream/consumers';
import { setTimeout as pause } from 'node:timers/promises';
import { gunzipSync, gzipSync } from 'node:zlib';
import fc from 'fast-check';
import { Client } from 'pg';
import { extract, pack } from 'tar-stream';
import { beforeAll, describe, expect, it } from 'vitest';
import { BackupError, NotABackupError } from '../../../src/db/backup/format.js';
import { checkBackup, restore } from '../../../src/db/backup/restore.js';
import { never } from '../../support/mirror.js';
import { createTestDatabase, query } from '../../support/postgres.js';
import { openDb, assertWritable } from '../../../src/db/db.js';
import { recordHeartbeat } from '../../../src/service/processes-store.js';
import { backupOf, database, fileOf, restoreInto, rowsIn } from './support.js';

const FILL = [
  `INSERT INTO mirror.sellers (seller_id, marketplace) VALUES ('main', 'a'), ('other', 'b')`,
  `INSERT INTO mirror.purchase_codes (seller_id, code, raw)
   SELECT 'main', 'code-' || n, jsonb_build_object('n', md5(n::text)) FROM generate_series(1, 3000) n`,
];

let bytes: Buffer;
beforeAll(async () => {
  const source = await createTestDatabase();
  await query(source.url, ...FILL);
  bytes = await backupOf(source.url);
  await source.drop();
});

/** A store with data that the backup does not have. */
async function filled(): Promise<string> {
  const { url } = await database();
  await query(url, `INSERT INTO mirror.sellers (seller_id, marketplace) VALUES ('mine', 'c')`);
  return url;
}

describe('restoring', () => {
  it('refuses a store that has data, unless `replace` is set', async () => {
    const url = await filled();
    const before = await rowsIn(url);
    await expect(restoreInto(url, bytes)).rejects.toThrow('the store has data');
    expect(await rowsIn(url)).toEqual(before);
    await restoreInto(url, bytes, { replace: true });
    expect((await rowsIn(url))['sellers']).toHaveLength(2);
  });

  it('drops paths of result files, which belong to the machine of the backup', async () => {
    const source = await createTestDatabase();
    const audit = `INSERT INTO mirror.audits (seller_id, state, source, layout, columns, lines,
        rejected, codes, reused, valid, invalid, unproven, pending, result_path, result_format)
      VALUES ('main', 'running', 'x', '{}', '{}', 0, 0, 0, 0, 0, 0, 0, 0, '/etc/passwd', 'csv')`;
    await query(source.url, ...FILL, audit);
    const backup = await backupOf(source.url);
    await source.drop();
    const { url } = await database();
    await restoreInto(url, backup);
    expect((await rowsIn(url))['audits']).toEqual([expect.not.stringContaining('/etc/passwd')]);
  });

  it('refuses a store that other processes use, even if they are not connected just now', async () => {
    const { url } = await database();
    const db = openDb(url, 'seller-mirror worker');
    await assertWritable(db);
    await expect(restoreInto(url, bytes)).rejects.toThrow('in use by seller-mirror worker');
    const processId = '5f0c5e6e-7d0e-4a3e-9b57-0f0e0c0d0b0a';
    const self = { roles: ['worker'], host: 'box', pid: 7, startedAt: new Date(), schedules: [] };
    await recordHeartbeat(db, { processId, ...self });
    await db.close();
    await expect(restoreInto(url, bytes)).rejects.toThrow('in use by worker (process 7 on box)');
    expect((await rowsIn(url))['sellers']).toEqual([]);
  });

  it('waits for connections that are about to end', async () => {
    const { url } = await database();
    const name = 'seller-mirror migrate';
    const leaving = new Client({ connectionString: url, application_name: name });
    await leaving.connect();
    const restored = restoreInto(url, bytes);
    await pause(300);
    await leaving.end();
    await restored;
    expect((await rowsIn(url))['sellers']).toHaveLength(2);
  });

  it('refuses a file that was cut off or changed anywhere', async () => {
    const place = fc.integer({ min: 0, max: bytes.length - 1 });
    const damaged = fc.oneof(
      place.map((length) => bytes.subarray(0, length)),
      fc.tuple(place, fc.integer({ min: 1, max: 255 })).map(([where, change]) => {
        const copy = Buffer.from(bytes);
        copy[where] = (copy[where] ?? 0) ^ change;
        return copy;
      }),
    );
    await fc.assert(
      fc.asyncProperty(damaged, async (file) => {
        try {
          await checkBackup(fileOf(file), never);
        } catch (error) {
          expect(error).toBeInstanceOf(BackupError);
          return;
        }
        // The change was harmless, for example in the time of the gzip header.
        expect(gunzipSync(file).equals(gunzipSync(bytes))).toBe(true);
      }),
      { numRuns: 60 },
    );
  }, 120_000);

  it('refuses a file that lacks rows or has rows twice, and leaves the store unchanged', async () => {
    const url = await filled();
    const before = await rowsIn(url);
    const files = await filesIn(bytes);
    const part = files.findIndex(({ name }) => name.startsWith('purchase_codes/'));
    const [one] = files.slice(part, part + 1);
    for (const changed of [
      files.toSpliced(part, 1),
      [...files, ...(one === undefined ? [] : [one])],
    ]) {
      const file = await archiveOf(changed);
      await expect(restoreInto(url, file, { replace: true })).rejects.toThrow(
        'the backup is damaged: ',
      );
      expect(await rowsIn(url)).toEqual(before);
    }
  });

  it('repeats no number, neither of the backup nor of the store that it replaced', async () => {
    const url = await filled();
    await query(url, `SELECT setval('mirror.item_changes_seq_seq', 70)`);
    await restoreInto(url, bytes, { replace: true });
    const next = `SELECT nextval('mirror.purchase_codes_code_id_seq') AS code,
                         nextval('mirror.item_changes_seq_seq') AS change`;
    expect(await query(url, next)).toEqual([{ code: '3001', change: '71' }]);
  });

  it('tells followers of the change feed to start over, by another epoch', async () => {
    const { url } = await database();
    const epoch = async () => (await query(url, 'SELECT epoch FROM mirror.epochs'))[0]?.['epoch'];
    const before = await epoch();
    await restoreInto(url, bytes);
    expect(await epoch()).not.toBe(before);
  });

  it('distinguishes a file that is no backup from a damaged one', async () => {
    const others = [
      Buffer.from('name;city\n'),
      Buffer.alloc(0),
      gzipSync('hello'),
      await archiveOf([{ name: 'photo.jpg', data: Buffer.from('x') }]),
      Buffer.from('PGDMP\x01\x0e'),
    ];
    for (const file of others) {
      await expect(checkBackup(fileOf(file), never)).rejects.toThrow(NotABackupError);
    }
    const cut = bytes.subarray(0, bytes.length - 1);
    await expect(checkBackup(fileOf(cut), never)).rejects.toThrow('the backup is damaged');
  });

  it('refuses a backup of another version, which has other tables', async () => {
    const source = await database();
    await query(
      source.url,
      `INSERT INTO mirror._prisma_migrations (id, checksum, finished_at, migration_name)
       VALUES ('x', 'x', now(), '20991231000000_future')`,
    );
    const { url } = await database();
    await expect(restoreInto(url, await backupOf(source.url))).rejects.toThrow('another version');
  });

  it('leaves the store unchanged if the file ends in the middle, or the user aborts', async () => {
    const url = await filled();
    const before = await rowsIn(url);
    const cut = bytes.subarray(0, bytes.length - 500);
    await expect(restoreInto(url, cut, { replace: true })).rejects.toThrow('damaged');
    expect(await rowsIn(url)).toEqual(before);
    const stopping = new AbortController();
    const stop = { replace: true, signal: stopping.signal, onProgress: () => stopping.abort() };
    await expect(restore(url, fileOf(bytes), stop)).rejects.toThrow();
    expect(await rowsIn(url)).toEqual(before);
  });
});

interface ArchiveFile {
  readonly name: string;
  readonly data: Buffer;
}

/** The files in a backup, for a test to change. */
async function filesIn(archive: Buffer): Promise<ArchiveFile[]> {
  const entries = extract();
  entries.end(gunzipSync(archive));
  const files: ArchiveFile[] = [];
  for await (const entry of entries)
    files.push({ name: entry.header.name, data: await buffer(entry) });
  return files;
}

async function archiveOf(files: readonly ArchiveFile[]): Promise<Buffer> {
  const archive = pack();
  for (const { name, data } of files) archive.entry({ name }, data);
  archive.finalize();
  return gzipSync(await buffer(archive));
}
