/** The reports: figures, chart and table of each, and what the URL chooses of them. */

import type { Child, FC } from 'hono/jsx';
import {
  type ReportFigures,
  type ReportName,
  type ReportRow,
  reportSql,
} from '../../reporting/reports.js';
import { BarChart, StepChart } from '../charts.js';
import { Downloads } from '../downloads.js';
import { dayName, monthName } from '../format.js';
import { count, money, plural } from '../../domain/text.js';
import {
  Ago,
  type Column,
  Copyable,
  Empty,
  Icon,
  ItemLink,
  Percent,
  Section,
  Table,
  TableSection,
  Untrusted,
} from '../parts.js';

/** The periods that people choose from. */
export const PERIODS = [
  ['12', '12 months'],
  ['year', 'This year'],
  ['all', 'All'],
] as const;
export type Period = (typeof PERIODS)[number][0];

/** What the URL of the page chooses. */
export interface View {
  readonly sellerId: string | null;
  readonly period: Period;
  readonly since: string | null;
}

/** The query of a view, for links. */
export function queryOf({
  sellerId,
  period,
}: Pick<View, 'sellerId' | 'period'>): Record<string, string> {
  return { period, ...(sellerId === null ? {} : { seller: sellerId }) };
}

/** Currencies with a chart and a table of their own. */
const MAX_CURRENCIES = 3;
/** Months of the table and the chart. */
const MAX_MONTHS = 36;
const MAX_DAYS = 31;

interface ReportProps {
  readonly figures: ReportFigures;
  readonly view: View;
}

/** Figures of a report, their chart, and the whole table beside it. */
interface Shown {
  readonly totals?: Child;
  readonly chart?: Child;
  readonly table: Child;
}

/** A report: what it says in a figure, its chart, its whole table, its download and its SQL. */
const Report: FC<{
  name: ReportName;
  view: View;
  title: string;
  note?: string | undefined;
  /** Says what fills the report; null: it has rows. */
  empty: Child | null;
  shown: readonly Shown[];
  /** Below all. */
  more?: Child;
}> = ({ name, view, title, note, empty, shown, more }) => (
  <Section
    title={title}
    id={name}
    note={note}
    actions={
      empty === null ? (
        <span class="actions">
          <Downloads of={title} path={`/reports/${name}`} query={queryOf(view)} />
        </span>
      ) : undefined
    }
  >
    {empty === null ? (
      <>
        {shown.map(({ totals, chart, table }) =>
          chart === undefined ? (
            table
          ) : (
            <div class="beside">
              <div>
                <p>{totals}</p>
                {chart}
              </div>
              {table}
            </div>
          ),
        )}
        {more}
      </>
    ) : (
      <Empty>{empty}</Empty>
    )}
    <details>
      <summary>SQL</summary>
      <Copyable text={reportSql({ report: name, ...view })} />
    </details>
  </Section>
);

/** A figure that stands for a report, and what it counts. */
const Total: FC<{ of: string; children?: Child }> = ({ of, children }) => (
  <span class="total">
    <b>{of}</b> {children}
  </span>
);

const NO_PURCHASE = (
  <>
    No purchase is known yet. <a href="/audits/new">Check a list of codes</a> to fill this report.
  </>
);
const NONE_IN_PERIOD = 'No known purchase is of this period.';

/** Why there are no rows; null: there are. */
function emptiness(rows: readonly unknown[], figures: ReportFigures, otherwise: string) {
  if (rows.length > 0) return null;
  return figures['revenue-by-month'].length === 0 ? NO_PURCHASE : otherwise;
}

const ITEM: Column<ReportRow> = { name: 'Item', cell: (row) => <ItemOf row={row} /> };

function amountOf(name: string, field: string, currency: string | null): Column<ReportRow> {
  return {
    name,
    isNumber: true,
    cell: (row) => money(row[field] ?? null, currency === null ? null : (row[currency] ?? null)),
  };
}

/** A month of one currency, also without a purchase. */
interface Month {
  readonly month: string;
  readonly purchases: number;
  readonly revenue: number;
  /** Revenue of the same month a year before; null: nothing is known of it. */
  readonly before: number | null;
}

