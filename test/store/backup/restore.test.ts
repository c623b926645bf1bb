import { createHash } from 'node:crypto';
import { Readable } from 'node:stream';
import { setTimeout as pause } from 'node:timers/promises';
import { gunzipSync, gzipSync } from 'node:zlib';
import fc from 'fast-check';
import { Client } from 'pg';
import { beforeAll, describe, expect, it } from 'vitest';
import {
  BackupError,
  type BackupManifest,
  MANIFEST_FILE,
  NotABackupError,
  readTar,
  TAR_END,
  tarFile,
  type TarFile,
} from '../../../src/store/backup/format.js';
import { checkBackup, restore } from '../../../src/store/backup/restore.js';
import { never } from '../../support/mirror.js';
import { createTestDatabase, query } from '../../support/postgres.js';
import { openDb, assertWritable } from '../../../src/store/db.js';
import { recordHeartbeat } from '../../../src/store/processes.js';
import { backupOf, database, fileOf, restoreInto, rowsIn } from './support.js';

const FILL = [
  `INSERT INTO mirror.sellers (seller_id, marketplace) VALUES ('main', 'a'), ('other', 'b')`,
  `INSERT INTO mirror.purchase_codes (seller_id, code, raw)
   SELECT 'main', 'code-' || n, jsonb_build_object('n', md5(n::text)) FROM generate_series(1, 3000) n`,
];

const CODE_IDS = 'purchase_codes_code_id_seq';

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
    const audit = `INSERT INTO mirror.audits (seller_id, state, source, layout, columns, chunk_size, lines,
        rejected, codes, reused, valid, invalid, unproven, pending, result_path, result_format)
      VALUES ('main', 'running', 'x', '{}', '{}', 1, 0, 0, 0, 0, 0, 0, 0, 0, '/etc/passwd', 'csv')`;
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

  it('refuses a file with changed rows that decompresses without an error', async () => {
    const tar = gunzipSync(bytes);
    tar.write('code-X', tar.indexOf('code-1'));
    await expect(checkBackup(fileOf(gzipSync(tar)), never)).rejects.toThrow(
      'the rows of purchase_codes do not match their hash',
    );
  });

  it.each([String(2n ** 63n - 1n), '9'.repeat(30)])(
    'refuses a file with a sequence at %s, which has too few numbers left',
    async (last) => {
      const file = await rewritten(({ manifest }) => setLast(manifest, CODE_IDS, last));
      await expect(checkBackup(fileOf(file), never)).rejects.toThrow(
        `the backup is damaged: its sequence ${CODE_IDS} has too few numbers left`,
      );
    },
  );

  it.each<[why: string, change: (parts: Parts) => void]>([
    ['is behind the numbers in rows', ({ manifest }) => setLast(manifest, CODE_IDS, '2999')],
    ['was never used', ({ manifest }) => setLast(manifest, CODE_IDS, null)],
    ['is not in the file', ({ manifest }) => manifest.sequences.splice(0)],
  ])('repeats no number if a sequence %s', async (_why, change) => {
    const { url } = await database();
    const file = await rewritten((parts) => {
      change(parts);
      parts.rows.set('purchase_codes', withCell(parts.rows.get('purchase_codes') ?? '', 23, '7'));
    });
    await restoreInto(url, file);
    const next = `SELECT nextval('mirror.${CODE_IDS}') AS code,
                         nextval('mirror.item_changes_seq_seq') AS change`;
    expect(await query(url, next)).toEqual([{ code: '3001', change: '8' }]);
  });

  it.each<[why: string, rows: (rows: string) => string]>([
    ['have a null in a NOT NULL column', (rows) => withCell(rows, 1, '\\N')],
    ['lack a cell', (rows) => rows.replace(/\t[^\t\n]*\n/, '\n')],
    ['are repeated', (rows) => rows.replace('\n', `\n${rows.slice(0, rows.indexOf('\n') + 1)}`)],
    ['have an end mark in the middle', (rows) => rows.replace('\n', '\n\\.\n')],
    ['begin with an end mark', (rows) => `\\.\n${rows}`],
    ['lack the last line end', (rows) => rows.slice(0, -1)],
    ['have a number in hex', (rows) => rows.replace(/\n3000\t/, '\n0x7FFFFFFFFFFFFFFF\t')],
  ])('refuses rows that %s as damaged, and leaves the store unchanged', async (_why, change) => {
    const file = await rewritten(({ rows }) => {
      rows.set('purchase_codes', change(rows.get('purchase_codes') ?? ''));
    });
    const url = await filled();
    const before = await rowsIn(url);
    await expect(restoreInto(url, file, { replace: true })).rejects.toThrow(
      'the backup is damaged: ',
    );
    expect(await rowsIn(url)).toEqual(before);
  });

  it('distinguishes a file that is no backup from a damaged one', async () => {
    const others = [
      Buffer.from('name;city\n'),
      Buffer.alloc(0),
      gzipSync('hello'),
      gzipSync(tarFile({ name: 'photo.jpg', data: Buffer.from('x') }, new Date())),
      Buffer.from('PGDMP\x01\x0e'),
    ];
    for (const file of others) {
      await expect(checkBackup(fileOf(file), never)).rejects.toThrow(NotABackupError);
    }
    const cut = bytes.subarray(0, bytes.length - 1);
    await expect(checkBackup(fileOf(cut), never)).rejects.toThrow('the backup is damaged');
  });

  it('refuses a backup of a newer version', async () => {
    const { url } = await database();
    await query(
      url,
      `INSERT INTO mirror._prisma_migrations (id, checksum, finished_at, migration_name)
       VALUES ('x', 'x', now(), '20991231000000_future')`,
    );
    const newer = await backupOf(url);
    await expect(checkBackup(fileOf(newer), never)).rejects.toThrow('20991231000000_future');
    const tar = gunzipSync(bytes);
    tar.write('"format": 2', tar.indexOf('"format": 1'));
    await expect(checkBackup(fileOf(gzipSync(tar)), never)).rejects.toThrow('format 2');
  });

  it('leaves the store unchanged if the file ends in the middle, or the user aborts', async () => {
    const url = await filled();
    const before = await rowsIn(url);
    const manifest = await checkBackup(fileOf(bytes), never);
    const options = { replace: true, signal: never };
    const cut = fileOf(bytes.subarray(0, bytes.length - 500));
    await expect(restore(url, cut, manifest, options)).rejects.toThrow('damaged');
    expect(await rowsIn(url)).toEqual(before);
    const stopping = new AbortController();
    const stop = { ...options, signal: stopping.signal, onProgress: () => stopping.abort() };
    await expect(restore(url, fileOf(bytes), manifest, stop)).rejects.toThrow();
    expect(await rowsIn(url)).toEqual(before);
  });
});

