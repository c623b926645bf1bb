import type { Child, FC } from 'hono/jsx';
import { scaleLinear, scaleTime } from 'd3-scale';

/*
 * A chart is two drawings: its axis, and a plot whose x is in percent and whose y is in pixels. So it fills any width, and
 * its letters keep their size.
 */

/** A value at a time. */
export interface Point {
  readonly at: Date;
  readonly value: number;
}

interface ChartProps {
  /** What the chart shows, for screen readers. */
  readonly label: string;
  /** Unit of the vertical axis, such as a currency. Values without one are whole numbers. */
  readonly unit?: string | null | undefined;
}

/** Height of the plot, and of the labels below it (pixels). */
const PLOT = 200;
const BELOW = 24;
/** Width of the axis (pixels). */
const AXIS = 44;
/** Room above the highest value, for its label (pixels). */
const ABOVE = 8;

const plain = (value: number): string => value.toLocaleString('en-GB');
const SHORT = new Intl.NumberFormat('en-GB', { notation: 'compact', maximumFractionDigits: 1 });

/** A line chart of a value that holds until it changes, such as a price. */
export const StepChart: FC<ChartProps & { points: readonly Point[]; until?: Date }> = ({
  points,
  until = new Date(),
  ...chart
}) => {
  const [first] = points;
  const last = points.at(-1);
  if (first === undefined || last === undefined) return null;
  // Show at least a minute: a value that just appeared would have no width.
  const from = new Date(Math.min(first.at.getTime(), until.getTime() - 60_000));
  const x = scaleTime([from, until], [0, 100]);
  const values = points.map(({ value }) => value);
  return (
    <Drawing {...chart} low={min(values)} high={max(values)}>
      {(y) => {
        const [, ...later] = points;
        const start = `M${tenth(10 * x(first.at))},${y(first.value)}`;
        const steps = later.map(({ at, value }) => `H${tenth(10 * x(at))}V${y(value)}`).join('');
        const path = `${start}${steps}H1000`;
        return (
          <>
            <svg viewBox={`0 0 1000 ${PLOT}`} width="100%" height={PLOT} preserveAspectRatio="none">
              {/* An area that does not start at 0 would exaggerate. */}
              {y.domain[0] === 0 ? (
                <path class="filled" d={`${path}V${y(0)}H${tenth(10 * x(first.at))}Z`} />
              ) : null}
              <path class="outline" d={path} vector-effect="non-scaling-stroke" />
            </svg>
            {timeTicks(x).map(({ at, text }, n) => (
              <Below at={at} every={n % 2 === 0 ? 1 : 2}>
                {text}
              </Below>
            ))}
          </>
        );
      }}
    </Drawing>
  );
};

/** A named bar. */
interface ChartBar {
  readonly name: string;
  /** What the tooltip says after the name. */
  readonly title: string;
  /** Up from zero. */
  readonly value: number;
  /** Down from zero. */
  readonly cut?: number;
  /** Unfinished, or later: drawn softer. */
  readonly isSoft?: boolean;
  /** A value to compare with, as a short line. */
  readonly mark?: number | null;
}

/** Room for the labels below the bars, in characters. */
const LABEL_CHARS = 90;

/** A chart of bars. @param legend what the kinds of bars mean, by their classes */
export const BarChart: FC<
  ChartProps & {
    bars: readonly ChartBar[];
    legend?: readonly (readonly [kind: string, text: string])[];
  }
> = ({ bars, legend = [], ...chart }) => {
  const low = -max([0, ...bars.map(({ cut = 0 }) => cut)]);
  const high = max([1, ...bars.map(({ value, mark }) => Math.max(value, mark ?? 0))]);
  const step = 100 / Math.max(1, bars.length);
  // Bars of the last hour stand close, those of a year have room.
  const width = step * (bars.length > 30 ? 0.8 : 0.5);
  const longest = max([1, ...bars.map(({ name }) => name.length)]);
  const every = Math.ceil((bars.length * (longest + 2)) / LABEL_CHARS);
  return (
    <>
      <Drawing {...chart} low={low} high={high}>
        {(y) =>
          bars.map(({ name, title, value, cut = 0, isSoft = false, mark = null }, n) => {
            const x = `${hundredth(n * step + (step - width) / 2)}%`;
            const box = (kind: string, from: number, to: number) =>
              from === to ? null : (
                <rect
                  class={kind}
                  x={x}
                  y={y(Math.max(from, to))}
                  width={`${hundredth(width)}%`}
                  height={tenth(Math.abs(y(from) - y(to)))}
                  rx="2"
                />
              );
            const place = bars.length - 1 - n;
            return (
              <g>
                <title>{`${name}: ${title}`}</title>
                {box(isSoft ? 'bar-soft' : 'bar-full', 0, value)}
                {box('bar-cut', -cut, 0)}
                {mark === null ? null : (
                  <line
                    class="mark-line"
                    x1={`${hundredth(n * step + step * 0.15)}%`}
                    x2={`${hundredth((n + 1) * step - step * 0.15)}%`}
                    y1={y(mark)}
                    y2={y(mark)}
                  />
                )}
                {place % every === 0 ? (
                  <Below at={hundredth((n + 0.5) * step)} every={(place / every) % 2 === 0 ? 1 : 2}>
                    {name}
                  </Below>
                ) : null}
              </g>
            );
          })
        }
      </Drawing>
      {legend.length === 0 ? null : (
        <p class="legend">
          {legend.map(([kind, text]) => (
            <span>
              <svg width="10" height="10" aria-hidden="true">
                {kind === 'mark-line' ? (
                  <line class={kind} x2="10" y1="5" y2="5" />
                ) : (
                  <rect class={kind} width="10" height="10" rx="2" />
                )}
              </svg>{' '}
              {text}
            </span>
          ))}
        </p>
      )}
    </>
  );
};

