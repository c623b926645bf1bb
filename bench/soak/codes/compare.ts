import { readFileSync, readdirSync } from 'node:fs';
import { join } from 'node:path';
import { parse } from 'csv-parse/sync';
import type { Client } from 'pg';
import type { SimPurchase } from '#product/simulator/index.js';
import type { Redis } from '../../servers.js';
import type { KnownCodes } from './known-codes.js';

const MAX_DIFFERENCES = 20;
/** Some answers are translated. */
const LICENCES: Readonly<Record<string, readonly string[]>> = {
  Regular: ['Regular', 'REGULAR', 'Regulär', '通常'],
  Extended: ['Extended', 'EXTENDED', 'Erweitert', '拡張'],
};

/**
 * Compares the result file line by line, and the store code by code, with the marketplace.
 * @param csv text of the result
 * @returns counts, and the first differences as sentences
 */
export async function compare(client: Client, known: KnownCodes, csv: string) {
  const differences = resultDifferences(known, csv);
  const { rows } = await client.query<{
    code: string;
    verdict: 'valid' | 'invalid' | null;
    proofs: number;
    checks: readonly string[];
  }>(
    // A known valid code that was denied as a proof of the key is checked like the others, so it is found again. Two
    // spellings of one code are found once each, and become one code.
    `SELECT p.code, o.verdict,
            (SELECT count(*) FROM mirror.code_checks c
              WHERE c.code_id = o.code_id AND c.verdict <> 'unproven')::int
            - (SELECT count(*) FROM mirror.audit_codes a
                WHERE a.code_id = o.code_id AND a.position < 0 AND a.verdict = 'valid')::int
            - (SELECT count(*) FROM mirror.purchase_codes m WHERE m.merged_into = o.code_id)::int AS proofs,
            (SELECT json_agg(concat_ws(' ', c.verdict, c.reason, c.audit_id, c.checked_at) ORDER BY c.check_id)
               FROM mirror.code_checks c WHERE c.code_id = o.code_id) AS checks
       FROM mirror.purchase_codes p JOIN mirror.purchase_codes o ON o.code_id = coalesce(p.merged_into, p.code_id)`,
  );
  const stored = new Map(rows.map((row) => [row.code, row]));
  const counts = { valid: 0, invalid: 0, unproven: 0, wrongValid: 0, wrongInvalid: 0, lost: 0 };
  let verdictsTwice = 0;
  const missing: string[] = [];
  for (const [code, { valid }] of known.codes) {
    const { verdict, proofs, checks } = stored.get(code) ?? {};
    if (verdict === undefined || verdict === null) {
      counts[verdict === undefined ? 'lost' : 'unproven']++;
      missing.push(`store: ${code} has no verdict`);
      continue;
    }
    counts[verdict]++;
    // The first denial is recorded as an unproven check; the second one has the verdict that follows from both.
    // Of two spellings that became one code, only one may have been asked yet.
    if (proofs !== undefined && proofs > 1) {
      verdictsTwice++;
      const all = checks?.join('; ');
      differences.push(
        `store: ${code} is ${verdict} with ${proofs} verdicts in the ledger: ${all}`,
      );
    }
    if ((verdict === 'valid') === valid) continue;
    counts[valid ? 'wrongInvalid' : 'wrongValid']++;
    differences.push(`store: ${code} is ${verdict}`);
  }
  for (const code of stored.keys()) {
    if (!known.codes.has(code)) differences.push(`store: ${code} is not in the list`);
  }
  // Of a soak that did not end there are many.
  differences.push(...missing);
  return { ...counts, verdictsTwice, differences: differences.slice(0, MAX_DIFFERENCES) };
}

function resultDifferences({ lines, codes, own, catalogue }: KnownCodes, csv: string): string[] {
  const rows: Record<string, string>[] = parse(csv, { columns: true, bom: true });
  if (rows.length !== lines.length) return [`result: ${rows.length} lines of ${lines.length}`];
  return rows.flatMap((row, n) => {
    const code = lines[n]?.code ?? null;
    const right =
      code === null ? 'rejected' : codes.get(code)?.valid === true ? 'valid' : 'invalid';
    const faults: string[] = [];
    if (row['name'] !== `customer ${n}` || row['note'] !== `note ${n}`) {
      faults.push('other columns changed');
    }
    if (row['verdict'] !== right) faults.push(`${row['verdict']}, not ${right}`);
    if (row['verdict'] === 'valid') {
      const purchase = code === null ? null : own.find(code, catalogue);
      faults.push(...(purchase === null ? ['no purchase'] : wrongPurchase(row, purchase)));
    }
    return faults.length === 0 ? [] : [`result, line ${n + 2} (${code}): ${faults.join(', ')}`];
  });
}

function wrongPurchase(row: Record<string, string>, purchase: SimPurchase): string[] {
  const { itemId, license, priceCents, currency, date, supportedUntil } = purchase;
  const instant = (text: string | null | undefined): number => Date.parse(text ?? '');
  const right = {
    item_id: row['item_id'] === String(itemId),
    license_type: LICENCES[license]?.includes(row['license_type'] ?? '') === true,
    price: Math.round(Number(row['price']) * 100) === priceCents,
    currency: row['currency'] === currency,
    purchased_at: instant(row['purchased_at']) === instant(date),
    supported_until: Object.is(instant(row['supported_until']), instant(supportedUntil)),
  };
  return Object.entries(right).flatMap(([column, is]) => (is ? [] : [`${column} ${row[column]}`]));
}

/** Counts the rows that contain a text, by table. */
export async function rowsContaining(
  client: Client,
  text: string,
): Promise<Record<string, number>> {
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
}

/** Counts a text in the append-only files of a Redis, which hold all writes. */
export function occurrencesInRedis({ folder }: Redis, text: string): number {
  const files = readdirSync(join(folder, 'appendonlydir'));
  return files.reduce(
    (sum, file) =>
      sum + occurrences(readFileSync(join(folder, 'appendonlydir', file), 'latin1'), text),
    0,
  );
}

export function occurrences(text: string, part: string): number {
  return text.split(part).length - 1;
}
