import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import {
  seededCatalogue,
  startSimulator,
  type Fault,
  type SellerSpec,
  type Simulator,
} from '#product/simulator/index.js';
import { pick, type Random } from './setup.js';

const ITEMS = 250;

const FAULTS: readonly Fault[] = [
  { kind: 'server-error' },
  { kind: 'truncate', how: 'destroy', fraction: 0.5 },
  { kind: 'html' },
  { kind: 'rate-limited', retryAfter: 2 },
  { kind: 'reset' },
  { kind: 'challenge' },
];

export function keyOf(seller: string): string {
  return `k3y-of-${seller}-0123456789abcdef`;
}

/** Makes sellers `seller-1`, `seller-2` and so on, each with items of its own. */
export function sellerSpecs(count: number, items: number): SellerSpec[] {
  return Array.from({ length: count }, (_, index) => {
    const username = `seller-${index + 1}`;
    const firstId = index * 10_000 + 1;
    const catalogue = seededCatalogue({ seed: index + 1, count: items, firstId });
    return { key: keyOf(username), username, catalogue };
  });
}

/** Writes the sellers file into `folder`. @returns the settings for these sellers */
export function sellersEnvironment(
  folder: string,
  url: string,
  sellers: readonly SellerSpec[],
): NodeJS.ProcessEnv {
  const file = join(folder, 'sellers.json');
  const listed = sellers.map(({ username: name }, index) => ({
    name,
    url,
    keyEnv: `KEY_${index}`,
  }));
  writeFileSync(file, JSON.stringify({ sellers: listed }));
  return {
    PATH: process.env['PATH'],
    HOME: folder,
    SELLERS_FILE: file,
    HEALTH_LISTEN: 'off',
    LOG_FORMAT: 'json',
    ...Object.fromEntries(sellers.map(({ key }, index) => [`KEY_${index}`, key])),
  };
}

/** A simulated marketplace with changing catalogues and failing replies. */
export class Market {
  changes = 0;
  faults = 0;
  #nextId = 900_000;

  private constructor(
    readonly simulator: Simulator,
    readonly sellers: readonly SellerSpec[],
    readonly random: Random,
  ) {}

  static async open(count: number, random: Random): Promise<Market> {
    const sellers = sellerSpecs(count, ITEMS);
    return new Market(await startSimulator({ profile: 'field-2', sellers }), sellers, random);
  }

  /** Changes, adds or removes one item of one seller. */
  change(): void {
    this.changes++;
    const { random } = this;
    const { catalogue } = pick(random, this.sellers);
    const listed = [...catalogue.truth()];
    const { id } = pick(random, listed);
    const what = random();
    if (what < 0.6) catalogue.change(id, { priceRegularCents: Math.floor(random() * 10_000) });
    else if (what < 0.8) catalogue.change(id, { name: `Renamed ${this.changes}` });
    else if (what < 0.9 && listed.length > ITEMS / 2) catalogue.remove(id);
    else catalogue.add({ ...pick(random, listed), id: this.#nextId++ });
  }

  /** Makes the next reply to one operation fail. */
  injectFault(): void {
    this.faults++;
    const operation = pick(this.random, ['account', 'list', 'item'] as const);
    this.simulator.faults.next(operation, pick(this.random, FAULTS));
  }
}
