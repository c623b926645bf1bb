/** What changes are grouped by. */
export interface PlacedChange {
  readonly sellerId: string;
  readonly runId: bigint;
  readonly changedAt: Date;
  readonly itemId: bigint;
}

/** Changes of one item in a run, in their order. */
export interface ItemGroup<C extends PlacedChange> {
  readonly itemId: bigint;
  readonly changes: readonly C[];
}

/** Changes that one run found, by item. */
export interface RunGroup<C extends PlacedChange> {
  readonly runId: bigint;
  readonly sellerId: string;
  readonly changedAt: Date;
  readonly items: readonly ItemGroup<C>[];
}

/**
 * Groups changes by run, in the order in which they are told, and within it by item, by number: a
 * run tells items in no order that means anything. A run that goes on after another one is a group
 * again.
 */
export function groupChanges<C extends PlacedChange>(changes: readonly C[]): RunGroup<C>[] {
  const groups: { readonly first: C; readonly items: Map<bigint, C[]> }[] = [];
  for (const change of changes) {
    let group = groups.at(-1);
    if (group === undefined || !isSameRun(group.first, change)) {
      group = { first: change, items: new Map() };
      groups.push(group);
    }
    const { items } = group;
    const known = items.get(change.itemId);
    if (known === undefined) items.set(change.itemId, [change]);
    else known.push(change);
  }
  return groups.map(({ first: { runId, sellerId, changedAt }, items }) => ({
    ...{ runId, sellerId, changedAt },
    items: [...items]
      .map(([itemId, ofItem]) => ({ itemId, changes: ofItem }))
      .sort((a, b) => Number(a.itemId - b.itemId)),
  }));
}

/** Whether two changes were found by the same run. */
export function isSameRun(a: PlacedChange, b: PlacedChange): boolean {
  return a.runId === b.runId && a.sellerId === b.sellerId;
}
