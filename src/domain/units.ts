const ONE_DIGIT = new Intl.NumberFormat('en', { maximumFractionDigits: 1 });

/** Formats bytes in decimal units: 1500 → `1.5 kB`. */
export function bytes(number: number): string {
  const units = ['B', 'kB', 'MB', 'GB', 'TB', 'PB'];
  let value = number;
  let unit = 0;
  // From 999.95 on, rounding would give 1,000 of the unit.
  while (Math.abs(value) >= (unit === 0 ? 1000 : 999.95) && unit < units.length - 1) {
    value /= 1000;
    unit++;
  }
  return `${ONE_DIGIT.format(value)} ${units[unit]}`;
}

/** `1,234.50 USD`; a dash without an amount. */
export function money(
  amount: { toFixed(digits: number): string } | string | null,
  currency: string | null,
): string {
  if (amount === null) return '–';
  const text = typeof amount === 'string' ? amount : amount.toFixed(2);
  const [whole = '', cents = '00'] = text.split('.');
  const grouped = whole.replace(/\B(?=(?:\d{3})+$)/g, ',');
  return [`${grouped}.${cents}`, currency].filter(Boolean).join(' ');
}
