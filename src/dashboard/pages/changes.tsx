import type { FC } from 'hono/jsx';
import type { Db } from '../../db/db.js';
import { describeChange, fieldLabel } from '../../catalogue/change-text.js';
import { CHANGE_CLASSES } from '../../catalogue/changes.js';
import { csvNumber, PLAIN_CSV, type CsvDialect } from '../../domain/csv.js';
import { exportChunks } from '../../reporting/export.js';
import {
  type ChangeFilter,
  type ItemChange,
  readChanges,
  countChanges,
} from '../../catalogue/item-changes-store.js';
import type { TextRow } from '../../db/text-cursor.js';
import { type Dashboard, type DashboardContext, type DashboardParts, Problem } from '../context.js';
import { checkRoom, csvDialectOf, Downloads, formatOf, sendFile } from '../downloads.js';
import { page } from '../layout.js';
import { moment, valueText } from '../format.js';
import {
  Choice,
  Filter,
  ItemLink,
  Pages,
  Percent,
  Section,
  SellerField,
  splitPage,
  Table,
  Untrusted,
  without,
  SellerLink,
} from '../parts.js';
import { oneOf, parseDay, parseNumber } from '../query.js';

const PAGE_SIZE = 100;
/** Changes per query of a download. */
const BATCH_SIZE = 2_000;
/** Longer old and new texts are shortened to this many characters. */
const TEXT_WIDTH = 120;

/** `/changes`: changes of items by day, also as downloads. */
export function addChanges(app: Dashboard, { db }: DashboardParts): void {
  app.get('/changes', async (c) => {
    const filter = filterOf(c);
    const changes = (
      await readChanges(db, { ...filter, limit: PAGE_SIZE + 1, newest: true })
    ).toReversed();
    const { shown, last } = splitPage(changes, PAGE_SIZE);
    const query = without(new URL(c.req.url).searchParams, 'from');
    return page(
      c,
      {
        title: 'Changes',
        lead: 'What changed in your items, newest first.',
        actions: (
          <>
            <a class="button" href={`/changes.csv?${query}`}>
              Download CSV
            </a>
            <Downloads
              of="changes"
              path="/changes"
              query={new URLSearchParams(query)}
              as={['csv-comma', 'xlsx', 'parquet']}
            />
          </>
        ),
      },
      <>
        <Filter>
          <Choice name="class" label="Class" of={CHANGE_CLASSES} chosen={c.req.query('class')} />
          <label>
            Item number
            <input name="item" inputmode="numeric" value={c.req.query('item') ?? ''} />
          </label>
          <SellerField value={c.req.query('seller')} />
          <label>
            Since
            <input name="since" type="date" value={c.req.query('since') ?? ''} />
          </label>
        </Filter>
        {groupByDay(shown).map(([day, changesOfDay]) => (
          <Section title={day}>
            <ChangeTable changes={changesOfDay} />
          </Section>
        ))}
        {shown.length === 0 ? (
          <p class="empty">
            No change found. Each sync records what changed since the last one; a seller’s first
            sync records none.
          </p>
        ) : null}
        <Pages url={c.req.url} next={last?.seq ?? null} />
      </>,
    );
  });

  app.get('/:file{changes\\.[a-z]+}', async (c) => {
    const format = formatOf(c.req.param('file').split('.')[1]);
    if (format === undefined) {
      throw new Problem('File not found', 'Download changes from the Changes page.', 404);
    }
    const filter = filterOf(c);
    await checkRoom(format, async () => {
      const counts = await countChanges(db, filter);
      return counts.reduce((sum, { changes }) => sum + changes, 0);
    });
    const dialect = csvDialectOf(c) ?? PLAIN_CSV;
    return sendFile(c, 'changes', format, async (write) => {
      const batches = rowsOf(db, filter, dialect);
      const chunks = exportChunks({ columns: FILE_COLUMNS, batches }, format, {
        raw: false,
        dialect,
      });
      for await (const chunk of chunks) await write(chunk);
    });
  });
}

function filterOf(c: DashboardContext): ChangeFilter {
  const query = c.req.query();
  const itemId = parseNumber(query['item']);
  const before = parseNumber(query['from']);
  const runId = parseNumber(query['run']);
  const from = parseDay(query['since'] ?? '');
  if (itemId === null && query['item']) {
    throw new Problem(
      'An item number has only digits',
      'Items lists the items with their numbers.',
    );
  }
  if (from === null && query['since']) {
    throw new Problem('There is no such day', 'Write a day as 2026-11-23.');
  }
  const seller = query['seller'] ?? '';
  const changeClass = oneOf(CHANGE_CLASSES, query['class']);
  return {
    ...(itemId === null ? {} : { itemId: Number(itemId) }),
    ...(before === null ? {} : { before }),
    ...(runId === null ? {} : { runId }),
    ...(from === null ? {} : { from }),
    ...(seller === '' ? {} : { sellerIds: [seller] }),
    ...(changeClass === undefined ? {} : { classes: [changeClass] }),
  };
}

