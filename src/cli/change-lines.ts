import { describeChange, labelOf, percentChange, type ChangeText } from '../domain/change-text.js';
import {
  FEW_CHANGES,
  groupChanges,
  isFolded,
  isSameRun,
  type ChangeFold,
  type ItemGroup,
  type PlacedChange,
} from '../domain/changes.js';
import { moment } from '../domain/moment.js';
import type { ItemChange, RunField } from '../store/history-read.js';
import type { Store } from '../store/store.js';
import type { CsvCell } from './output/formats.js';
import { count, cut, type Look, pad, paint, safeLine, type Style, width } from './output/text.js';

/** Old and new text are cut to this many characters, or fewer where the terminal is narrow. */
const MOST_CHARACTERS = 72;
const LEAST_CHARACTERS = 20;
const INDENT = 4;

const STATE_STYLES: Readonly<Record<string, Style>> = {
  added: 'green',
  restored: 'green',
  'found again': 'green',
  missing: 'yellow',
  removed: 'red',
};

/** A change, or a fold in its place. */
type Entry =
  | (ItemChange & { readonly place: bigint; readonly fold: null })
  | (PlacedChange & { readonly place: bigint; readonly fold: ChangeFold });

/** Comes before every item. */
const NO_ITEM = -1n;

/** Formats changes for a person, run by run. Remembers the last run, so that more changes can follow. */
export class ChangeLines {
  readonly #look: Look;
  #last: PlacedChange | null = null;

  constructor(look: Look) {
    this.#look = look;
  }

