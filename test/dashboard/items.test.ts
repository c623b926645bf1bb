import { parquetReadObjects } from 'hyparquet';
import { readSheet } from 'read-excel-file/node';
import { describe, expect, it } from 'vitest';
import { maskCode } from '../../src/domain/secret.js';
import { printable } from '../../src/dashboard/format.js';
import { mirrorSeller, unescaped, useDashboard, type Visitor } from './dashboard.js';

const { mirror, dashboard } = useDashboard();

/** Ids of the items that a search finds. */
async function search(visitor: Visitor, text: string): Promise<(string | undefined)[]> {
  const page = await visitor.page(`/items?search=${encodeURIComponent(text)}`);
  return [...page.matchAll(/\/items\/main\/(\d+)/g)].map(([, id]) => id);
}

describe('the search for items', () => {
  it('finds part of a name, a tag and an id, and accepts numbers of any length', async () => {
    await mirrorSeller(mirror());
    await mirror().rows(`UPDATE mirror.items SET name = 'Menu 99% ' || item_id, tags = '{}'`);
    await mirror().rows(`UPDATE mirror.items SET tags = '{1001}' WHERE item_id = 1005`);
    await mirror().rows(`UPDATE mirror.items SET name = 'Shop' WHERE item_id = 1001`);
    const visitor = await dashboard().login();
    expect(await search(visitor, '9% 1')).toEqual(['1002', '1003', '1004', '1005']);
    expect(await search(visitor, 'sHo')).toEqual(['1001']);
    expect(await search(visitor, '1001')).toEqual(['1001', '1005']);
    for (const text of ['01001', '9'.repeat(19), '9'.repeat(40), '0x3e9']) {
      expect(await search(visitor, text), text).toEqual([]);
    }
  });

  it('matches part of a name with any letters, wildcards, digits and punctuation', async () => {
    await mirrorSeller(mirror());
    const name = 'Körbe Quik%_\\ (273.15 \u212Aelvin)';
    await mirror().rows(
      `UPDATE mirror.items SET name = CASE item_id WHEN 1003 THEN $1 ELSE 'Other' END`,
      [name],
    );
    const visitor = await dashboard().login();
    for (const text of [
      ...['QUIK', 'qUiK', 'ik', 'körbe', 'KÖRBE q', '_\\ (', '%', '_', '273.15', ' ('],
      // A letter whose lower case is in ASCII.
      ...['kelvin', 'K'],
    ]) {
      expect(await search(visitor, text), text).toEqual(['1003']);
    }
  });
});

describe('changes', () => {
  it('that most items of a run share are one line with a link to each, and those of a list name its entries', async () => {
    await mirrorSeller(mirror());
    await mirror().rows(
      `INSERT INTO mirror.item_changes (seller_id, item_id, run_id, changed_at, class, field, old_value, new_value)
       SELECT 'main', n, run_id, started_at, 'release', 'version', '"1.0"', '"2.0"'
         FROM mirror.runs, generate_series(2001, 2060) n WHERE kind = 'items'`,
    );
    const visitor = await dashboard().login();
    const page = await visitor.page('/changes');
    expect(page.match(/1\.0 → 2\.0/g)).toHaveLength(1);
    const [, link = ''] = /href="([^"]*)"[^>]*><bdi[^>]*>60 of 60 items</.exec(page) ?? [];
    const each = await visitor.page(unescaped(link));
    expect(each.match(/1\.0 → 2\.0/g)).toHaveLength(25);
    expect(each).toContain('1 to 25 of 60');
    const [, next = ''] = /href="([^"]*)" rel="next"/.exec(each) ?? [];
    expect(await visitor.page(unescaped(next))).toContain('26 to 50 of 60');
    const csv = await (await visitor.get('/changes.csv')).text();
    expect(csv.match(/,1\.0,2\.0,/g)).toHaveLength(60);
    await mirror().rows(
      `INSERT INTO mirror.item_changes (seller_id, item_id, run_id, changed_at, class, field, old_value, new_value)
       SELECT 'main', 1, max(run_id), now(), 'text', 'tags', '["red","blue"]', '["green","grey"]'
         FROM mirror.runs`,
    );
    const tags = (await visitor.page('/changes')).replaceAll(/<[^>]+>/g, '');
    expect(tags, 'entries of a list').toContain('+green +grey −red −blue');
  });

  it('have unchanged texts and formatted prices in every download', async () => {
    await mirrorSeller(mirror());
    await mirror().rows(
      `INSERT INTO mirror.item_changes (seller_id, item_id, run_id, changed_at, class, field, old_value, new_value)
       SELECT 'main', 1, max(run_id), '2026-03-01 02:00:00.5Z', c.class::mirror.change_class, c.field, c.old, c.new
         FROM mirror.runs, (VALUES ('price', 'price_regular', '"10.00"'::jsonb, '"8.00"'::jsonb),
                                   ('text', 'name', '"1.5"', '"=1+1"')) AS c (class, field, old, new)
        GROUP BY c.class, c.field, c.old, c.new`,
    );
    const visitor = await dashboard().login();
    const page = await visitor.page('/changes?class=price');
    expect(page).toContain('/changes.csv?class=price&amp;decimal=comma');
    const comma = await (await visitor.get('/changes.csv?item=1&decimal=comma')).text();
    expect(comma).toMatch(/;text;name;1\.5;'=1\+1;;\r\n/);
    expect(comma).toMatch(/;price;price_regular;10,00;8,00;;-20,00\r\n/);
    const book = await visitor.get('/changes.xlsx?class=text');
    const [, cells] = await readSheet(Buffer.from(await book.arrayBuffer()));
    expect(cells?.slice(1, 5)).toEqual([
      'main',
      expect.any(Number),
      new Date('2026-03-01T02:00:00.500Z'),
      1,
    ]);
    expect(cells?.slice(8, 10)).toEqual(['1.5', '=1+1']);
    const parquet = await visitor.get('/changes.parquet?class=price');
    expect(await parquetReadObjects({ file: await parquet.arrayBuffer() })).toMatchObject([
      { item_id: 1n, old_value: '10.00', percent: -20 },
    ]);
  });
});

it('printable text has a limited number of stacked marks', () => {
  expect(printable(`e${'\u0301'.repeat(400)}`)).toHaveLength(7);
  expect(printable('Tiếng Việt')).toBe('Tiếng Việt');
});

it('the page of an item masks purchase codes of any form for viewers', async () => {
  await mirrorSeller(mirror());
  const code = 'ORDER-4711-OF-ADA';
  await mirror().rows(
    `INSERT INTO mirror.purchase_codes (seller_id, code, item_id, verdict, purchase_seen_at, raw)
     VALUES ('main', '${code}', 1001, 'valid', now(), '{}')`,
  );
  const operator = await dashboard().login('operator');
  expect(await operator.page('/items/main/1001')).toContain(code);
  const viewer = await dashboard().login('viewer');
  const page = await viewer.page('/items/main/1001');
  expect(page).toContain(maskCode(code));
  expect(page).not.toContain(code);
});