/** The months of the period, from the first with data to the last. */
function monthsOf(rows: readonly ReportRow[], since: string | null): Month[] {
  const known = new Map(rows.flatMap((row) => (row['month'] ? [[row['month'], row]] : [])));
  const inPeriod = [...known.keys()].filter((month) => since === null || month >= since).sort();
  const [first, last] = [inPeriod[0], inPeriod.at(-1)];
  if (first === undefined || last === undefined) return [];
  const months: Month[] = [];
  const at = new Date(`${first}T00:00:00Z`);
  // The marketplace's dates could be centuries apart.
  for (; months.length < 1_200 && at <= new Date(last); at.setUTCMonth(at.getUTCMonth() + 1)) {
    const month = at.toISOString().slice(0, 10);
    const row = known.get(month);
    const before = known.get(`${Number(month.slice(0, 4)) - 1}${month.slice(4)}`);
    months.push({
      month,
      purchases: Number(row?.['purchases'] ?? 0),
      revenue: Number(row?.['revenue'] ?? 0),
      before: before === undefined ? null : Number(before['revenue'] ?? 0),
    });
  }
  return months.slice(-MAX_MONTHS);
}

export const RevenueByMonth: FC<ReportProps> = ({ figures, view }) => {
  const rows = figures['revenue-by-month'];
  const currencies = [...new Set(rows.map(({ currency = null }) => currency))];
  const shown = currencies
    .map((currency) => {
      const own = rows.filter((row) => row['currency'] === currency);
      return { currency, months: monthsOf(own, view.since) };
    })
    .filter(({ months }) => months.length > 0)
    .slice(0, MAX_CURRENCIES);
  return (
    <Report
      name="revenue-by-month"
      view={view}
      title="Revenue by month"
      empty={emptiness(shown, figures, NONE_IN_PERIOD)}
      shown={shown.map(({ currency, months }) => revenueIn(currency, months, figures.at))}
      more={
        <p class="muted">
          <Icon name="info" /> Counted from {plural(figures.checkedCodes, 'checked code')}. The
          marketplace lists no sales: a purchase is missing here until its code is checked.
        </p>
      }
    />
  );
};

function revenueIn(currency: string | null, months: readonly Month[], at: Date): Shown {
  const sum = (some: readonly Month[], of: (month: Month) => number | null) =>
    some.reduce((all, month) => all + (of(month) ?? 0), 0);
  const compared = months.filter(({ before }) => before !== null);
  const hasBefore = compared.length > 0;
  const last = months.at(-1)?.month ?? null;
  const thisMonth = at.toISOString().slice(0, 'YYYY-MM'.length);
  const isOpen = last?.startsWith(thisMonth) === true;
  const purchases = sum(months, (month) => month.purchases);
  const amount = (value: number, unit: string | null = null) => money(value.toFixed(2), unit);
  const revenue = sum(months, (month) => month.revenue);
  const caption = `Revenue by month in ${currency}`;
  return {
    totals: (
      <Total of={amount(revenue, currency)}>
        {plural(purchases, 'purchase')}, {monthName(months[0]?.month ?? null)} to {monthName(last)}
      </Total>
    ),
    chart: (
      <BarChart
        label={caption}
        unit={currency}
        bars={months.map(({ month, revenue: value, before }) => ({
          name: monthName(month).replace(/ \d+$/, months.length > 12 ? '$&' : ''),
          title: amount(value, currency),
          value,
          isSoft: month.startsWith(thisMonth),
          mark: before,
        }))}
        legend={[
          ['bar-full', 'revenue'],
          ...(isOpen ? [['bar-soft', `${monthName(last)}, not over yet`] as const] : []),
          ...(hasBefore ? [['mark-line', 'same month a year before'] as const] : []),
        ]}
      />
    ),
    table: (
      <Table
        caption={caption}
        rows={months.toReversed()}
        columns={[
          { name: 'Month', cell: ({ month }) => <span class="nowrap">{monthName(month)}</span> },
          { name: 'Purchases', isMinor: true, count: (month) => month.purchases },
          {
            name: currency === null ? 'Revenue' : `Revenue, ${currency}`,
            isNumber: true,
            cell: (month) => amount(month.revenue),
          },
          ...(hasBefore
            ? [
                {
                  name: 'vs year before',
                  isNumber: true,
                  cell: (month: Month) => <Rise from={month.before} to={month.revenue} />,
                },
              ]
            : []),
        ]}
        total={[
          'Total',
          count(purchases),
          amount(revenue),
          <Rise
            from={sum(compared, ({ before }) => before)}
            to={sum(compared, (month) => month.revenue)}
          />,
        ]}
      />
    ),
  };
}

