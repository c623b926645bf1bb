import { expect, it } from 'vitest';
import { printed } from '../cli/support.js';
import { query } from '../support/postgres.js';
import { upgraded } from './support.js';

const ITEM = (id: number, state: string) => `
  INSERT INTO mirror.items (seller_id, item_id, name, options, tags, screenshots, state, first_seen_at, changed_at,
                            synced_run_id, valid_from, wire_hash, extra, raw)
  VALUES ('main', ${id}, 'Theme ${id}', '{}', '{}', '{}', '${state}', now(), now(), 1, now(), '\\x00', '{}', '{}');`;

const RUN = (id: number, more: string) => `
  INSERT INTO mirror.runs (run_id, seller_id, kind, state, holder, finished_at, decision, decided_at, decided_by, approval_run_id)
  VALUES (${id}, 'main', ${more});`;

const HELD = (run: number, item: number) =>
  `INSERT INTO mirror.held_items (run_id, seller_id, item_id, confirmed) VALUES (${run}, 'main', ${item}, true);`;

it('decisions of an earlier version: rejected items stay kept, approved runs have their run, the open one waits', async () => {
  const url = await upgraded(
    `INSERT INTO mirror.sellers (seller_id, marketplace, missing_items, live_items) VALUES ('main', 'm', 2, 5);
     ${ITEM(1, 'missing')}${ITEM(2, 'missing')}${ITEM(3, 'removed')}
     ${RUN(1, `'items', 'held', 'x', now(), 'rejected', now(), 'ada', NULL`)}
     ${RUN(2, `'items', 'held', 'x', now(), 'approved', now(), 'ada', 3`)}
     ${RUN(3, `'approval', 'succeeded', 'x', now(), NULL, NULL, NULL, NULL`)}
     ${RUN(4, `'items', 'held', 'x', now(), NULL, NULL, NULL, NULL`)}
     ${HELD(1, 1)}${HELD(2, 3)}${HELD(4, 2)}
     SELECT setval('mirror.runs_run_id_seq', 4);
     INSERT INTO mirror.item_lookups VALUES ('main', 2, now(), 'gone', 4);`,
  );
  const runs = `SELECT run_id::int, decision, approval_run_id::int FROM reporting.sync_runs ORDER BY 1`;
  expect(await query(url, runs)).toEqual([
    { run_id: 1, decision: null, approval_run_id: null },
    { run_id: 2, decision: 'approved', approval_run_id: 3 },
    { run_id: 3, decision: null, approval_run_id: null },
    { run_id: 4, decision: null, approval_run_id: null },
  ]);
  const env = { DATABASE_URL: url };
  expect(JSON.parse(await printed(['status', '--json'], env))).toMatchObject([
    { held: { items: 1, confirmed: 1, examples: [{ item_id: 2 }] } },
  ]);
  expect(await printed(['sync', '--accept-removals', '4'], env)).toContain('1 of 1 item removed');
  const kept = `SELECT item_id::int FROM mirror.items WHERE state = 'missing'`;
  expect(await query(url, kept)).toEqual([{ item_id: 1 }]);
});
