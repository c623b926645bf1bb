import type { FC } from 'hono/jsx';
import { describeChange, fieldLabel } from '../../domain/change-text.js';
import { csvNumber, PLAIN_CSV, type CsvDialect } from '../../domain/csv.js';
import { exportChunks } from '../../export/index.js';
import type { ChangeFilter, ItemChange } from '../../store/item-changes.js';
import type { TextRow } from '../../store/text-cursor.js';
import { Problem, type Dashboard, type DashboardContext, type DashboardParts } from '../context.js';
import { checkRoom, dialectIn, Downloads, formatIn, sendFile } from '../downloads.js';
import { page } from '../layout.js';
import {
  Choice,
  Filter,
  Foreign,
  ItemLink,
  moment,
  onePage,
  Pages,
  Percent,
  Section,
  SellerField,
  Table,
  valueText,
  without,
} from '../parts.js';
import { dayIn, numberIn, oneOf } from '../query.js';

const PAGE_CHANGES = 100;
/** Changes read at a time for a download. */
const BATCH = 2_000;
/** Characters of an old or new text. */
const WIDTH = 120;

const CLASSES = [
  ...(['price', 'release', 'text', 'media'] as const),
  ...(['added', 'missing', 'removed', 'restored'] as const),
];

/** `/changes`: what changed, night by night, and the same as a file. */
export function addChanges(app: Dashboard, { store }: DashboardParts): void {
  app.get('/changes', async (c) => {
    const filter = filterOf(c);
    const changes = (
      await store.items.changes({ ...filter, limit: PAGE_CHANGES + 1, newest: true })
    ).toReversed();
    const { shown, last } = onePage(changes, PAGE_CHANGES);
    const query = new URL(c.req.url).searchParams;
    return page(
      c,
      {
        title: 'Changes',
        lead: 'What changed about items, newest first.',
        actions: (
          <>
            <a class="button" href={`/changes.csv?${without(query, 'before')}`}>
              Download CSV
            </a>
            <Downloads
              of="changes"
              path="/changes"
              query={new URLSearchParams(without(query, 'before'))}
              as={['csv-comma', 'xlsx', 'parquet']}
            />
          </>
        ),
      },
      <>
        <Filter>
          <Choice name="class" label="Class" of={CLASSES} chosen={c.req.query('class')} />
          <label>
            Item
            <input name="item" inputmode="numeric" value={c.req.query('item') ?? ''} />
          </label>
          <SellerField of={c.req.query('seller')} />
          <label>
            Since
            <input name="since" type="date" value={c.req.query('since') ?? ''} />
          </label>
        </Filter>
        {nightsOf(shown).map(({ day, of }) => (
          <Section title={day}>
            <ChangeTable changes={of} />
          </Section>
        ))}
        {shown.length === 0 ? (
          <p class="empty">
            No change matches. Each sync adds what it finds; a seller’s first list is not a change.
          </p>
        ) : null}
        <Pages url={c.req.url} by="before" next={last?.seq ?? null} />
      </>,
    );
  });

  app.get('/:file{changes\\.[a-z]+}', async (c) => {
    const format = formatIn(c.req.param('file').split('.')[1]);
    if (format === undefined) {
      throw new Problem('There is no such file', '/changes lists the changes.', 404);
    }
    const filter = filterOf(c);
    await checkRoom(format, async () => {
      const counts = await store.items.changeCounts(filter);
      return counts.reduce((sum, { changes }) => sum + changes, 0);
    });
    const dialect = dialectIn(c) ?? PLAIN_CSV;
    return sendFile(c, 'changes', format, async (write) => {
      const batches = rowsOf(store, filter, dialect);
      const chunks = exportChunks({ columns: FILE_COLUMNS, batches }, format, {
        raw: false,
        dialect,
      });
      for await (const chunk of chunks) await write(chunk);
    });
  });
}

