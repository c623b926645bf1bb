import pg from 'pg';
import { afterEach, beforeEach, expect, it } from 'vitest';
import { BinaryRows, CopyIn } from '../../src/store/copy.js';
import { createTestDatabase } from '../support/postgres.js';

let pool: pg.Pool;
let client: pg.PoolClient;
let drop: () => Promise<void>;

beforeEach(async () => {
  const database = await createTestDatabase({ empty: true });
  drop = () => database.drop();
  pool = new pg.Pool({ connectionString: database.url });
  pool.on('error', () => undefined);
  client = await pool.connect();
  client.on('error', () => undefined);
  await client.query('CREATE TABLE t (id bigint PRIMARY KEY, text text)');
});
afterEach(async () => {
  client.release(true);
  await pool.end();
  await drop();
});

function rowsOf(ids: readonly number[], text: string): BinaryRows {
  const rows = new BinaryRows();
  for (const id of ids) {
    rows.startRow(2);
    rows.bigint(id);
    rows.text(text);
  }
  return rows;
}

async function count(): Promise<number> {
  const { rows } = await client.query<{ count: string }>('SELECT count(*) FROM t');
  return Number(rows[0]?.count);
}

const ids = Array.from({ length: 1000 }, (_, i) => i);

it('memory may be filled anew after each write, however much waits on its way', async () => {
  const copy = new CopyIn(client, 't (id, text)');
  const rows = new BinaryRows();
  for (let turn = 0; turn < 20; turn++) {
    rows.clear();
    for (const id of ids) {
      rows.startRow(2);
      rows.bigint(turn * ids.length + id);
      rows.text(String(turn).repeat(1000));
    }
    await copy.write(rows.data());
    rows.data().fill(0xff);
  }
  await copy.end();
  const { rows: texts } = await client.query<{ right: boolean; count: string }>(
    `SELECT text = repeat((id / 1000)::text, 1000) AS right, count(*) FROM t GROUP BY 1`,
  );
  expect(texts).toEqual([{ right: true, count: '20000' }]);
});

it('a row that the table refuses fails the copy, and the connection serves on', async () => {
  const copy = new CopyIn(client, 't (id, text)');
  await copy.write(rowsOf([1, 1], 'twice').data());
  await expect(copy.end()).rejects.toThrow('duplicate key');
  await expect(copy.write(rowsOf([2], 'late').data())).rejects.toThrow('duplicate key');
  await expect(copy.end()).rejects.toThrow('duplicate key');
  copy.abandon();
  expect(await count()).toBe(0);
});

it('a copy that fails halfway fails the writes that follow, and does not wait for ever', async () => {
  const copy = new CopyIn(client, 't (id, text)');
  const writing = async (): Promise<void> => {
    // How much is on its way before the server says so depends on the machine.
    for (;;) await copy.write(rowsOf(ids, 'x'.repeat(1000)).data());
  };
  await expect(writing()).rejects.toThrow('duplicate key');
  expect(await count()).toBe(0);
});

it('a copy given up writes nothing and leaves the connection to the next statement', async () => {
  const copy = new CopyIn(client, 't (id, text)');
  await copy.write(rowsOf(ids, 'x').data());
  copy.abandon();
  expect(await count()).toBe(0);
});

it('a copy into a table that is not there says so', async () => {
  const copy = new CopyIn(client, 'nowhere (id)');
  await expect(copy.write(rowsOf(ids, 'x').data()).then(() => copy.end())).rejects.toThrow(
    '"nowhere" does not exist',
  );
});

it('the loss of the connection ends a copy, since a run that waits holds its lock for ever', async () => {
  const { rows } = await client.query<{ pid: number }>('SELECT pg_backend_pid() AS pid');
  const copy = new CopyIn(client, 't (id, text)');
  await copy.write(rowsOf(ids, 'x').data());
  await pool.query('SELECT pg_terminate_backend($1, 10000)', [rows[0]?.pid]);
  // What is told depends on whether the server's last words or the end of the connection come first.
  await expect(copy.end()).rejects.toThrow();
  copy.abandon();
});
