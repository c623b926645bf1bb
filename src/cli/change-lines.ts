import {
  describeChange,
  fieldLabel,
  percentChange,
  type ChangeText,
} from '../catalogue/change-text.js';
import {
  FEW_CHANGES,
  groupChanges,
  isFolded,
  isSameRun,
  type ChangeFold,
  type ItemGroup,
  type PlacedChange,
} from '../catalogue/changes.js';
import { moment } from '../domain/moment.js';
import { csvNumber, type CsvDialect } from '../domain/csv.js';
import { type ItemChange, type RunField, readRunFields } from '../catalogue/item-changes-store.js';
import type { CsvCell } from './output/formats.js';
import type { Db } from '../db/db.js';
import { count, cut, type Look, pad, paint, safeLine, type Style, width } from './output/text.js';

/** Old and new text are cut to this many characters, or fewer on a narrow terminal. */
const MAX_CHARACTERS = 72;
const MIN_CHARACTERS = 20;
const INDENT = 4;

const STATE_STYLES: Readonly<Record<string, Style>> = {
  added: 'green',
  restored: 'green',
  'found again': 'green',
  missing: 'yellow',
  removed: 'red',
};

type Entry =
  | (ItemChange & { readonly place: bigint; readonly fold: null })
  | (PlacedChange & { readonly place: bigint; readonly fold: ChangeFold });

/** An id for folds, which sorts them before every item. */
const NO_ITEM = -1n;

/** Formats changes for people, run by run. Remembers the last run, so that its header is not repeated. */
export class ChangeLines {
  readonly #look: Look;
  /** Maximum columns of a line, also in pipes and files. */
  readonly #columns: number;
  /** Maximum columns of an old or new text. */
  readonly #room: number;
  #last: PlacedChange | null = null;

  constructor(look: Look) {
    this.#look = look;
    // Some terminals report 0 columns.
    this.#columns = look.columns === 0 ? 80 : (look.columns ?? 2 * MAX_CHARACTERS);
    this.#room = Math.max(MIN_CHARACTERS, Math.min(MAX_CHARACTERS, this.#columns - 24));
  }