function filterOf(c: DashboardContext): ChangeFilter {
  const { item, since, seller, class: kind, before, run } = c.req.query();
  const itemId = numberIn(item);
  const place = numberIn(before);
  const runId = numberIn(run);
  const from = dayIn(since ?? '');
  const chosen = oneOf(CLASSES, kind);
  return {
    ...(itemId === null ? {} : { itemId: Number(itemId) }),
    ...(place === null ? {} : { before: place }),
    ...(runId === null ? {} : { runId }),
    ...(from === null ? {} : { from }),
    ...(seller === undefined || seller === '' ? {} : { sellerIds: [seller] }),
    ...(chosen === undefined ? {} : { classes: [chosen] }),
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

/** All changes that pass the filter, newest first, in PostgreSQL's text form; prices as the dialect has them. */
async function* rowsOf(
  store: DashboardParts['store'],
  filter: ChangeFilter,
  dialect: CsvDialect,
): AsyncGenerator<readonly TextRow[], void, undefined> {
  for (let place = filter.before; ;) {
    const before = place === undefined ? {} : { before: place };
    const limits = { limit: BATCH, newest: true, ...before };
    const batch = (await store.items.changes({ ...filter, ...limits })).toReversed();
    yield batch.map((change) => rowOf(change, dialect));
    const last = batch.at(-1);
    if (last === undefined || batch.length < BATCH) return;
    place = last.seq;
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

/** By how much a price changed; null for all else, and where it was 0 or in another currency. */
function percentOf({ class: kind, field, old, new: now, currencies }: ItemChange): number | null {
  if (kind !== 'price' || field === 'currency' || currencies?.old !== currencies?.new) return null;
  const [before, after] = [Number(old ?? NaN), Number(now ?? NaN)];
  return before > 0 && !Number.isNaN(after) ? (100 * (after - before)) / before : null;
}

/** The changes, parted by the day on which their runs began. */
function nightsOf(changes: readonly ItemChange[]): { day: string; of: ItemChange[] }[] {
  const nights: { day: string; of: ItemChange[] }[] = [];
  for (const change of changes) {
    const day = moment(change.changedAt).slice(0, 10);
    const last = nights.at(-1);
    if (last?.day === day) last.of.push(change);
    else nights.push({ day, of: [change] });
  }
  return nights;
}

/** Changes, one line each. @param hasTime false where all of them have the same */
export const ChangeTable: FC<{
  changes: readonly ItemChange[];
  hasItem?: boolean;
  hasTime?: boolean;
  empty?: string;
}> = ({ changes, hasItem = true, hasTime = true, empty = 'Nothing changed.' }) => (
  <Table
    caption="Changes"
    flows
    isEven={hasItem && hasTime}
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
      { name: 'What', cell: ({ field }) => fieldLabel(field) },
      { name: 'Change', cell: (change) => <ChangeWords of={change} /> },
    ]}
  />
);

/** Entries that a list lost or got. */
const Entries: FC<{ of: readonly string[]; as: 'del' | 'ins' }> = ({ of, as: Tag }) =>
  of.map((entry, n) => (
    <>
      {n > 0 ? ', ' : ''}
      <Tag>
        <Foreign text={entry} />
      </Tag>
    </>
  ));

const ChangeWords: FC<{ of: ItemChange }> = ({ of }) => {
  const words = describeChange(of, WIDTH);
  const percent = percentOf(of);
  if (words.kind === 'state') return <span>{words.word}</span>;
  if (words.kind === 'list') {
    return (
      <>
        <Entries of={words.removed} as="del" />
        {words.removed.length > 0 && words.added.length > 0 ? ' → ' : ''}
        <Entries of={words.added} as="ins" />
        {words.note === null ? null : <small> {words.note}</small>}
      </>
    );
  }
  return (
    <>
      <del>
        <Foreign text={words.old} />
      </del>{' '}
      →{' '}
      <ins>
        <Foreign text={words.new} />
      </ins>{' '}
      {percent === null ? (
        words.note === null ? null : (
          <small>{words.note}</small>
        )
      ) : (
        <Percent of={percent} />
      )}
    </>
  );
};
