import type { Child, FC } from 'hono/jsx';
import { exportChunks } from '../../reporting/export.js';
import {
  REPORTS,
  type ReportFigures,
  type ReportName,
  type ReportRow,
  reportSql,
  readReportFigures,
  countReportRows,
  downloadReport,
} from '../../reporting/reports.js';
import { BarChart, type ChartBar, Share, StepChart } from '../charts.js';
import {
  type Dashboard,
  type DashboardContext,
  type DashboardParts,
  Problem,
  sellerNotFound,
} from '../context.js';
import { checkRoom, csvDialectOf, Downloads, formatOf, sendFile } from '../downloads.js';
import { page } from '../layout.js';
import { dayName, monthName } from '../format.js';
import { money, plural } from '../../domain/text.js';
import {
  Ago,
  Choice,
  type Column,
  Copyable,
  Empty,
  Filter,
  ItemLink,
  Moment,
  Percent,
  Section,
  SellerField,
  Table,
  TableSection,
  Untrusted,
} from '../parts.js';
import { readBinding } from '../../catalogue/sellers-store.js';
import { oneOf } from '../query.js';
import { setTimeout as wait } from 'node:timers/promises';

/** With more sellers, the filter is a text field instead of a select. */
const MAX_LISTED_SELLERS = 50;
/** Charts per report, one for each currency. The table shows all currencies. */
const MAX_CURRENCIES = 3;
/** Rows of the tables. */
const MAX_MONTHS = 36;
const MAX_DAYS = 31;

/** Parallel downloads. Each holds a database connection. */
const MAX_DOWNLOADS = 4;
const DOWNLOAD_MS = 10 * 60_000;

/**
 * How long a page waits for the first figures (ms); years of purchases take a while. Then it reloads:
 * a connection that stays silent is closed.
 */
const FIRST_WAIT_MS = 5_000;
const RELOAD_SECONDS = 2;

/** `/reports`, and each report as a download. */
export function addReports(app: Dashboard, { db, mirror }: DashboardParts): void {
  const cache = new FigureCache((sellerId) => readReportFigures(db, sellerId));
  let downloads = 0;

  /** The seller of the query; null for all. @throws {Problem} (404) when the seller does not exist */
  async function sellerOf(c: DashboardContext): Promise<string | null> {
    const sellerId = c.req.query('seller') || null;
    if (sellerId !== null && (await readBinding(db, sellerId)) === null) throw sellerNotFound();
    return sellerId;
  }

  app.get('/reports', async (c) => {
    const sellerId = await sellerOf(c);
    const [figures, sellers] = await Promise.all([
      Promise.race([cache.get(sellerId), wait(FIRST_WAIT_MS, null, { ref: false })]),
      mirror.seller.findMany({
        select: { sellerId: true },
        orderBy: { sellerId: 'asc' },
        take: MAX_LISTED_SELLERS + 1,
      }),
    ]);
    if (figures === null) {
      c.header('refresh', `${RELOAD_SECONDS}`);
      return page(
        c,
        { title: 'Reports', isStatic: true },
        <Empty>Computing the figures. This page reloads until they are ready.</Empty>,
      );
    }
    return page(
      c,
      {
        title: 'Reports',
        lead: (
          <>
            From mirrored items and checked codes, as of <Moment at={figures.at} />. Months, weeks
            and days are in UTC.
          </>
        ),
      },
      <>
        <SellerFilter names={sellers.map((seller) => seller.sellerId)} chosen={sellerId} />
        <RevenueByMonth figures={figures} sellerId={sellerId} />
        <RevenueByItem figures={figures} sellerId={sellerId} />
        <NoLongerValid rows={figures.noLongerValid} />
        <SupportCalendar figures={figures} sellerId={sellerId} />
        <PriceMoves figures={figures} sellerId={sellerId} />
        <CatalogueSize figures={figures} sellerId={sellerId} />
      </>,
    );
  });

  app.get('/reports/:file', async (c) => {
    const [, name, ending] = /^([a-z-]+)\.([a-z]+)$/.exec(c.req.param('file')) ?? [];
    const [report, format] = [oneOf(REPORTS, name), formatOf(ending)];
    if (report === undefined || format === undefined) {
      throw new Problem('Report not found', 'The Reports page lists all reports.', 404);
    }
    if (downloads >= MAX_DOWNLOADS) {
      throw new Problem('Too many downloads at once', 'Try again in a minute.', 409);
    }
    const sellerId = await sellerOf(c);
    await checkRoom(format, () => countReportRows(db, { report, sellerId }));
    const dialect = csvDialectOf(c);
    return sendFile(c, report, format, async (write, gone) => {
      downloads += 1;
      const signal = AbortSignal.any([gone, AbortSignal.timeout(DOWNLOAD_MS)]);
      try {
        await downloadReport(db, { report, sellerId }, signal, async (rows) => {
          for await (const chunk of exportChunks(rows, format, { raw: false, dialect })) {
            await write(chunk);
          }
        });
      } finally {
        downloads -= 1;
      }
    });
  });
}

