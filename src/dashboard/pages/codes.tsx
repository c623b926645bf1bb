import type { Child, FC } from 'hono/jsx';
import { chunkEnqueuer } from '../../app/watches.js';
import { describeVerdict } from '../../domain/codes/evidence.js';
import { isUnconfirmedDenial, unprovenRemedy } from '../../domain/codes/outcome.js';
import { supportAt } from '../../domain/codes/known-code.js';
import type { Purchase } from '../../domain/item.js';
import { maskCode } from '../../domain/secret.js';
import { answerFromChecks } from '../../jobs/codes/audit-result.js';
import { enterLists, listOfCodes } from '../../jobs/codes/enter-list.js';
import { enqueueNext } from '../../jobs/codes/perform-chunk.js';
import type { CodeCheck } from '../../store/audits/types.js';
import {
  act,
  isOperator,
  Problem,
  queuedNotice,
  type Dashboard,
  type DashboardContext,
  type DashboardParts,
} from '../context.js';
import { page } from '../layout.js';
import type { LiveBar } from '../live.js';
import {
  ActionButton,
  Ago,
  Bar,
  capital,
  type Column,
  Facts,
  Foreign,
  ItemLink,
  Moment,
  money,
  Section,
  SellerChoice,
  SellerLink,
  Sentence,
  State,
  Table,
  Token,
} from '../parts.js';
import { codeIn, idIn } from '../query.js';

/** Checks and transitions shown of one code. */
const MOST_ROWS = 50;
/** Transitions of all codes. */
const LATEST = 25;

type Transition = Record<'oldValue' | 'newValue', string | null> & { kind: string };

/** Columns of a transition. */
const TRANSITION: readonly Column<Transition>[] = [
  { name: 'What', cell: ({ kind }) => kind.replaceAll('-', ' ') },
  { named: 'Old', cell: ({ oldValue }) => <Foreign text={oldValue} /> },
  { named: 'New', cell: ({ newValue }) => <Foreign text={newValue} /> },
];

