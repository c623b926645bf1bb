import { setTimeout as wait } from 'node:timers/promises';
import type { Child, FC } from 'hono/jsx';
import { exportChunks } from '../../export/index.js';
import {
  REPORTS,
  type ReportFigures,
  type ReportName,
  type ReportRow,
  reportSql,
} from '../../store/reports.js';
import { BarChart, type ChartBar, Share, StepChart } from '../charts.js';
import {
  noSeller,
  Problem,
  type Dashboard,
  type DashboardContext,
  type DashboardParts,
} from '../context.js';
import { checkRoom, dialectIn, Downloads, formatIn, sendFile } from '../downloads.js';
import { page } from '../layout.js';
import {
  Choice,
  type Column,
  Copyable,
  Count,
  dayName,
  Empty,
  Filter,
  Foreign,
  ItemLink,
  moment,
  money,
  monthName,
  Percent,
  Section,
  SellerField,
  Table,
} from '../parts.js';
import { oneOf } from '../query.js';

/** More sellers than these are not listed in the filter, but typed. */
const MOST_SELLERS = 50;
/** Charts of one report, a currency each; the table has all of them. */
const MOST_CURRENCIES = 3;
/** Rows of a table beside its chart. */
const MOST_MONTHS = 36;
const MOST_DAYS = 31;

/** Downloads at a time; each keeps a connection to the database. */
const MOST_DOWNLOADS = 4;
const DOWNLOAD_MS = 10 * 60_000;

