import { createHash } from 'node:crypto';
import { readFile, readdir } from 'node:fs/promises';
import { createRequire } from 'node:module';
import { join } from 'node:path';
import { z } from 'zod';
import {
  recordsCatalogue,
  seededCatalogue,
  startSimulator,
  type SimItem,
  type Simulator,
} from '../simulator/index.js';

/** The fields of an installed package’s `package.json` that the demo shows. */
const Package = z.object({
  name: z.string().min(1),
  version: z.string(),
  description: z.string().catch(''),
  keywords: z.array(z.string()).catch([]),
  homepage: z.string().nullable().catch(null),
  license: z.string().nullable().catch(null),
  type: z.string().catch('commonjs'),
  dependencies: z.record(z.string(), z.unknown()).catch({}),
});

type InstalledPackage = z.infer<typeof Package>;

/** The packages installed beside this program give the demo real names, descriptions and versions. */
export async function installedPackages(): Promise<InstalledPackage[]> {
  const found = new Map<string, InstalledPackage>();
  for (const folder of createRequire(import.meta.url).resolve.paths('a-package') ?? []) {
    for (const file of await manifests(folder)) {
      const manifest = readFile(file, 'utf8').then((text) => JSON.parse(text) as unknown);
      const read = Package.safeParse(await manifest.catch(() => null));
      if (read.success && !found.has(read.data.name)) found.set(read.data.name, read.data);
    }
  }
  return [...found.values()].sort((a, b) => (a.name < b.name ? -1 : 1));
}

async function manifests(nodeModules: string): Promise<string[]> {
  const names = (await readdir(nodeModules).catch(() => [])).filter((one) => !one.startsWith('.'));
  const files = names.map(async (name) => {
    const folder = join(nodeModules, name);
    return name.startsWith('@') ? await manifests(folder) : [join(folder, 'package.json')];
  });
  return (await Promise.all(files)).flat();
}

export const DEMO_SELLER = 'demo';
const FIRST_ID = 1001;
/** A smaller catalogue shows little: seeded items fill it up. */
const LEAST_ITEMS = 200;

export async function openMarket(
  packages: readonly InstalledPackage[],
  key: string,
): Promise<Simulator> {
  const items = packages.map((one, index) => itemFrom(one, FIRST_ID + index));
  const short = Math.max(0, LEAST_ITEMS - items.length);
  const filling = seededCatalogue({ seed: 1, count: short, firstId: FIRST_ID + items.length });
  const account = {
    firstname: 'Dana',
    lastname: 'Demo',
    email: 'dana@demo-studio.example',
    heading: 'Everything that is installed here',
  };
  const catalogue = recordsCatalogue([...items, ...filling.truth()]);
  return startSimulator({
    profile: 'field-2',
    quirks: { version: 'contract', nulls: false },
    sellers: [{ key, username: 'demo-studio', account, catalogue }],
  });
}

function itemFrom(one: InstalledPackage, id: number): SimItem {
  const dependencies = Object.keys(one.dependencies).length;
  const [scope, short] = one.name.startsWith('@') ? one.name.slice(1).split('/') : [null, one.name];
  const number = createHash('sha256').update(one.name).digest().readUInt32BE();
  // A package with more dependencies costs more.
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

/** Changes the marketplace between the demo's two runs. @returns the changes in words */
export function changeMarket(simulator: Simulator, key: string, night = 0): string {
  const seller = simulator.seller(key);
  const { catalogue } = seller;
  const all = [...catalogue.truth()];
  // Each night changes other items.
  const items = [...all.slice(7 * night), ...all.slice(0, 7 * night)];
  for (const { id, version } of items.slice(20, 24)) {
    const [major = '0', minor = '9'] = version?.split('.') ?? [];
    catalogue.change(id, { version: `${major}.${Number(minor) + 1}.0` });
  }
  for (const { id, priceRegularCents } of items.slice(60, 63)) {
    catalogue.change(id, { priceRegularCents: Math.round((priceRegularCents ?? 0) * 0.8) });
  }
  for (const { id, name } of items.slice(100, 101)) {
    catalogue.change(id, { name: `${name} (new edition)` });
  }
  for (const { id } of items.slice(120, 122)) catalogue.remove(id);
  for (const first of items.slice(0, 1)) {
    const id = FIRST_ID + catalogue.size;
    const name = 'hello-marketplace';
    catalogue.add({ ...first, id, name, version: '1.0.0', description: '<p>Brand new.</p>' });
  }
  seller.account = { ...seller.account, balanceCents: seller.account.balanceCents + 4_990 };
  return '4 new versions, 3 prices cut by 20 %, 1 new name, 1 new item, 2 withdrawn, one sale';
}
