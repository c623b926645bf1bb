/** Whether reading the number as a double, as JavaScript and others do, keeps every digit of it. */
export function isExact(text: string): boolean {
  const number = Number(text);
  return Number.isFinite(number) && digits(text) === digits(String(number));
}

/** Sign, digits without zeros around them, and the power of ten of the first: `-12.50` → `-125e1`. */
function digits(text: string): string {
  const [mantissa = '', exponent = '0'] = text.toLowerCase().split('e');
  const [whole = '', fraction = ''] = mantissa.replace(/^[-+]/, '').split('.');
  const all = whole + fraction;
  const first = all.search(/[1-9]/);
  if (first === -1) return '0';
  const power = Number(exponent) + whole.length - first - 1;
  const sign = mantissa.startsWith('-') ? '-' : '';
  return `${sign}${all.slice(first).replace(/0+$/, '')}e${power}`;
}