  /** Formats the next changes; in each run, folds come first. */
  of({ changes, folds }: FoldedChanges): string {
    const entries: readonly Entry[] = [
      ...changes.map((change) => ({ ...change, place: change.seq, fold: null })),
      ...folds.map((fold) => ({ ...fold, itemId: NO_ITEM, fold })),
    ];
    return groupChanges(entries.toSorted((a, b) => Number(a.place - b.place)))
      .map(({ runId, sellerId, changedAt, items }) => {
        const run = { runId, sellerId, changedAt, itemId: NO_ITEM };
        const goesOn = this.#last !== null && isSameRun(run, this.#last);
        const gap = this.#last === null ? '' : '\n';
        this.#last = run;
        const title = `run ${runId} · ${safeLine(sellerId)} · ${moment(changedAt)}`;
        const head = goesOn ? '' : `${gap}${paint('bold', title, this.#look)}\n`;
        return head + items.map((item) => this.#entries(item)).join('');
      })
      .join('');
  }

  #entries({ itemId, changes: entries }: ItemGroup<Entry>): string {
    const changes = entries.flatMap((entry) => (entry.fold === null ? [entry] : []));
    if (changes.length > 0) return this.#item({ itemId, changes });
    return entries.map(({ fold }) => (fold === null ? '' : this.#fold(fold))).join('');
  }

  /** `name: A → B in 4,812 of 5,000 items (--all shows each)`. */
  #fold({ class: kind, field, same, items, of }: ChangeFold): string {
    const many = `${count(items)} of ${count(of)} items`;
    const hint = paint('dim', '(--all shows each)', this.#look);
    const label = (text: string): string => paint('dim', `${safeLine(text)}:`, this.#look);
    if (same === null) return `  ${label(labelOf(field))} changed in ${many} ${hint}\n`;
    const text = describeChange({ class: kind, field, ...same }, this.#textWidth());
    if (text.kind === 'state') {
      return `  ${paint(STATE_STYLES[text.word] ?? 'bold', text.word, this.#look)}: ${many} ${hint}\n`;
    }
    const values =
      text.kind === 'list'
        ? this.#parts(text)
        : `${this.#safe(text.old)} → ${this.#safe(text.new)}`;
    const note = text.note === null ? '' : paint('cyan', ` (${safeLine(text.note)})`, this.#look);
    return `  ${label(text.label)} ${`${values}${note}`.trimStart()} in ${many} ${hint}\n`;
  }

  #item({ itemId, changes }: ItemGroup<ItemChange>): string {
    const texts = changes.map((change) => this.#describe(change));
    const name = cut(safeLine(changes[0]?.itemName ?? ''), this.#columns(40));
    const words = texts.flatMap((text) => (text.kind === 'state' ? [text.word] : []));
    const states = words.map((word) => paint(STATE_STYLES[word] ?? 'bold', word, this.#look));
    const head = `  ${itemId} ${name}${states.length === 0 ? '' : `  ${states.join(', ')}`}`;
    const fields = texts.filter((text) => text.kind !== 'state');
    const labels = fields.reduce((most, { label }) => Math.max(most, width(label)), 0);
    return `${head.trimEnd()}\n${fields.map((text) => this.#field(text, labels)).join('')}`;
  }

  /** Cuts texts by characters, to half as many where wide characters would not fit. */
  #describe(change: ItemChange): ChangeText {
    const columns = this.#textWidth();
    const text = describeChange(change, columns);
    const fits =
      text.kind !== 'values' ||
      [text.old, text.new].every((part) => width(safeLine(part)) <= columns);
    return fits ? text : describeChange(change, Math.floor(columns / 2));
  }

  #field(text: Exclude<ChangeText, { kind: 'state' }>, labels: number): string {
    const label = paint('dim', pad(safeLine(text.label), labels, 'left'), this.#look);
    const start = `${' '.repeat(INDENT)}${label}  `;
    const note = text.note === null ? '' : paint('cyan', ` (${safeLine(text.note)})`, this.#look);
    if (text.kind === 'list') return `${`${start}${this.#parts(text)}`.trimEnd()}${note}\n`;
    const [old, now] = [this.#safe(text.old), this.#safe(text.new)];
    // They may differ only in characters that are not shown on a terminal.
    if (old === now && note === '') return `${start}${now} (differs in invisible characters)\n`;
    const room = this.#columns(0) - INDENT - labels - 2;
    const oneLine = width(old) + width(now) + 3 + (text.note?.length ?? 0) + 3 <= room;
    const between = oneLine ? ' ' : `\n${' '.repeat(INDENT + labels)}`;
    return `${start}${old}${between}→ ${now}${note}\n`;
  }

  #parts({ added, removed }: Extract<ChangeText, { kind: 'list' }>): string {
    const sign = (mark: string, style: Style, parts: readonly string[]): string[] =>
      parts.map((part) => paint(style, `${mark}${cut(safeLine(part), 40)}`, this.#look));
    return [...sign('+', 'green', added), ...sign('−', 'red', removed)].join(' ');
  }

  #safe(text: string): string {
    return cut(safeLine(text), this.#textWidth());
  }

  /** The columns to fill. Pipes and files have no width: lines are limited there too. */
  #columns(least: number): number {
    const { columns } = this.#look;
    // Some terminals report 0 columns.
    return Math.max(least, columns === 0 ? 80 : (columns ?? 2 * MOST_CHARACTERS));
  }

  #textWidth(): number {
    return Math.max(LEAST_CHARACTERS, Math.min(MOST_CHARACTERS, this.#columns(0) - 24));
  }
}

/** A change as JSON: a row of `reporting.item_changes`, with currency and percentage. */
export function changeJson(change: ItemChange): object {
  const { currencies, old: old_value, new: new_value, ...rest } = change;
  const isAmount = currencies !== null && change.field !== 'currency';
  const comparable =
    isAmount &&
    currencies.old === currencies.new &&
    typeof old_value === 'string' &&
    typeof new_value === 'string';
  return {
    ...rest,
    ...{ old_value, new_value },
    currency: isAmount ? currencies.new : null,
    percent: comparable ? (percentChange(old_value, new_value)?.exact ?? null) : null,
  };
}

/** Columns of changes in CSV. */
export const CHANGE_COLUMNS = [
  ...([
    'seq',
    'seller_id',
    'run_id',
    'changed_at',
    'item_id',
    'item_name',
    'class',
    'field',
  ] as const),
  ...(['old_value', 'new_value', 'currency'] as const),
];

/** A change as cells of `CHANGE_COLUMNS`; lists are JSON. */
export function changeCells(change: ItemChange): CsvCell[] {
  const { seq, sellerId, runId, changedAt, itemId, itemName, class: kind, field } = change;
  const text = (value: ItemChange['old']): string | null =>
    value === null || typeof value === 'string' ? value : JSON.stringify(value);
  const currency = field === 'currency' ? null : (change.currencies?.new ?? null);
  return [
    ...[seq, sellerId, runId, changedAt, itemId, itemName, kind, field],
    ...[text(change.old), text(change.new), currency],
  ];
}

/** Changes for a person: a change that most items of a run share is one fold. */
export interface FoldedChanges {
  readonly changes: readonly ItemChange[];
  readonly folds: readonly ChangeFold[];
}

/** Finds the changes that most items of a run share. */
export class Folds {
  readonly #store: Pick<Store, 'runs'>;
  readonly #known = new Map<bigint, readonly ChangeFold[]>();

  constructor(store: Pick<Store, 'runs'>) {
    this.#store = store;
  }

  /** Finds the folds of the runs of these changes, without those found before. */
  async of(changes: readonly ItemChange[]): Promise<readonly ChangeFold[]> {
    const news = changes.filter(({ runId }) => !this.#known.has(runId));
    for (const { runId } of news) this.#known.set(runId, []);
    const fields = await this.#store.runs.fields(news, FEW_CHANGES);
    const found = fields.flatMap((field) => foldOf(field) ?? []);
    for (const fold of found) {
      this.#known.set(fold.runId, [...(this.#known.get(fold.runId) ?? []), fold]);
    }
    return found;
  }

  /** Folds consecutive changes; a fold takes the place of the last of its changes. */
  async fold(changes: readonly ItemChange[]): Promise<FoldedChanges> {
    await this.of(changes);
    const folds: ChangeFold[] = [];
    const rest = changes.filter((change) => {
      const fold = this.#known.get(change.runId)?.find((one) => isPart(change, one));
      if (fold?.place === change.seq) folds.push(fold);
      return fold === undefined;
    });
    return { changes: rest, folds };
  }
}

function foldOf(field: RunField): ChangeFold | null {
  const { runId, sellerId, changedAt, class: kind, listed, same } = field;
  const common = { runId, sellerId, changedAt, class: kind, field: field.field };
  // Items that are gone are not in the list any more.
  const isGone = field.field === 'state' && same.new !== 'live';
  const all = (items: number): number => Math.max(isGone ? listed + items : listed, items);
  if (isFolded(same.items, all(same.items))) {
    const values = { old: same.old, new: same.new };
    const { items, place } = same;
    return { ...common, same: values, items, of: all(items), place };
  }
  const { items, place } = field;
  return isFolded(items, all(items))
    ? { ...common, same: null, items, of: all(items), place }
    : null;
}

function isPart(change: ItemChange, { class: kind, field, same }: ChangeFold): boolean {
  if (change.class !== kind || change.field !== field) return false;
  return same === null || (isSame(change.old, same.old) && isSame(change.new, same.new));
}

function isSame(a: ItemChange['old'], b: ItemChange['old']): boolean {
  return JSON.stringify(a) === JSON.stringify(b);
}
