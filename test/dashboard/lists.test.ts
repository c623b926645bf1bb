import { parse } from 'csv-parse/sync';
import { expect, it } from 'vitest';
import { fileWith, printed } from '../cli/support.js';
import { KEY } from '../support/mirror.js';
import { useShop } from './shop.js';

const { shop, operator, env } = useShop();

/** Two nights and a check of codes. */
async function fill(): Promise<void> {
  const { catalogue } = shop().sim.seller(KEY);
  await printed(['sync'], env());
  const [first, second] = [...catalogue.truth()];
  catalogue.change(first?.id ?? 0, { priceRegularCents: 900, name: 'Shop' });
  catalogue.remove(second?.id ?? 0);
  await printed(['sync'], env());
  await printed(['codes', 'check', fileWith(`code\n${shop().purchases.codeAt(0)}\n`)], env());
}

it('a filter selects the same rows at the terminal, on the page and in the file, since it is described once', async () => {
  await fill();
  const item = String([...shop().sim.seller(KEY).catalogue.truth()][0]?.id);
  const cases: readonly (readonly [list: string, filter: string, value: string])[] = [
    ['runs', 'state', 'succeeded'],
    ['runs', 'seller', 'main'],
    ['items', 'search', 'shop'],
    ['items', 'state', 'removed'],
    ['items', 'item', item],
    ['items', 'sort', 'price'],
    ['changes', 'class', 'price'],
    ['changes', 'item', item],
    ['changes', 'run', '4'],
    ['changes', 'since', '2001-01-01'],
    ['audits', 'state', 'finished'],
    ['audits', 'state', 'failed'],
  ];
  for (const [list, filter, value] of cases) {
    const command = [list, `--${filter}`, value, '--limit', '1000'];
    const query = new URLSearchParams({ [filter]: value }).toString();
    const why = `${list} by ${filter} ${value}`;
    const csv = await printed([...command, '--format', 'csv'], env());
    const file = await operator().get(`/${list}.csv?${query}`);
    expect(await file.text(), why).toBe(csv);
    const rows = parse(csv, { columns: true, bom: true });
    const page = await operator().page(`/${list}?${query}`);
    const place =
      rows.length === 0
        ? `No ${list.replace('audit', 'check')} match the filter.`
        : `1 to ${rows.length} of`;
    expect(page, why).toContain(place);
    // Nobody downloads an empty file.
    expect(page.includes('Download</summary>'), why).toBe(rows.length > 0);
  }
});

it('a list leaves out the seller where there is one, zeros, and states that are all good', async () => {
  await fill();
  const headsOf = async (path: string): Promise<(string | undefined)[]> =>
    [...(await operator().page(path)).matchAll(/<th[^>]*>([^<]*)</g)].map(([, name]) => name);
  expect(await headsOf('/runs')).not.toContain('Seller');
  expect(await headsOf('/runs')).not.toContain('State');
  expect(await headsOf('/items')).toContain('State');
  expect(await operator().page('/items')).not.toContain('name="seller"');
});