const SellerFilter: FC<{ names: readonly string[]; chosen: string | null }> = ({
  names,
  chosen,
}) =>
  names.length < 2 && chosen === null ? null : (
    <Filter>
      {names.length <= MAX_LISTED_SELLERS ? (
        <Choice name="seller" label="Seller" of={names} chosen={chosen ?? undefined} />
      ) : (
        <SellerField value={chosen} />
      )}
    </Filter>
  );

/** A report: downloads, a chart beside its table, and the SQL. */
const Report: FC<{
  name: ReportName;
  sellerId: string | null;
  title: string;
  note: string;
  chart: Child;
  rows: readonly ReportRow[];
  columns: readonly Column<ReportRow>[];
  caption?: string;
  /** Says what fills the report. */
  empty: Child;
}> = ({ name, sellerId, title, note, chart, rows, columns, caption = title, empty }) => (
  <Section
    title={title}
    id={name}
    note={note}
    actions={
      <span class="actions">
        <Downloads
          of={title}
          path={`/reports/${name}`}
          query={sellerId === null ? {} : { seller: sellerId }}
          as={['csv', 'csv-comma', 'xlsx', 'parquet']}
        />
      </span>
    }
  >
    {rows.length === 0 ? (
      <Empty>{empty}</Empty>
    ) : (
      <div class="beside">
        <div class="chart-box">{chart}</div>
        <Table caption={caption} rows={rows} columns={columns} />
      </div>
    )}
    <details>
      <summary>SQL</summary>
      <Copyable text={reportSql(name, sellerId)} />
    </details>
  </Section>
);

interface ReportProps {
  readonly figures: ReportFigures;
  readonly sellerId: string | null;
}

const NO_PURCHASE = (
  <>
    No purchase is known yet. To find purchases, <a href="/audits/new">check a list</a> of codes or
    run <code>npx seller-mirror codes check FILE</code>.
  </>
);

const RevenueByMonth: FC<ReportProps> = ({ figures, sellerId }) => {
  const rows = figures['revenue-by-month'];
  const currencies = currenciesOf(rows);
  return (
    <Report
      name="revenue-by-month"
      sellerId={sellerId}
      title="Revenue by month"
      note={`What buyers paid, ${coverageOf(figures)}.`}
      empty={NO_PURCHASE}
      chart={currencies.slice(0, MAX_CURRENCIES).map((currency) => (
        <BarChart
          label={`Revenue by month in ${currency}`}
          size="half"
          unit={currency}
          format={(value) => money(value.toFixed(2), currency)}
          bars={monthBars(
            rows
              .filter((row) => row['currency'] === currency)
              .map(({ month = null, revenue = null }) => ({ month, parts: [Number(revenue)] }))
              .slice(0, MAX_MONTHS),
          )}
        />
      ))}
      rows={rows.slice(0, MAX_MONTHS)}
      columns={[
        { name: 'Month', cell: ({ month = null }) => monthName(month) },
        countColumn('Purchases', 'purchases'),
        { name: 'Revenue', isNumber: true, cell: revenueOf },
      ]}
    />
  );
};

const RevenueByItem: FC<ReportProps> = ({ figures, sellerId }) => {
  const rows = figures['revenue-by-item'];
  return (
    <Report
      name="revenue-by-item"
      sellerId={sellerId}
      title="Revenue by item"
      note={`Top ten of each currency, ${coverageOf(figures)}.`}
      empty={NO_PURCHASE}
      chart={currenciesOf(rows)
        .slice(0, MAX_CURRENCIES)
        .map((currency) => (
          <Ranks rows={rows.filter((row) => row['currency'] === currency)} />
        ))}
      rows={rows}
      columns={[
        {
          name: 'Item',
          cell: (row) => <ItemOf row={row} text={row['item_name'] ?? row['item_id'] ?? null} />,
        },
        countColumn('Purchases', 'purchases'),
        { name: 'Revenue', isNumber: true, cell: revenueOf },
      ]}
    />
  );
};

/** How much of all sales the figures of purchases can know. */
function coverageOf({ checkedCodes }: ReportFigures): string {
  return `from ${plural(checkedCodes, 'checked code')}; the marketplace lists no sales`;
}

