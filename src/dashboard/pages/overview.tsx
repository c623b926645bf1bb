import type { Child, FC } from 'hono/jsx';
import {
  type ChangeSummary,
  listPriceMoves,
  type PriceMove,
  readNights,
  readRunning,
  type Running,
  summarizeChanges,
} from '../../catalogue/overview-store.js';
import { listChecksToAnswer } from '../../codes/check-rows-store.js';
import { count, money, plural, roughly } from '../../domain/text.js';
import { stateWord } from '../../listing/listing.js';
import { type CopyState, readBoard, type SellerCard } from '../../service/board.js';
import { NightStrip } from '../charts.js';
import {
  type Dashboard,
  type DashboardParts,
  enqueueSync,
  isOperator,
  listName,
  queueNotice,
  runAction,
  sellerNotFound,
} from '../context.js';
import { page } from '../layout.js';
import type { LiveBar } from '../live.js';
import {
  ActionButton,
  Ago,
  Bar,
  Empty,
  type Fact,
  Facts,
  ItemLink,
  Percent,
  Section,
  SellerLink,
  State,
  TableSection,
  Untrusted,
} from '../parts.js';
import { NeedsYou } from './needs.js';
import { ListForm } from './new-audit-views.js';

const NIGHTS = 30;
const DAY_MS = 86_400_000;
/** More sellers have a page of their own. */
const MAX_SELLERS = 20;
const MAX_MOVES = 5;

/** `/`: what needs me, what happened overnight, is my copy current? */
export function addOverview(app: Dashboard, parts: DashboardParts): void {
  const { db, config, live } = parts;

  app.get('/', async (c) => {
    const now = new Date(db.clock.now());
    const since = new Date(now.getTime() - DAY_MS);
    const [board, toAnswer, happened, running, moves] = await Promise.all([
      readBoard(db, config, now),
      listChecksToAnswer(db),
      summarizeChanges(db, since),
      readRunning(db),
      listPriceMoves(db, since, MAX_MOVES),
    ]);
    const { sellers, needs } = board;
    const shown = sellers.slice(0, MAX_SELLERS);
    const names = shown.map(({ sellerId }) => sellerId);
    const nights = await readNights(db, names, NIGHTS);
    const stripOf = ({ sellerId }: SellerCard): Child => (
      <NightStrip
        nights={Array.from({ length: NIGHTS }, (_, n) => {
          const daysAgo = NIGHTS - 1 - n;
          const night = nights.find((one) => one.sellerId === sellerId && one.daysAgo === daysAgo);
          const day = ['today', 'yesterday'][daysAgo] ?? `${daysAgo} days ago`;
          return { day, state: night?.state ?? 'none' };
        })}
      />
    );
    const token = c.get('token');
    const mayAct = isOperator(c);
    const hasCopy = sellers.some(({ marketplace }) => marketplace !== null);
    const [only, ...others] = sellers;
    return page(
      c,
      {
        title: 'Overview',
        lead: hasCopy ? summary(sellers, now) : 'No copy yet.',
        actions:
          mayAct && sellers.length > 0 ? (
            <ActionButton action="/sync" token={token} isMain={needs.length === 0}>
              Sync now
            </ActionButton>
          ) : undefined,
      },
      <>
        {hasCopy ? (
          <>
            <NeedsYou needs={needs} toAnswer={toAnswer} c={c} />
            <div class={others.length === 0 ? 'columns' : undefined}>
              <WhileYouSlept happened={happened} />
              {only !== undefined && others.length === 0 ? (
                <YourCopy seller={only} strip={stripOf(only)} />
              ) : null}
            </div>
          </>
        ) : (
          <FirstStep isConfigured={sellers.length > 0} mayAct={mayAct} />
        )}
        {others.length === 0 ? null : (
          <TableSection
            title="Sellers"
            flows
            actions={
              sellers.length > MAX_SELLERS ? (
                <a href="/sellers">All {plural(sellers.length, 'seller')}</a>
              ) : undefined
            }
            note={
              mayAct && sellers.some(({ parked }) => parked !== null)
                ? 'Sync now also mirrors paused and stopped sellers'
                : undefined
            }
            rows={shown}
            columns={sellerColumns(stripOf)}
          />
        )}
        {hasCopy || running.audits.length > 0 ? (
          <Section title="Check codes" actions={<a href="/audits">Past checks</a>}>
            {mayAct && config.sellers.length > 0 ? (
              <ListForm token={token} sellers={config.sellers.map(({ name }) => name)} />
            ) : (
              <p class="muted">An operator can check lists of codes.</p>
            )}
          </Section>
        ) : null}
        <RunningWork
          bars={live.barsOf(running)}
          running={{
            ...running,
            audits: running.audits.map((audit) => {
              return { ...audit, source: listName(c, audit.source) };
            }),
          }}
        />
        <PriceMoves moves={moves} />
      </>,
    );
  });

  app.post('/sync', async (c) => {
    const { seller } = await c.req.parseBody();
    const known = (await readBoard(db, config, new Date(db.clock.now()))).sellers.map(
      ({ sellerId }) => sellerId,
    );
    const sellers = typeof seller === 'string' ? [seller] : known;
    const action = { action: 'sync now', target: sellers.join(', ').slice(0, 200) };
    await runAction(c, parts, action, async () => {
      for (const name of sellers) {
        if (!known.includes(name)) throw sellerNotFound();
        await enqueueSync(c, parts, name);
      }
    });
    return c.redirect(`/?notice=${await queueNotice(db)}`, 303);
  });
}

