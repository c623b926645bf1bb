import type * as SimulatorModule from '../../src/simulator/index.js';
import { product } from '../product.js';

const { startSimulator, seededCatalogue } = (await product(
  'simulator/index.js',
)) as typeof SimulatorModule;

export const ITEMS = 250;

const FAULTS: readonly SimulatorModule.Fault[] = [
  { kind: 'server-error' },
  { kind: 'truncate', how: 'destroy', fraction: 0.5 },
  { kind: 'html' },
  { kind: 'rate-limited', retryAfter: 2 },
  { kind: 'reset' },
  { kind: 'challenge' },
];

/** A marketplace whose sellers change their catalogues all the time. */
export class Market {
  readonly #random: () => number;
  #changes = 0;
  #nextId = 900_000;

  private constructor(
    readonly simulator: SimulatorModule.Simulator,
    readonly sellers: readonly string[],
    random: () => number,
  ) {
    this.#random = random;
  }

  static async open(count: number, random: () => number): Promise<Market> {
    const names = Array.from({ length: count }, (_, index) => `seller-${index + 1}`);
    const simulator = await startSimulator({
      profile: 'field-2',
      sellers: names.map((username, index) => ({
        key: keyOf(username),
        username,
        catalogue: seededCatalogue({ seed: index + 1, count: ITEMS, firstId: index * 10_000 + 1 }),
      })),
    });
    return new Market(simulator, names, random);
  }

  get changes(): number {
    return this.#changes;
  }

  get url(): string {
    return this.simulator.url;
  }

  /** Changes one thing somewhere. */
  change(): void {
    this.#changes++;
    const { catalogue } = this.#seller(this.#pick(this.sellers));
    const listed = [...catalogue.truth()];
    const { id } = this.#pick(listed);
    const what = this.#random();
    if (what < 0.6)
      catalogue.change(id, { priceRegularCents: Math.floor(this.#random() * 10_000) });
    else if (what < 0.8) catalogue.change(id, { name: `Renamed ${this.#changes}` });
    else if (what < 0.9 && listed.length > ITEMS / 2) catalogue.remove(id);
    else catalogue.add({ ...this.#pick(listed), id: this.#nextId++ });
  }

  /** One reply goes wrong, in one of the ways of real servers. */
  disturb(): void {
    const operation = this.#pick(['account', 'list', 'item'] as const);
    this.simulator.faults.next(operation, this.#pick(FAULTS));
  }

  /** What is listed now: id to name and price. */
  truthOf(name: string): Map<number, string> {
    const { catalogue } = this.#seller(name);
    return new Map(
      [...catalogue.truth()].map((item) => [item.id, `${item.name} ${item.priceRegularCents}`]),
    );
  }

  #seller(name: string): SimulatorModule.Seller {
    return this.simulator.seller(keyOf(name));
  }

  #pick<T>(list: readonly T[]): T {
    return list[Math.floor(this.#random() * list.length)] as T;
  }
}

export function keyOf(seller: string): string {
  return `k3y-of-${seller}-0123456789abcdef`;
}
