import { spawnSync } from 'node:child_process';
import { existsSync, mkdtempSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { buffer } from 'node:stream/consumers';
import { setTimeout as pause } from 'node:timers/promises';
import { gunzipSync, gzipSync } from 'node:zlib';
import fc from 'fast-check';
import { Client } from 'pg';
import { extract, pack } from 'tar-stream';
import { beforeAll, describe, expect, it, onTestFinished } from 'vitest';
import {
  codesMarket,
  codesOf,
  type Ended,
  fileWith,
  folder,
  MAIN,
  marketOf,
  printed,
  run,
  settings,
} from '../cli/support.js';
import { KEY, useMirror } from '../support/mirror.js';
import { createTestDatabase, query } from '../support/postgres.js';
import { database, rowsIn } from './support.js';

const mirror = useMirror();
const matching = (pattern: RegExp) => expect.stringMatching(pattern) as string;

let files = 0;
const freeFile = (): string => join(folder(), `backup-${++files}.tar.gz`);

/** Writes a backup of a database. @returns its path */
async function backupOf(url: string): Promise<string> {
  const file = freeFile();
  await printed(['backup', file], { DATABASE_URL: url });
  return file;
}

function restore(url: string, file: string, ...more: string[]): Promise<Ended> {
  return run(['restore', file, ...more], { DATABASE_URL: url });
}

/** Two sellers and 3,000 codes. */
const FILL = [
  `INSERT INTO mirror.sellers (seller_id, marketplace) VALUES ('main', 'a'), ('other', 'b')`,
  `INSERT INTO mirror.purchase_codes (seller_id, code, raw)
   SELECT 'main', 'code-' || n, jsonb_build_object('n', md5(n::text)) FROM generate_series(1, 3000) n`,
];

/** A backup of such a store. Tests only read it. */
let filled = '';
beforeAll(async () => {
  const made = await createTestDatabase();
  await query(made.url, ...FILL);
  filled = join(mkdtempSync(join(tmpdir(), 'seller-mirror-filled-')), 'filled.tar.gz');
  await printed(['backup', filled], { DATABASE_URL: made.url });
  await made.drop();
  return () => rmSync(dirname(filled), { recursive: true });
});

/** A store with data that the backup does not have. */
async function otherStore(): Promise<string> {
  const url = await database();
  await query(url, `INSERT INTO mirror.sellers (seller_id, marketplace) VALUES ('mine', 'c')`);
  return url;
}

describe('backup and restore', () => {
  it('copy a mirror into another store, which is then current and can sync', async () => {
    const { sim, env } = await marketOf(mirror());
    await printed(['sync'], env);
    const file = freeFile();
    expect(await printed(['backup', file], env)).toMatch(
      /^✓ .*\.tar\.gz · [\d.]+ kB in .*\n {2}the state of .*Z: 1 seller · 12 items · 2 runs\n$/,
    );
    expect(statSync(file).mode & 0o777).toBe(0o600);
    expect(gunzipSync(readFileSync(file)).includes(KEY)).toBe(false);

    const target = await database();
    const other = settings(target, sim.url);
    expect(await printed(['restore', file], other)).toContain('sync` brings it up to date');
    expect(await rowsIn(target)).toEqual(await rowsIn(mirror().databaseUrl));
    expect(await printed(['status'], other)).toMatch(/items +12 live/);
    expect(await printed(['sync'], other)).toContain('12 unchanged');
  });

  it('keep every value, whatever its characters', async () => {
    const { databaseUrl } = mirror();
    // PostgreSQL holds no NUL and no half of a surrogate pair.
    const text = fc.string({ unit: 'grapheme-composite', maxLength: 30 });
    const odd = fc.constantFrom(
      ...['', 'NULL', '{"a\\', 'a,b', '\n\t\\N\\.\r', '\\.', 'ü', '🙂', '\u0001'],
    );
    const values = fc.record({
      texts: fc.array(
        fc.oneof(text, odd).map((one) => one.replaceAll('\0', '')),
        { maxLength: 20 },
      ),
      json: fc.jsonValue().map((one) =>
        JSON.stringify(one)
          .replaceAll(String.raw`\u0000`, '')
          .toWellFormed(),
      ),
      bytes: fc.uint8Array({ maxLength: 40 }),
      cents: fc.integer({ min: -99_999_999, max: 99_999_999 }),
    });
    const client = new Client({ connectionString: databaseUrl });
    await client.connect();
    onTestFinished(() => client.end());
    await client.query(
      `SET search_path = mirror; INSERT INTO sellers (seller_id, marketplace) VALUES ('main', 'x')`,
    );
    for (const [n, { texts, json, bytes, cents }] of fc.sample(values, 200).entries()) {
      await client.query(`INSERT INTO audit_entries VALUES (1, $2, 'main', 1, 1, NULL, $1)`, [
        texts,
        n + 1,
      ]);
      await client.query(`INSERT INTO audit_workbooks VALUES ($2, 'main', 's', NULL, $1)`, [
        Buffer.from(bytes),
        n + 1,
      ]);
      await client.query(
        `INSERT INTO purchase_codes (seller_id, code, raw, price) VALUES ('main', $1, $2, $3)`,
        [`c${n}`, json.includes(String.raw`\ud`) ? '{}' : json, cents / 100],
      );
    }
    const target = await database();
    expect(await restore(target, await backupOf(databaseUrl))).toMatchObject({ code: 0 });
    expect(await rowsIn(target)).toEqual(await rowsIn(databaseUrl));
  });

  it('take one moment, also during syncs and an audit, from which both can continue', async () => {
    const market = await codesMarket(mirror());
    const env = settings(mirror().databaseUrl, market.url);
    await printed(['sync'], env);
    const { catalogue } = market.seller(KEY);
    if (!('change' in catalogue)) throw new Error('a catalogue that can change');
    const list = fileWith(codesOf(market, 200).join('\n'), 'txt');
    let isOver = false;
    const checking = run(['codes', 'check', list, '--yes'], env, { spawned: true });
    const nights = (async () => {
      for (let night = 1; !isOver; night++) {
        for (let id = 1001; id <= 1010; id++) catalogue.change(id, { name: `${id}, ${night}` });
        await run(['sync'], env, { spawned: true });
      }
    })();
    const backups: string[] = [];
    for (let n = 0; n < 3; n++) backups.push(await backupOf(mirror().databaseUrl));
    isOver = true;
    await Promise.all([nights, checking]);
    const target = await database();
    const other = settings(target, market.url);
    for (const file of backups) {
      expect((await restore(target, file, '--replace')).stderr).toBe('');
      expect(await query(target, INCONSISTENCIES)).toEqual([]);
    }
    expect((await run(['sync'], other)).code).toBe(0);
    expect(await printed(['status'], other)).toMatch(/items +20 live/);
    const running = await query(
      target,
      `SELECT audit_id FROM mirror.audits WHERE state = 'running'`,
    );
    for (const { audit_id: id } of running) {
      await run(['audits', 'resume', String(id)], other);
    }
    expect(await query(target, INCONSISTENCIES)).toEqual([]);
    // Two processes work meanwhile, which takes long on a busy machine.
  }, 240_000);
});

describe('a backup', () => {
  it('can go to a pipe, whole or with an error, so that a container needs no volume for it', async () => {
    const { databaseUrl } = mirror();
    await query(databaseUrl, ...FILL);
    const file = freeFile();
    const piped = (to: string) =>
      spawnSync(
        'bash',
        ['-o', 'pipefail', '-c', `"${process.execPath}" "${MAIN}" backup - ${to}`],
        {
          env: { PATH: process.env['PATH'], DATABASE_URL: databaseUrl },
          encoding: 'utf8',
        },
      );
    expect(piped(`> "${file}"`)).toMatchObject({
      status: 0,
      stdout: '',
      stderr: matching(/✓ the state of .*: 2 sellers · 3,000 purchase codes\n$/),
    });
    expect(await printed(['restore', '--check', file], { DATABASE_URL: databaseUrl })).toContain(
      'is complete',
    );
    const left = piped('| true');
    expect(left.stderr).toContain('error: the program that reads the backup ended before');
    const shown = await run(
      ['backup', '-'],
      { DATABASE_URL: databaseUrl },
      { terminal: ['stdout'] },
    );
    expect(shown.code).toBe(2);
  });

  it('can’t be made of a database without a mirror, and leaves no file', async () => {
    const file = freeFile();
    const none = await run(['backup', file], { DATABASE_URL: await database({ empty: true }) });
    expect(none).toMatchObject({
      code: 1,
      stderr: matching(/there is no mirror in this database yet/),
    });
    expect(existsSync(file)).toBe(false);
  });
});

describe('restore', () => {
  it('replaces data only with --replace, and repeats no number, neither of the backup nor of what was there', async () => {
    const url = await otherStore();
    await query(url, `SELECT setval('mirror.item_changes_seq_seq', 5000)`);
    const before = await rowsIn(url);
    expect(await restore(url, filled, '--json')).toMatchObject({
      code: 1,
      stderr: matching(/^error: the store has data\n {2}→ Use --replace/),
    });
    expect(await rowsIn(url)).toEqual(before);
    await restore(url, filled, '--replace');
    expect((await rowsIn(url))['sellers']).toHaveLength(2);
    const next = `SELECT nextval('mirror.purchase_codes_code_id_seq') > 3000 AS code,
                         nextval('mirror.item_changes_seq_seq') AS change`;
    expect(await query(url, next)).toEqual([{ code: true, change: '5001' }]);
  });

  it('drops paths of result files, which belong to the machine of the backup', async () => {
    const audit = `INSERT INTO mirror.audits (seller_id, state, source, layout, columns, lines,
        rejected, codes, reused, valid, invalid, unproven, pending, result_path, result_format)
      VALUES ('main', 'running', 'x', '{}', '{}', 0, 0, 0, 0, 0, 0, 0, 0, '/etc/passwd', 'csv')`;
    await query(mirror().databaseUrl, ...FILL, audit);
    const url = await database();
    await restore(url, await backupOf(mirror().databaseUrl));
    expect((await rowsIn(url))['audits']).toEqual([expect.not.stringContaining('/etc/passwd')]);
  });

  it('refuses a store that other processes use, even if they are not connected just now', async () => {
    const url = await database();
    const name = 'seller-mirror worker';
    const worker = new Client({ connectionString: url, application_name: name });
    await worker.connect();
    expect((await restore(url, filled)).stderr).toContain('in use by seller-mirror worker');
    await worker.query(
      `INSERT INTO mirror.processes (process_id, roles, host, pid, started_at, seen_at)
       VALUES (gen_random_uuid(), '{worker}', 'box', 7, now(), now())`,
    );
    await worker.end();
    expect((await restore(url, filled)).stderr).toContain('in use by worker (process 7 on box)');
    expect((await rowsIn(url))['sellers']).toEqual([]);
  });

  it('waits for connections that are about to end', async () => {
    const url = await database();
    const name = 'seller-mirror migrate';
    const leaving = new Client({ connectionString: url, application_name: name });
    await leaving.connect();
    const restored = restore(url, filled);
    await pause(300);
    await leaving.end();
    expect(await restored).toMatchObject({ code: 0 });
  });

  it('refuses a file that was cut off or changed anywhere, and leaves the store unchanged', async () => {
    const bytes = readFileSync(filled);
    const contents = gunzipSync(bytes);
    const place = fc.integer({ min: 0, max: bytes.length - 1 });
    const damaged = fc.oneof(
      place.map((length) => bytes.subarray(0, length)),
      fc.tuple(place, fc.integer({ min: 1, max: 255 })).map(([where, change]) => {
        const copy = Buffer.from(bytes);
        copy[where] = (copy[where] ?? 0) ^ change;
        return copy;
      }),
    );
    const file = freeFile();
    await fc.assert(
      fc.asyncProperty(damaged, async (changed) => {
        writeFileSync(file, changed);
        const { code, stderr } = await restore(mirror().databaseUrl, file, '--check');
        if (code === 1) expect(stderr).toMatch(/damaged|not a seller-mirror backup/);
        // The change was harmless, for example in the time of the gzip header.
        else expect(gunzipSync(changed).equals(contents)).toBe(true);
      }),
      { numRuns: 40 },
    );
    const before = await rowsIn(mirror().databaseUrl);
    writeFileSync(file, bytes.subarray(0, bytes.length - 500));
    const cut = await restore(mirror().databaseUrl, file, '--replace');
    expect(cut.stderr).toMatch(/^error: the backup is damaged: .*\n {2}→ Nothing was changed/);
    expect(await rowsIn(mirror().databaseUrl)).toEqual(before);
  });

  it('refuses a file that lacks rows or has rows twice, and leaves the store unchanged', async () => {
    const parts = await filesIn(readFileSync(filled));
    const url = await otherStore();
    const before = await rowsIn(url);
    const at = parts.findIndex(({ name }) => name.startsWith('purchase_codes/'));
    const file = freeFile();
    for (const changed of [parts.toSpliced(at, 1), [...parts, ...parts.slice(at, at + 1)]]) {
      writeFileSync(file, await archiveOf(changed));
      const { stderr } = await restore(url, file, '--replace');
      expect(stderr).toContain('error: the backup is damaged: ');
      expect(await rowsIn(url)).toEqual(before);
    }
  });

  it.each([
    ['no_such_table', /the backup is damaged: no table is named no_such_table/],
    ['_prisma_migrations', /the backup is damaged: no table is named _prisma_migrations/],
    ['sellers; DROP SCHEMA reporting CASCADE', /is not a seller-mirror backup/],
  ])('refuses a file whose manifest names a table %s', async (table, expected) => {
    const [manifest, ...tables] = await filesIn(readFileSync(filled));
    const said = JSON.parse(String(manifest?.data)) as { tables: Record<string, number> };
    const data = Buffer.from(JSON.stringify({ ...said, tables: { ...said.tables, [table]: 0 } }));
    const file = freeFile();
    writeFileSync(file, await archiveOf([{ name: 'manifest.json', data }, ...tables]));
    const url = await otherStore();
    const before = await rowsIn(url);
    expect((await restore(url, file, '--replace')).stderr).toMatch(expected);
    expect(await rowsIn(url)).toEqual(before);
  });

  it('refuses a file that is no backup, and says so', async () => {
    const others = [
      Buffer.from('name;city\n'),
      Buffer.alloc(0),
      gzipSync('hello'),
      await archiveOf([{ name: 'photo.jpg', data: Buffer.from('x') }]),
      Buffer.from('PGDMP\x01\x0e'),
    ];
    const file = freeFile();
    for (const other of others) {
      writeFileSync(file, other);
      const { code, stderr } = await restore(mirror().databaseUrl, file);
      expect(stderr).toMatch(/^error: .*\.tar\.gz is not a seller-mirror backup\n {2}→ .*\n$/);
      expect(code).toBe(1);
    }
  });

  it.each([
    ['a newer version', '20991231000000_future', /made by a newer version/],
    ['another build', '20261125000000_init', /with other tables than any release/],
  ])('refuses a backup of %s, whose tables may differ', async (_, migration, expected) => {
    const parts = await filesIn(readFileSync(filled));
    const [manifest, ...tables] = parts;
    const said = JSON.parse(String(manifest?.data)) as { migrations: string[] };
    const others = said.migrations.filter((one) => !one.startsWith(migration));
    const changed = { ...said, migrations: [...others, `${migration} x`] };
    const file = freeFile();
    const first = { name: 'manifest.json', data: Buffer.from(JSON.stringify(changed)) };
    writeFileSync(file, await archiveOf([first, ...tables]));
    const { code, stderr } = await restore(await database(), file);
    expect(stderr).toMatch(expected);
    expect(stderr).toContain('→ Nothing was changed.');
    expect(code).toBe(1);
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
  const found: ArchiveFile[] = [];
  for await (const entry of entries)
    found.push({ name: entry.header.name, data: await buffer(entry) });
  return found;
}

async function archiveOf(parts: readonly ArchiveFile[]): Promise<Buffer> {
  const archive = pack();
  for (const { name, data } of parts) archive.entry({ name }, data);
  archive.finalize();
  return gzipSync(await buffer(archive));
}

/**
 * Audits whose counts don't match their codes, gaps between states of items, items that differ from their last change,
 * and references to missing rows.
 */
const INCONSISTENCIES = `
  SELECT 'audit' AS what, a.audit_id::text AS which FROM mirror.audits a
    LEFT JOIN LATERAL (
      SELECT count(*) FILTER (WHERE verdict = 'valid') AS valid,
             count(*) FILTER (WHERE verdict = 'invalid') AS invalid,
             count(*) FILTER (WHERE verdict = 'unproven') AS unproven,
             count(*) FILTER (WHERE verdict IS NULL) AS pending, count(*) AS codes
        FROM mirror.audit_codes c WHERE c.audit_id = a.audit_id) AS c ON true
   WHERE (a.codes, a.valid, a.invalid, a.unproven, a.pending)
         IS DISTINCT FROM (c.codes, c.valid, c.invalid, c.unproven, c.pending)
  UNION ALL
  SELECT 'version', v.item_id::text FROM mirror.item_versions v
   WHERE NOT EXISTS (
     SELECT FROM reporting.item_history h
      WHERE h.seller_id = v.seller_id AND h.item_id = v.item_id AND h.valid_from = v.valid_to)
  UNION ALL
  SELECT 'change', i.item_id::text FROM mirror.items i
    JOIN LATERAL (SELECT new_value FROM mirror.item_changes c
                   WHERE c.seller_id = i.seller_id AND c.item_id = i.item_id AND field = 'name'
                   ORDER BY seq DESC LIMIT 1) AS c ON true
   WHERE c.new_value #>> '{}' <> i.name
  UNION ALL
  SELECT 'run', i.item_id::text FROM mirror.items i
   WHERE NOT EXISTS (SELECT FROM mirror.runs r WHERE r.run_id = i.synced_run_id)
  UNION ALL
  SELECT 'check', p.code FROM mirror.purchase_codes p
   WHERE p.last_check_id IS NOT NULL
     AND NOT EXISTS (SELECT FROM mirror.code_checks c WHERE c.check_id = p.last_check_id)`;
