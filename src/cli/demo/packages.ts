import { readdir, readFile } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { z } from 'zod';

/** What the demo takes from the `package.json` of an installed package. */
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

export type InstalledPackage = z.infer<typeof Package>;

/**
 * The packages installed beside this program, one for each name, sorted by name: real names,
 * descriptions and versions for the demo's catalogue.
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
