import { readFileSync } from 'node:fs';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { Mirror } from '../../support/mirror.js';
import { CONTRACT } from './contract.js';
import { fillStore } from './data.js';

const DOCS = readFileSync(new URL('../../../docs/reporting.md', import.meta.url), 'utf8');

interface Section {
  readonly name: string;
  readonly columns: readonly string[];
  readonly examples: readonly string[];
}

/** The examples in a part of the document. */
function examplesIn(text: string): string[] {
  return [...text.matchAll(/^```sql\n(.*?)^```$/gms)].map(([, sql = '']) => sql);
}

/** What the document says of each view and function. */
function sections(): Section[] {
  return DOCS.split(/^### /m)
    .slice(1)
    .map((text) => {
      const name = /^`reporting\.(\S+)`$/m.exec(text)?.[1] ?? text;
      const columns = /^Columns: (.*?)\n\n/ms.exec(text)?.[1]?.replaceAll('`', '') ?? '';
      return {
        name,
        columns: columns.replace(/\s+/g, ' ').split(', '),
        examples: examplesIn(text),
      };
    });
}

let mirror: Mirror;
beforeAll(async () => {
  mirror = await Mirror.open();
  await fillStore(mirror);
  // Yesterday's noon is not a day ago before today's: one copy is older at any time of the day.
  await mirror.pool.query(
    `UPDATE mirror.runs SET finished_at = finished_at - interval '1 day' WHERE seller_id = 'second'`,
  );
});
afterAll(() => mirror.close());

describe('docs/reporting.md', () => {
  it('lists the views and functions of the contract, and their columns', () => {
    const told = sections().map(({ name, columns }) => [name, columns]);
    expect(Object.fromEntries(told)).toEqual(CONTRACT);
  });

  it('has an example of each, which answers with rows and whose every column has a name', async () => {
    for (const { name, examples } of sections()) {
      expect(examples.length, name).toBeGreaterThan(0);
      for (const sql of examples) expect(sql, name).toContain(`reporting.${name.split('(')[0]}`);
    }
    for (const sql of examplesIn(DOCS)) {
      const { rows, fields } = await mirror.pool.query(sql);
      expect(rows.length, sql).toBeGreaterThan(0);
      for (const { name } of fields) expect(name, sql).not.toMatch(/^\?column\?$/);
    }
  });

  it('names every view in its table', () => {
    const table = DOCS.slice(DOCS.indexOf('| View '));
    const views = [...table.matchAll(/^\| `reporting\.(\w+)`/gm)].map(([, name]) => name);
    const offered = Object.keys(CONTRACT).filter((name) => !name.includes('('));
    expect(new Set(views)).toEqual(new Set(offered));
    expect(views).toHaveLength(offered.length);
  });
});
