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