/** A change in percent; nothing without a value to compare with. */
const Rise: FC<{ from: number | null; to: number }> = ({ from, to }) =>
  from === null || from === 0 ? null : <Percent of={(100 * (to - from)) / from} />;

export const RevenueByItem: FC<ReportProps> = ({ figures, view }) => {
  const rows = figures['revenue-by-item'];
  const columns: Column<ReportRow>[] = [
    ITEM,
    countColumn('Purchases', 'purchases'),
    amountOf('Revenue', 'revenue', 'currency'),
  ];
  return (
    <Report
      name="revenue-by-item"
      view={view}
      title="Revenue by item"
      note={rows.length === 0 ? undefined : 'the first 12'}
      empty={emptiness(rows, figures, NONE_IN_PERIOD)}
      shown={[{ table: <Table caption="Revenue by item" rows={rows} columns={columns} /> }]}
    />
  );
};

/** Purchases that were valid once. Their revenue vanished from the month in which they were bought. */
export const NoLongerValid: FC<{ rows: readonly ReportRow[] }> = ({ rows }) => (
  <TableSection
    title="No longer valid"
    note="refunded, reversed, or the account is closed; no longer in the revenue of their month"
    flows
    rows={rows}
    empty="Every purchase that was valid still is."
    columns={[
      ITEM,
      { name: 'Missing from', isLabelled: true, cell: ({ month = null }) => monthName(month) },
      amountOf('Paid', 'price', 'currency'),
      {
        name: 'Since',
        isLabelled: true,
        cell: ({ since = null }) => <Ago at={since === null ? null : new Date(since)} />,
      },
      {
        name: 'Code',
        cell: ({ code_id: code = '' }) => (
          <a class="nowrap" href={`/codes/${code}`}>
            Open code {code}
          </a>
        ),
      },
    ]}
  />
);

/** Links to a row's item. Purchases of unknown items have no link. */
const ItemOf: FC<{ row: ReportRow }> = ({ row }) => {
  const { seller_id: seller = null, item_id: item = null, item_name: name = null } = row;
  const text = name ?? item;
  if (seller === null || item === null) return <Untrusted text={text} none="unknown item" />;
  return <ItemLink seller={seller} item={item} name={text} />;
};

function countColumn(name: string, field: string): Column<ReportRow> {
  return { name, count: (row) => Number(row[field] ?? 0) };
}

/** Months whose customers one may want to write to now. */
const SOON_MONTHS = 3;

export const SupportCalendar: FC<ReportProps> = ({ figures, view }) => {
  const rows = figures['support-calendar'];
  const soon = rows.slice(0, SOON_MONTHS);
  const customers = soon.reduce((all, { active = null }) => all + Number(active), 0);
  const bars = rows.map(({ month = null, active = null }, n) => ({
    name: monthName(month).replace(/ \d+$/, ''),
    title: plural(Number(active), 'purchase'),
    value: Number(active),
    isSoft: n >= SOON_MONTHS,
  }));
  const columns: Column<ReportRow>[] = [
    { name: 'Month', cell: ({ month = null }) => monthName(month) },
    countColumn('Support ends', 'active'),
  ];
  return (
    <Report
      name="support-calendar"
      view={view}
      title="Support calendar"
      note="support that ends, by month"
      empty={emptiness(rows, figures, 'No known purchase has support that ends later.')}
      shown={[
        {
          totals: (
            <Total of={count(customers)}>
              {customers === 1 ? 'customer loses' : 'customers lose'} support by the end of{' '}
              {monthName(soon.at(-1)?.['month'] ?? null)}
            </Total>
          ),
          chart: <BarChart label="Purchases by the month their support ends" bars={bars} />,
          table: <Table caption="Support calendar" rows={rows} columns={columns} />,
        },
      ]}
    />
  );
};

