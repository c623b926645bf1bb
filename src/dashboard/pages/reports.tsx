import type { FC } from 'hono/jsx';
import { setTimeout as wait } from 'node:timers/promises';
import { readBinding } from '../../catalogue/sellers-store.js';
import { exportChunks } from '../../reporting/export.js';
import {
  REPORTS,
  readReportFigures,
  countReportRows,
  downloadReport,
} from '../../reporting/reports.js';
import { Cache } from '../cache.js';
import {
  type Dashboard,
  type DashboardContext,
  type DashboardParts,
  Problem,
  sellerNotFound,
} from '../context.js';
import { checkRoom, csvDialectOf, formatOf, sendFile } from '../downloads.js';
import { page } from '../layout.js';
import { Empty, Filter, When } from '../parts.js';
import { oneOf } from '../query.js';
import {
  CatalogueSize,
  NoLongerValid,
  type Period,
  PERIODS,
  PriceMoves,
  queryOf,
  RevenueByItem,
  RevenueByMonth,
  SupportCalendar,
  type View,
} from './report-views.js';

/** Sellers that the filter offers; the names of others can be typed. */
const MAX_LISTED_SELLERS = 50;
/** Parallel downloads. Each holds a database connection. */
const MAX_DOWNLOADS = 4;
const DOWNLOAD_MS = 10 * 60_000;

/**
 * How long a page waits for the first figures (ms); years of purchases take a while. Then it reloads:
 * a connection that stays silent is closed.
 */
const FIRST_WAIT_MS = 5_000;
const RELOAD_SECONDS = 2;
/** Older figures are told to be old (ms). */
const OLD_MS = 60_000;

/** The first day of a period, in UTC; null: the first purchase. */
function sinceOf(period: Period, now: Date): string | null {
  if (period === 'all') return null;
  const [year, month] = [now.getUTCFullYear(), now.getUTCMonth()];
  const first = period === 'year' ? Date.UTC(year, 0) : Date.UTC(year, month - 11);
  return new Date(first).toISOString().slice(0, 'YYYY-MM-DD'.length);
}

/** `/reports`, and each report as a download. */
export function addReports(app: Dashboard, { db, mirror }: DashboardParts): void {
  const cache = new Cache(
    (key: string) => readReportFigures(db, JSON.parse(key) as Pick<View, 'sellerId' | 'since'>),
    { freshMs: 2_000, freshFactor: 50 },
  );
  let downloads = 0;

  /** @throws {Problem} (404) when the seller does not exist */
  async function viewOf(c: DashboardContext): Promise<View> {
    const sellerId = c.req.query('seller') || null;
    if (sellerId !== null && (await readBinding(db, sellerId)) === null) throw sellerNotFound();
    const names = PERIODS.map(([name]) => name);
    const period = oneOf(names, c.req.query('period')) ?? '12';
    return { sellerId, period, since: sinceOf(period, new Date()) };
  }

  app.get('/reports', async (c) => {
    const view = await viewOf(c);
    const { sellerId, since } = view;
    const [figures, sellers] = await Promise.all([
      Promise.race([
        cache.get(JSON.stringify({ sellerId, since })),
        wait(FIRST_WAIT_MS, null, { ref: false }),
      ]),
      mirror.seller.findMany({
        select: { sellerId: true },
        orderBy: { sellerId: 'asc' },
        take: MAX_LISTED_SELLERS,
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
    const { at } = figures;
    return page(
      c,
      {
        title: 'Reports',
        lead:
          Date.now() - at.getTime() > OLD_MS ? (
            <span class="notice warn">
              Figures of <When at={at} />, new ones are being counted.
            </span>
          ) : (
            <>
              Figures of <When at={at} />, months in UTC
            </>
          ),
        actions: <Periods view={view} />,
      },
      <>
        <SellerFilter names={sellers.map((seller) => seller.sellerId)} view={view} />
        <div class="reports">
          <RevenueByMonth figures={figures} view={view} />
          <PriceMoves figures={figures} view={view} />
          <SupportCalendar figures={figures} view={view} />
          <RevenueByItem figures={figures} view={view} />
          <CatalogueSize figures={figures} view={view} />
          <NoLongerValid rows={figures.noLongerValid} />
        </div>
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
    const { sellerId, since } = await viewOf(c);
    // Links without a period are of all time, as they always were.
    const of = { report, sellerId, since: c.req.query('period') === undefined ? null : since };
    await checkRoom(format, () => countReportRows(db, of));
    const dialect = csvDialectOf(c);
    return sendFile(c, report, format, async (write, gone) => {
      downloads += 1;
      const signal = AbortSignal.any([gone, AbortSignal.timeout(DOWNLOAD_MS)]);
      try {
        await downloadReport(db, of, signal, async (rows) => {
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

const Periods: FC<{ view: View }> = ({ view }) => (
  <nav class="tabs" aria-label="Period">
    {PERIODS.map(([period, label]) => (
      <a
        href={`/reports?${new URLSearchParams(queryOf({ ...view, period })).toString()}`}
        aria-current={period === view.period ? 'page' : undefined}
      >
        {label}
      </a>
    ))}
  </nav>
);

const SellerFilter: FC<{ names: readonly string[]; view: View }> = ({
  names,
  view: { sellerId, period },
}) =>
  names.length < 2 && sellerId === null ? null : (
    <Filter>
      <input type="hidden" name="period" value={period} />
      <label>
        Seller
        <input name="seller" value={sellerId ?? ''} list="sellers" size={14} />
      </label>
      <datalist id="sellers">
        {names.map((name) => (
          <option value={name} />
        ))}
      </datalist>
    </Filter>
  );
