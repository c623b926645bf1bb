import { afterAll, beforeAll, expect, it, onTestFinished } from 'vitest';
import { hasMariaDb } from '../../support/mariadb.js';
import { openMariaDb, openPostgres, openSqlite } from './places.js';
import { World } from './world.js';

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
  'long '.repeat(60_000) + String.fromCodePoint(0x1f600),
];

let world: World;
beforeAll(async () => {
  world = await World.open(TEXTS.length);
});
afterAll(() => world.close());

/** Gives each item and its changes another one of the texts. */
async function write(turn: number): Promise<void> {
  const { ada } = world.catalogues;
  const ids = [...ada.truth()].map(({ id }) => id);
  for (const id of ids) ada.change(id, { version: `turn ${turn}` });
  await world.sync();
  for (const [n, id] of ids.entries()) {
    const text = TEXTS[(n + turn) % TEXTS.length] ?? '';
    await world.rows(
      `UPDATE mirror.items
          SET description = $2, category = left($2, 90), tags = ARRAY[$2, '', 'a,b'],
              price_regular = 999999999999.99, published_at = '0999-12-31 23:59:59.999999Z'
        WHERE item_id = $1`,
      [id, text],
    );
    await world.rows(
      `UPDATE mirror.item_changes SET old_value = to_jsonb(left($2, 900)),
              new_value = jsonb_build_object(left($2, 900), 12345678901234567890.5)
        WHERE item_id = $1 AND run_id = (SELECT max(run_id) FROM mirror.item_changes)`,
      [id, text],
    );
  }
}

/** Modes that servers are run in, and that a session of ours must not follow. */
const ODD = [
  ...[
    '--autocommit=0',
    '--sql-mode=ANSI,STRICT_ALL_TABLES,NO_BACKSLASH_ESCAPES',
    '--default-time-zone=-07:00',
  ],
  ...['--transaction-isolation=SERIALIZABLE', '--innodb-flush-log-at-trx-commit=2'],
  ...['--sql-safe-updates=1'],
];
/** With LOAD DATA; without it, since the driver misreads the names of files from a server in UTF-16. */
const SERVERS = [
  ['PostgreSQL', openPostgres],
  ['MariaDB in odd modes', () => openMariaDb([...ODD, '--character-set-server=utf8mb4'])],
  [
    'MariaDB in odd modes and UTF-16, with small packets',
    () =>
      openMariaDb(
        [
          ...ODD,
          '--max-allowed-packet=1M',
          '--skip-character-set-client-handshake',
          '--character-set-server=utf16',
          '--collation-server=utf16_bin',
        ],
        'sql_select_limit = 2, tx_read_only = 1',
      ),
  ],
  ['SQLite', openSqlite],
] as const;

it.each(SERVERS)(
  '%s holds every value as the store does, after a load and after changes',
  async (name, open) => {
    if (name.startsWith('MariaDB') && !hasMariaDb) return;
    const place = await open();
    onTestFinished(() => place.close());
    await world.empty();
    world.feeds({ name: 'test', ...place.target, views: VIEWS });
    await world.sync();
    for (const turn of [0, 7]) {
      await write(turn);
      await world.deliverEqual(place, VIEWS);
    }
    expect((await world.deliver()).views.every(({ rows }) => rows === 0)).toBe(true);
  },
);
