import { expect, it } from 'vitest';
import { ITEMS } from '../../src/catalogue/items-listing.js';
import { syncItems } from '../../src/catalogue/sync-items.js';
import { pagesOf } from '../../src/listing/listing.js';
import { seededCatalogue } from '../../src/simulator/index.js';
import { KEY, never, useMirror } from '../support/mirror.js';

const mirror = useMirror();

it('a file of items is a picture of one moment, however long it takes to write', async () => {
  const catalogue = seededCatalogue({ seed: 3, count: 5 });
  const sim = await mirror().simulate({ sellers: [{ key: KEY, username: 'ada', catalogue }] });
  await syncItems(mirror().deps(sim.url), never);
  const { db } = mirror();
  const names: string[] = [];
  for await (const rows of pagesOf(ITEMS, db, {}, { face: 'files', size: 1 })) {
    names.push(...rows.map(({ name }) => name));
    await mirror().rows(`UPDATE mirror.items SET name = 'Later'`);
  }
  expect(names).toHaveLength(5);
  expect(names).not.toContain('Later');
});
