import type { Child, FC } from 'hono/jsx';
import { scaleBand, scaleLinear, scaleTime } from 'd3-scale';
import { area, curveStepAfter, line } from 'd3-shape';

/** A value at a time. */
export interface Point {
  readonly at: Date;
  readonly value: number;
}

interface ChartProps {
  /** What the chart shows, for screen readers. */
  readonly label: string;
  /** Unit of the vertical axis, such as a currency. */
  readonly unit?: string | null | undefined;
  /** `half` for a chart beside a table. */
  readonly size?: keyof typeof WIDTHS;
}

/** Size of the wide drawing, in units of which 12 are the text's height. */
const WIDTHS = { full: 980, half: 600 };
const HEIGHT = 230;
/** The drawing for phones. The wide one, scaled down, would have tiny text. */
const PHONE = { width: 340, height: 190 };
/** Width of a character on an axis. */
const CHAR_WIDTH = 7;

/** Size of a drawing, and the bounds of its plot area. */
interface Plot {
  readonly width: number;
  readonly height: number;
  readonly left: number;
  readonly right: number;
  readonly top: number;
  readonly bottom: number;
}

const plain = (value: number): string => value.toLocaleString('en-GB');
const SHORT = new Intl.NumberFormat('en-GB', { notation: 'compact', maximumFractionDigits: 1 });

/** A short label of the vertical axis, such as `12K`. */
function axisText(value: number): string {
  return Math.abs(value) < 10_000 ? plain(value) : SHORT.format(value);
}

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
  const extended = [...points, { at: until, value: last.value }];
  const values = points.map(({ value }) => value);
  const y = verticalScale(min(values), max(values));
  return (
    <Drawing {...chart} y={y}>
      {(plot) => {
        const x = scaleTime([from, until], [plot.left, plot.right]);
        const height = y.copy().range([plot.bottom, plot.top]);
        const at = { x: (point: Point) => x(point.at), y: (point: Point) => height(point.value) };
        const outline = line<Point>().x(at.x).y(at.y).curve(curveStepAfter);
        const filled = area<Point>().x(at.x).y1(at.y).y0(plot.bottom).curve(curveStepAfter);
        return (
          <>
            {timeTicks(x, plot).map(({ at: place, text }) => (
              <text class="axis" x={place} y={plot.height - 6} text-anchor="middle">
                {text}
              </text>
            ))}
            {/* An area that does not start at 0 would exaggerate. */}
            {y.domain()[0] === 0 ? <path class="filled" d={rounded(filled(extended))} /> : null}
            <path class="outline" d={rounded(outline(extended))} />
          </>
        );
      }}
    </Drawing>
  );
};

/** A named bar of one or more stacked values, from the bottom. */
export interface ChartBar {
  readonly name: string;
  readonly parts: readonly number[];
}

/**
 * A chart of stacked bars.
 * @param series names of the stacked values, from the bottom
 * @param format writes a value for the bars' tooltips
 */
export const BarChart: FC<
  ChartProps & {
    bars: readonly ChartBar[];
    series?: readonly string[];
    format?: (value: number) => string;
  }
> = ({ bars, series = [], format = plain, ...chart }) => {
  const y = verticalScale(0, max([1, ...bars.map(({ parts }) => sum(parts))]));
  const longest = max([1, ...bars.map(({ name }) => name.length)]);
  return (
    <>
      <Drawing {...chart} y={y}>
        {(plot) => {
          const x = scaleBand(
            bars.map(({ name }) => name),
            [plot.left, plot.right],
          ).padding(bars.length > 30 ? 0.1 : 0.25);
          const height = y.copy().range([plot.bottom, plot.top]);
          // Label every n-th bar, so that labels don't touch.
          const every = Math.ceil((longest * CHAR_WIDTH + 10) / x.step());
          return bars.map(({ name, parts }, n) => {
            let below = 0;
            const title = parts
              .map((value, part) => [series[part], format(value)].filter(Boolean).join(' '))
              .join(', ');
            return (
              <g>
                <title>{`${name}: ${title}`}</title>
                {parts.map((value, part) => {
                  const [low, high] = [height(below), height((below += value))];
                  return (
                    <rect
                      class={`part-${part}`}
                      x={tenth(x(name) ?? 0)}
                      y={tenth(high)}
                      width={tenth(Math.min(x.bandwidth(), 48))}
                      height={tenth(Math.max(0, low - high))}
                      rx="1.5"
                    />
                  );
                })}
                {(bars.length - 1 - n) % every === 0 ? (
                  <text
                    class="axis"
                    x={tenth((x(name) ?? 0) + Math.min(x.bandwidth(), 48) / 2)}
                    y={plot.height - 6}
                    text-anchor="middle"
                  >
                    {name}
                  </text>
                ) : null}
              </g>
            );
          });
        }}
      </Drawing>
      {series.length < 2 ? null : (
        <p class="legend">
          {series.map((name, part) => (
            <span>
              <svg viewBox="0 0 10 10" width="10" height="10" aria-hidden="true">
                <rect class={`part-${part}`} width="10" height="10" rx="2" />
              </svg>{' '}
              {name}
            </span>
          ))}
        </p>
      )}
    </>
  );
};