/** `/codes`, `/codes/ID`. A code is never part of an address. */
export function addCodes(app: Dashboard, parts: DashboardParts): void {
  const { store, mirror, config, queues, live } = parts;

  app.get('/codes', async (c) => {
    const [sellers, latest] = await Promise.all([
      sellerNames(),
      mirror.reportingPurchaseTransitions.findMany({ orderBy: { seq: 'desc' }, take: LATEST }),
    ]);
    return page(
      c,
      { title: 'Codes', lead: 'What is known of a purchase code, and how that was proven.' },
      <>
        <LookUp token={c.get('token')} sellers={sellers} />
        <Section title="Latest changes" note="of codes that were known before">
          <Table
            caption="Latest changes"
            flows
            rows={latest}
            empty="No known code has changed. Audits and re-checks find changes."
            columns={[
              {
                name: 'Code',
                cell: ({ codeId, code }) => (
                  <a class="code" href={`/codes/${codeId}`}>
                    {shownCode(c, code)}
                  </a>
                ),
              },
              ...TRANSITION,
              { name: 'When', cell: ({ happenedAt }) => <Ago at={happenedAt} /> },
              { name: 'Item', cell: ({ itemName }) => <Foreign text={itemName} /> },
            ]}
          />
        </Section>
      </>,
    );
  });

  app.post('/codes', async (c) => {
    const { code: given, seller } = await c.req.parseBody();
    const code = codeIn(given, config, 'The code');
    const sellers = await sellerNames();
    const sellerId = sellers.length === 1 ? sellers[0] : sellers.find((name) => name === seller);
    if (sellerId === undefined) throw new Problem('Nothing was looked up', 'Choose the seller.');
    const state = (await store.audits.knownCodes(sellerId, [code])).get(code);
    if (state !== undefined) return c.redirect(`/codes/${state.codeId}`, 303);
    const canCheck = isOperator(c) && isConfigured(sellerId);
    return page(
      c,
      { title: 'Codes', lead: `For ${sellerId}.`, status: 404, isStill: true },
      <>
        <p class="notice warn">This code was never in a list, and never asked for.</p>
        {canCheck ? (
          <ActionButton
            action="/codes/check"
            token={c.get('token')}
            fields={{ seller: sellerId, code }}
            isMain
          >
            Check now
          </ActionButton>
        ) : null}
        <LookUp token={c.get('token')} sellers={sellers} />
      </>,
    );
  });

  app.post('/codes/check', async (c) => {
    const { code: given, seller } = await c.req.parseBody();
    return check(c, typeof seller === 'string' ? seller : '', codeIn(given, config, 'The code'));
  });

  app.post('/codes/:id/check', async (c) => {
    const { sellerId, code } = await codeWith(c.req.param('id'));
    return check(c, sellerId, code);
  });

  app.get('/codes/:id', async (c) => {
    const { codeId, sellerId, code } = await codeWith(c.req.param('id'));
    const [states, checks, transitions, bar] = await Promise.all([
      store.audits.knownCodes(sellerId, [code]),
      store.audits.checksOf(codeId, MOST_ROWS),
      mirror.codeTransition.findMany({
        where: { codeId },
        orderBy: { seq: 'desc' },
        take: MOST_ROWS,
      }),
      barOf(codeId),
    ]);
    const state = states.get(code);
    if (state === undefined) throw noCode();
    const answer = answerFromChecks(state, checks);
    const { verdict, purchase, checkedAt } = answer;
    // The marketplace may repeat a code in what it says.
    const shown = shownCode(c, code);
    const hide = (text: string): string => (shown === code ? text : hidden(text, code, shown));
    const wasAsked = checks.length > 0;
    const remedy = verdict === 'unproven' && wasAsked ? unprovenRemedy(answer.reason) : null;
    return page(
      c,
      {
        title: shown,
        lead: (
          <>
            <State of={wasAsked ? verdict : 'waiting'} /> a purchase code of{' '}
            <SellerLink name={sellerId} />
          </>
        ),
        actions:
          isOperator(c) && isConfigured(sellerId) && bar === null ? (
            <ActionButton action={`/codes/${codeId}/check`} token={c.get('token')} isMain>
              Check now
            </ActionButton>
          ) : undefined,
      },
      <>
        {bar === null ? null : <Bar {...bar} label={`Check of this code, ${bar.id}`} />}
        <p class="proof">
          <Foreign text={`${capital(describeVerdict(answer))}.`} isWhole />
          {remedy === null ? null : <Sentence text={` To do: ${remedy}.`} />}
        </p>
        <Facts
          of={[
            ['Checked', <Ago at={checkedAt} />],
            ['Verdict since', <Moment at={state.verdictSince} />],
            ['First checked', <Moment at={state.firstCheckedAt} none="never" />],
            ...saidBy(answer, hide),
          ]}
        />
        <Section
          title="Purchase"
          note={
            verdict === 'invalid' && purchase !== null
              ? 'from when it was valid; probably refunded or cancelled'
              : undefined
          }
        >
          {purchase === null ? (
            <p class="empty">No purchase was ever answered for this code.</p>
          ) : (
            <Facts of={purchaseFacts(purchase, sellerId, verdict)} />
          )}
        </Section>
        <Section
          title="Checks"
          note={checks.length === MOST_ROWS ? `the newest ${MOST_ROWS}` : undefined}
        >
          <CheckTable checks={checks} hide={hide} />
        </Section>
        <Section title="Transitions">
          <Table
            caption="Transitions"
            flows
            rows={transitions}
            empty="Nothing changed since it was first proven."
            columns={[
              { name: 'When', cell: ({ happenedAt }) => <Moment at={happenedAt} /> },
              ...TRANSITION,
            ]}
          />
        </Section>
      </>,
    );
  });

  /** Begins an audit of one code; a worker does it. */
  async function check(c: DashboardContext, sellerId: string, code: string): Promise<Response> {
    const seller = config.sellers.find(({ name }) => name === sellerId);
    if (seller === undefined) {
      throw new Problem(
        'This seller is not configured here',
        'Configure the seller for the dashboard, then check the code.',
        409,
      );
    }
    const target = `${sellerId}: ${maskCode(code)}`;
    await act(c, parts, { action: 'check code', target }, async () => {
      const signal = AbortSignal.timeout(ENTER_MS);
      const { auditId } = await enterLists(store, seller, [listOfCodes([code])], {}, { signal });
      await enqueueNext(store, auditId, chunkEnqueuer(queues, sellerId));
    });
    const known = (await store.audits.knownCodes(sellerId, [code])).get(code);
    if (known === undefined) throw noCode();
    return c.redirect(`/codes/${known.codeId}?notice=${await queuedNotice(store)}`, 303);
  }

  function isConfigured(sellerId: string): boolean {
    return config.sellers.some(({ name }) => name === sellerId);
  }

  async function sellerNames(): Promise<string[]> {
    const stored = await mirror.seller.findMany({ select: { sellerId: true } });
    const names = [
      ...config.sellers.map(({ name }) => name),
      ...stored.map(({ sellerId }) => sellerId),
    ];
    return [...new Set(names)].sort();
  }

  async function codeWith(text: string) {
    const found = await mirror.purchaseCode.findUnique({
      where: { codeId: idIn(text) },
      select: { codeId: true, sellerId: true, code: true },
    });
    if (found === null) throw noCode();
    return found;
  }

  /** The bar of a check of this code that is under way. */
  async function barOf(codeId: bigint): Promise<LiveBar | null> {
    const running = await store.overview.running();
    const single = running.audits.filter(({ codes }) => codes === 1);
    if (single.length === 0) return null;
    const ids = single.map(({ auditId }) => BigInt(auditId));
    const entry = await mirror.auditCode.findFirst({
      where: { auditId: { in: ids }, codeId },
      orderBy: { auditId: 'desc' },
    });
    if (entry === null) return null;
    return live.barsOf(running).find(({ id }) => id === `audit ${entry.auditId}`) ?? null;
  }
}

