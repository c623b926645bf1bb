import { cp, mkdtemp, readdir, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as pause } from 'node:timers/promises';
import { gunzipSync, gzipSync } from 'node:zlib';
import fc from 'fast-check';
import { Client } from 'pg';
import { beforeAll, describe, expect, it, onTestFinished } from 'vitest';
import { BackupError } from '../../../src/store/backup/error.js';
import { checkBackup, restore } from '../../../src/store/backup/restore.js';
import { migrate, migrationState } from '../../../src/store/migrate.js';
import { MIGRATIONS_FOLDER } from '../../../src/store/migrate/files.js';
import { Store } from '../../../src/store/store.js';
import { never } from '../../support/mirror.js';
import { createTestDatabase } from '../../support/postgres.js';
import { backupOf, database, execute, fileOf, restoreInto, rowsIn } from './support.js';

const FILL = [
  `INSERT INTO mirror.sellers (seller_id, marketplace) VALUES ('main', 'a'), ('other', 'b')`,
  `INSERT INTO mirror.purchase_codes (seller_id, code, raw)
   SELECT 'main', 'code-' || n, jsonb_build_object('n', md5(n::text)) FROM generate_series(1, 3000) n`,
];

let bytes: Buffer;
beforeAll(async () => {
  const source = await createTestDatabase();
  await execute(source.url, ...FILL);
  bytes = await backupOf(source.url);
  await source.drop();
});

/** A store with other data than the backup has. */
async function filled(): Promise<string> {
  const { url } = await database();
  await execute(url, `INSERT INTO mirror.sellers (seller_id, marketplace) VALUES ('mine', 'c')`);
  return url;
}

describe('restoring', () => {
  it('refuses a store that has data unless told to replace it', async () => {
    const url = await filled();
    const before = await rowsIn(url);
    await expect(restoreInto(url, bytes)).rejects.toThrow('the store has data');
    expect(await rowsIn(url)).toEqual(before);
    await restoreInto(url, bytes, { replace: true });
    expect((await rowsIn(url))['sellers']).toHaveLength(2);
  });

  it('refuses a store that other processes use, whether or not they are connected just now', async () => {
    const { url } = await database();
    const store = new Store(url, 'seller-mirror worker');
    await store.ping();
    await expect(restoreInto(url, bytes)).rejects.toThrow('in use by seller-mirror worker');
    const self = { roles: ['worker'], host: 'box', pid: 7, startedAt: new Date() };
    await store.audits.beat({ processId: '5f0c5e6e-7d0e-4a3e-9b57-0f0e0c0d0b0a', ...self });
    await store.close();
    await expect(restoreInto(url, bytes)).rejects.toThrow('in use by worker (process 7 on box)');
    expect((await rowsIn(url))['sellers']).toEqual([]);
  });

  it('waits for connections that are about to end, such as those of the command before', async () => {
    const { url } = await database();
    const leaving = new Client({
      ...{ connectionString: url, application_name: 'seller-mirror migrate' },
    });
    await leaving.connect();
    const restored = restoreInto(url, bytes);
    await pause(300);
    await leaving.end();
    await restored;
    expect((await rowsIn(url))['sellers']).toHaveLength(2);
  });

  it('refuses a file that was cut off or changed anywhere, before it touches the store', async () => {
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
        // What was changed says nothing, such as the time in the head of the compressed file.
        expect(gunzipSync(file).equals(gunzipSync(bytes))).toBe(true);
      }),
      { numRuns: 60 },
    );
  }, 120_000);

  it('refuses a file whose rows are not those that were written, though it unpacks', async () => {
    const tar = gunzipSync(bytes);
    tar.write('code-X', tar.indexOf('code-1'));
    await expect(checkBackup(fileOf(gzipSync(tar)), never)).rejects.toThrow(
      'the rows of purchase_codes are not those that were written',
    );
    await expect(checkBackup(fileOf(gzipSync('hello')), never)).rejects.toThrow(BackupError);
    await expect(checkBackup(fileOf(Buffer.from('hello')), never)).rejects.toThrow(BackupError);
    await expect(checkBackup(fileOf(Buffer.alloc(0)), never)).rejects.toThrow(BackupError);
  });

  it('refuses what a newer version of the program wrote', async () => {
    const { url } = await database();
    await execute(
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

  it('leaves the store as it was when the file goes bad in the middle, or the user stops it', async () => {
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

  it('brings what an older version wrote up to date, keeps grants, and loses no view of others', async () => {
    const old = await olderStore(3);
    await execute(
      old,
      `INSERT INTO mirror.sellers (seller_id, marketplace) VALUES ('main', 'a')`,
      `INSERT INTO mirror.items (seller_id, item_id, name, state, first_seen_at, changed_at,
         synced_run_id, content_hash, extra_hash, wire_hash, extra, raw)
       VALUES ('main', 7, 'Seven', 'live', now(), '2026-01-01Z', 1, '', '', '', '{}', '{}')`,
    );
    const older = await backupOf(old);
    const url = await filled();
    await execute(
      url,
      'GRANT USAGE ON SCHEMA reporting TO PUBLIC',
      'GRANT SELECT ON reporting.items TO PUBLIC',
      'ALTER DEFAULT PRIVILEGES IN SCHEMA reporting GRANT SELECT ON TABLES TO PUBLIC',
      'CREATE VIEW public.theirs AS SELECT * FROM reporting.items',
    );
    const before = await rowsIn(url);
    await expect(restoreInto(url, older, { replace: true })).rejects.toThrow('theirs');
    expect(await rowsIn(url)).toEqual(before);
    await execute(url, 'DROP VIEW public.theirs');
    await restoreInto(url, older, { replace: true });
    expect(await execute(url, 'SELECT name, valid_from FROM reporting.item_history')).toEqual([
      { name: 'Seven', valid_from: new Date('2026-01-01Z') },
    ]);
    const state = await migrationState(url);
    expect(state).toMatchObject({ pending: [], failed: [], unknown: [] });
    const granted = `SELECT has_table_privilege('public', 'reporting.items', 'SELECT') AS items`;
    expect(await execute(url, granted)).toEqual([{ items: true }]);
    // And what later versions will add, as prisma/grants.sql has it.
    await execute(url, 'CREATE VIEW reporting.later AS SELECT 1 AS one');
    const later = `SELECT has_table_privilege('public', 'reporting.later', 'SELECT') AS later`;
    expect(await execute(url, later)).toEqual([{ later: true }]);
    await execute(url, 'DROP VIEW reporting.later');
    const fresh = await database();
    const shape = `SELECT table_name, column_name, data_type FROM information_schema.columns
      WHERE table_schema IN ('mirror', 'reporting') ORDER BY 1, 2`;
    expect(await execute(url, shape)).toEqual(await execute(fresh.url, shape));
  });
});

/** An empty store as a version with so many migrations made it. */
async function olderStore(migrations: number): Promise<string> {
  const folder = await mkdtemp(join(tmpdir(), 'seller-mirror-older-'));
  onTestFinished(() => rm(folder, { recursive: true }));
  const names = (await readdir(MIGRATIONS_FOLDER)).filter((name) => /^\d/.test(name)).sort();
  for (const name of names.slice(0, migrations)) {
    await cp(join(MIGRATIONS_FOLDER, name), join(folder, name), { recursive: true });
  }
  const { url } = await database({ empty: true });
  await migrate(url, folder);
  return url;
}
