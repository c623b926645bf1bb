import type { Child } from 'hono/jsx';
import { maskCode } from '../../domain/secret.js';
import { describeRemoval } from '../../domain/removals.js';
import type { Prisma } from '../../store/mirror.js';
import type { TextRows } from '../../store/items-read.js';
import { StepChart } from '../charts.js';
import { isOperator, Problem, type Dashboard, type DashboardParts } from '../context.js';
import { page } from '../layout.js';
import {
  Ago,
  Choice,
  count,
  Facts,
  Figures,
  Filter,
  Foreign,
  ItemLink,
  moment,
  money,
  onePage,
  Pages,
  printable,
  Section,
  SellerField,
  SellerLink,
  State,
  Table,
  WebLink,
} from '../parts.js';
import { dayIn, idIn, numberIn, oneOf } from '../query.js';
import { ChangeTable } from './changes.js';

const PAGE_ITEMS = 50;
const STATES = ['live', 'missing', 'removed'] as const;
const SORTS = ['id', 'name', 'price', 'changed'] as const;
/** Changes and purchases shown of one item. */
const MOST_ROWS = 50;
/** Characters of a raw record. */
const MOST_RAW = 20_000;

/** `/items`, `/items/SELLER/ID`. */
export function addItems(app: Dashboard, { store, mirror }: DashboardParts): void {
  app.get('/items', async (c) => {
    const text = (c.req.query('q') ?? '').trim().slice(0, 200);
    const state = oneOf(STATES, c.req.query('state')) ?? null;
    const sort = oneOf(SORTS, c.req.query('sort')) ?? 'id';
    const sellerId = c.req.query('seller') || null;
    const day = c.req.query('as-of') ?? '';
    const asOf = day === '' ? null : endOf(day);
    const from = Number(numberIn(c.req.query('from')) ?? 0n);
    const items = await store.items.search({
      text,
      state,
      sellerId,
      asOf,
      sort,
      limit: PAGE_ITEMS + 1,
      offset: Math.min(from, 1_000_000),
    });
    const { shown, last } = onePage(items, PAGE_ITEMS);
    return page(
      c,
      {
        title: 'Items',
        lead: asOf === null ? 'As they are now.' : `As they were at the end of ${day}.`,
      },
      <>
        <Filter button="Search">
          <label>
            Search
            <input type="search" name="q" value={text} placeholder="name, id or tag" />
          </label>
          <Choice name="state" label="State" of={STATES} chosen={state ?? undefined} />
          <SellerField of={sellerId} />
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
            text === '' && state === null && asOf === null ? (
              <>
                No item yet: press Sync now on the overview, or run <code>seller-mirror sync</code>.
              </>
            ) : (
              'No item matches.'
            )
          }
          columns={[
            { minor: 'Item', cell: ({ itemId }) => itemId },
            {
              name: 'Name',
              cell: ({ sellerId: seller, itemId, name }) => (
                <ItemLink seller={seller} item={itemId} name={name} />
              ),
            },
            { minor: 'Category', cell: ({ category }) => <Foreign text={category} /> },
            { name: 'State', cell: (item) => <State of={item.state} /> },
            {
              figure: 'Price',
              cell: ({ priceRegular, currency }) => money(priceRegular, currency),
            },
            { minor: 'Changed', cell: ({ changedAt }) => <Ago at={changedAt} /> },
            { minor: 'Seller', cell: ({ sellerId: seller }) => <SellerLink name={seller} /> },
          ]}
        />
        <Pages
          url={c.req.url}
          by="from"
          next={last === undefined ? null : from + PAGE_ITEMS}
          words={['First', 'Next']}
        />
      </>,
    );
  });

  app.get('/items/:seller/:id', async (c) => {
    const sellerId = c.req.param('seller');
    const itemId = idIn(c.req.param('id'));
    const where = { sellerId_itemId: { sellerId, itemId } };
    const [item, prices, changes, purchases, unlisted, lookup] = await Promise.all([
      mirror.item.findUnique({ where }),
      store.items.priceHistory(sellerId, Number(itemId)),
      store.items.changes({
        itemId: Number(itemId),
        sellerIds: [sellerId],
        limit: MOST_ROWS,
        newest: true,
      }),
      mirror.reportingPurchases.findMany({
        where: { sellerId, itemId },
        orderBy: { purchasedAt: 'desc' },
        take: MOST_ROWS,
      }),
      mirror.itemChange.findFirst({
        where: { sellerId, itemId, field: 'state', class: 'missing' },
        orderBy: { seq: 'desc' },
      }),
      mirror.itemLookup.findUnique({ where }),
    ]);
    if (item === null) {
      throw new Problem('There is no such item', 'Items lists the items there are.', 404);
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
            { label: 'Version', value: <Foreign text={item.version} /> },
            { label: 'Changed', value: <Ago at={item.changedAt} /> },
          ]}
        />
        {points.length === 0 ? null : (
          <Section title="Regular price">
            <div class="chart-box">
              <StepChart
                label={`Regular price of ${title} over time`}
                points={points}
                unit={item.currency}
              />
              <details>
                <summary>As a table</summary>
                <PriceTable prices={prices} />
              </details>
            </div>
          </Section>
        )}
        <Section
          title="History"
          note={changes.length === MOST_ROWS ? `the newest ${MOST_ROWS}` : undefined}
        >
          <ChangeTable changes={changes.toReversed()} hasItem={false} />
        </Section>
        <Section title="Purchases" note="that audits know of">
          <Table
            caption="Purchases"
            flows
            rows={purchases}
            empty="No purchase of it is known. Audits of purchase codes find them."
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
              { minor: 'License', cell: ({ licenseType }) => <Foreign text={licenseType} /> },
              { figure: 'Price', cell: ({ price, currency }) => money(price, currency) },
              { name: 'Support', cell: ({ support }) => support },
            ]}
          />
        </Section>
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
            <summary>As it was received</summary>
            <pre>{printable(JSON.stringify(item.raw, null, 2).slice(0, MOST_RAW))}</pre>
          </details>
        </Section>
      </>,
    );
  });
}

