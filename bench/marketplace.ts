/** The simulated marketplace, a process of its own. Lists are rendered before they are measured. */
import type * as SimulatorModule from '../src/simulator/index.js';
import { product } from './product.js';
import { given, skim } from './tell.js';

/** What `main` may ask for; each is answered with `Ready`. */
export type Change =
  | { readonly kind: 'touch'; readonly percent: number }
  | { readonly kind: 'notation'; readonly other: boolean };

export interface Ready {
  readonly url: string;
  readonly listUrl: string;
  /** Of the list, as it stands now. */
  readonly bytes: number;
}

const simulator = (await product('simulator/index.js')) as typeof SimulatorModule;

const { items, key } = given() as { items: number; key: string };
const catalogue = simulator.seededCatalogue({ seed: 1, count: items });
const server = await simulator.startSimulator({
  sellers: [{ key, username: 'bench', catalogue }],
  prerender: true,
});

async function ready(): Promise<void> {
  const listUrl = `${server.url}/api/items/all?api_key=${key}`;
  const bytes = await skim(listUrl);
  process.send?.({ url: server.url, listUrl, bytes } satisfies Ready);
}

function change(what: Change): void {
  if (what.kind === 'touch') catalogue.touchShare(what.percent, 'price');
  else server.setProfile('documented', what.other ? simulator.notationQuirks : {});
}

process.on('message', (what: Change) => {
  change(what);
  void ready();
});
// Ctrl-C reaches this process too; it ends in order, with its files removed, when `main` lets go.
process.on('SIGINT', () => undefined);
process.once('disconnect', () => void server.close());
await ready();
