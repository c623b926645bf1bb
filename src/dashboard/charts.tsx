import type { Child, FC } from 'hono/jsx';
import { scaleBand, scaleLinear, scaleTime } from 'd3-scale';
import { area, curveStepAfter, line } from 'd3-shape';

/** A figure at a time. */
export interface Point {
  readonly at: Date;
  readonly value: number;
}

interface ChartProps {
  /** What the chart shows, for those who can't see it. */
  readonly label: string;
  /** Writes a figure in full, for the titles of bars. */
  readonly format?: (value: number) => string;
  /** What the figures at the side count, such as a currency. */
  readonly unit?: string | null | undefined;
  /** `half`: it stands beside a table. */
  readonly size?: keyof typeof WIDTHS;
}

/** Width of the drawing where there is room, in the units of its text's 12 pixels. */
const WIDTHS = { full: 980, half: 600 };
const HEIGHT = 230;
/** The drawing on a phone, whose text would else become as small as the drawing. */
const PHONE = { width: 340, height: 190 };
/** Width of a character of an axis. */
const CHARACTER = 7;

/** A drawing's size and what is left of it for the figures. */
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

/** A figure of an axis: short, since it stands for its line only. */
function axisText(value: number): string {
  return Math.abs(value) < 10_000 ? plain(value) : SHORT.format(value);
}

/** A figure that holds until it changes, such as a price. */
export const StepChart: FC<ChartProps & { points: readonly Point[]; until?: Date }> = ({
  points,
  until = new Date(),
  ...chart
}) => {
  const [first] = points;
  const last = points.at(-1);
  if (first === undefined || last === undefined) return null;
  // A figure that is there since a moment ago has no width yet.
  const from = new Date(Math.min(first.at.getTime(), until.getTime() - 60_000));
  const held = [...points, { at: until, value: last.value }];
  const values = points.map(({ value }) => value);
  const y = heights(least(values), most(values));
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
            <path class="filled" d={rounded(filled(held))} />
            <path class="outline" d={rounded(outline(held))} />
          </>
        );
      }}
    </Drawing>
  );
};

/** A bar: a name, such as a month, and its figure. */
export interface ChartBar {
  readonly name: string;
  readonly value: number;
  /** What the figure is made of, from the bottom. */
  readonly parts?: readonly number[];
}

/** Figures for each of some names. @param series what the parts of a bar are, from the bottom */
export const BarChart: FC<
  ChartProps & { bars: readonly ChartBar[]; series?: readonly string[] }
> = ({ bars, series = [], format = plain, ...chart }) => {
  const y = heights(0, most([1, ...bars.map(({ value }) => value)]));
  const longest = most([1, ...bars.map(({ name }) => name.length)]);
  return (
    <>
      <Drawing {...chart} y={y}>
        {(plot) => {
          const x = scaleBand(
            bars.map(({ name }) => name),
            [plot.left, plot.right],
          ).padding(bars.length > 30 ? 0.1 : 0.25);
          const height = y.copy().range([plot.bottom, plot.top]);
          // Names that would touch each other are left out.
          const every = Math.ceil((longest * CHARACTER + 10) / x.step());
          return bars.map(({ name, value: whole, parts = [whole] }, n) => {
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

/** How much of the most something is, as a bar within a row. @param of 0 to 1 */
export const Share: FC<{ of: number }> = ({ of }) => (
  <svg class="share" viewBox="0 0 100 4" preserveAspectRatio="none" aria-hidden="true">
    <rect class="whole" width="100" height="4" />
    <rect class="part-0" width={tenth(Math.max(0.5, 100 * Math.min(1, of)))} height="4" />
  </svg>
);

/** The last nights of a seller, the newest at the right: one mark a night, whose size is in the styles. */
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

const NIGHT = { good: 'mirrored', warn: 'held', bad: 'failed', none: 'no run' } as const;

/** Draws it twice, for a wide place and a narrow one; styles show the one that fits. */
const Drawing: FC<
  Pick<ChartProps, 'label' | 'unit' | 'size'> & { y: Scale; children?: (plot: Plot) => Child }
> = ({ label, unit, size = 'full', y, children }) => {
  // Half an item is none; half a dollar is some.
  const ticks = y.ticks(4).filter((tick) => Number.isInteger(tick) || Boolean(unit));
  const short = ticks.map(axisText);
  const texts = new Set(short).size < short.length ? ticks.map(plain) : short;
  const left = 10 + CHARACTER * most([1, ...texts.map(({ length }) => length)]);
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
            {ticks.map((tick, place) => (
              <>
                <line
                  class="grid"
                  x1={left}
                  x2={plot.right}
                  y1={tenth(height(tick))}
                  y2={tenth(height(tick))}
                />
                <text class="axis" x={left - 8} y={tenth(height(tick) + 4)} text-anchor="end">
                  {texts[place]}
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

const least = (values: readonly number[]): number => values.reduce((a, b) => Math.min(a, b));
const most = (values: readonly number[]): number => values.reduce((a, b) => Math.max(a, b));
const tenth = (value: number): number => Math.round(value * 10) / 10;

/** A path without digits that nobody sees: they are most of its length. */
function rounded(path: string | null): string {
  return (path ?? '').replace(/\.(\d)\d+/g, '.$1');
}

type Scale = ReturnType<typeof scaleLinear<number>>;

/** From the least to the most, with room and round ends; from 0 where that is near. */
function heights(low: number, high: number): Scale {
  if (low >= 0 && low <= 2 * (high - low)) return scaleLinear([0, high], [0, 1]).nice(4);
  const room = (high - low || Math.abs(high) || 1) * 0.1;
  return scaleLinear([low - room, high + room], [0, 1]).nice(4);
}

const DAY_MS = 86_400_000;
const write = (options: Intl.DateTimeFormatOptions): ((at: Date) => string) => {
  const format = new Intl.DateTimeFormat('en-GB', options);
  return (at) => format.format(at);
};
const CLOCK = write({ hour: '2-digit', minute: '2-digit' });
const DAY = write({ day: 'numeric', month: 'short' });
const MONTH = write({ month: 'short', year: 'numeric' });
const YEAR = write({ year: 'numeric' });

/** Moments at the foot of a chart, as many as there is room for. */
function timeTicks(
  x: ReturnType<typeof scaleTime<number>>,
  plot: Plot,
): { readonly at: number; readonly text: string }[] {
  const [from, until] = x.domain().map(Number);
  const spanMs = (until ?? 0) - (from ?? 0);
  const text = spanMs < 2 * DAY_MS ? CLOCK : spanMs < 150 * DAY_MS ? DAY : MONTH;
  const written = spanMs > 6 * 365 * DAY_MS ? YEAR : text;
  const most = Math.max(2, Math.floor((plot.right - plot.left) / 90));
  let end = 0;
  const seen = new Set<string>();
  return x
    .ticks(most)
    .map((tick) => ({ at: tenth(x(tick)), text: written(tick) }))
    .filter(({ at, text: words }) => {
      // Within the drawing and apart from each other; ticks of half months would repeat a name.
      const half = (words.length * CHARACTER) / 2;
      if (at - half < end || at + half > plot.width || seen.has(words)) return false;
      end = at + half + 8;
      return seen.add(words);
    });
}