/** Characters of a name in a heading, and in the title of a window. */
const MOST_HEADING = 120;

function headingOf(name: string): string {
  return printable(name.length > MOST_HEADING ? `${name.slice(0, MOST_HEADING)}…` : name);
}

type Item = Prisma.ItemGetPayload<object>;

function factsOf(item: Item): (readonly [string, Child])[] {
  return [
    ...(item.name.length > MOST_HEADING
      ? [['Name', <Foreign text={item.name} isWhole />] as const]
      : []),
    ['Category', <Foreign text={[item.category, item.subCategory].filter(Boolean).join(' / ')} />],
    ['Tags', <Foreign text={item.tags.join(', ')} />],
    ['Options', <Foreign text={item.options.join(', ')} />],
    ['Published', <Ago at={item.publishedAt} none="–" />],
    ['First seen', <Ago at={item.firstSeenAt} />],
    ...(item.removedAt === null ? [] : [['Removed', <Ago at={item.removedAt} />] as const]),
    ...(
      [
        ['Demo', item.demoLink],
        ['Thumbnail', item.thumbnailUrl],
        ['Preview image', item.previewImageUrl],
        ['Preview video', item.previewVideoUrl],
        ['Preview audio', item.previewAudioUrl],
      ] as const
    ).flatMap(([name, url]) =>
      url === null || url === '' ? [] : [[name, <WebLink url={url} />] as const],
    ),
    ...(item.screenshots.length === 0
      ? []
      : [
          [
            `Screenshots (${count(item.screenshots.length)})`,
            <ul class="plain">
              {item.screenshots.map((url) => (
                <li>
                  <WebLink url={url} />
                </li>
              ))}
            </ul>,
          ] as const,
        ]),
    ['Description', <Foreign text={readable(item.description)} isWhole />],
  ];
}

/** The text of some HTML, to read and not to render: without its tags, paragraphs apart. */
function readable(html: string | null): string | null {
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

/** The end of a day in the server's time zone. @throws {Problem} when it is no day */
function endOf(day: string): Date {
  if (dayIn(day) !== null) return new Date(`${day}T23:59:59.999`);
  throw new Problem(`"${day.slice(0, 40)}" is not a day`, 'Write it as 2026-11-23.');
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
        figure: 'Regular',
        cell: ([, regular, , currency]) => money(regular ?? null, currency ?? null),
      },
      {
        figure: 'Extended',
        cell: ([, , extended, currency]) => money(extended ?? null, currency ?? null),
      },
    ]}
  />
);
