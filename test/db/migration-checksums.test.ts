import { createHash } from 'node:crypto';
import { readdirSync, readFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { expect, it } from 'vitest';

/**
 * SHA-256 of each migration, the first 16 hex digits. A new migration gets a line here; an existing line never
 * changes, because stores that applied the file would differ from those that apply the edited one.
 */
const CHECKSUMS: Readonly<Record<string, string>> = {
  '20261125000000_init': 'c7e680c526969fc7',
  '20261128100000_code_values': 'c95e6caea16f93c2',
  '20261128100100_codes': '70bbb170adbd6430',
  '20261128101000_random_parameter': '596807c7a22becac',
  '20261128110000_feeds': '1867195a1e3a8486',
  '20261128130000_catalogue': '23bda05f1b7c1911',
  '20261128110000_denied_codes': 'b09c1c7a8828b754',
  '20261128140000_jobs': 'aad4352e95561d4e',
  '20261128123500_downloaded': '361a45cf2d103941',
  '20261128153800_sellers_asked': '3d2dc7dc8da37d3a',
  '20261128153800_drafts': 'f8f23d9ed93d7e0d',
  '20261128180000_management': 'c135325d7609d190',
  '20261128190000_unused_counts': 'f950b9ff7b1d314c',
  '20261128190000_login_links': 'baa7002287995f3b',
};

const FOLDER = fileURLToPath(new URL('../../prisma/migrations', import.meta.url));

it('no migration is edited or left out, because stores in use have applied it as it was', () => {
  const names = readdirSync(FOLDER, { withFileTypes: true })
    .filter((entry) => entry.isDirectory())
    .map(({ name }) => name);
  const found = names.sort().map((name) => {
    const sql = readFileSync(`${FOLDER}/${name}/migration.sql`);
    return [name, createHash('sha256').update(sql).digest('hex').slice(0, 16)];
  });
  expect(Object.fromEntries(found)).toEqual(CHECKSUMS);
});
