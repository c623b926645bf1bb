/** By how much an amount changed. */
export interface PercentChange {
  /** In tenths of a percent, half of one rounded away from zero. */
  readonly tenths: bigint;
  /** `+12.5 %`, `-20.0 %`. */
  readonly text: string;
}

/**
 * By how much percent an amount changed, exactly: amounts are decimal text. Null when there was
 * nothing before to compare with, or one of them is no amount.
 */
export function percentChange(old: string, now: string): PercentChange | null {
  const [before, after] = [hundredths(old), hundredths(now)];
  if (before === null || after === null || before === 0n) return null;
  const base = before < 0n ? -before : before;
  const difference = after - before;
  const size = ((difference < 0n ? -difference : difference) * 2000n + base) / (2n * base);
  const tenths = difference < 0n ? -size : size;
  const sign = difference < 0n ? '-' : '+';
  return { tenths, text: `${sign}${size / 10n}.${size % 10n} %` };
}

/** `12.5` → 1250n; null for what is no amount with at most two decimals. */
function hundredths(text: string): bigint | null {
  const parts = /^(-?)(\d+)(?:\.(\d{1,2})0*)?$/.exec(text);
  if (parts === null) return null;
  const [, sign = '', whole = '', fraction = ''] = parts;
  const size = BigInt(whole + fraction.padEnd(2, '0'));
  return sign === '' ? size : -size;
}