const COPIES = ['current', 'stale', 'never', 'failing', 'parked', 'paused'] as const;

/** `2 copies current, 1 paused, the oldest 6 h old`. Paused copies may be of any age. */
function summary(sellers: readonly SellerCard[], now: Date): string {
  const copies = (state: CopyState): number => sellers.filter(({ copy }) => copy === state).length;
  const states = COPIES.filter((state) => copies(state) > 0);
  const parts = states.map((state, n) =>
    n === 0
      ? `${plural(copies(state), 'copy', 'copies')} ${stateWord(state)}`
      : `${count(copies(state))} ${stateWord(state)}`,
  );
  const ages = sellers.flatMap(({ copy, itemsMirroredAt: at }) =>
    copy === 'paused' || at === null ? [] : [now.getTime() - at.getTime()],
  );
  const oldest = ages.reduce((a, b) => Math.max(a, b), -Infinity);
  if (oldest === -Infinity) return parts.join(', ');
  return [...parts, `${sellers.length === 1 ? '' : 'the oldest '}${roughly(oldest)} old`].join(
    ', ',
  );
}

/** Before the first copy. */
const FirstStep: FC<{ isConfigured: boolean; mayAct: boolean }> = ({ isConfigured, mayAct }) => (
  <Empty>
    {!isConfigured
      ? 'No seller is configured. Set MARKETPLACE_URL and MARKETPLACE_API_KEY, and start the service again.'
      : mayAct
        ? 'No seller was mirrored yet. Press Sync now to make the first copy.'
        : 'No seller was mirrored yet. An operator can make the first copy with Sync now.'}
  </Empty>
);

/** A sentence about what happened: a linked beginning, and the rest. */
type Happened = readonly [path: string, first: string, rest: string];

/** Three sentences at most: about items, codes and the balance. */
function sentences(happened: ChangeSummary): readonly Happened[] {
  const { added, changed, removed, missing, restored, cut, raised } = happened;
  const { noLongerValid, checked, balances } = happened;
  const items = listed([
    [added, 'item is new', 'items are new'],
    [changed, 'item changed', 'items changed'],
    [removed, 'item was removed', 'items were removed'],
    [missing, 'item is missing', 'items are missing'],
    [restored, 'item is back', 'items are back'],
  ]);
  const prices = listed([
    [cut, 'price was cut', 'prices were cut'],
    [raised, 'price was raised', 'prices were raised'],
  ]);
  const codes = plural(noLongerValid, 'code is', 'codes are');
  return [
    ...(items === '' ? [] : [['/changes', `${items}.`, prices && ` ${prices}.`] as const]),
    ...(noLongerValid > 0
      ? [
          [
            '/codes',
            `${codes} no longer valid.`,
            checked > 0 ? ` ${count(checked)} were checked.` : '',
          ] as const,
        ]
      : checked > 0
        ? [['/audits', `${plural(checked, 'code was', 'codes were')} checked.`, ''] as const]
        : []),
    ...balances.map(({ change, currency, sum }) => {
      const [verb, amount] = change.startsWith('-') ? ['fell', change.slice(1)] : ['rose', change];
      const first = `Your balance ${verb} by ${money(amount, currency)}`;
      return ['/reports', first, ` to ${money(sum, currency)}.`] as const;
    }),
  ];
}

/** `5 items are new, 16 changed`: figures that are not zero; the noun stands once. */
function listed(figures: readonly (readonly [number, string, string])[]): string {
  return figures
    .filter(([number]) => number > 0)
    .map(([number, one, many], n) => {
      const text = plural(number, one, many);
      return n === 0 ? text : text.replace(/ (?:items?|prices?)/, '');
    })
    .join(', ');
}

