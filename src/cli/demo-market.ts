import { createHash } from 'node:crypto';
import { readFile, readdir } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { z } from 'zod';
import {
  recordsCatalogue,
  seededCatalogue,
  startSimulator,
  type Catalogue,
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

/**
 * Finds the packages installed beside this program, one for each name, sorted by name. They give the
 * demo's catalogue real names, descriptions and versions.
 */
export async function installedPackages(): Promise<InstalledPackage[]> {
  const found = new Map<string, InstalledPackage>();
  for (const folder of nodeModulesAbove(dirname(fileURLToPath(import.meta.url)))) {
    for (const file of await manifests(folder)) {
      const read = Package.safeParse(await readJson(file));
      if (read.success && !found.has(read.data.name)) found.set(read.data.name, read.data);
    }
  }
  return [...found.values()].sort((a, b) => (a.name < b.name ? -1 : 1));
}

function nodeModulesAbove(folder: string): string[] {
  const parent = dirname(folder);
  const here = join(folder, 'node_modules');
  return parent === folder ? [here] : [here, ...nodeModulesAbove(parent)];
}

async function manifests(nodeModules: string): Promise<string[]> {
  const names = await readdir(nodeModules).catch(() => []);
  const files: string[][] = [];
  for (const name of names) {
    const folder = join(nodeModules, name);
    if (name.startsWith('.')) continue;
    if (name.startsWith('@')) files.push(await manifests(folder));
    else files.push([join(folder, 'package.json')], await manifests(join(folder, 'node_modules')));
  }
  return files.flat();
}

async function readJson(file: string): Promise<unknown> {
  try {
    return JSON.parse(await readFile(file, 'utf8'));
  } catch {
    return null;
  }
}

export const DEMO_SELLER = 'demo';
const FIRST_ID = 1001;
/** A smaller catalogue shows little: seeded items fill it up. */
const LEAST_ITEMS = 200;

/** Starts a marketplace on this machine whose items are the installed packages. */
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