/** Longest time for entering a code into the store (ms). */
const ENTER_MS = 30_000;

function noCode(): Problem {
  return new Problem('There is no such code', 'Codes has the form that looks one up.', 404);
}

function shownCode(c: DashboardContext, code: string): string {
  return isOperator(c) ? code : maskCode(code);
}

/** The text with a code masked, in any letter case. */
function hidden(text: string, code: string, mask: string): string {
  const parts = text.toLowerCase().split(code.toLowerCase());
  let at = 0;
  return parts
    .map((part) => {
      const own = text.slice(at, at + part.length);
      at += part.length + code.length;
      return own;
    })
    .join(mask);
}

function saidBy(
  { httpStatus, message }: Pick<CodeCheck, 'httpStatus' | 'message'>,
  hide: (text: string) => string,
): (readonly [string, Child])[] {
  if (message === null || message === '') return [];
  const status = httpStatus === null ? '' : `${httpStatus}: `;
  return [['The marketplace said', <Foreign text={hide(`${status}${message}`)} />]];
}

const LookUp: FC<{ token: string; sellers: readonly string[] }> = ({ token, sellers }) => (
  <form class="filter" method="post" action="/codes">
    <Token value={token} />
    <label>
      Code
      <input
        type="search"
        name="code"
        autocomplete="off"
        spellcheck={false}
        maxlength={400}
        size={40}
        required
      />
    </label>
    {sellers.length < 2 ? null : <SellerChoice of={sellers} />}
    <button class="main">Look up</button>
  </form>
);

const CheckTable: FC<{ checks: readonly CodeCheck[]; hide: (text: string) => string }> = ({
  checks,
  hide,
}) => (
  <Table
    caption="Checks"
    flows
    rows={checks}
    empty="It was not asked for yet. Check now asks the marketplace."
    columns={[
      { name: 'Checked', cell: ({ checkedAt }) => <Moment at={checkedAt} /> },
      {
        name: 'Verdict',
        cell: (check) => <State of={isUnconfirmedDenial(check) ? 'denied' : check.verdict} />,
      },
      { name: 'What it proves', cell: (check) => <Foreign text={checkWords(check)} /> },
      {
        named: 'The marketplace said',
        cell: ({ httpStatus, message }) => (
          <Foreign text={hide([httpStatus, message].filter((one) => one !== null).join(' '))} />
        ),
      },
      {
        named: 'Audit',
        cell: ({ auditId }) =>
          auditId === null ? (
            <span class="muted">–</span>
          ) : (
            <a href={`/audits/${auditId}`}>{String(auditId)}</a>
          ),
      },
    ]}
  />
);

function checkWords(check: CodeCheck): string {
  const { verdict, reason, proof, checkedAt: at, checkpointBefore, checkpointAfter } = check;
  const denial = { at, checkpointBefore, checkpointAfter };
  const denials = checkpointAfter === null ? null : { times: 1, first: denial, last: denial };
  const facts = { reason, proof, denials, checkedAt: null };
  return describeVerdict({ ...facts, verdict: isUnconfirmedDenial(check) ? 'invalid' : verdict });
}

function purchaseFacts(
  purchase: Purchase,
  sellerId: string,
  verdict: 'valid' | 'invalid' | 'unproven',
): (readonly [string, Child])[] {
  const { licenseType, item, price, currency, purchasedAt, downloaded, supportedUntil } = purchase;
  const support = supportAt(purchase, Date.now());
  const name = item?.name ?? item?.url ?? item?.id?.toString() ?? null;
  return [
    [
      'Item',
      item === null ? (
        '–'
      ) : item.id === null ? (
        <Foreign text={name} />
      ) : (
        <ItemLink seller={sellerId} item={item.id} name={name} />
      ),
    ],
    ['License', <Foreign text={licenseType} />],
    ['Price', money(price, currency)],
    ['Purchased', <Moment at={purchasedAt === null ? null : new Date(purchasedAt)} />],
    ...(verdict === 'invalid'
      ? []
      : [
          [
            'Support',
            <>
              {support}
              {supportedUntil === null ? null : (
                <>
                  {support === 'active' ? ' until ' : ' since '}
                  <Moment at={new Date(supportedUntil)} />
                </>
              )}
            </>,
          ] as const,
        ]),
    ['Downloaded', downloaded === null ? '–' : downloaded ? 'yes' : 'no'],
  ];
}
