import { createHash } from 'node:crypto';
import {
  recordsCatalogue,
  seededCatalogue,
  startSimulator,
  type Catalogue,
  type SimItem,
  type Simulator,
} from '../../simulator/index.js';
import type { InstalledPackage } from './packages.js';

export const DEMO_SELLER = 'demo';
const FIRST_ID = 1001;
/** A catalogue smaller than this shows little; seeded items fill it up. */
const LEAST_ITEMS = 200;

/** A marketplace on this machine whose items are the installed packages. */
export async function openMarket(
  packages: readonly InstalledPackage[],
  key: string,
): Promise<Simulator> {
  const catalogue = recordsCatalogue(itemsFrom(packages));
  const account = {
    firstname: 'Dana',
    lastname: 'Demo',
    email: 'dana@demo-studio.example',
    heading: 'Everything that is installed here',
  };
  return startSimulator({
    profile: 'field-2',
    quirks: { version: 'contract', nulls: false },
    sellers: [{ key, username: 'demo-studio', account, catalogue }],
  });
}

function itemsFrom(packages: readonly InstalledPackage[]): SimItem[] {
  const items = packages.map((one, index) => itemFrom(one, FIRST_ID + index));
  const short = Math.max(0, LEAST_ITEMS - items.length);
  const filling = seededCatalogue({ seed: 1, count: short, firstId: FIRST_ID + items.length });
  return [...items, ...filling.truth()];
}

function itemFrom(one: InstalledPackage, id: number): SimItem {
  const dependencies = Object.keys(one.dependencies).length;
  const [scope, short] = one.name.startsWith('@') ? one.name.slice(1).split('/') : [null, one.name];
  const number = createHash('sha256').update(one.name).digest().readUInt32BE();
  // Priced by what it does for you: more dependencies, more work saved.
  const regular = 500 + (number % 2500) + dependencies * 300;
  const picture = `https://cdn.marketplace.example/items/${id}`;
  return {
    id,
    name: one.name,
    description: `<p>${escapeHtml(one.description)}</p>`,
    category: 'Packages',
    subCategory: scope ?? 'Unscoped',
    options: [`Licence: ${one.license ?? 'unknown'}`, `Modules: ${one.type}`],
    version: /^\d+\.\d+\.\d+$/.test(one.version) ? one.version : null,
    demoLink: one.homepage ?? `https://www.npmjs.com/package/${one.name}`,
    tags: one.keywords.map((tag) => tag.replaceAll(',', ' ')).slice(0, 12),
    thumbnail: `${picture}/thumbnail.png`,
    previewImage: `${picture}/${short ?? 'preview'}.png`,
    previewVideo: null,
    previewAudio: null,
    screenshots: [`${picture}/screenshot-1.png`],
    priceRegularCents: regular,
    priceExtendedCents: regular * 6,
    currency: 'USD',
    publishedAt: `${new Date(Date.UTC(2016, 0, 1) + (number % 250_000_000) * 1000).toISOString().slice(0, 19)}Z`,
  };
}

function escapeHtml(text: string): string {
  return text.replaceAll('&', '&amp;').replaceAll('<', '&lt;').replaceAll('>', '&gt;');
}

/** What happens in the marketplace between the demo's two runs; returns it in words. */
export function changeMarket(simulator: Simulator, key: string): string {
  const seller = simulator.seller(key);
  const { catalogue } = seller;
  const items = [...catalogue.truth()];
  const pick = (start: number, amount: number): SimItem[] => items.slice(start, start + amount);
  for (const item of pick(20, 4)) catalogue.change(item.id, { version: nextVersion(item.version) });
  for (const item of pick(60, 3)) {
    catalogue.change(item.id, {
      priceRegularCents: Math.round((item.priceRegularCents ?? 0) * 0.8),
    });
  }
  for (const item of pick(100, 1))
    catalogue.change(item.id, { name: `${item.name} (new edition)` });
  for (const item of pick(120, 2)) catalogue.remove(item.id);
  addItem(catalogue, items);
  seller.account = { ...seller.account, balanceCents: seller.account.balanceCents + 4_990 };
  return '4 new versions, 3 prices cut by 20 %, 1 new name, 1 new item, 2 withdrawn, one sale';
}

function addItem(catalogue: Catalogue, items: readonly SimItem[]): void {
  const [first] = items;
  if (first === undefined) return;
  const id = FIRST_ID + catalogue.size;
  catalogue.add({
    ...first,
    id,
    name: 'hello-marketplace',
    version: '1.0.0',
    description: '<p>Brand new.</p>',
  });
}

function nextVersion(version: string | null): string {
  const [major = '1', minor = '0'] = (version ?? '0.9.0').split('.');
  return `${major}.${Number(minor) + 1}.0`;
}
