import fc from 'fast-check';
import type { Json } from '../../src/domain/item.js';
import { FOLLOWED_VIEWS } from '../../src/store/feed-rules.js';
import type { Store } from '../../src/store/store.js';
import { at, invalid, load, pending, purchaseOf, valid } from '../store/audits/support.js';
import type { HistoryBook } from '../store/history-book.js';

/** Whose items and codes the steps are about. */
export const SELLERS = ['ada', 'bob'];
const record = fc.record({
  name: fc.constantFrom('A', '=1+1', '\\N\t\r😀', 'B\n\\.\n\'"ä,;'),
  version: fc.option(fc.constantFrom('', '1.0')),
  tags: fc.subarray(['x', 'y,"z"', '{}', 'NULL', '']),
  currency: fc.constantFrom('USD', 'EUR'),
  price: fc.record({
    regular: fc.option(fc.constantFrom(0, 10.5, 999999999999.99)),
    extended: fc.constantFrom(1, 20),
  }),
  published_at: fc.option(fc.constantFrom('2024-01-02T03:04:05.120000Z', '1999-12-31')),
  rating: fc.constantFrom(1, 2), // a field that nobody has documented
});
/** A night of one seller. */
export const night = fc.record({
  kind: fc.constant('night' as const),
  seller: fc.constantFrom(...SELLERS),
  items: fc.tuple(
    ...[7, 8, 9].map((id) =>
      fc.tuple(
        fc.constant(id),
        fc.constantFrom('list', 'list', 'missing', 'removed', 'found'),
        record,
      ),
    ),
  ),
  /** Followed after the list was taken in, before look-ups have decided about the rest. */
  followed: fc.subarray([...FOLLOWED_VIEWS]),
  isKilled: fc.boolean(),
});
/** An audit of codes of one seller. */
export const audit = fc.record({
  kind: fc.constant('audit' as const),
  seller: fc.constantFrom(...SELLERS),
  codes: fc.uniqueArray(
    fc.record({
      code: fc.constantFrom('P', 'Q', '=R'),
      isValid: fc.boolean(),
      license: fc.constantFrom('Regular', 'Extended'),
      supportedUntil: fc.constantFrom('2024-01-02T03:04:05Z', '2100-01-02T03:04:05Z'),
      item: fc.constantFrom(7, 9, 99),
    }),
    { selector: ({ code }) => code, minLength: 1 },
  ),
});
/** What an arbitrary makes. */
export type Valued<A> = A extends fc.Arbitrary<infer T> ? T : never;

/** Codes of one seller, and what the marketplace says of them. */
interface Audit {
  readonly seller: string;
  readonly codes: readonly {
    readonly code: string;
    readonly isValid: boolean;
    readonly license: string;
    readonly supportedUntil: string;
    readonly item: number;
  }[];
}

/** Empties the store. */
export async function emptyBook(book: HistoryBook): Promise<void> {
  await book.empty();
  await book.pool.query(
    'TRUNCATE mirror.purchase_codes, mirror.code_checks, mirror.code_transitions',
  );
}

/** Mirrors the night with this number. @param meanwhile done between the list and its look-ups */
export async function mirrorNight(
  book: HistoryBook,
  n: number,
  step: Valued<typeof night>,
  meanwhile: () => Promise<void>,
): Promise<void> {
  const having = (what: string): number[] =>
    step.items.flatMap(([id, fate]) => (fate === what ? [id] : []));
  const listed = step.items.flatMap(([id, fate, fields]): Json[] =>
    fate === 'list' ? [{ id, ...fields }] : [],
  );
  const moment = new Date(Date.UTC(2026, 0, 1 + n, 2)).toISOString();
  const left = { missing: having('missing'), removed: having('removed'), found: having('found') };
  const { isKilled } = step;
  await book.night(moment, { listed, ...left, meanwhile, isKilled }, step.seller);
}

/** Asks for the codes, the marketplace's answers as the step says. */
export async function auditCodes(store: Store, n: number, step: Audit): Promise<void> {
  await store.sellers.ensure(step.seller, 'x');
  const names = step.codes.map(({ code }) => code);
  const { auditId } = await load(store.audits, names, { sellerId: step.seller });
  const asked = await pending(store.audits, auditId);
  const results = asked.map((place) => {
    const said = step.codes.find(({ code }) => code === place.code);
    if (said?.isValid !== true) return invalid(place, at(n));
    const { value, raw } = purchaseOf(place.code, {
      id: said.item,
      name: `Item ${said.item}`,
      url: 'https://example.com',
      previewImageUrl: null,
      full: null,
    });
    const purchase = { licenseType: said.license, supportedUntil: said.supportedUntil };
    return valid(place, at(n), { raw, value: { ...value, ...purchase } });
  });
  await store.audits.record(auditId, results, results.length);
}