/** `/reports`, and each report as a file. */
export function addReports(app: Dashboard, { store, mirror }: DashboardParts): void {
  const kept = new KeptFigures((sellerId) => store.reports.figures(sellerId));
  let downloads = 0;

  /** The seller that the query asks for; null: all. @throws {Problem} when there is no such one */
  async function sellerOf(c: DashboardContext): Promise<string | null> {
    const sellerId = c.req.query('seller') || null;
    if (sellerId !== null && (await store.sellers.bindingOf(sellerId)) === null) throw noSeller();
    return sellerId;
  }

  app.get('/reports', async (c) => {
    const sellerId = await sellerOf(c);
    const [figures, sellers] = await Promise.all([
      Promise.race([kept.of(sellerId), wait(FIRST_MS, null, { ref: false })]),
      mirror.seller.findMany({
        select: { sellerId: true },
        orderBy: { sellerId: 'asc' },
        take: MOST_SELLERS + 1,
      }),
    ]);
    if (figures === null) {
      c.header('refresh', `${LOOK_SECONDS}`);
      return page(
        c,
        { title: 'Reports', isStill: true },
        <p class="empty">
          The figures are being computed. This page loads itself again until they are there.
        </p>,
      );
    }
    const names = sellers.map((seller) => seller.sellerId);
    return page(
      c,
      {
        title: 'Reports',
        lead: (
          <>
            As of <time datetime={figures.at.toISOString()}>{moment(figures.at)}</time>, from what
            was mirrored and audited. Months, weeks and days are in UTC.
          </>
        ),
      },
      <>
        <SellerFilter names={names} chosen={sellerId} />
        <RevenueByMonth figures={figures} sellerId={sellerId} />
        <RevenueByItem figures={figures} sellerId={sellerId} />
        <SupportCalendar figures={figures} sellerId={sellerId} />
        <PriceMoves figures={figures} sellerId={sellerId} />
        <CatalogueSize figures={figures} sellerId={sellerId} />
      </>,
    );
  });

  app.get('/reports/:file', async (c) => {
    const [, name, ending] = /^([a-z-]+)\.([a-z]+)$/.exec(c.req.param('file')) ?? [];
    const [report, format] = [oneOf(REPORTS, name), formatIn(ending)];
    if (report === undefined || format === undefined) {
      throw new Problem('There is no such report', '/reports lists the reports there are.', 404);
    }
    if (downloads >= MOST_DOWNLOADS) {
      throw new Problem('Too many downloads are under way', 'Try again in a minute.', 409);
    }
    const sellerId = await sellerOf(c);
    await checkRoom(format, () => store.reports.rows({ report, sellerId }));
    const dialect = dialectIn(c);
    return sendFile(c, report, format, async (write, gone) => {
      downloads += 1;
      const signal = AbortSignal.any([gone, AbortSignal.timeout(DOWNLOAD_MS)]);
      try {
        await store.reports.download({ report, sellerId }, signal, async (rows) => {
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

/** Figures are computed again when they are this old (ms), or so many times as old as that took. */
const FRESH_MS = 2_000;
const FRESH_TIMES = 50;
/** A page waits so long (ms) for new figures before it shows those it has. */
const WAIT_MS = 25;
/**
 * A page waits so long (ms) for the first figures of a store, which may hold years of purchases: on a
 * connection that stays silent for longer, no answer would arrive at all.
 */
const FIRST_MS = 5_000;
/** Seconds until a page that waits for them looks again. */
const LOOK_SECONDS = 2;
/** Figures that could not be computed are tried again after so long (ms). */
const FAILED_MS = 5_000;
/** Sellers whose figures are kept. */
const MOST_KEPT = 20;

interface Kept {
  figures: Promise<ReportFigures>;
  /** Time after which they are computed again (ms since 1970). */
  until: number;
}

/** Keeps the figures of each seller for a while: sums over all purchases can take a second. */
class KeptFigures {
  readonly #compute: (sellerId: string | null) => Promise<ReportFigures>;
  readonly #kept = new Map<string | null, Kept>();

  constructor(compute: (sellerId: string | null) => Promise<ReportFigures>) {
    this.#compute = compute;
  }

  of(sellerId: string | null): Promise<ReportFigures> {
    const old = this.#kept.get(sellerId);
    if (old !== undefined && Date.now() < old.until) return old.figures;
    const fresh = this.#compute(sellerId);
    // Until they are there, others get the old ones and nobody computes them twice.
    const kept = { figures: old?.figures ?? fresh, until: Infinity };
    this.#kept.delete(sellerId);
    this.#kept.set(sellerId, kept);
    const [oldest] = this.#kept.keys();
    if (this.#kept.size > MOST_KEPT && oldest !== undefined) this.#kept.delete(oldest);
    void this.#keep(kept, fresh);
    if (old === undefined) return fresh;
    return Promise.race([fresh, wait(WAIT_MS).then(() => old.figures)]);
  }

  async #keep(kept: Kept, fresh: Promise<ReportFigures>): Promise<void> {
    const begunAt = Date.now();
    try {
      await fresh;
      kept.figures = fresh;
      kept.until = Date.now() + Math.max(FRESH_MS, FRESH_TIMES * (Date.now() - begunAt));
    } catch {
      // Who waited for them is told, before they are computed again.
      kept.until = Date.now() + FAILED_MS;
    }
  }
}

const SellerFilter: FC<{ names: readonly string[]; chosen: string | null }> = ({
  names,
  chosen,
}) =>
  names.length < 2 && chosen === null ? null : (
    <Filter action="/reports">
      {names.length <= MOST_SELLERS ? (
        <Choice name="seller" label="Seller" of={names} chosen={chosen ?? undefined} />
      ) : (
        <SellerField of={chosen} />
      )}
    </Filter>
  );

/** A report with its downloads, its chart beside its table, and its SQL. */
const Report: FC<{
  name: ReportName;
  sellerId: string | null;
  title: string;
  note: string;
  chart: Child;
  rows: readonly ReportRow[];
  columns: readonly Column<ReportRow>[];
  caption?: string;
  /** Says what fills it. */
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
        <Table caption={caption} rows={rows} empty="" columns={columns} />
      </div>
    )}
    <details class="sql">
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
    No purchase is known yet. An audit of your purchase codes fills this:{' '}
    <a href="/audits/new">audit a list</a>, or run <code>seller-mirror codes check FILE</code>.
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
      note="What buyers paid in purchases known to be valid."
      empty={NO_PURCHASE}
      chart={currencies.slice(0, MOST_CURRENCIES).map((currency) => (
        <BarChart
          label={`Revenue by month in ${currency}`}
          size="half"
          unit={currency}
          format={(value) => money(value.toFixed(2), currency)}
          bars={monthBars(
            rows
              .filter((row) => row['currency'] === currency)
              .map(({ month = null, revenue = null }) => ({ month, parts: [Number(revenue)] }))
              .slice(0, MOST_MONTHS),
          )}
        />
      ))}
      rows={rows.slice(0, MOST_MONTHS)}
      columns={[
        { name: 'Month', cell: ({ month = null }) => monthName(month) },
        counts('Purchases', 'purchases'),
        { figure: 'Revenue', cell: revenueOf },
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
      note="The ten best of each currency. Downloads have all."
      empty={NO_PURCHASE}
      chart={currenciesOf(rows)
        .slice(0, MOST_CURRENCIES)
        .map((currency) => (
          <Ranks rows={rows.filter((row) => row['currency'] === currency)} />
        ))}
      rows={rows}
      columns={[
        { name: 'Item', cell: (row) => <ItemOf row={row} text={row['item_id'] ?? null} /> },
        counts('Purchases', 'purchases'),
        { figure: 'Revenue', cell: revenueOf },
      ]}
    />
  );
};

/** The rows of one currency as bars: the first is the longest. */
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

/** The item of a row; purchases of items that the store does not know have none. */
const ItemOf: FC<{ row: ReportRow; text: string | null }> = ({ row, text }) => {
  const { seller_id: seller = null, item_id: item = null } = row;
  if (seller === null || item === null) return <Foreign text={text} none="unknown item" />;
  return <ItemLink seller={seller} item={item} name={text} />;
};

/** A column of counts. */
function counts(figure: string, of: string): Column<ReportRow> {
  return { figure, cell: (row) => <Count of={Number(row[of] ?? 0)} /> };
}

const SupportCalendar: FC<ReportProps> = ({ figures, sellerId }) => {
  const rows = figures['support-calendar'];
  return (
    <Report
      name="support-calendar"
      sellerId={sellerId}
      title="Support calendar"
      note="Purchases whose support ends in each month."
      empty={NO_PURCHASE}
      chart={
        <BarChart
          label="Purchases whose support ends, by month"
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
        counts('Active', 'active'),
        counts('Expired', 'expired'),
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
      note="Prices raised and cut in the last 90 days, week by week, and the largest moves."
      empty="No price changed in the last 90 days. Each sync adds those that it finds."
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
        { figure: 'Old', isMinor: true, cell: ({ old_price: old = null }) => money(old, null) },
        {
          figure: 'New',
          cell: ({ new_price: now = null, currency = null }) => money(now, currency),
        },
        { figure: 'Change', cell: ({ percent = null }) => <Percent of={Number(percent)} /> },
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
          No list was mirrored yet: press Sync now on the overview, or run{' '}
          <code>seller-mirror sync</code>.
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
      caption={`The newest ${MOST_DAYS} days`}
      rows={days.slice(0, MOST_DAYS)}
      columns={[
        { name: 'Day', cell: ({ day }) => <span class="nowrap">{day}</span> },
        counts('Live', 'live'),
        counts('New', 'added'),
        counts('Removed', 'removed'),
        { ...counts('Changed', 'changed'), isMinor: true },
      ]}
    />
  );
};

/** Currencies in the order of the rows, each once. */
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

/** A bar for each month from the first to the last, also for those of which there is no row. */
function monthBars(rows: readonly MonthFigures[]): ChartBar[] {
  const byMonth = new Map(rows.map(({ month, parts }) => [month, parts]));
  const known = rows.flatMap(({ month }) => (month === null ? [] : [month])).sort();
  const [first, last] = [known[0], known.at(-1)];
  if (first === undefined || last === undefined) return [];
  const bars: ChartBar[] = [];
  const at = new Date(`${first}T00:00:00Z`);
  // Hostile dates could be far apart.
  for (; bars.length < 120 && at <= new Date(last); at.setUTCMonth(at.getUTCMonth() + 1)) {
    const month = at.toISOString().slice(0, 10);
    bars.push(barOf(monthName(month), byMonth.get(month) ?? [0]));
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
    return barOf(dayName(week), [Number(raised), Number(cut)]);
  });
}

function barOf(name: string, parts: readonly number[]): ChartBar {
  return { name, parts, value: parts.reduce((a, b) => a + b, 0) };
}
