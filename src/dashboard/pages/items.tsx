import { ITEM_STATES } from '../../domain/item.js';
import { maskCode } from '../../domain/secret.js';
import { describeRemoval } from '../../catalogue/rules.js';
import type { Prisma } from '../../db/mirror.js';
import { type TextRows, searchItems, readPriceHistory } from '../../catalogue/items-store.js';
import { StepChart } from '../charts.js';
import { type Dashboard, type DashboardParts, isOperator, Problem } from '../context.js';
import { page } from '../layout.js';
import { count, moment, money, printable } from '../format.js';
import {
  Ago,
  ChartWithTable,
  Choice,
  type Fact,
  Facts,
  Figures,
  Filter,
  ItemLink,
  Pages,
  Section,
  SellerField,
  SellerLink,
  splitPage,
  State,
  Table,
  TableSection,
  Untrusted,
  WebLink,
} from '../parts.js';
import { oneOf, parseDay, parseId, parseNumber } from '../query.js';
import { CHANGES, readShownChanges } from '../../catalogue/changes-listing.js';
import { ListingTable } from '../listing.js';

const PAGE_SIZE = 50;
const SORTS = ['id', 'name', 'price', 'changed'] as const;
/** Changes and purchases on the page of an item. */
const MAX_ROWS = 50;
/** Longer records are cut off. */
const MAX_RAW_CHARS = 20_000;

