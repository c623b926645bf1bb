import type { WireObject } from './answer.js';
import { Permutation } from './random.js';
import { seededSource, type ItemSource, type SeededOptions } from './seeded.js';
import type { CatalogueRecord, ItemState, SimItem } from './types.js';

/** Fields that a bulk change can change, visibly in every profile that sends them. */
type TouchedField = 'price' | 'version' | 'name' | 'description' | 'tags';

/** A bulk change of a share of all records. Stored as a rule, so that it needs no memory per record. */
interface BulkChange {
  readonly field: TouchedField;
  /** Number of records at the time of the change. Later records are not affected. */
  readonly size: number;
  /** Affects the records whose position in `order` is below this. */
  readonly picked: number;
  readonly order: Permutation;
  /** 1, 2, …; part of the changed text, so that no change undoes another. */
  readonly number: number;
}

function applyChange(record: CatalogueRecord, slot: number, change: BulkChange): CatalogueRecord {
  if (slot >= change.size || change.order.at(slot) >= change.picked) return record;
  return { ...record, item: touch(record.item, change.field, change.number) };
}

function touch(item: SimItem, field: TouchedField, number: number): SimItem {
  const { name, description, tags, version, priceRegularCents, priceExtendedCents } = item;
  const changes: Record<TouchedField, () => Partial<SimItem>> = {
    // Whole units, because 1.x servers round to them.
    price: () => ({
      priceRegularCents: (priceRegularCents ?? 0) + 100,
      priceExtendedCents: (priceExtendedCents ?? 0) + 500,
    }),
    version: () => ({ version: nextMinor(version) }),
    name: () => ({ name: `${name} v${number}` }),
    description: () => ({ description: `${description}<p>Change ${number}</p>` }),
    tags: () => ({ tags: [...tags, `tag${number}`] }),
  };
  return { ...item, ...changes[field]() };
}

/** Increments the minor part, because some servers send only two parts (servers: values). */
function nextMinor(version: string | null): string {
  const [major = '1', minor = '0'] = (version ?? '1.0.0').split('.');
  return `${major}.${Number(minor) + 1}.0`;
}

interface Override {
  readonly record: CatalogueRecord;
  /** Number of bulk changes that the record already contains. */
  readonly bulkChanges: number;
}

/**
 * A seller's items, with methods to change them. Only records that were changed one by one take memory, so a
 * catalogue may have millions of seeded items.
 */
export class Catalogue {
  readonly #source: ItemSource;
  readonly #added: SimItem[] = [];
  readonly #addedSlots = new Map<number, number>();
  readonly #overrides = new Map<number, Override>();
  readonly #bulkChanges: BulkChange[] = [];
  #orderSeed: number | null = null;
  #revision = 0;

  constructor(source: ItemSource) {
    this.#source = source;
  }

  get revision(): number {
    return this.#revision;
  }

  /** Number of records at the start. They have the first slots. */
  get initialSize(): number {
    return this.#source.count;
  }

  get size(): number {
    return this.#source.count + this.#added.length;
  }

