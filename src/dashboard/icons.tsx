import type { FC } from 'hono/jsx';

/** Paths on a grid of 16 by 16, drawn with a stroke. */
const PATHS = {
  overview: 'M2 2.5h4.5v11H2zM9.5 2.5H14v4H9.5zM9.5 9.5H14v4H9.5z',
  check: 'M13.5 8v5.5h-11v-11H10M5.5 7.5 8 10l6-6.5',
  key: 'M5 8.5a2.75 2.75 0 1 0 0 5.5 2.75 2.75 0 0 0 0-5.5zM7 9.2 13.5 2.5M11 5l2 2',
  box: 'M8 1.8 14 5v6l-6 3.2L2 11V5zM2 5l6 3.2L14 5M8 8.2v6',
  changes: 'M2 5.5h11M10.5 3 13 5.5 10.5 8M14 10.5H3M5.5 8 3 10.5 5.5 13',
  chart: 'M1.5 13.5h13M3.5 11V8M8 11V3M12.5 11V6',
  runs: 'M13.5 8A5.5 5.5 0 0 1 3 10.3M2.5 8A5.5 5.5 0 0 1 13 5.7M13.5 2.5v3.3h-3.3M2.5 13.5v-3.3h3.3',
  system: 'M2 2.5h12v4.5H2zM2 9h12v4.5H2zM4.5 4.8h.01M4.5 11.3h.01',
  copy: 'M5.5 5.5h8v8h-8zM3.5 10.5h-1v-8h8v1',
  close: 'M3.5 3.5l9 9M12.5 3.5l-9 9',
  back: 'M10 3 5 8l5 5',
  menu: 'M2 4h12M2 8h12M2 12h12',
  filter: 'M2 4h12M4.5 8h7M6.5 12h3',
  share: 'M8 10V2M5 4.5 8 2l3 2.5M3.5 8v5.5h9V8',
  info: 'M8 2a6 6 0 1 0 0 12A6 6 0 0 0 8 2zM8 7.5V11M8 5h.01',
} as const;

type IconName = keyof typeof PATHS;

/** A small drawing in the colour of the text. The words beside it say what it means. */
export const Icon: FC<{ name: IconName }> = ({ name }) => (
  <svg class="icon" viewBox="0 0 16 16" width="16" height="16" aria-hidden="true">
    <path d={PATHS[name]} />
  </svg>
);
