import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import type { Command } from 'commander';
import { expect, it } from 'vitest';
import { program } from '../../src/cli/program.js';
import { trialDataDir } from '../db/embedded/trial.js';
import { KEY, useMirror } from '../support/mirror.js';
import { until } from '../support/until.js';
import {
  codesMarket,
  codesOf,
  fileWith,
  folder,
  freePath,
  run,
  settings,
  start,
} from './support.js';

const mirror = useMirror();

/** What a command prints: a list, an object, or one JSON value per line. */
type Shape = 'list' | 'object' | 'lines';

it('every command prints JSON by the same rules: snake case, times with Z, money as text', async () => {
  const sim = await codesMarket(mirror());
  const { catalogue } = sim.seller(KEY);
  const env = settings(mirror().databaseUrl, sim.url, {
    KEEP_RUNS_DAYS: '1',
    LOOKUPS_PER_RUN: '9',
  });
  const [refunded = '', good = ''] = codesOf(sim, 2);
  const seen = new Map<string, unknown>();

  /** Runs a command and checks its JSON. @param args its path, then `|`, then its options */
  const check = async (
    path: string,
    options: readonly string[],
    shape: Shape,
    { env: own = env, out }: { env?: Record<string, string>; out?: string } = {},
  ): Promise<unknown> => {
    const { code, stdout, stderr } = await run([...path.split(' '), ...options], own);
    expect([0, 3, 4], `${path} ${options.join(' ')}: ${stderr}`).toContain(code);
    const value = parsed(out === undefined ? stdout : readFileSync(out, 'utf8'), shape);
    expect(Array.isArray(value), `${path} prints a list`).toBe(shape !== 'object');
    checkMembers(value, `${path} ${options.join(' ')}`);
    seen.set(path, value);
    return value;
  };

  const first = (await check('sync', ['--json'], 'object')) as { runs: { listed: number }[] };
  expect(first.runs.map(({ listed }) => listed)).toEqual([1, 20]);
  catalogue.change(1015, { priceRegularCents: 990, name: 'Another name' });
  catalogue.change(1016, { priceRegularCents: 1250 });
  catalogue.breakRecord(1017, '{"id":1017,"name":"\u0007"}');
  await check('sync', ['items', '--json'], 'object');
  for (let id = 1001; id <= 1012; id++) catalogue.remove(id);
  const held = (await check('sync', ['items', '--json'], 'object')) as {
    runs: { run_id: number; state: string }[];
  };
  expect(held.runs).toMatchObject([{ state: 'held', held: { items: 12, confirmed: 9 } }]);
  const run3 = String(held.runs[0]?.run_id);
  await check('status', ['--json'], 'list');
  await check('sellers list', ['--json'], 'list');
  await check('sellers show', ['main', '--json'], 'object');
  await check('sellers pause', ['main', '--json'], 'object');
  await check('sellers resume', ['main', '--json'], 'object');
  await check('sellers sync', ['main', '--json'], 'object');
  await check('sync', ['--queue', '--json'], 'list');

  await check('runs list', ['--json'], 'list');
  await check('runs list', ['--format', 'ndjson'], 'lines');
  await check('runs show', [run3, '--json'], 'object');
  await check('runs again', [run3, '--json'], 'object');
  await check('runs accept', [run3, '--yes', '9', '--json'], 'object');
  await check('runs keep', [run3, '--json'], 'object');
  await check('sync', ['--keep-removals', run3, '--json'], 'object');
  const changes = (await check('changes', ['--json'], 'list')) as object[];
  expect(changes).toContainEqual(
    expect.objectContaining({ item_id: 1015, old_value: expect.any(String) as string }),
  );
  for (const format of ['json', 'ndjson']) {
    const shape = format === 'json' ? 'list' : 'lines';
    await check('items list', ['--format', format], shape);
    const select = 'select * from reporting.sync_runs, reporting.accounts, reporting.price_changes';
    await check('sql', ['--format', format, select], shape);
  }
  await check('items list', ['--json'], 'list');
  await check('items show', ['1015', '--json'], 'object');

  await check('codes check', [good, refunded, '--json'], 'list');
  const list = fileWith(`code\n${good}\n${refunded}\n\n""`);
  await check('codes check', [list, '--dry-run', '--json'], 'object');
  const audited = (await check('codes check', [list, '--json'], 'object')) as {
    audit: { audit_id: number };
  };
  const audit = String(audited.audit.audit_id);
  const more = fileWith(`code\n${codesOf(sim, 3).join('\n')}`);
  const detached = (await check('codes check', [more, '--detach', '--json'], 'object')) as {
    audit: { audit_id: number };
  };
  await check('audits cancel', [String(detached.audit.audit_id), '--json'], 'object');
  await check('codes show', [good, '--json'], 'object');
  await check('codes recheck', ['--older-than', '1d', '--json'], 'object');
  await check('audits list', ['--json'], 'list');
  await check('audits show', [audit, '--json'], 'object');
  await check('audits resume', [audit, '--json'], 'object');
  await check('audits export', [audit, '--json'], 'list');
  await check('audits export', [audit, '--format', 'ndjson'], 'lines');

  await check('export', ['--json'], 'list');
  for (const view of ['items', 'purchases', 'accounts', 'price_changes', 'sync_runs']) {
    await check('export', [view, '--format', 'ndjson'], 'lines');
  }
  await check('export', ['items', '--out', freePath('csv'), '--json'], 'object');
  await check('migrate', ['--json'], 'list');
  await check('migrate', ['--status', '--json'], 'object');
  await check('prune', ['--dry-run', '--json'], 'object');
  await run(['users', 'add', 'ada', '--role', 'viewer'], env, { stdin: 'correct horse battery' });
  await check('users list', ['--json'], 'list');
  await check('users remove', ['ada', '--json'], 'object');
  await run(['tokens', 'add', 'desk'], env);
  await check('tokens list', ['--json'], 'list');
  await check('tokens revoke', ['desk', '--json'], 'object');
  await check('jobs list', ['--json'], 'list');
  const lake = { name: 'lake', folder: folder(), format: 'ndjson', views: ['items', 'accounts'] };
  const feeds = { env: { ...env, FEEDS_FILE: fileWith(JSON.stringify({ feeds: [lake] })) } };
  await check('feed list', ['--json'], 'list', feeds);
  await check('feed show', ['lake', '--json'], 'object', feeds);
  await check('feed check', ['lake', '--json'], 'object', feeds);
  await check('feed run', ['--json'], 'list', feeds);
  await check('feed status', ['--json'], 'list', feeds);
  await check('feed take-over', ['lake', '--json'], 'object', feeds);
  await check('doctor', ['--json'], 'object');
  await check('config', ['--json'], 'object');
  await check('codes erase', [good, '--json'], 'list');
  await check('sellers remove', ['main', '--yes', 'main', '--json'], 'object');

  const backup = join(folder(), 'mirror.tar.gz');
  await check('backup', [backup, '--json'], 'object');
  await check('restore', [backup, '--check', '--json'], 'object');
  const embedded = { env: { DATA_DIR: await trialDataDir('json') } };
  await check('db status', ['--json'], 'object', embedded);
  await check('migrate', ['--status', '--json'], 'object', embedded);
  await check('db start', ['--json'], 'object', embedded);
  await check('db status', ['--json'], 'object', embedded);
  await run(['db', 'stop', '--now'], embedded.env);

  const market = start(['simulate', '--port', '0', '--json'], {});
  await until(() => market.stdout().endsWith('}\n'));
  market.process.kill('SIGINT');
  checkMembers(parsed(market.stdout(), 'object'), 'simulate');
  seen.set('simulate', null);
  await market.ended;

  // No job fails here; the dashboard's tests retry one.
  seen.set('jobs retry', null);
  expect([...seen.keys()].sort(), 'every command with JSON').toEqual(
    commandsWithJson(await program()).sort(),
  );
}, 600_000);

