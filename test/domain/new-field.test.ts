import { readFileSync } from 'node:fs';
import { beforeAll, expect, it } from 'vitest';
import { ITEM_FIELDS } from '../../src/domain/item.js';
import { decodeItem } from '../../src/marketplace/decode.js';
import { useMirror } from '../support/mirror.js';

const mirror = useMirror();

const SCHEMA = readFileSync(new URL('../../prisma/schema.prisma', import.meta.url), 'utf8');
const [, MODEL = ''] = /^model Item \{\n(.*?)^\}/ms.exec(SCHEMA) ?? [];
const [, COLUMNS = ''] =
  /^## `reporting\.items`\n.*?^Columns: (.*?)\n\n/ms.exec(
    readFileSync(new URL('../../docs/views.md', import.meta.url), 'utf8'),
  ) ?? [];

/** Columns by table or view. */
const places = new Map<string, readonly string[]>();
beforeAll(async () => {
  const rows = await mirror().rows<{ place: string; columns: string[] }>(
    `SELECT table_schema || '.' || table_name AS place, array_agg(column_name::text) AS columns
       FROM information_schema.columns GROUP BY 1`,
  );
  for (const { place, columns } of rows) places.set(place, columns);
});

// The steps of "A field of an item" in docs/architecture.md, which a new field follows.
it.each(ITEM_FIELDS)(
  'the field $key is decoded, stored, kept in history, published and described',
  (field) => {
    const { key, column } = field;
    const decoding = decodeItem({ id: 1, name: 'A theme' });
    expect(decoding.ok && Object.keys(decoding.decoded.value), 'marketplace/decode.ts').toContain(
      key,
    );
    for (const place of [
      'mirror.items',
      'mirror.item_versions',
      'reporting.items',
      'reporting.item_history',
    ]) {
      expect(places.get(place), `the migration: ${place}`).toContain(column);
    }
    const name = new RegExp(`^  ${key} .*|@map\\("${column}"\\)`, 'm');
    expect(MODEL, 'prisma/schema.prisma').toMatch(name);
    expect(COLUMNS.replaceAll(/\s+/g, ' '), 'docs/views.md').toContain(`\`${column}\` `);
  },
);
