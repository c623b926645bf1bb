import type { Measured } from '../children.js';
import { megabytes, seconds, times, type Line } from '../table.js';

export function perSecond(rate: number): string {
  return `${Math.round(rate)} codes/s`;
}

/** A line that has no target. */
export function information(what: string, figure: string): Line {
  return { what, figure, ratio: '', target: '', met: null };
}

/** What it took to enqueue a million codes, beside a bare COPY of their lines. */
export function millionLines(bare: Measured, enqueued: Measured): Line[] {
  return [
    {
      what: '1,000,000 codes: read, stored and enqueued',
      figure: seconds(enqueued.ms),
      ratio: `${times(enqueued.ms / bare.ms)} a bare COPY (${seconds(bare.ms)})`,
      target: '',
      met: null,
    },
    {
      what: 'Peak memory of that',
      figure: megabytes(enqueued.peak),
      ratio: '',
      target: '<= 200 MB',
      met: enqueued.peak <= 200e6,
    },
  ];
}

export function redisLine(bytes: number): Line {
  return {
    what: 'What they take in Redis',
    figure: `${(bytes / 1e6).toFixed(2)} MB`,
    ratio: '',
    target: '<= 20 MB',
    met: bytes <= 20e6,
  };
}
