import { mkdtemp, readFile, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { deliverFeed } from '../../../src/reporting/feeds/deliver.js';
import { folderTarget } from '../../../src/reporting/feeds/folder.js';
import type { Target } from '../../../src/reporting/feeds/target.js';
import { withExports, type ExportColumn } from '../../../src/reporting/exports.js';
import { openSynced, type Market } from '../../catalogue/market.js';
import { hasMariaDb } from '../../support/mariadb.js';
import { never, useMirror } from '../../support/mirror.js';
import { canonical, openDatabases, readView, type FeedDatabase } from './databases.js';

const mirror = useMirror();
const VIEWS = ['items', 'item_changes'];

/** Texts that COPY, LOAD DATA, SQL literals, JSON or an encoding may damage. */
const TEXTS = [
  '',
  ' ',
  ' blanks around ',
  'form feed \f vertical tab \v backspace \b',
  'tab \t line \n return \r both \r\n end',
  '\u0001\u001a\u001b\u007f\u0085\u00a0\u2028\ufeff',
  "'single' ''twice'' \"double\" `back`",
  String.raw`\ \\ \n \N \. \' \" \0 \x41 \b \f \v \t ends with \ `.trimEnd(),
  String.raw`\N`,
  String.raw`\.`,
  'NULL',
  '?, :name, $1, %s, ${x}; -- /* */ #',
  `${String.fromCodePoint(0x1f600, 0x1f469, 0x200d, 0x1f4bb, 0x10ffff)} é e\u0301 ß ﬀ 漢字`,
  '{"json": [1, "\\u0000"]}, {a,"b c",NULL}',
  'long '.repeat(120_000) + String.fromCodePoint(0x1f600),
];

interface Case {
  readonly name: string;
  readonly open: () => Promise<Target>;
  /** Returns the target's rows of a view, with values formatted by `canonical`. */
  readonly rows: (view: string) => Promise<readonly object[]>;
}

let databases: readonly FeedDatabase[];
let folder: string;
beforeAll(async () => {
  databases = hasMariaDb ? await openDatabases() : [];
  folder = await mkdtemp(join(tmpdir(), 'smvalues-'));
});
afterAll(async () => {
  for (const database of databases) await database.close();
  await rm(folder, { recursive: true });
});

function caseOf(name: string): Case {
  if (name === 'NDJSON files') {
    return {
      name,
      open: () => Promise.resolve(folderTarget(folder, 'ndjson')),
      rows: (view) => rowsOfFolder(view),
    };
  }
  const database = databases.find((one) => name.startsWith(one.name));
  if (database === undefined) throw new Error(`no ${name}`);
  return {
    name,
    async open() {
      if (name.startsWith('MariaDB')) {
        const isOn = name.endsWith('local_infile');
        await database.exec(`SET GLOBAL local_infile = ${isOn ? 'ON' : 'OFF'}`);
      }
      return database.open(never);
    },
    rows: async (view) => {
      const columns = await columnsOf(view);
      return (await database.read([{ view, columns }])).get(view)?.rows ?? [];
    },
  };
}

async function columnsOf(view: string): Promise<readonly ExportColumn[]> {
  const views = await withExports(mirror().databaseUrl, never, (exports) => exports.views());
  return views.find(({ name }) => name === view)?.columns ?? [];
}

async function rowsOfFolder(view: string): Promise<readonly object[]> {
  const columns = await columnsOf(view);
  const manifest = JSON.parse(await readFile(join(folder, view, 'manifest.json'), 'utf8')) as {
    key: string[] | null;
    parts: { path: string }[];
  };
  const rows = new Map<string, object>();
  for (const { path } of manifest.parts) {
    const text = await readFile(join(folder, path), 'utf8');
    for (const line of text.split('\n').filter((one) => one !== '')) {
      const row = JSON.parse(line) as Record<string, unknown>;
      const values = columns.map((one) => {
        const value = row[one.name];
        const isJson = one.type === 'jsonb' && value !== null;
        return [one.name, canonical(one, isJson ? JSON.stringify(value) : value)] as const;
      });
      rows.set(
        JSON.stringify(manifest.key?.map((name) => row[name]) ?? line),
        Object.fromEntries(values),
      );
    }
  }
  return [...rows.values()];
}

/** Gives each item and its changes another one of the texts. */
async function write(market: Market, turn: number): Promise<void> {
  const ids = [...market.catalogue.truth()].map(({ id }) => id);
  for (const id of ids) market.catalogue.change(id, { version: `turn ${turn}` });
  await market.sync();
  for (const [n, id] of ids.entries()) {
    const text = TEXTS[(n + turn) % TEXTS.length] ?? '';
    await mirror().rows(
      `UPDATE mirror.items
          SET description = $2, category = left($2, 90), tags = ARRAY[$2, '', 'a,b'],
              price_regular = 999999999999.99, published_at = '0999-12-31 23:59:59.999999Z'
        WHERE item_id = $1`,
      [id, text],
    );
    await mirror().rows(
      `UPDATE mirror.item_changes SET old_value = to_jsonb(left($2, 900)),
              new_value = jsonb_build_object(left($2, 900), 12345678901234567890.5)
        WHERE item_id = $1 AND run_id = (SELECT max(run_id) FROM mirror.item_changes)`,
      [id, text],
    );
  }
}

const sorted = (rows: readonly object[]): string[] => rows.map((row) => JSON.stringify(row)).sort();

describe.each([
  'PostgreSQL',
  'MariaDB with local_infile',
  'MariaDB, by INSERTs',
  'SQLite',
  'NDJSON files',
])('%s', (name) => {
  const isThere = name === 'NDJSON files' || hasMariaDb;
  it.skipIf(!isThere)(
    'holds every value exactly as the store does, after a load and after changes',
    async () => {
      const market = await openSynced(mirror(), TEXTS.length);
      const { open, rows } = caseOf(name);
      for (const [turn, kind] of [
        [0, 'all'],
        [7, 'changes'],
      ] as const) {
        await write(market, turn);
        const target = await open();
        if (kind === 'all') for (const view of VIEWS) await target.reset(view);
        await withExports(mirror().databaseUrl, never, async (exports) => {
          const content = { views: VIEWS, sellers: null, deletes: 'delete' } as const;
          const reports = await deliverFeed(exports, target, content, { signal: never });
          await target.close();
          expect(reports).toMatchObject(VIEWS.map(() => ({ kind, problem: null })));
          for (const view of VIEWS) {
            const ours = await readView(exports, view);
            expect(sorted(await rows(view)), view).toEqual(sorted(ours.rows));
          }
        });
      }
    },
  );
});