/** Purchases that were valid once. Their revenue vanished from the month in which they were bought. */
const NoLongerValid: FC<{ rows: readonly ReportRow[] }> = ({ rows }) => (
  <TableSection
    title="No longer valid"
    note="Refunded, reversed, or the buyer’s account is closed. No longer part of the revenue of their month."
    flows
    rows={rows}
    empty="Every purchase that was valid still is."
    columns={[
      {
        name: 'Item',
        cell: (row) => <ItemOf row={row} text={row['item_name'] ?? row['item_id'] ?? null} />,
      },
      {
        name: 'Missing from',
        isLabelled: true,
        cell: ({ month = null }) => monthName(month),
      },
      {
        name: 'Paid',
        isNumber: true,
        cell: ({ price = null, currency = null }) => money(price, currency),
      },
      {
        name: 'Since',
        isLabelled: true,
        cell: ({ since = null }) => <Ago at={since === null ? null : new Date(since)} />,
      },
      {
        name: 'Code',
        cell: ({ code_id: code = '' }) => <a href={`/codes/${code}`}>Open code {code}</a>,
      },
    ]}
  />
);

/** Rows of one currency, largest first, as bars. */
const Ranks: FC<{ rows: readonly ReportRow[] }> = ({ rows }) => {
  const most = Number(rows[0]?.['revenue'] ?? 0);
  return (
    <ol class="ranks">
      {rows.map((row) => (
        <li>
          <ItemOf row={row} text={row['item_name'] ?? row['item_id'] ?? null} />
          <span class="figure">{revenueOf(row)}</span>
          <Share of={most > 0 ? Number(row['revenue'] ?? 0) / most : 0} />
        </li>
      ))}
    </ol>
  );
};

/** Links to a row's item. Purchases of unknown items have no link. */
const ItemOf: FC<{ row: ReportRow; text: string | null }> = ({ row, text }) => {
  const { seller_id: seller = null, item_id: item = null } = row;
  if (seller === null || item === null) return <Untrusted text={text} none="unknown item" />;
  return <ItemLink seller={seller} item={item} name={text} />;
};

function countColumn(name: string, field: string): Column<ReportRow> {
  return { name, count: (row) => Number(row[field] ?? 0) };
}

const SupportCalendar: FC<ReportProps> = ({ figures, sellerId }) => {
  const rows = figures['support-calendar'];
  return (
    <Report
      name="support-calendar"
      sellerId={sellerId}
      title="Support calendar"
      note={`Purchases by the month their support ends, ${coverageOf(figures)}.`}
      empty={NO_PURCHASE}
      chart={
        <BarChart
          label="Purchases by the month their support ends"
          size="half"
          series={['active', 'expired']}
          bars={monthBars(
            rows.map(({ month = null, active = null, expired = null }) => ({
              month,
              parts: [Number(active), Number(expired)],
            })),
          )}
        />
      }
      rows={rows}
      columns={[
        { name: 'Month', cell: ({ month = null }) => monthName(month) },
        countColumn('Active', 'active'),
        countColumn('Expired', 'expired'),
      ]}
    />
  );
};

const PriceMoves: FC<ReportProps> = ({ figures, sellerId }) => {
  const { moveWeeks, 'price-moves': moves } = figures;
  return (
    <Report
      name="price-moves"
      sellerId={sellerId}
      title="Price moves"
      note="Raised and cut prices of the last 90 days."
      empty="No price changed in the last 90 days. Each sync adds new price changes."
      chart={
        <BarChart
          label="Prices raised and cut, by week"
          size="half"
          series={['raised', 'cut']}
          bars={weekBars(moveWeeks, figures.at)}
        />
      }
      caption="Largest price moves"
      rows={moves}
      columns={[
        {
          name: 'Item',
          cell: (row) => <ItemOf row={row} text={row['item_name'] ?? row['item_id'] ?? null} />,
        },
        {
          name: 'Old',
          isNumber: true,
          isMinor: true,
          cell: ({ old_price: old = null }) => money(old, null),
        },
        {
          name: 'New',
          isNumber: true,
          cell: ({ new_price: now = null, currency = null }) => money(now, currency),
        },
        {
          name: 'Change',
          isNumber: true,
          cell: ({ percent = null }) => <Percent of={Number(percent)} />,
        },
      ]}
    />
  );
};

const CatalogueSize: FC<ReportProps> = ({ figures, sellerId }) => {
  const days = figures['catalogue-size'];
  return (
    <Report
      name="catalogue-size"
      sellerId={sellerId}
      title="Catalogue size"
      note="Live items at the end of each day."
      empty={
        <>
          No items were mirrored yet. Press Sync now on the overview or run{' '}
          <code>npx seller-mirror sync</code>.
        </>
      }
      chart={
        <StepChart
          label="Live items over time"
          size="half"
          points={days.toReversed().map((row) => ({
            at: new Date(`${row['day']}T00:00:00`),
            value: Number(row['live']),
          }))}
          until={figures.at}
        />
      }
      caption={`Last ${MAX_DAYS} days`}
      rows={days.slice(0, MAX_DAYS)}
      columns={[
        { name: 'Day', cell: ({ day }) => <span class="nowrap">{day}</span> },
        countColumn('Live', 'live'),
        countColumn('New', 'added'),
        countColumn('Removed', 'removed'),
        { ...countColumn('Changed', 'changed'), isMinor: true },
      ]}
    />
  );
};