/** `/items`, `/items/SELLER/ID`. */
export function addItems(app: Dashboard, { db, mirror }: DashboardParts): void {
  app.get('/items', async (c) => {
    const text = (c.req.query('q') ?? '').trim().slice(0, 200);
    const state = oneOf(ITEM_STATES, c.req.query('state')) ?? null;
    const sort = oneOf(SORTS, c.req.query('sort')) ?? 'id';
    const sellerId = c.req.query('seller') || null;
    const day = c.req.query('as-of') ?? '';
    const asOf = day === '' ? null : endOf(day);
    const from = Number(parseNumber(c.req.query('from')) ?? 0n);
    const items = await searchItems(db, {
      text,
      state,
      sellerId,
      asOf,
      sort,
      limit: PAGE_SIZE + 1,
      offset: Math.min(from, 1_000_000),
    });
    const { shown, last } = splitPage(items, PAGE_SIZE);
    return page(
      c,
      {
        title: 'Items',
        lead:
          asOf === null ? 'Your catalogue as it is now.' : `Your catalogue at the end of ${day}.`,
      },
      <>
        <Filter button="Search">
          <label>
            Search
            <input type="search" name="q" value={text} placeholder="name, id or tag" />
          </label>
          <Choice name="state" label="State" of={ITEM_STATES} chosen={state ?? undefined} />
          <SellerField value={sellerId} />
          <label>
            As of
            <input name="as-of" type="date" value={day} />
          </label>
          <label>
            Sort
            <select name="sort">
              {SORTS.map((one) => (
                <option value={one} selected={one === sort}>
                  {one}
                </option>
              ))}
            </select>
          </label>
        </Filter>
        <Table
          caption="Items"
          rows={shown}
          empty={
            text === '' && state === null && asOf === null && !sellerId ? (
              <>
                No item yet. Press Sync now on the overview or run{' '}
                <code>npx seller-mirror sync</code>.
              </>
            ) : (
              'No item matches the filter.'
            )
          }
          columns={[
            { name: 'Item', isMinor: true, cell: ({ itemId }) => itemId },
            {
              name: 'Name',
              cell: ({ sellerId: seller, itemId, name }) => (
                <ItemLink seller={seller} item={itemId} name={name} />
              ),
            },
            {
              name: 'Category',
              isMinor: true,
              cell: ({ category }) => <Untrusted text={category} />,
            },
            { name: 'State', cell: (item) => <State of={item.state} /> },
            {
              name: 'Price',
              isNumber: true,
              cell: ({ priceRegular, currency }) => money(priceRegular, currency),
            },
            { name: 'Changed', isMinor: true, cell: ({ changedAt }) => <Ago at={changedAt} /> },
            {
              name: 'Seller',
              isMinor: true,
              cell: ({ sellerId: seller }) => <SellerLink name={seller} />,
            },
          ]}
        />
        <Pages url={c.req.url} next={last === undefined ? null : from + PAGE_SIZE} />
      </>,
    );
  });

  app.get('/items/:seller/:id', async (c) => {
    const sellerId = c.req.param('seller');
    const itemId = parseId(c.req.param('id'));
    const where = { sellerId_itemId: { sellerId, itemId } };
    const [item, prices, changes, purchases, unlisted, lookup] = await Promise.all([
      mirror.item.findUnique({ where }),
      readPriceHistory(db, sellerId, Number(itemId)),
      readShownChanges(
        db,
        { itemId: Number(itemId), sellerIds: [sellerId], limit: MAX_ROWS, newest: true },
        null,
      ),
      mirror.reportingPurchases.findMany({
        where: { sellerId, itemId },
        orderBy: { purchasedAt: 'desc' },
        take: MAX_ROWS,
      }),
      mirror.itemChange.findFirst({
        where: { sellerId, itemId, field: 'state', class: 'missing' },
        orderBy: { seq: 'desc' },
      }),
      mirror.itemLookup.findUnique({ where }),
    ]);
    if (item === null) {
      throw new Problem('Item not found', 'The Items page lists all items.', 404);
    }
    const points = pricePoints(prices);
    const title = headingOf(item.name);
    return page(
      c,
      {
        title,
        lead: (
          <>
            <State of={item.state} /> item {String(itemId)} of <SellerLink name={sellerId} />
          </>
        ),
      },
      <>
        <Figures
          of={[
            { label: 'Regular price', value: money(item.priceRegular, item.currency) },
            { label: 'Extended price', value: money(item.priceExtended, item.currency) },
            { label: 'Version', value: <Untrusted text={item.version} /> },
            { label: 'Changed', value: <Ago at={item.changedAt} /> },
          ]}
        />
        {points.length === 0 ? null : (
          <Section title="Regular price">
            <ChartWithTable
              chart={
                <StepChart
                  label={`Regular price of ${title} over time`}
                  points={points}
                  unit={item.currency}
                />
              }
              table={<PriceTable prices={prices} />}
            />
          </Section>
        )}
        <Section
          title="History"
          note={changes.length === MAX_ROWS ? `newest ${MAX_ROWS}` : undefined}
        >
          <ListingTable
            listing={CHANGES}
            rows={changes.toReversed()}
            hide={['seller', 'item', 'name']}
            empty="Nothing changed."
          />
        </Section>
        <TableSection
          title="Purchases"
          note="found by checks of codes"
          flows
          rows={purchases}
          empty="No purchase of this item is known yet. Checks of purchase codes find them."
          columns={[
            {
              name: 'Code',
              cell: ({ codeId, code }) => (
                <a class="code" href={`/codes/${codeId}`}>
                  {isOperator(c) ? code : maskCode(code)}
                </a>
              ),
            },
            { name: 'Purchased', cell: ({ purchasedAt }) => <Ago at={purchasedAt} none="–" /> },
            {
              name: 'License',
              isMinor: true,
              cell: ({ licenseType }) => <Untrusted text={licenseType} />,
            },
            {
              name: 'Price',
              isNumber: true,
              cell: ({ price, currency }) => money(price, currency),
            },
            { name: 'Support', cell: ({ support }) => support },
          ]}
        />
        <Section title="Details">
          {item.state === 'removed' ? (
            <p class="notice bad">
              Removed:{' '}
              {describeRemoval({
                unlisted:
                  unlisted === null ? null : { runId: unlisted.runId, at: unlisted.changedAt },
                deniedAt: lookup?.outcome === 'gone' ? lookup.lookedUpAt : null,
              })}
              .
            </p>
          ) : null}
          <Facts of={factsOf(item)} />
        </Section>
        <Section title="Record">
          <details>
            <summary>Show as received</summary>
            <pre>{printable(JSON.stringify(item.raw, null, 2).slice(0, MAX_RAW_CHARS))}</pre>
          </details>
        </Section>
      </>,
    );
  });
}