  format({ changes, folds }: FoldedChanges): string {
    const entries: readonly Entry[] = [
      ...changes.map((change) => ({ ...change, place: change.seq, fold: null })),
      ...folds.map((fold) => ({ ...fold, itemId: NO_ITEM, fold })),
    ];
    return groupChanges(entries.toSorted((a, b) => Number(a.place - b.place)))
      .map(({ runId, sellerId, changedAt, items }) => {
        const run = { runId, sellerId, changedAt, itemId: NO_ITEM };
        const hasHeader = this.#last === null || !isSameRun(run, this.#last);
        const gap = this.#last === null ? '' : '\n';
        this.#last = run;
        const title = `run ${runId} · ${safeLine(sellerId)} · ${moment(changedAt)}`;
        const head = hasHeader ? `${gap}${paint('bold', title, this.#look)}\n` : '';
        return head + items.map((item) => this.#entries(item)).join('');
      })
      .join('');
  }

  #entries({ itemId, changes: entries }: ItemGroup<Entry>): string {
    const changes = entries.flatMap((entry) => (entry.fold === null ? [entry] : []));
    if (changes.length > 0) return this.#item(itemId, changes);
    return entries.map(({ fold }) => (fold === null ? '' : this.#fold(fold))).join('');
  }

  /** `name: A → B in 4,812 of 5,000 items (--all shows each)`. */
  #fold({ class: kind, field, same, items, of }: ChangeFold): string {
    const hint = paint('dim', '(--all shows each)', this.#look);
    const many = `${count(items)} of ${count(of)} items ${hint}\n`;
    const label = (text: string): string => paint('dim', `${safeLine(text)}:`, this.#look);
    if (same === null) return `  ${label(fieldLabel(field))} changed in ${many}`;
    const text = describeChange({ class: kind, field, ...same }, this.#room);
    if (text.kind === 'state') return `  ${this.#state(text.word)}: ${many}`;
    const [values, note] = this.#values(text);
    return `  ${label(text.label)} ${`${values.join(' → ')}${note}`.trimStart()} in ${many}`;
  }

  #item(itemId: bigint, changes: readonly ItemChange[]): string {
    const texts = changes.map((change) => this.#describe(change));
    const states = texts.flatMap((text) => (text.kind === 'state' ? this.#state(text.word) : []));
    const fields = texts.filter((text) => text.kind !== 'state');
    const name = cut(safeLine(changes[0]?.itemName ?? ''), Math.max(40, this.#columns));
    const head = `  ${itemId} ${name}${states.length === 0 ? '' : `  ${states.join(', ')}`}`;
    const labels = fields.reduce((most, { label }) => Math.max(most, width(label)), 0);
    return `${head.trimEnd()}\n${fields.map((text) => this.#field(text, labels)).join('')}`;
  }

  #state(word: string): string {
    return paint(STATE_STYLES[word] ?? 'bold', word, this.#look);
  }

  /** Cuts texts by characters, to half as many if they contain too many wide characters. */
  #describe(change: ItemChange): ChangeText {
    const text = describeChange(change, this.#room);
    const fits =
      text.kind !== 'values' ||
      [text.old, text.new].every((part) => width(safeLine(part)) <= this.#room);
    return fits ? text : describeChange(change, Math.floor(this.#room / 2));
  }

  #field(text: FieldText, labels: number): string {
    const label = paint('dim', pad(safeLine(text.label), labels, 'left'), this.#look);
    const start = `${' '.repeat(INDENT)}${label}  `;
    const [[old = '', now], note] = this.#values(text);
    if (now === undefined) return `${`${start}${old}`.trimEnd()}${note}\n`;
    // The texts may differ only in invisible characters.
    if (old === now && note === '') return `${start}${now} (differs in invisible characters)\n`;
    const room = this.#columns - INDENT - labels - 2;
    const oneLine = width(old) + width(now) + 3 + (text.note?.length ?? 0) + 3 <= room;
    const between = oneLine ? ' ' : `\n${' '.repeat(INDENT + labels)}`;
    return `${start}${old}${between}→ ${now}${note}\n`;
  }

  /** Returns old and new value, or what was added to and removed from a list; and a note such as `(-20.0 %)`. */
  #values(text: FieldText): readonly [values: readonly string[], note: string] {
    const note = text.note === null ? '' : paint('cyan', ` (${safeLine(text.note)})`, this.#look);
    if (text.kind === 'values') {
      return [[text.old, text.new].map((part) => cut(safeLine(part), this.#room)), note];
    }
    const sign = (mark: string, style: Style, parts: readonly string[]): string[] =>
      parts.map((part) => paint(style, `${mark}${cut(safeLine(part), 40)}`, this.#look));
    const signed = [...sign('+', 'green', text.added), ...sign('−', 'red', text.removed)];
    return [[signed.join(' ')], note];
  }
}

type FieldText = Exclude<ChangeText, { kind: 'state' }>;

/** Formats a change for `--json`. */
export function changeJson({ currencies, old, new: now, ...rest }: ItemChange): object {
  const amounts = rest.field === 'currency' ? null : currencies;
  const comparable = amounts !== null && amounts.old === amounts.new && isText(old) && isText(now);
  return {
    ...rest,
    old_value: old,
    new_value: now,
    currency: amounts?.new ?? null,
    percent: comparable ? (percentChange(old, now)?.exact ?? null) : null,
  };
}

function isText(value: ItemChange['old']): value is string {
  return typeof value === 'string';
}

export const CSV_COLUMNS = [
  ...['seq', 'seller_id', 'run_id', 'changed_at', 'item_id', 'item_name', 'class', 'field'],
  ...['old_value', 'new_value', 'currency'],
];

export function changeCells(change: ItemChange, dialect: CsvDialect): CsvCell[] {
  const { seq, sellerId, runId, changedAt, itemId, itemName, class: kind, field } = change;
  const text = (value: ItemChange['old']): string | null => {
    if (typeof value === 'string') return kind === 'price' ? csvNumber(value, dialect) : value;
    return value === null ? null : JSON.stringify(value);
  };
  const currency = field === 'currency' ? null : (change.currencies?.new ?? null);
  return [
    ...[seq, sellerId, runId, changedAt, itemId, itemName, kind, field],
    ...[text(change.old), text(change.new), currency],
  ];
}

/** Changes for people. A fold stands for a change that most items of a run share. */
export interface FoldedChanges {
  readonly changes: readonly ItemChange[];
  readonly folds: readonly ChangeFold[];
}

/** Finds the folds of runs, and remembers them. */
export class FoldFinder {
  readonly #db: Db;
  readonly #known = new Map<bigint, readonly ChangeFold[]>();

  constructor(db: Db) {
    this.#db = db;
  }

  /** Returns the folds of the runs of these changes, without those returned before. */
  async find(changes: readonly ItemChange[]): Promise<readonly ChangeFold[]> {
    const unknown = changes.filter(({ runId }) => !this.#known.has(runId));
    for (const { runId } of unknown) this.#known.set(runId, []);
    const fields = await readRunFields(this.#db, unknown, FEW_CHANGES);
    const found = fields.flatMap((field) => foldOf(field) ?? []);
    for (const fold of found) {
      this.#known.set(fold.runId, [...(this.#known.get(fold.runId) ?? []), fold]);
    }
    return found;
  }

  /** Folds consecutive changes. A fold replaces the last of its changes. */
  async fold(changes: readonly ItemChange[]): Promise<FoldedChanges> {
    await this.find(changes);
    const folds: ChangeFold[] = [];
    const rest = changes.filter((change) => {
      const fold = this.#known.get(change.runId)?.find((one) => isPart(change, one));
      if (fold?.place === change.seq) folds.push(fold);
      return fold === undefined;
    });
    return { changes: rest, folds };
  }
}

function foldOf({ same, listed, items, place, ...field }: RunField): ChangeFold | null {
  // The list no longer contains the items that are gone.
  const isGone = field.field === 'state' && same.new !== 'live';
  const all = (items: number): number => Math.max(isGone ? listed + items : listed, items);
  if (isFolded(same.items, all(same.items))) {
    const { items, place, ...values } = same;
    return { ...field, same: values, items, of: all(items), place };
  }
  return isFolded(items, all(items))
    ? { ...field, same: null, items, of: all(items), place }
    : null;
}

function isPart(change: ItemChange, { class: kind, field, same }: ChangeFold): boolean {
  if (change.class !== kind || change.field !== field) return false;
  return (
    same === null ||
    JSON.stringify([change.old, change.new]) === JSON.stringify([same.old, same.new])
  );
}
