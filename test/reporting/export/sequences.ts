import fc from 'fast-check';
import type { Json } from '../../../src/domain/item.js';
import { FOLLOWED_VIEWS } from '../../../src/reporting/followed-views.js';
import {
  at,
  invalid,
  load,
  pending,
  recordResults,
  purchaseOf,
  valid,
} from '../../codes/store-support.js';
import type { Db } from '../../../src/db/db.js';
import { ensureSeller } from '../../../src/catalogue/sellers-store.js';
import type { HistoryBook } from '../../catalogue/history-book.js';

/** The sellers of the steps. */
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
  rating: fc.constantFrom(1, 2), // an undocumented field
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
  /** Views that are followed after the list was mirrored, before look-ups of the other items. */
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
/** The type of an arbitrary's values. */
export type Valued<A> = A extends fc.Arbitrary<infer T> ? T : never;

export async function emptyBook(book: HistoryBook): Promise<void> {
  await book.empty();
  await book.pool.query(
    'TRUNCATE mirror.purchase_codes, mirror.code_checks, mirror.code_transitions',
  );
}

/** Mirrors night `n`. @param meanwhile called between the list and its look-ups */
export async function mirrorNight(
  book: HistoryBook,
  n: number,
  step: Valued<typeof night>,
  meanwhile: () => Promise<void>,
): Promise<void> {
  const idsOf = (outcome: string): number[] =>
    step.items.flatMap(([id, found]) => (found === outcome ? [id] : []));
  const listed = step.items.flatMap(([id, outcome, fields]): Json[] =>
    outcome === 'list' ? [{ id, ...fields }] : [],
  );
  const at = new Date(Date.UTC(2026, 0, 1 + n, 2)).toISOString();
  const unlisted = { missing: idsOf('missing'), removed: idsOf('removed'), found: idsOf('found') };
  const { isKilled } = step;
  await book.night(at, { listed, ...unlisted, meanwhile, isKilled }, step.seller);
}

/** Records an audit with the step's results. */
export async function auditCodes(db: Db, n: number, step: Valued<typeof audit>): Promise<void> {
  await ensureSeller(db, step.seller, 'x');
  const names = step.codes.map(({ code }) => code);
  const { auditId } = await load(db, names, { sellerId: step.seller });
  const asked = await pending(db, auditId);
  const results = asked.map((place) => {
    const code = step.codes.find(({ code }) => code === place.code);
    if (code?.isValid !== true) return invalid(place, at(n));
    const { value, raw } = purchaseOf(place.code, {
      id: code.item,
      name: `Item ${code.item}`,
      url: 'https://example.com',
      previewImageUrl: null,
      full: null,
    });
    const purchase = { licenseType: code.license, supportedUntil: code.supportedUntil };
    return valid(place, at(n), { raw, value: { ...value, ...purchase } });
  });
  await recordResults(db, auditId, results, results.length);
}