const WhileYouSlept: FC<{ happened: ChangeSummary }> = ({ happened }) => {
  const found = sentences(happened);
  return (
    <Section
      title="While you slept"
      note="last 24 hours"
      actions={<a href="/changes">All changes</a>}
    >
      {found.length === 0 ? (
        <p class="muted">Nothing changed.</p>
      ) : (
        <ul class="list">
          {found.map(([path, first, rest]) => (
            <li>
              <div>
                <a href={path}>{first}</a>
                {rest}
              </div>
            </li>
          ))}
        </ul>
      )}
    </Section>
  );
};

/** The only seller: no table. */
const YourCopy: FC<{ seller: SellerCard; strip: Child }> = ({ seller, strip }) => {
  const { sellerId, items, account, state } = seller;
  const next = nextSync(seller);
  const figure = (name: string, items: number): Fact | null =>
    items === 0 ? null : [name, count(items)];
  return (
    <Section title="Your copy" note="last 30 nights" actions={<SellerLink name={sellerId} />}>
      {strip}
      <Facts
        of={[
          ['State', <State of={state} />],
          ['Live items', count(items.live)],
          figure('Missing, kept', items.missing),
          figure('Removed', items.removed),
          account === null ? null : ['Balance', money(account.balance, account.currency)],
          next === null ? null : ['Next run', <Ago at={next} />],
        ]}
      />
    </Section>
  );
};

/** When a schedule mirrors the seller's items next; null when none will. */
function nextSync({ schedules }: SellerCard): Date | null {
  return schedules.find(({ kind }) => kind === 'sync')?.next[0] ?? null;
}

const sellerColumns = (stripOf: (seller: SellerCard) => Child) => [
  { name: 'Seller', cell: ({ sellerId }: SellerCard) => <SellerLink name={sellerId} /> },
  { name: 'Copy', cell: ({ state }: SellerCard) => <State of={state} /> },
  {
    name: 'Mirrored',
    isLabelled: true,
    cell: ({ itemsMirroredAt }: SellerCard) => <Ago at={itemsMirroredAt} />,
  },
  { name: '30 nights', cell: stripOf },
  { name: 'Live', count: ({ items }: SellerCard) => items.live },
  { name: 'Missing', count: ({ items }: SellerCard) => items.missing },
  { name: 'Removed', count: ({ items }: SellerCard) => items.removed },
  {
    name: 'Balance',
    isNumber: true,
    cell: ({ account }: SellerCard) =>
      account === null ? <span class="muted">–</span> : money(account.balance, account.currency),
  },
  {
    name: 'Next run',
    isLabelled: true,
    cell: (seller: SellerCard) => <Ago at={nextSync(seller)} none="–" />,
  },
];

/** Running mirror runs and audits with live progress bars. */
const RunningWork: FC<{ running: Running; bars: readonly LiveBar[] }> = ({ running, bars }) => {
  const jobs = [
    ...running.runs.map(({ runId, kind, sellerId }) => ({
      id: `run ${runId}`,
      title: `Run ${runId}`,
      path: `/runs/${runId}`,
      text: `${sellerId}: ${kind}`,
    })),
    ...running.audits.map(({ auditId, sellerId, source }) => ({
      id: `audit ${auditId}`,
      title: `Check ${auditId}`,
      path: `/audits/${auditId}`,
      text: `${sellerId}: ${source}`,
    })),
  ];
  if (jobs.length === 0) return null;
  return (
    <Section title="Running">
      <ul class="list">
        {jobs.map(({ id, title, path, text }) => {
          const bar = bars.find((one) => one.id === id);
          return (
            <li class="busy">
              <div>
                <h3>
                  <a href={path}>{title}</a>
                </h3>
                <Untrusted text={text} />
              </div>
              {bar === undefined ? null : <Bar {...bar} label={title} />}
            </li>
          );
        })}
      </ul>
    </Section>
  );
};

const PriceMoves: FC<{ moves: readonly PriceMove[] }> = ({ moves }) => (
  <TableSection
    title="Biggest price moves"
    note="last 24 hours"
    flows
    rows={moves}
    columns={[
      {
        name: 'Item',
        cell: ({ sellerId, itemId, itemName }) => (
          <ItemLink seller={sellerId} item={itemId} name={itemName} />
        ),
      },
      { name: 'Price', cell: ({ price }) => price },
      {
        name: 'Old → new',
        isNumber: true,
        cell: ({ oldPrice, oldCurrency, newPrice, currency }) =>
          `${money(oldPrice, oldCurrency === currency ? null : oldCurrency)} → ${money(newPrice, currency)}`,
      },
      {
        name: 'Change',
        isNumber: true,
        cell: ({ percent }) => <Percent of={Number(percent)} />,
      },
    ]}
  />
);