export const PriceMoves: FC<ReportProps> = ({ figures, view }) => {
  const { moveWeeks, 'price-moves': moves } = figures;
  const weeks = weeksOf(moveWeeks, figures.at);
  const sum = (of: 'raised' | 'cut') => count(weeks.reduce((all, week) => all + week[of], 0));
  const bars = weeks.map(({ week, raised, cut }) => {
    return { name: dayName(week), title: `raised ${raised}, cut ${cut}`, value: raised, cut };
  });
  const columns: Column<ReportRow>[] = [
    ITEM,
    { ...amountOf('Old', 'old_price', null), isMinor: true },
    amountOf('New', 'new_price', 'currency'),
    {
      name: 'Change',
      isNumber: true,
      cell: ({ percent = null }) => <Percent of={Number(percent)} />,
    },
  ];
  return (
    <Report
      name="price-moves"
      view={view}
      title="Price moves"
      note="last 90 days"
      empty={
        moves.length > 0
          ? null
          : 'No price changed in the last 90 days. Each sync adds new price changes.'
      }
      shown={[
        {
          totals: (
            <>
              <Total of={sum('raised')}>raised</Total>
              <Total of={sum('cut')}>cut</Total>
            </>
          ),
          chart: (
            <BarChart label="Prices raised and cut, by week" bars={bars} legend={RAISED_AND_CUT} />
          ),
          table: <Table caption="Largest price moves" rows={moves} columns={columns} />,
        },
      ]}
    />
  );
};

const RAISED_AND_CUT = [
  ['bar-full', 'raised'],
  ['bar-cut', 'cut'],
] as const;

/** The weeks from the first with a price move to now, at most 13. */
function weeksOf(rows: readonly ReportRow[], until: Date) {
  const byWeek = new Map(rows.map((row) => [row['week'], row]));
  const [first = ''] = [...byWeek.keys()];
  const monday = new Date(until);
  monday.setUTCDate(monday.getUTCDate() - ((monday.getUTCDay() + 6) % 7) - 12 * 7);
  return Array.from({ length: 13 }, () => {
    const week = monday.toISOString().slice(0, 10);
    monday.setUTCDate(monday.getUTCDate() + 7);
    const { raised = '0', cut = '0' } = byWeek.get(week) ?? {};
    return { week, raised: Number(raised), cut: Number(cut) };
  }).filter(({ week }) => first === null || week >= first);
}

export const CatalogueSize: FC<ReportProps> = ({ figures, view }) => {
  const days = figures['catalogue-size'];
  const moved = days.filter((row) => ['added', 'removed'].some((field) => Number(row[field]) > 0));
  const points = days
    .toReversed()
    .map((row) => ({ at: new Date(`${row['day']}T00:00:00`), value: Number(row['live']) }));
  const columns: Column<ReportRow>[] = [
    { name: 'Day', cell: ({ day }) => <span class="nowrap">{dayName(day ?? '')}</span> },
    countColumn('Live', 'live'),
    countColumn('New', 'added'),
    countColumn('Removed', 'removed'),
    { ...countColumn('Changed', 'changed'), isMinor: true },
  ];
  return (
    <Report
      name="catalogue-size"
      view={view}
      title="Catalogue size"
      note="live items at the end of each day"
      empty={days.length > 0 ? null : 'No items were mirrored yet. Press Sync now on the overview.'}
      shown={[
        {
          totals: <Total of={count(Number(days[0]?.['live'] ?? 0))}>live items now</Total>,
          chart: <StepChart label="Live items over time" points={points} until={figures.at} />,
          table: (
            <Table
              caption="Days with new or removed items"
              rows={moved.slice(0, MAX_DAYS)}
              columns={columns}
            />
          ),
        },
      ]}
    />
  );
};