/** Returns the full names of the commands that can print JSON. */
function commandsWithJson(command: Command, path = ''): string[] {
  const isOne = command.options.some(
    ({ long, argChoices }) =>
      long === '--json' || (long === '--format' && argChoices?.some((one) => /json/.test(one))),
  );
  return [
    ...(isOne ? [path] : []),
    ...command.commands.flatMap((one) => commandsWithJson(one, `${path} ${one.name()}`.trim())),
  ];
}

function parsed(text: string, shape: Shape): unknown {
  if (shape !== 'lines') return JSON.parse(text);
  const lines = text.trimEnd().split('\n');
  return lines.map((line) => JSON.parse(line) as unknown);
}

/** Members whose content keeps its own names. */
const AS_RECEIVED = ['extra', 'layout', 'raw', 'tolerated', 'social_links'];
const COLUMN_NAME = /^_?[a-z][a-z0-9]*(?:_[a-z0-9]+)*$/;
const MOMENT_NAME = /(?:_at|_until|_from|_to|_since|^at|^before|^since)$/;
const DAY_AND_TIME = /^\d{4}-\d\d-\d\d[T ]\d\d:\d\d/;
const MOMENT = /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d+)?Z$/;
const MONEY_NAME = /^(?:price|balance|revenue|(?:old_|new_)price|price_(?:regular|extended))$/;
const MONEY = /^-?\d+\.\d\d$/;

function checkMembers(value: unknown, where: string): void {
  if (typeof value === 'string' && DAY_AND_TIME.test(value)) expect(value, where).toMatch(MOMENT);
  if (Array.isArray(value)) for (const one of value) checkMembers(one, where);
  if (typeof value !== 'object' || value === null || Array.isArray(value)) return;
  const members = Object.entries(value);
  for (const [name, member] of members) {
    const place = `${where} → ${name}`;
    expect(name, place).toMatch(COLUMN_NAME);
    if (AS_RECEIVED.includes(name)) continue;
    if (member !== null && isMoney(name, value)) {
      expect(member, place).toMatch(MONEY);
      expect(value, place).toHaveProperty('currency');
    }
    const isMoment = MOMENT_NAME.test(name);
    if (member !== null && isMoment) expect(member, place).toMatch(MOMENT);
    checkMembers(member, place);
  }
}

/** True for members with the name of an amount, and for the values of a price change. */
function isMoney(name: string, parent: object): boolean {
  if (MONEY_NAME.test(name))
    return !('price' in parent && 'old_price' in parent && name === 'price');
  const isChange = name === 'old_value' || name === 'new_value';
  const { class: kind, field } = parent as { class?: unknown; field?: unknown };
  return isChange && kind === 'price' && field !== 'currency' && 'percent' in parent;
}