  /** The record in a slot (0 … size-1), with all changes. */
  at(slot: number): CatalogueRecord {
    const override = this.#overrides.size === 0 ? undefined : this.#overrides.get(slot);
    let record = override?.record ?? { item: this.original(slot), state: 'listed' };
    if (this.#bulkChanges.length === 0) return record;
    for (const change of this.#bulkChanges.slice(override?.bulkChanges ?? 0)) {
      record = applyChange(record, slot, change);
    }
    return record;
  }

  /** The item in a slot, without changes. */
  original(slot: number): SimItem {
    const { count } = this.#source;
    return slot < count ? this.#source.at(slot) : inSlot(this.#added, slot - count);
  }

  /** The slot of the record with this id; -1 if there is none. */
  slotOf(id: number): number {
    return this.#addedSlots.get(id) ?? this.#source.slotOf(id);
  }

  find(id: number): CatalogueRecord | null {
    const slot = this.slotOf(id);
    return slot < 0 ? null : this.at(slot);
  }

  /** Listed records in the list's order. @param orderSeed replaces that order */
  *listed(orderSeed: number | null = this.#orderSeed): Generator<CatalogueRecord> {
    const { size } = this;
    const order = orderSeed === null ? null : new Permutation(size, orderSeed);
    for (let place = 0; place < size; place++) {
      const record = this.at(order === null ? place : order.at(place));
      if (record.state === 'listed') yield record;
    }
  }

  /** Number of listed items. Stops counting at `limit`. */
  countListed(limit = Number.POSITIVE_INFINITY): number {
    let count = 0;
    for (const records = this.listed(null); count < limit && records.next().done !== true;) count++;
    return count;
  }

  /** Every listed item once, except those whose bytes were replaced. */
  *truth(): Generator<SimItem> {
    for (const record of this.listed()) {
      if (record.raw === undefined && record.wire === undefined) yield record.item;
    }
  }

  /** True if a look-up finds the item. */
  canLookUp(id: number): boolean {
    return ['listed', 'unlisted'].includes(this.find(id)?.state ?? '');
  }

  change(id: number, fields: Partial<SimItem>): void {
    this.#edit(id, (record) => ({ ...record, item: { ...record.item, ...fields, id } }));
  }

  /** Removes an item from the list and from look-ups. */
  remove(id: number): void {
    this.setState(id, 'removed');
  }

  /** Lists an item again and undoes changes to its state and bytes. */
  restore(id: number): void {
    this.#edit(id, ({ item }) => ({ item, state: 'listed' }));
  }

  setState(id: number, state: ItemState): void {
    this.#edit(id, (record) => ({ ...record, state }));
  }

  /** Adds an item at the end of the list. @throws when its id is taken */
  add(item: SimItem): void {
    if (this.slotOf(item.id) >= 0) throw new Error(`there already is an item ${item.id}`);
    this.#addedSlots.set(item.id, this.size);
    this.#added.push(item);
    this.#revision++;
  }

  /** Sends this text instead of the record: JSON or not. */
  breakRecord(id: number, raw: string): void {
    this.#edit(id, (record) => ({ ...record, raw }));
  }

  /** Replaces fields of the record as sent, for example by a string id, a null price or an object as name. */
  setWire(id: number, wire: WireObject): void {
    this.#edit(id, (record) => ({ ...record, wire: { ...record.wire, ...wire } }));
  }

  /** Lists the item a second time, right after the first. @param wire fields replaced in the copy */
  duplicate(id: number, wire: WireObject = {}): void {
    this.#edit(id, (record) => ({ ...record, copies: [...(record.copies ?? []), wire] }));
  }

  /** Changes the order of the list. @param seed null restores the original order */
  shuffle(seed: number | null): void {
    this.#orderSeed = seed;
    this.#revision++;
  }

  /**
   * Changes a field of exactly `percent` % (rounded) of all records in any state, in constant memory.
   * @returns the number of changed records
   */
  touchShare(percent: number, field: TouchedField): number {
    const { size } = this;
    const picked = Math.round((size * percent) / 100);
    const number = this.#bulkChanges.length + 1;
    this.#bulkChanges.push({ field, size, picked, order: new Permutation(size, number), number });
    this.#revision++;
    return picked;
  }

  #edit(id: number, edit: (record: CatalogueRecord) => CatalogueRecord): void {
    const slot = this.slotOf(id);
    if (slot < 0) throw new Error(`there is no item ${id}`);
    const bulkChanges = this.#bulkChanges.length;
    this.#overrides.set(slot, { record: edit(this.at(slot)), bulkChanges });
    this.#revision++;
  }
}

export function seededCatalogue(options: SeededOptions): Catalogue {
  return new Catalogue(seededSource(options));
}

/** A catalogue of given items. @throws when two have the same id */
export function recordsCatalogue(items: readonly SimItem[]): Catalogue {
  const slots = new Map(items.map((item, slot) => [item.id, slot]));
  if (slots.size < items.length) throw new Error('two items have the same id');
  return new Catalogue({
    count: items.length,
    at: (slot) => inSlot(items, slot),
    slotOf: (id) => slots.get(id) ?? -1,
  });
}

function inSlot(items: readonly SimItem[], slot: number): SimItem {
  const item = items[slot];
  if (item === undefined) throw new RangeError(`the catalogue has no slot ${slot}`);
  return item;
}