/** Longer names are cut off in headings and window titles. */
const MAX_HEADING_CHARS = 120;

function headingOf(name: string): string {
  return printable(name.length > MAX_HEADING_CHARS ? `${name.slice(0, MAX_HEADING_CHARS)}…` : name);
}

type Item = Prisma.ItemGetPayload<object>;

function factsOf(item: Item): (Fact | null)[] {
  const link = (name: string, url: string | null): Fact | null =>
    url ? [name, <WebLink url={url} />] : null;
  const screenshots = (
    <ul class="plain">
      {item.screenshots.map((url) => (
        <li>
          <WebLink url={url} />
        </li>
      ))}
    </ul>
  );
  return [
    item.name.length > MAX_HEADING_CHARS ? ['Name', <Untrusted text={item.name} isWhole />] : null,
    [
      'Category',
      <Untrusted text={[item.category, item.subCategory].filter(Boolean).join(' / ')} />,
    ],
    ['Tags', <Untrusted text={item.tags.join(', ')} />],
    ['Options', <Untrusted text={item.options.join(', ')} />],
    ['Published', <Ago at={item.publishedAt} none="–" />],
    ['First seen', <Ago at={item.firstSeenAt} />],
    item.removedAt === null ? null : ['Removed', <Ago at={item.removedAt} />],
    link('Demo', item.demoLink),
    link('Thumbnail', item.thumbnailUrl),
    link('Preview image', item.previewImageUrl),
    link('Preview video', item.previewVideoUrl),
    link('Preview audio', item.previewAudioUrl),
    item.screenshots.length === 0
      ? null
      : [`Screenshots (${count(item.screenshots.length)})`, screenshots],
    ['Description', <Untrusted text={textOfHtml(item.description)} isWhole />],
  ];
}

/** Converts HTML to plain text: removes tags, keeps paragraphs. */
function textOfHtml(html: string | null): string | null {
  if (html === null) return null;
  return html
    .replace(/<(?:br|\/p|\/li|\/h\d|\/div)\b[^<>]*>/gi, '\n')
    .replace(/<\/?[a-z][^<>]*>/gi, '')
    .replace(/&(amp|lt|gt|quot|#39|nbsp);/g, (_, name: string) => ENTITIES[name] ?? '')
    .replace(/\s*\n\s*/g, '\n')
    .trim();
}

const ENTITIES: Readonly<Record<string, string>> = {
  amp: '&',
  lt: '<',
  gt: '>',
  quot: '"',
  '#39': "'",
  nbsp: ' ',
};

/** The end of a day in the server's time zone. @throws {Problem} when the day is invalid */
function endOf(day: string): Date {
  if (parseDay(day) !== null) return new Date(`${day}T23:59:59.999`);
  throw new Problem(`"${day.slice(0, 40)}" is not a date`, 'Write dates as 2026-11-23.');
}

function pricePoints({ rows }: TextRows): { at: Date; value: number }[] {
  return rows.flatMap(([at = null, price = null]) =>
    at === null || price === null ? [] : [{ at: new Date(at), value: Number(price) }],
  );
}

const PriceTable = ({ prices }: { prices: TextRows }) => (
  <Table
    caption="Prices"
    rows={prices.rows}
    empty="No price is known."
    columns={[
      { name: 'Since', cell: ([at = null]) => (at === null ? '–' : moment(new Date(at))) },
      {
        name: 'Regular',
        isNumber: true,
        cell: ([, regular, , currency]) => money(regular ?? null, currency ?? null),
      },
      {
        name: 'Extended',
        isNumber: true,
        cell: ([, , extended, currency]) => money(extended ?? null, currency ?? null),
      },
    ]}
  />
);