/** The distinct currencies, in the order of the rows. */
function currenciesOf(rows: readonly ReportRow[]): (string | null)[] {
  return [...new Set(rows.map(({ currency = null }) => currency))];
}

function revenueOf({ revenue = null, currency = null }: ReportRow): string {
  return money(revenue, currency);
}

interface MonthFigures {
  readonly month: string | null;
  readonly parts: readonly number[];
}

/** A bar for each month from the first to the last, including months without a row. */
function monthBars(rows: readonly MonthFigures[]): ChartBar[] {
  const byMonth = new Map(rows.map(({ month, parts }) => [month, parts]));
  const known = rows.flatMap(({ month }) => (month === null ? [] : [month])).sort();
  const [first, last] = [known[0], known.at(-1)];
  if (first === undefined || last === undefined) return [];
  const bars: ChartBar[] = [];
  const at = new Date(`${first}T00:00:00Z`);
  // The marketplace's dates could be centuries apart.
  for (; bars.length < 120 && at <= new Date(last); at.setUTCMonth(at.getUTCMonth() + 1)) {
    const month = at.toISOString().slice(0, 10);
    bars.push({ name: monthName(month), parts: byMonth.get(month) ?? [0] });
  }
  return bars;
}

/** A bar for each of the last 13 weeks. */
function weekBars(rows: readonly ReportRow[], until: Date): ChartBar[] {
  const byWeek = new Map(rows.map((row) => [row['week'], row]));
  const monday = new Date(until);
  monday.setUTCDate(monday.getUTCDate() - ((monday.getUTCDay() + 6) % 7) - 12 * 7);
  return Array.from({ length: 13 }, () => {
    const week = monday.toISOString().slice(0, 10);
    monday.setUTCDate(monday.getUTCDate() + 7);
    const { raised = '0', cut = '0' } = byWeek.get(week) ?? {};
    return { name: dayName(week), parts: [Number(raised), Number(cut)] };
  });
}

/** Figures expire after this time (ms), or after this many times as long as they took to compute. */
const MIN_FRESH_MS = 2_000;
const FRESH_FACTOR = 50;
/** How long a page waits for new figures before it shows the old ones (ms). */
const WAIT_MS = 25;
/** Time until failed figures are computed again (ms). */
const RETRY_MS = 5_000;
/** Sellers whose figures are cached. */
const MAX_CACHED = 20;

interface Entry {
  figures: Promise<ReportFigures>;
  /** When they are computed again (by `performance.now()`). */
  expiresAt: number;
}

/** Caches report figures by seller: summing all purchases can take a second. */
class FigureCache {
  readonly #compute: (sellerId: string | null) => Promise<ReportFigures>;
  /** Least recently computed first. */
  readonly #entries = new Map<string | null, Entry>();

  constructor(compute: (sellerId: string | null) => Promise<ReportFigures>) {
    this.#compute = compute;
  }

  /** Returns a seller's figures, or those of all sellers for null. */
  get(sellerId: string | null): Promise<ReportFigures> {
    const old = this.#entries.get(sellerId);
    if (old !== undefined && performance.now() < old.expiresAt) return old.figures;
    const fresh = this.#compute(sellerId);
    // While they are computed, other requests get the old figures and start no second computation.
    const entry = { figures: old?.figures ?? fresh, expiresAt: Infinity };
    this.#entries.delete(sellerId);
    this.#entries.set(sellerId, entry);
    const [oldest] = this.#entries.keys();
    if (this.#entries.size > MAX_CACHED && oldest !== undefined) this.#entries.delete(oldest);
    void this.#store(entry, fresh);
    if (old === undefined) return fresh;
    return Promise.race([fresh, wait(WAIT_MS).then(() => old.figures)]);
  }

  async #store(entry: Entry, fresh: Promise<ReportFigures>): Promise<void> {
    const startedAt = performance.now();
    try {
      await fresh;
      entry.figures = fresh;
      const tookMs = performance.now() - startedAt;
      entry.expiresAt = performance.now() + Math.max(MIN_FRESH_MS, FRESH_FACTOR * tookMs);
    } catch {
      // The requests that wait for `fresh` get its error.
      entry.expiresAt = performance.now() + RETRY_MS;
    }
  }
}
