import {
  seededCatalogue,
  seededPurchases,
  type Catalogue,
  type Purchases,
} from '#product/simulator/index.js';
import { between, pick, type Random } from '../setup.js';

const ITEMS = 60;

/** A line of the list. */
interface ListLine {
  /** The code as the list has it, perhaps with quotes and white space around it. */
  readonly cell: string;
  /** Null if the line has no code. */
  readonly code: string | null;
}

export interface KnownCodes {
  readonly catalogue: Catalogue;
  readonly own: Purchases;
  readonly others: Purchases;
  /** All codes. The kind is for the report. */
  readonly codes: ReadonlyMap<string, { readonly valid: boolean; readonly kind: string }>;
  readonly lines: readonly ListLine[];
}

/** What surrounds codes that were copied from mails and spreadsheets. */
const WRAPPERS: readonly ((code: string) => string)[] = [
  (code) => `  ${code}\t`,
  (code) => `\u00A0${code}\u200B`,
  (code) => `“${code}”`,
  (code) => `'${code}'`,
  (code) => `\uFEFF${code}`,
];
/** Codes have no fixed format, so these may be valid, too. */
const STRANGE: readonly ((n: number) => string)[] = [
  (n) => `Käufer-${n}-größe`,
  (n) => `=SUM(A${n};B2)`,
  (n) => `+49 30 ${n}`,
  (n) => `"quoted", with comma ${n}`,
  (n) => `💿${n}💿`,
  (n) => `${n}-${'x'.repeat(200)}`,
  (n) => `購入-${n}`,
  (n) => `${n}%00&api_key=1`,
];

/** Makes codes of every kind, and a list of them in random order, including lines without a code. */
export function makeCodes(count: number, random: Random): KnownCodes {
  const catalogue = seededCatalogue({ seed: 7, count: ITEMS });
  const own = seededPurchases({ seed: 1, count });
  const others = seededPurchases({ seed: 2, count });
  const uuids = seededPurchases({ seed: 3, count, format: 'uuid' });
  const items = [...catalogue.truth()];
  const codes = new Map<string, { valid: boolean; kind: string }>();
  for (let n = 0; codes.size < count; n++) {
    const add = (kind: string, code: string, valid: boolean): void => {
      if (codes.size < count && !codes.has(code)) codes.set(code, { kind, valid });
    };
    const code = own.codeAt(n);
    const what = random();
    if (what < 0.5) add('hex', code, true);
    else if (what < 0.56) {
      const uuid = uuids.codeAt(n);
      const license = random() < 0.3 ? 'Extended' : 'Regular';
      own.add({ code: uuid, itemId: pick(random, items).id, license });
      add('uuid', uuid, true);
    } else if (what < 0.61) {
      add('upper case', code.toUpperCase(), true);
      // A code of its own, because letter case may matter.
      if (random() < 0.3) add('hex', code, true);
    } else if (what < 0.64) {
      const strange = pick(random, STRANGE)(n);
      const valid = random() < 0.5;
      if (valid) own.add({ code: strange, itemId: pick(random, items).id });
      add('strange', strange, valid);
    } else if (what < 0.72) {
      own.setState(code, random() < 0.7 ? 'refunded' : 'cancelled');
      add('refunded', code, false);
    } else if (what < 0.82) {
      if (random() < 0.2) others.setState(others.codeAt(n), 'refunded');
      add('of another seller', others.codeAt(n), false);
    } else if (what < 0.9)
      add('misspelt', `${code.slice(0, -1)}${code.endsWith('0') ? 1 : 0}`, false);
    else add('made up', hexOf(random), false);
  }
  return { catalogue, own, others, codes, lines: linesOf([...codes.keys()], random) };
}

function hexOf(random: Random): string {
  return Array.from({ length: 37 }, () => Math.floor(random() * 16).toString(16)).join('');
}

/** Repeats some codes, adds lines without a code, and shuffles all. */
function linesOf(codes: readonly string[], random: Random): readonly ListLine[] {
  const lines: ListLine[] = [];
  for (const code of codes) {
    const cell = random() < 0.05 ? pick(random, WRAPPERS)(code) : code;
    lines.push({ cell, code });
    if (random() < 0.02) {
      const again = pick(random, codes);
      lines.push({ cell: again, code: again });
    }
    if (random() < 0.005) lines.push({ cell: pick(random, ['', '   ', 'a\u0007b']), code: null });
  }
  for (let n = lines.length - 1; n > 0; n--) {
    const other = between(random, 0, n);
    [lines[n], lines[other]] = [lines[other] as ListLine, lines[n] as ListLine];
  }
  return lines;
}

/** Formats the list as CSV, with a column before the code and one after it. */
export function listText(lines: readonly ListLine[]): string {
  const rows = lines.map(({ cell }, n) => {
    const quoted = /[",\r\n]/.test(cell) ? `"${cell.replaceAll('"', '""')}"` : cell;
    return `customer ${n},${quoted},note ${n}`;
  });
  return `name,code,note\r\n${rows.join('\r\n')}\r\n`;
}