/** The contents of a backup, for a test to change. */
interface Parts {
  /** Rows of each table. */
  readonly rows: Map<string, string>;
  readonly manifest: Manifest;
}

type Manifest = {
  -readonly [key in keyof BackupManifest]: BackupManifest[key];
} & { sequences: { name: string; last: string | null }[] };

function setLast({ sequences }: Manifest, name: string, last: string | null): void {
  const sequence = sequences.find((one) => one.name === name);
  if (sequence === undefined) throw new Error(`there is no sequence ${name}`);
  sequence.last = last;
}

/** The rows with a new value in one cell of the first row. */
function withCell(rows: string, place: number, value: string): string {
  const end = rows.indexOf('\n');
  const cells = rows.slice(0, end).split('\t');
  cells[place] = value;
  return cells.join('\t') + rows.slice(end);
}

/** A changed backup whose hashes and counts are correct. */
async function rewritten(change: (parts: Parts) => void): Promise<Buffer> {
  const files: TarFile[] = [];
  for await (const file of readTar(Readable.from([gunzipSync(bytes)]))) files.push(file);
  const manifest = JSON.parse(files.pop()?.data.toString() ?? '') as Manifest;
  const rows = new Map<string, string>();
  for (const { name, data } of files.slice(1)) {
    const table = name.split('/')[0] ?? '';
    rows.set(table, (rows.get(table) ?? '') + data.toString());
  }
  change({ rows, manifest });
  manifest.tables = manifest.tables.map((table) => {
    const data = rows.get(table.name) ?? '';
    const sha256 = createHash('sha256').update(data).digest('hex');
    const lines = data.split('\n').length - 1;
    return { ...table, rows: lines, bytes: Buffer.byteLength(data), sha256 };
  });
  const written = [
    ...files.slice(0, 1),
    ...[...rows].map(([table, data]) => ({
      name: `${table}/000001.copy`,
      data: Buffer.from(data),
    })),
    { name: MANIFEST_FILE, data: Buffer.from(JSON.stringify(manifest)) },
  ];
  const now = new Date();
  return gzipSync(Buffer.concat([...written.map((file) => tarFile(file, now)), TAR_END]));
}
