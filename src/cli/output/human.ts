import { moment } from '../../domain/moment.js';
import type { Look } from './terminal.js';

const COUNT = new Intl.NumberFormat('en');
const ONE_DIGIT = new Intl.NumberFormat('en', { maximumFractionDigits: 1 });

/** 12345 → `12,345`. */
export function count(number: number | bigint): string {
  return COUNT.format(number);
}

/** `1 item`, `2 items`. */
export function plural(number: number | bigint, one: string, many = `${one}s`): string {
  return `${count(number)} ${Number(number) === 1 ? one : many}`;
}

/** Bytes in decimal units: 1500 → `1.5 kB`. */
export function bytes(number: number): string {
  const units = ['B', 'kB', 'MB', 'GB', 'TB', 'PB'];
  let value = number;
  let unit = 0;
  // 999.95 and more would round up to 1,000 of its unit.
  while (Math.abs(value) >= (unit === 0 ? 1000 : 999.95) && unit < units.length - 1) {
    value /= 1000;
    unit++;
  }
  return `${ONE_DIGIT.format(value)} ${units[unit]}`;
}

/** Milliseconds in the one or two units that matter: `850 ms`, `4.2 s`, `3 min 5 s`, `2 h 10 min`, `3 d 4 h`. */
export function duration(milliseconds: number): string {
  const ms = Math.max(0, milliseconds);
  if (Math.round(ms) < 1000) return `${Math.round(ms)} ms`;
  if (ms < 9950) return `${ONE_DIGIT.format(ms / 1000)} s`;
  const seconds = Math.round(ms / 1000);
  if (seconds < 60) return `${seconds} s`;
  if (seconds < 3600) return two(Math.floor(seconds / 60), 'min', seconds % 60, 's');
  const minutes = Math.round(seconds / 60);
  if (minutes < 24 * 60) return two(Math.floor(minutes / 60), 'h', minutes % 60, 'min');
  const hours = Math.round(minutes / 60);
  return two(Math.floor(hours / 24), 'd', hours % 24, 'h');
}

function two(large: number, largeUnit: string, small: number, smallUnit: string): string {
  const rest = small === 0 ? '' : ` ${small} ${smallUnit}`;
  return `${count(large)} ${largeUnit}${rest}`;
}

/** How long ago something was: `just now`, `12 min ago`, `3 h ago`, `5 d ago`; the future is `in 3 h`. */
export function age(at: Date, now: Date): string {
  const ms = now.getTime() - at.getTime();
  const seconds = Math.floor(Math.abs(ms) / 1000);
  if (seconds < 5) return 'just now';
  const text = wholeUnit(seconds);
  return ms < 0 ? `in ${text}` : `${text} ago`;
}

function wholeUnit(seconds: number): string {
  if (seconds < 60) return `${seconds} s`;
  if (seconds < 3600) return `${Math.floor(seconds / 60)} min`;
  if (seconds < 48 * 3600) return `${Math.floor(seconds / 3600)} h`;
  return `${count(Math.floor(seconds / 86_400))} d`;
}

/**
 * A moment in a column: whole where all of it is wanted, on a terminal the day, or the minute if it was
 * today; in UTC.
 */
export function momentCell(at: Date, now: Date, { columns }: Pick<Look, 'columns'>): string {
  const text = moment(at);
  if (columns === null) return text;
  const isToday = text.slice(0, 10) === moment(now).slice(0, 10);
  return isToday ? `${text.slice(11, 16)}Z` : text.slice(0, 10);
}