const FILE_COLUMNS = [
  { name: 'seq', type: 'bigint' },
  { name: 'changed_at', type: 'timestamp with time zone' },
  { name: 'seller_id', type: 'text' },
  { name: 'item_id', type: 'bigint' },
  ...['item_name', 'class', 'field', 'old_value', 'new_value'].map((name) => {
    return { name, type: 'text' };
  }),
  { name: 'percent', type: 'numeric(18,2)' },
];

/** Yields all matching changes, newest first, in PostgreSQL's text form. Prices follow the dialect. */
async function* rowsOf(
  db: Db,
  filter: ChangeFilter,
  dialect: CsvDialect,
): AsyncGenerator<readonly TextRow[], void, undefined> {
  for (let page = filter; ;) {
    const query = { ...page, limit: BATCH_SIZE, newest: true };
    const batch = (await readChanges(db, query)).toReversed();
    yield batch.map((change) => rowOf(change, dialect));
    const last = batch.at(-1);
    if (last === undefined || batch.length < BATCH_SIZE) return;
    page = { ...filter, before: last.seq };
  }
}

function rowOf(change: ItemChange, dialect: CsvDialect): TextRow {
  const percent = percentOf(change);
  const values = [change.old, change.new].map((value) => {
    const text = valueText(value);
    return text !== null && change.class === 'price' ? csvNumber(text, dialect) : text;
  });
  return [
    String(change.seq),
    change.changedAt.toISOString().replace('T', ' ').replace('Z', '+00'),
    ...[change.sellerId, String(change.itemId), change.itemName, change.class, change.field],
    ...values,
    percent === null ? null : percent.toFixed(2),
  ];
}

/** Change of a price in percent; null for other fields, a price of 0 or a changed currency. */
function percentOf({ class: kind, field, old, new: now, currencies }: ItemChange): number | null {
  if (kind !== 'price' || field === 'currency' || currencies?.old !== currencies?.new) return null;
  const [before, after] = [Number(old ?? NaN), Number(now ?? NaN)];
  return before > 0 && !Number.isNaN(after) ? (100 * (after - before)) / before : null;
}

/** Groups changes, ordered by time, by the day of their runs. */
function groupByDay(changes: readonly ItemChange[]): [day: string, changes: ItemChange[]][] {
  const days = new Map<string, ItemChange[]>();
  for (const change of changes) {
    const day = moment(change.changedAt).slice(0, 10);
    days.set(day, [...(days.get(day) ?? []), change]);
  }
  return [...days];
}

/** A table of changes. @param hasTime false when all have the same time */
export const ChangeTable: FC<{
  changes: readonly ItemChange[];
  hasItem?: boolean;
  hasTime?: boolean;
  empty?: string;
}> = ({ changes, hasItem = true, hasTime = true, empty = 'Nothing changed.' }) => (
  <Table
    caption="Changes"
    flows
    isFixed={hasItem && hasTime}
    rows={changes}
    empty={empty}
    columns={[
      ...(hasTime
        ? [
            {
              name: 'At',
              cell: ({ changedAt }: ItemChange) => (
                <time datetime={changedAt.toISOString()}>
                  {hasItem ? moment(changedAt).slice(11, 16) : moment(changedAt).slice(0, 16)}
                </time>
              ),
            },
          ]
        : []),
      ...(hasItem
        ? [
            {
              name: 'Item',
              cell: ({ sellerId, itemId, itemName }: ItemChange) => (
                <ItemLink seller={sellerId} item={itemId} name={itemName} />
              ),
            },
          ]
        : []),
      ...(new Set(changes.map(({ sellerId }) => sellerId)).size > 1
        ? [
            {
              name: 'Seller',
              isMinor: true,
              cell: ({ sellerId }: ItemChange) => <SellerLink name={sellerId} />,
            },
          ]
        : []),
      { name: 'What', cell: ({ field }) => fieldLabel(field) },
      { name: 'Change', cell: (change) => <ChangeText of={change} /> },
    ]}
  />
);

/** Entries removed from or added to a list. */
const Entries: FC<{ of: readonly string[]; as: 'del' | 'ins' }> = ({ of, as: Tag }) =>
  of.map((entry, n) => (
    <>
      {n > 0 ? ', ' : ''}
      <Tag>
        <Untrusted text={entry} />
      </Tag>
    </>
  ));

const ChangeText: FC<{ of: ItemChange }> = ({ of }) => {
  const text = describeChange(of, TEXT_WIDTH);
  if (text.kind === 'state') return <span>{text.word}</span>;
  const note = text.note === null ? null : <small> {text.note}</small>;
  if (text.kind === 'list') {
    return (
      <>
        <Entries of={text.removed} as="del" />
        {text.removed.length > 0 && text.added.length > 0 ? ' → ' : ''}
        <Entries of={text.added} as="ins" />
        {note}
      </>
    );
  }
  const percent = percentOf(of);
  return (
    <>
      <del>
        <Untrusted text={text.old} />
      </del>{' '}
      →{' '}
      <ins>
        <Untrusted text={text.new} />
      </ins>{' '}
      {percent === null ? note : <Percent of={percent} />}
    </>
  );
};
