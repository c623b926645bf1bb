import type { Permutation } from './random.js';
import type { CatalogueRecord, ItemState, SimItem } from './types.js';

/** What a bulk change may change. Every change shows in every profile that sends the field. */
export type TouchedField = 'price' | 'version' | 'name' | 'description' | 'tags';

/** A bulk change: applies to a share of the records without naming them. */
export interface Rule {
  readonly what:
    | { readonly kind: 'touch'; readonly field: TouchedField }
    | { readonly kind: 'state'; readonly state: ItemState };
  /** Records there were when the rule was made; later ones are not concerned. */
  readonly size: number;
  /** The rule concerns the records whose place in `order` is below this. */
  readonly picked: number;
  readonly order: Permutation;
  /** 1, 2, … in the order of making; part of the changed text, so that no touch undoes another. */
  readonly number: number;
}

/** The record after one rule. */
export function applyRule(record: CatalogueRecord, slot: number, rule: Rule): CatalogueRecord {
  if (slot >= rule.size || rule.order.at(slot) >= rule.picked) return record;
  if (rule.what.kind === 'state') return { ...record, state: rule.what.state };
  return { ...record, item: touch(record.item, rule.what.field, rule.number) };
}

function touch(item: SimItem, field: TouchedField, number: number): SimItem {
  switch (field) {
    case 'price':
      // Whole units: servers of 1.x round to them.
      return {
        ...item,
        priceRegularCents: (item.priceRegularCents ?? 0) + 100,
        priceExtendedCents: (item.priceExtendedCents ?? 0) + 500,
      };
    case 'version':
      return { ...item, version: nextMinor(item.version) };
    case 'name':
      return { ...item, name: `${item.name} v${number}` };
    case 'description':
      return { ...item, description: `${item.description}<p>Change ${number}</p>` };
    case 'tags':
      return { ...item, tags: [...item.tags, `tag${number}`] };
  }
}

/** The minor part goes up, since some servers send no more than `1.0` (field notes). */
function nextMinor(version: string | null): string {
  const [major = '1', minor = '0'] = (version ?? '1.0.0').split('.');
  return `${major}.${Number(minor) + 1}.0`;
}
