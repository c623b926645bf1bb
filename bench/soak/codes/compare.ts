import { execFile } from 'node:child_process';
import { readFileSync, readdirSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { promisify } from 'node:util';
import { parse } from 'csv-parse/sync';
import { Client } from 'pg';
import type * as SimulatorModule from '../../../src/simulator/index.js';
import type { KnownCode, KnownCodes } from './known-codes.js';

/** What is wrong, in sentences; the first ones. */
export interface Comparison {
  readonly valid: number;
  readonly invalid: number;
  readonly unproven: number;
  readonly wrongValid: number;
  readonly wrongInvalid: number;
  readonly lost: number;
  readonly verdictsTwice: number;
  readonly differences: readonly string[];
}

const SHOWN = 20;
/** Translated words come with some answers. */
const LICENCES: Readonly<Record<string, readonly string[]>> = {
  Regular: ['Regular', 'REGULAR', 'Regulär', '通常'],
  Extended: ['Extended', 'EXTENDED', 'Erweitert', '拡張'],
};

/**
 * Compares the result file line by line, and the store code by code, with what the marketplace holds.
 * @param csv text of the result
 */
export async function compare(url: string, known: KnownCodes, csv: string): Promise<Comparison> {
  const differences: string[] = [];
  compareResult(known, csv, differences);
  const stored = await storedVerdicts(url);
  const counts = { valid: 0, invalid: 0, unproven: 0, wrongValid: 0, wrongInvalid: 0, lost: 0 };
  let verdictsTwice = 0;
  for (const { code, valid } of known.codes.values()) {
    const one = stored.get(code);
    if (one === undefined || one.verdict === null) {
      if (one === undefined) counts.lost++;
      else counts.unproven++;
      differences.push(`store: ${code} has no verdict`);
      continue;
    }
    counts[one.verdict]++;
    if (one.proofs !== 1) {
      verdictsTwice++;
      differences.push(`store: ${code} was given ${one.proofs} verdicts`);
    }
    if ((one.verdict === 'valid') === valid) continue;
    if (valid) counts.wrongInvalid++;
    else counts.wrongValid++;
    differences.push(`store: ${code} is ${one.verdict}`);
  }
  for (const code of stored.keys()) {
    if (!known.codes.has(code)) differences.push(`store: ${code} was in no list`);
  }
  return { ...counts, verdictsTwice, differences: differences.slice(0, SHOWN) };
}

function compareResult(
  { lines, codes, own, catalogue }: KnownCodes,
  csv: string,
  out: string[],
): void {
  const rows: Record<string, string>[] = parse(csv, { columns: true, bom: true });
  if (rows.length !== lines.length) {
    out.push(`result: ${rows.length} lines of ${lines.length}`);
    return;
  }
  for (const [n, line] of lines.entries()) {
    const row = rows[n] as Record<string, string>;
    const wrong = line.code === null ? wrongRejected(row) : wrongCells(row, codes.get(line.code));
    const answered = line.code === null ? null : own.find(line.code, catalogue);
    const faults = [
      ...(row['name'] === `customer ${n}` && row['note'] === `note ${n}`
        ? []
        : ['its own columns']),
      ...wrong,
      ...(row['verdict'] === 'valid' ? wrongPurchase(row, answered) : []),
    ];
    if (faults.length > 0) out.push(`result, line ${n + 2} (${line.code}): ${faults.join(', ')}`);
  }
}

function wrongRejected({ verdict }: Record<string, string>): string[] {
  return verdict === 'rejected' ? [] : [`it holds no code and is ${verdict}`];
}

function wrongCells({ verdict }: Record<string, string>, code: KnownCode | undefined): string[] {
  const right = code?.valid === true ? 'valid' : 'invalid';
  return verdict === right ? [] : [`${verdict}, not ${right}`];
}

function wrongPurchase(
  row: Record<string, string>,
  purchase: SimulatorModule.SimPurchase | null,
): string[] {
  if (purchase === null) return ['no purchase'];
  const { itemId, license, priceCents, currency, date, supportedUntil } = purchase;
  const instant = (text: string | undefined): number | null =>
    text === undefined || text === '' ? null : Date.parse(text);
  const right = {
    item_id: row['item_id'] === String(itemId),
    license_type: LICENCES[license]?.includes(row['license_type'] ?? '') === true,
    price: Math.round(Number(row['price']) * 100) === priceCents,
    currency: row['currency'] === currency,
    purchased_at: instant(row['purchased_at']) === Date.parse(date),
    supported_until: instant(row['supported_until']) === instant(supportedUntil ?? undefined),
  };
  return Object.entries(right).flatMap(([column, is]) => (is ? [] : [`${column} ${row[column]}`]));
}

interface Stored {
  readonly verdict: 'valid' | 'invalid' | null;
  /** Proven verdicts in the ledger. */
  readonly proofs: number;
}

async function storedVerdicts(url: string): Promise<Map<string, Stored>> {
  const client = new Client(url);
  await client.connect();
  try {
    const { rows } = await client.query<{
      code: string;
      verdict: Stored['verdict'];
      proofs: number;
    }>(
      `SELECT p.code, p.verdict, count(c.check_id) FILTER (WHERE c.verdict <> 'unproven')::int AS proofs
         FROM mirror.purchase_codes p LEFT JOIN mirror.code_checks c USING (code_id)
        GROUP BY p.code_id`,
    );
    return new Map(rows.map(({ code, ...rest }) => [code, rest]));
  } finally {
    await client.end();
  }
}

const run = promisify(execFile);

/** Rows of any table in which a text occurs, by table; none is as it should be. */
export async function inDatabase(url: string, text: string): Promise<Record<string, number>> {
  const client = new Client(url);
  await client.connect();
  try {
    const { rows: tables } = await client.query<{ name: string }>(
      `SELECT format('%I.%I', schemaname, tablename) AS name FROM pg_tables
        WHERE schemaname NOT IN ('pg_catalog', 'information_schema')`,
    );
    const found: Record<string, number> = {};
    for (const { name } of tables) {
      const { rows } = await client.query<{ rows: number }>(
        `SELECT count(*)::int AS rows FROM ${name} AS t WHERE position($1 IN t::text) > 0`,
        [text],
      );
      if (rows[0] !== undefined && rows[0].rows > 0) found[name] = rows[0].rows;
    }
    return found;
  } finally {
    await client.end();
  }
}

/** How often any of the texts occurs in the append-only files of a Redis: in all that was ever written. */
export async function inRedis(url: string, texts: readonly string[]): Promise<number> {
  const ask = async (what: string): Promise<string> => {
    const { stdout } = await run('redis-cli', ['-u', url, 'config', 'get', what]);
    return stdout.trimEnd().split('\n')[1] ?? '';
  };
  const folder = join(await ask('dir'), await ask('appenddirname'));
  return readdirSync(folder).reduce(
    (sum, file) => sum + occurrences(readFileSync(join(folder, file), 'latin1'), texts),
    0,
  );
}

export function occurrences(text: string, parts: readonly string[]): number {
  return parts.reduce((sum, part) => sum + text.split(part).length - 1, 0);
}

const EVERY_MS = 250;

/** How far the audit in hand is, looked at four times a second. */
export class AuditWatch {
  readonly #client: Client;
  #total = 0;
  #pending = 0;
  #movedAt = performance.now();
  #ended = false;
  readonly #looking: Promise<void>;

  private constructor(client: Client) {
    this.#client = client;
    this.#looking = this.#look();
  }

  static async open(url: string): Promise<AuditWatch> {
    const client = new Client(url);
    await client.connect();
    return new AuditWatch(client);
  }

  /** Share of the codes that are settled, 0 to 1. */
  get share(): number {
    return this.#total === 0 ? 0 : 1 - this.#pending / this.#total;
  }

  /** For how long nothing was settled, milliseconds. */
  get stillMs(): number {
    return performance.now() - this.#movedAt;
  }

  /** Forgets for how long nothing was settled. */
  touch(): void {
    this.#movedAt = performance.now();
  }

  async #look(): Promise<void> {
    while (!this.#ended) {
      const { rows } = await this.#client.query<{ codes: number; pending: number }>(
        'SELECT codes, pending FROM mirror.audits ORDER BY audit_id DESC LIMIT 1',
      );
      const [audit] = rows;
      if (audit !== undefined && audit.pending !== this.#pending) this.touch();
      this.#total = audit?.codes ?? 0;
      this.#pending = audit?.pending ?? 0;
      await sleep(EVERY_MS);
    }
  }

  /** Calls of all audits, as the store counted them. */
  async apiCalls(): Promise<number> {
    const { rows } = await this.#client.query<{ calls: number }>(
      'SELECT coalesce(sum(api_calls), 0)::int AS calls FROM mirror.audits',
    );
    return rows[0]?.calls ?? 0;
  }

  async close(): Promise<void> {
    this.#ended = true;
    await this.#looking;
    await this.#client.end();
  }
}