/** A thin bar that shows a share within a table row. @param of 0 to 1 */
export const Share: FC<{ of: number }> = ({ of }) => (
  <svg class="share" viewBox="0 0 100 4" preserveAspectRatio="none" aria-hidden="true">
    <rect class="whole" width="100" height="4" />
    <rect class="part-0" width={tenth(Math.max(0.5, 100 * Math.min(1, of)))} height="4" />
  </svg>
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

/** Draws a chart twice, for wide and narrow places. CSS shows the one that fits. */
const Drawing: FC<
  Pick<ChartProps, 'label' | 'unit' | 'size'> & { y: Scale; children?: (plot: Plot) => Child }
> = ({ label, unit, size = 'full', y, children }) => {
  // Counts have no fractions; amounts with a unit do.
  const ticks = y.ticks(4).filter((tick) => Number.isInteger(tick) || Boolean(unit));
  const short = ticks.map(axisText);
  const texts = new Set(short).size < short.length ? ticks.map(plain) : short;
  const left = 10 + CHAR_WIDTH * max([1, ...texts.map(({ length }) => length)]);
  const unitRoom = unit ? 16 : 0;
  const plotOf = ({ width, height }: { width: number; height: number }): Plot => ({
    width,
    height,
    left,
    top: 10 + unitRoom,
    right: width - 8,
    bottom: height - 26,
  });
  return (
    <>
      {[plotOf({ width: WIDTHS[size], height: HEIGHT }), plotOf(PHONE)].map((plot, n) => {
        const height = y.copy().range([plot.bottom, plot.top]);
        return (
          <svg
            class={`chart ${n === 0 ? 'wide' : 'narrow'}`}
            role="img"
            aria-label={label}
            viewBox={`0 0 ${plot.width} ${plot.height}`}
          >
            {unit ? (
              <text class="axis" x="0" y="11">
                {unit}
              </text>
            ) : null}
            {ticks.map((tick, index) => (
              <>
                <line
                  class="grid"
                  x1={left}
                  x2={plot.right}
                  y1={tenth(height(tick))}
                  y2={tenth(height(tick))}
                />
                <text class="axis" x={left - 8} y={tenth(height(tick) + 4)} text-anchor="end">
                  {texts[index]}
                </text>
              </>
            ))}
            {children?.(plot)}
          </svg>
        );
      })}
    </>
  );
};

const min = (values: readonly number[]): number => values.reduce((a, b) => Math.min(a, b));
const max = (values: readonly number[]): number => values.reduce((a, b) => Math.max(a, b));
const sum = (values: readonly number[]): number => values.reduce((a, b) => a + b, 0);
const tenth = (value: number): number => Math.round(value * 10) / 10;

/** Rounds the numbers of a path. Invisible digits are most of its length. */
function rounded(path: string | null): string {
  return (path ?? '').replace(/\.(\d)\d+/g, '.$1');
}

type Scale = ReturnType<typeof scaleLinear<number>>;

/** A scale with round ends and some room around the values. Starts at 0 if that is near. */
function verticalScale(low: number, high: number): Scale {
  if (low >= 0 && low <= 2 * (high - low)) return scaleLinear([0, high], [0, 1]).nice(4);
  const room = (high - low || Math.abs(high) || 1) * 0.1;
  return scaleLinear([low - room, high + room], [0, 1]).nice(4);
}

const DAY_MS = 86_400_000;
const formatter = (options: Intl.DateTimeFormatOptions): ((at: Date) => string) => {
  const format = new Intl.DateTimeFormat('en-GB', options);
  return (at) => format.format(at);
};
const CLOCK = formatter({ hour: '2-digit', minute: '2-digit' });
const DAY = formatter({ day: 'numeric', month: 'short' });
const MONTH = formatter({ month: 'short', year: 'numeric' });
const YEAR = formatter({ year: 'numeric' });

/** Labels of the time axis, as many as fit. */
function timeTicks(
  x: ReturnType<typeof scaleTime<number>>,
  plot: Plot,
): { readonly at: number; readonly text: string }[] {
  const [from, until] = x.domain().map(Number);
  const spanMs = (until ?? 0) - (from ?? 0);
  const days = spanMs / DAY_MS;
  const format = days < 2 ? CLOCK : days < 150 ? DAY : days <= 6 * 365 ? MONTH : YEAR;
  const maxTicks = Math.max(2, Math.floor((plot.right - plot.left) / 90));
  let end = 0;
  const seen = new Set<string>();
  return x
    .ticks(maxTicks)
    .map((tick) => ({ at: tenth(x(tick)), text: format(tick) }))
    .filter(({ at, text }) => {
      // Skip labels that overlap, leave the drawing, or repeat, as half months would.
      const half = (text.length * CHAR_WIDTH) / 2;
      if (at - half < end || at + half > plot.width || seen.has(text)) return false;
      end = at + half + 8;
      return seen.add(text);
    });
}
