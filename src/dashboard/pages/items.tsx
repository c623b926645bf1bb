import { maskCode } from '../../domain/secret.js';
import { describeRemoval } from '../../catalogue/rules.js';
import type { Prisma } from '../../db/mirror.js';
import { ITEMS, PRICES } from '../../catalogue/items-listing.js';
import { type PriceChange, readPriceHistory } from '../../catalogue/items-store.js';
import { StepChart } from '../charts.js';
import { type Dashboard, type DashboardParts, isOperator, Problem } from '../context.js';
import { page } from '../layout.js';
import { printable } from '../format.js';
import { money, count } from '../../domain/text.js';
import {
  Ago,
  ChartWithTable,
  type Fact,
  Facts,
  Figures,
  Section,
  SellerLink,
  State,
  TableSection,
  Untrusted,
  WebLink,
} from '../parts.js';
import { parseId } from '../query.js';
import { CHANGES, readShownChanges } from '../../catalogue/changes-listing.js';
import { addListing, ListingTable } from '../listing.js';

/** Changes and purchases on the page of an item. */
const MAX_ROWS = 50;
/** Longer records are cut off. */
const MAX_RAW_CHARS = 20_000;

/** `/items`, `/items/SELLER/ID`. */
export function addItems(app: Dashboard, parts: DashboardParts): void {
  const { db, mirror } = parts;

  addListing(app, parts, ITEMS);

  app.get('/items/:seller/:id', async (c) => {
    const sellerId = c.req.param('seller');
    const itemId = parseId(c.req.param('id'));
    const where = { sellerId_itemId: { sellerId, itemId } };
    const [item, prices, changes, purchases, unlisted, lookup] = await Promise.all([
      mirror.item.findUnique({ where }),
      readPriceHistory(db, sellerId, itemId),
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
      const [title, remedy] =
        purchases.length > 0
          ? [
              'This item is not in your catalogue',
              'It is known from purchase codes alone: no run has found it.',
            ]
          : ['Item not found', 'The Items page lists all items.'];
      throw new Problem(title, remedy, 404);
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
              table={<ListingTable listing={PRICES} rows={prices} />}
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
              name: 'Licence',
              isMinor: true,
              cell: ({ licenseType }) => <Untrusted text={licenseType} />,
            },
            {
              name: 'Price',
              isNumber: true,
              cell: ({ price, currency }) => money(price, currency),
            },
            { name: 'Support', isLabelled: true, cell: ({ support }) => support },
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

function pricePoints(prices: readonly PriceChange[]): { at: Date; value: number }[] {
  return prices.flatMap(({ validFrom, priceRegular }) =>
    priceRegular === null ? [] : [{ at: validFrom, value: Number(priceRegular) }],
  );
}
