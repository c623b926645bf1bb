import type { WireObject } from './json.js';
import { Permutation } from './random.js';
import { seededSource, type ItemSource, type SeededOptions } from './seeded.js';
import type { CatalogueRecord, ItemState, SimItem } from './types.js';

/** What a bulk change may change. Every change shows in every profile that sends the field. */
type TouchedField = 'price' | 'version' | 'name' | 'description' | 'tags';

/** A bulk change of a share of the records, which are not named one by one. */
interface Rule {
  readonly field: TouchedField;
  /** Number of records when the rule was made; it does not apply to later ones. */
  readonly size: number;
  /** The rule applies to the records whose place in `order` is below this. */
  readonly picked: number;
  readonly order: Permutation;
  /** 1, 2, …; part of the changed text, so that no rule undoes another. */
  readonly number: number;
}

function applyRule(record: CatalogueRecord, slot: number, rule: Rule): CatalogueRecord {
  if (slot >= rule.size || rule.order.at(slot) >= rule.picked) return record;
  return { ...record, item: touch(record.item, rule.field, rule.number) };
}

function touch(item: SimItem, field: TouchedField, number: number): SimItem {
  const { name, description, tags, version, priceRegularCents, priceExtendedCents } = item;
  const changes: Record<TouchedField, () => Partial<SimItem>> = {
    // Whole units: servers of 1.x round to them.
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

/** The minor part goes up, since some servers send no more than `1.0` (field notes). */
function nextMinor(version: string | null): string {
  const [major = '1', minor = '0'] = (version ?? '1.0.0').split('.');
  return `${major}.${Number(minor) + 1}.0`;
}

interface Override {
  readonly record: CatalogueRecord;
  /** How many bulk rules the record had already seen when it was written. */
  readonly seen: number;
}

/**
 * A seller's items with controls to change them. Only changed records take memory, so a catalogue
 * of a million seeded items costs nothing until it is changed one by one.
 */
export class Catalogue {
  readonly #source: ItemSource;
  readonly #added: SimItem[] = [];
  readonly #addedSlots = new Map<number, number>();
  readonly #overrides = new Map<number, Override>();
  readonly #rules: Rule[] = [];
  readonly #poisoned = new Set<number>();
  #orderSeed: number | null = null;
  #revision = 0;

  constructor(source: ItemSource) {
    this.#source = source;
  }

  get revision(): number {
    return this.#revision;
  }

  /** Number of records at the start; they have the slots from 0. */
  get firstSize(): number {
    return this.#source.count;
  }

  get size(): number {
    return this.#source.count + this.#added.length;
  }

  /** The record in a slot (0 … size-1) with all changes. */
  at(slot: number): CatalogueRecord {
    const override = this.#overrides.size === 0 ? undefined : this.#overrides.get(slot);
    let record = override?.record ?? { item: this.original(slot), state: 'listed' };
    if (this.#rules.length === 0) return record;
    for (const rule of this.#rules.slice(override?.seen ?? 0)) {
      record = applyRule(record, slot, rule);
    }
    return record;
  }

  original(slot: number): SimItem {
    const { count } = this.#source;
    return slot < count ? this.#source.at(slot) : inSlot(this.#added, slot - count);
  }

  /** The slot of the record with this id; -1 when there is none. */
  slotOf(id: number): number {
    return this.#addedSlots.get(id) ?? this.#source.slotOf(id);
  }

  find(id: number): CatalogueRecord | null {
    const slot = this.slotOf(id);
    return slot < 0 ? null : this.at(slot);
  }

  /** Listed records in the list's order; `orderSeed` overrides that order. */
  *listed(orderSeed: number | null = this.#orderSeed): Generator<CatalogueRecord> {
    const { size } = this;
    const order = orderSeed === null ? null : new Permutation(size, orderSeed);
    for (let place = 0; place < size; place++) {
      const record = this.at(order === null ? place : order.at(place));
      if (record.state === 'listed') yield record;
    }
  }

  /** How many items are listed, counted no further than `limit`. */
  countListed(limit = Number.POSITIVE_INFINITY): number {
    let count = 0;
    for (const records = this.listed(null); count < limit && records.next().done !== true;) count++;
    return count;
  }

  /** Every listed item once, without those whose bytes were replaced. */
  *truth(): Generator<SimItem> {
    for (const record of this.listed()) {
      if (record.raw === undefined && record.wire === undefined) yield record.item;
    }
  }

  answers(id: number): boolean {
    return ['listed', 'unlisted'].includes(this.find(id)?.state ?? '');
  }

  change(id: number, fields: Partial<SimItem>): void {
    this.#edit(id, (record) => ({ ...record, item: { ...record.item, ...fields, id } }));
  }

  /** Takes an item out of the list and of look-ups. */
  remove(id: number): void {
    this.setState(id, 'removed');
  }

  /** Lists an item again and undoes changes of its state or bytes. */
  restore(id: number): void {
    this.#edit(id, ({ item }) => ({ item, state: 'listed' }));
  }

  /** `pending`: neither listed nor found by look-ups; `unlisted`: found by look-ups only. */
  setState(id: number, state: ItemState): void {
    this.#edit(id, (record) => ({ ...record, state }));
  }

  /** Adds an item at the end of the list. Throws when there is a record with its id. */
  add(item: SimItem): void {
    if (this.slotOf(item.id) >= 0) throw new Error(`there is an item ${item.id} already`);
    this.#addedSlots.set(item.id, this.size);
    this.#added.push(item);
    this.#revision++;
  }

  /** Sends this text instead of the record: JSON or not. */
  breakRecord(id: number, raw: string): void {
    this.#edit(id, (record) => ({ ...record, raw }));
  }

  /** Replaces fields of the record as sent: a string id, a null price, an object for a name. */
  setWire(id: number, wire: WireObject): void {
    this.#edit(id, (record) => ({ ...record, wire: { ...record.wire, ...wire } }));
  }

  /** One broken item turns the whole list into a 500 (field notes). */
  poison(id: number): void {
    this.#edit(id, (record) => ({ ...record, poisoned: true }));
    this.#poisoned.add(id);
  }

  isPoisoned(): boolean {
    return [...this.#poisoned].some((id) => {
      const record = this.find(id);
      return record?.state === 'listed' && record.poisoned === true;
    });
  }

  /** Lists the item once more, right after itself, with other wire fields if given. */
  duplicate(id: number, wire: WireObject = {}): void {
    this.#edit(id, (record) => ({ ...record, copies: [...(record.copies ?? []), wire] }));
  }

  /** Another order of the list; null is the original order. */
  shuffle(seed: number | null): void {
    this.#orderSeed = seed;
    this.#revision++;
  }

  /**
   * Changes a field of exactly `percent` % (rounded) of all records in any state, picked by the seed.
   * Returns their number. Takes no memory, however many there are.
   */
  touchShare(percent: number, field: TouchedField): number {
    const { size } = this;
    const picked = Math.round((size * percent) / 100);
    const number = this.#rules.length + 1;
    this.#rules.push({ field, size, picked, order: new Permutation(size, number), number });
    this.#revision++;
    return picked;
  }

  #edit(id: number, edit: (record: CatalogueRecord) => CatalogueRecord): void {
    const slot = this.slotOf(id);
    if (slot < 0) throw new Error(`there is no item ${id}`);
    this.#overrides.set(slot, { record: edit(this.at(slot)), seen: this.#rules.length });
    this.#revision++;
  }
}

export function seededCatalogue(options: SeededOptions): Catalogue {
  return new Catalogue(seededSource(options));
}

/** A catalogue of explicit records. Throws when an id comes twice. */
export function recordsCatalogue(items: readonly SimItem[]): Catalogue {
  const slots = new Map(items.map((item, slot) => [item.id, slot]));
  if (slots.size < items.length) throw new Error('an id comes twice among the items');
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