/** A label below the plot. @param every 2: hidden on phones */
const Below: FC<{ at: number; every: number; children?: Child }> = ({ at, every, children }) => (
  <text
    class={every === 1 ? 'axis' : 'axis second'}
    x={`${at}%`}
    y={PLOT + 18}
    text-anchor={at > 95 ? 'end' : at < 3 ? 'start' : 'middle'}
  >
    {children}
  </text>
);

/** A seller's nights as a strip of marks, the newest at the right. */
export const NightStrip: FC<{
  nights: readonly { readonly day: string; readonly state: 'good' | 'warn' | 'bad' | 'none' }[];
}> = ({ nights }) => {
  const good = nights.filter(({ state }) => state === 'good').length;
  const width = nights.length * 6 - 2;
  return (
    <svg
      class="strip"
      role="img"
      viewBox={`0 0 ${width} 18`}
      width={width}
      height="18"
      aria-label={`${good} of ${nights.length} nights succeeded`}
    >
      {nights.map(({ day, state }, n) => (
        <rect class={state} x={n * 6}>
          <title>{`${day}: ${NIGHT[state]}`}</title>
        </rect>
      ))}
    </svg>
  );
};

const NIGHT = {
  good: 'mirrored',
  warn: 'held removals',
  bad: 'failed',
  none: 'no run',
} as const;

/** Places values in pixels from the top. */
type Y = ((value: number) => number) & { readonly domain: readonly number[] };

/** The axis with its grid, and the plot that `children` draws. */
const Drawing: FC<ChartProps & { low: number; high: number; children?: (y: Y) => Child }> = ({
  label,
  unit,
  low,
  high,
  children,
}) => {
  const scale = verticalScale(low, high).range([PLOT, ABOVE]);
  const y: Y = Object.assign((value: number) => tenth(scale(value)), { domain: scale.domain() });
  // Counts have no fractions; amounts with a unit do.
  const ticks = scale.ticks(4).filter((tick) => Number.isInteger(tick) || Boolean(unit));
  const texts = ticks.map((tick) => {
    const size = Math.abs(tick);
    return size < 10_000 ? plain(size) : SHORT.format(size);
  });
  // Short texts of near values may be the same.
  const shown = new Set(texts).size < texts.length && low >= 0 ? ticks.map(plain) : texts;
  return (
    <div class="chart" role="img" aria-label={label}>
      <svg width={AXIS} height={PLOT + BELOW} aria-hidden="true">
        {ticks.map((tick, n) => (
          <text class="axis" x={AXIS - 8} y={y(tick) + 4} text-anchor="end">
            {shown[n]}
          </text>
        ))}
      </svg>
      <svg width="100%" height={PLOT + BELOW}>
        {ticks.map((tick) => (
          <line class="grid" x2="100%" y1={y(tick)} y2={y(tick)} />
        ))}
        {children?.(y)}
      </svg>
    </div>
  );
};

const min = (values: readonly number[]): number => values.reduce((a, b) => Math.min(a, b));
const max = (values: readonly number[]): number => values.reduce((a, b) => Math.max(a, b));
const tenth = (value: number): number => Math.round(value * 10) / 10;
const hundredth = (value: number): number => Math.round(value * 100) / 100;

/** A scale with round ends and some room around the values. Starts at 0 if that is near. */
function verticalScale(low: number, high: number) {
  if (low < 0) return scaleLinear([low, high], [0, 1]).nice(4);
  if (low <= 2 * (high - low)) return scaleLinear([0, high], [0, 1]).nice(4);
  const room = (high - low || Math.abs(high) || 1) * 0.1;
  return scaleLinear([low - room, high + room], [0, 1]).nice(4);
}

const DAY_MS = 86_400_000;
/** Labels of the time axis are so far apart (percent). */
const MIN_TICK_STEP = 9;
const formatter = (options: Intl.DateTimeFormatOptions): ((at: Date) => string) => {
  const format = new Intl.DateTimeFormat('en-GB', options);
  return (at) => format.format(at);
};
const CLOCK = formatter({ hour: '2-digit', minute: '2-digit' });
const DAY = formatter({ day: 'numeric', month: 'short' });
const MONTH = formatter({ month: 'short', year: 'numeric' });
const YEAR = formatter({ year: 'numeric' });

/** Labels of the time axis, with their places in percent. */
function timeTicks(x: ReturnType<typeof scaleTime<number>>) {
  const [from, until] = x.domain().map(Number);
  const days = ((until ?? 0) - (from ?? 0)) / DAY_MS;
  const format = days < 2 ? CLOCK : days < 150 ? DAY : days <= 6 * 365 ? MONTH : YEAR;
  const ticks = x.ticks(6).map((tick) => ({ at: tenth(x(tick)), text: format(tick) }));
  // Half months would repeat their month, and a label at the edge could touch the next one.
  return ticks.filter(({ at, text }, n) => {
    const before = ticks[n - 1];
    return before === undefined || (text !== before.text && at - before.at >= MIN_TICK_STEP);
  });
}
