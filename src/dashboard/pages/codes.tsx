import type { FC } from 'hono/jsx';
import { CHECKS, PURCHASE_COLUMNS } from '../../codes/codes-listing.js';
import { describeVerdict, unprovenRemedy } from '../../codes/evidence.js';
import { factsOf, ListingTable } from '../listing.js';
import { supportAt } from '../../codes/known-code.js';
import { isInvalid } from '../../codes/rules.js';
import { formsOf } from '../../marketplace/code.js';
import { maskCode } from '../../domain/secret.js';
import { answerFromChecks } from '../../codes/audit-result.js';
import type { SellerConfig } from '../../config/index.js';
import { parseDuration } from '../../domain/moment.js';
import { beginRecheck, enterLists, listOfCodes } from '../../codes/enter-list.js';
import type { StoredCheck } from '../../codes/types.js';
import {
  type Dashboard,
  type DashboardContext,
  type DashboardParts,
  isOperator,
  Problem,
  queueNotice,
  runAction,
} from '../context.js';
import { page } from '../layout.js';
import type { LiveBar } from '../live.js';
import { capital } from '../format.js';
import {
  ActionButton,
  Ago,
  Bar,
  type Column,
  Empty,
  type Fact,
  Facts,
  ItemLink,
  Moment,
  Section,
  SellerLink,
  SellerSelect,
  Sentence,
  State,
  TableSection,
  Token,
  Untrusted,
} from '../parts.js';
import { readCodeState, readCodeChecks } from '../../codes/codes-store.js';
import { readRunning } from '../../catalogue/overview-store.js';
import { parseCode, parseId } from '../query.js';

/** Checks and transitions on the page of a code. */
const MAX_ROWS = 50;
/** Transitions on `/codes`. */
const MAX_LATEST = 25;
/** Longest time for entering a code into the store (ms). */
const ENTER_MS = 30_000;

type Transition = Record<'oldValue' | 'newValue', string | null> & { kind: string };

const TRANSITION_COLUMNS: readonly Column<Transition>[] = [
  { name: 'What', cell: ({ kind }) => <span class="nowrap">{kind.replaceAll('-', ' ')}</span> },
  { name: 'Old', isLabelled: true, cell: ({ kind, oldValue }) => valueOf(kind, oldValue) },
  { name: 'New', isLabelled: true, cell: ({ kind, newValue }) => valueOf(kind, newValue) },
];

/** Support changes from one time to another. */
function valueOf(kind: string, value: string | null) {
  const isTime = value !== null && /^support-(?:extended|shortened)$/.test(kind);
  return isTime ? <Moment at={new Date(value)} /> : <Untrusted text={value} />;
}

/** `/codes`, `/codes/ID`. URLs never contain purchase codes. */
export function addCodes(app: Dashboard, parts: DashboardParts): void {
  const { db, mirror, config, queues, live } = parts;

  app.get('/codes', async (c) => {
    const [sellers, latest] = await Promise.all([
      sellerNames(),
      mirror.reportingPurchaseTransitions.findMany({ orderBy: { seq: 'desc' }, take: MAX_LATEST }),
    ]);
    return page(
      c,
      { title: 'Codes', lead: 'Look up a purchase code: its verdict, proof and purchase.' },
      <>
        <LookUp token={c.get('token')} sellers={sellers} />
        {isOperator(c) ? <CheckAgain token={c.get('token')} sellers={config.sellers} /> : null}
        <TableSection
          title="Latest changes"
          flows
          rows={latest}
          empty="No code has changed its verdict or purchase yet. Checks of lists and re-checks find changes."
          columns={[
            {
              name: 'Code',
              cell: ({ codeId, code }) => (
                <a class="code" href={`/codes/${codeId}`}>
                  {shownCode(c, code)}
                </a>
              ),
            },
            ...TRANSITION_COLUMNS,
            { name: 'When', cell: ({ happenedAt }) => <Ago at={happenedAt} /> },
            {
              name: 'Item',
              cell: ({ sellerId, itemId, itemName }) =>
                itemId === null ? (
                  <Untrusted text={itemName} />
                ) : (
                  <ItemLink seller={sellerId} item={itemId} name={itemName} />
                ),
            },
          ]}
        />
      </>,
    );
  });

  app.post('/codes', async (c) => {
    const { code: input, seller } = await c.req.parseBody();
    const code = parseCode(input, config, 'The code');
    const sellers = await sellerNames();
    const sellerId = sellers.length === 1 ? sellers[0] : sellers.find((name) => name === seller);
    if (sellerId === undefined) throw new Problem('No seller was chosen', 'Choose a seller.');
    const state = await readCodeState(db, sellerId, code);
    if (state !== null) return c.redirect(`/codes/${state.codeId}`, 303);
    const canCheck = isOperator(c) && isConfigured(sellerId);
    return page(
      c,
      { title: 'Code not found', status: 404, isStatic: true },
      <>
        <p class="notice warn">
          No list of {sellerId} contains this code, and it was never checked.
        </p>
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

  app.post('/codes/recheck', async (c) => {
    const { seller: name, older } = await c.req.parseBody();
    const seller = config.sellers.find((one) => one.name === name) ?? onlyOne(config.sellers);
    if (seller === null) throw new Problem('No seller was chosen', 'Choose a seller.');
    const age = parseDuration(typeof older === 'string' ? older : '');
    if (!('ms' in age)) throw new Problem(`The age ${age.fault}`, 'Write it as 30d or 12h.');
    const target = `known codes of ${seller.name}`;
    const auditId = await runAction(c, parts, { action: 're-check codes', target }, async () => {
      const plan = { olderThan: age.ms, validOnly: false, limit: Infinity };
      const begun = await beginRecheck(db, seller.name, plan, db.clock.now());
      if (begun !== null) await queues.addAudit(seller.name, begun);
      return begun;
    });
    if (auditId === null) {
      throw new Problem('No code is due', 'All known codes were checked more recently.', 409);
    }
    return c.redirect(`/audits/${auditId}?notice=${await queueNotice(db)}`, 303);
  });

  app.post('/codes/check', async (c) => {
    const { code: input, seller } = await c.req.parseBody();
    return check(c, typeof seller === 'string' ? seller : '', parseCode(input, config, 'The code'));
  });

  app.post('/codes/:id/check', async (c) => {
    const { sellerId, code } = await codeWith(c.req.param('id'));
    return check(c, sellerId, code);
  });

  app.get('/codes/:id', async (c) => {
    const { codeId, sellerId, code } = await codeWith(c.req.param('id'));
    const [state, checks, transitions, bar, lines] = await Promise.all([
      readCodeState(db, sellerId, code),
      readCodeChecks(db, codeId, MAX_ROWS),
      mirror.codeTransition.findMany({
        where: { codeId },
        orderBy: { seq: 'desc' },
        take: MAX_ROWS,
      }),
      barOf(codeId),
      isOperator(c)
        ? mirror.reportingListedCodes.findMany({
            where: { codeId },
            orderBy: [{ listedAt: 'desc' }, { line: 'asc' }],
            take: MAX_ROWS,
          })
        : [],
    ]);
    if (state === null) throw noCode();
    const answer = answerFromChecks(state, checks);
    const { verdict, purchase, checkedAt } = answer;
    const shown = shownCode(c, code);
    // Marketplace messages may repeat the code, also in the form in which it was found.
    const mask = (text: string): string =>
      shown === code ? text : formsOf(code).reduce((rest, form) => maskIn(rest, form, shown), text);
    const isChecked = checks.length > 0;
    const remedy = verdict === 'unproven' && isChecked ? unprovenRemedy(answer.reason) : null;
    return page(
      c,
      {
        title: shown,
        lead: (
          <>
            <State of={isChecked ? verdict : 'waiting'} /> purchase code of{' '}
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
          <Untrusted text={`${capital(describeVerdict(answer))}.`} isWhole />
          {remedy === null ? null : <Sentence text={` What to do: ${remedy}.`} />}
        </p>
        <Facts
          of={[
            ['Checked', <Ago at={checkedAt} />],
            ['Verdict since', <Moment at={state.verdictSince} />],
            ['First verdict', <Moment at={state.firstCheckedAt} none="none yet" />],
            messageFact(answer, mask),
          ]}
        />
        <Section
          title="Purchase"
          note={
            verdict === 'no_longer_valid'
              ? 'from when the code was valid; no longer valid: refunded, reversed, or the buyer’s account is closed'
              : undefined
          }
        >
          {purchase === null ? (
            <Empty>The marketplace never returned a purchase for this code.</Empty>
          ) : (
            <Facts
              of={factsOf(PURCHASE_COLUMNS, {
                ...purchase,
                sellerId,
                support: isInvalid(verdict) ? null : supportAt(purchase, Date.now()),
              })}
            />
          )}
        </Section>
        {isOperator(c) ? (
          <TableSection
            title="Lists"
            note={lines.length === MAX_ROWS ? `newest ${MAX_ROWS} lines` : undefined}
            flows
            rows={lines}
            empty="No list holds this code."
            columns={[
              {
                name: 'Check',
                cell: ({ auditId }) => <a href={`/audits/${auditId}`}>{String(auditId)}</a>,
              },
              { name: 'List', cell: ({ list }) => <Untrusted text={list} /> },
              { name: 'Line', count: ({ line }) => line },
              { name: 'Columns', cell: ({ columns }) => <Untrusted text={ownColumns(columns)} /> },
              { name: 'When', cell: ({ listedAt }) => <Ago at={listedAt} /> },
            ]}
          />
        ) : null}
        <Section
          title="Checks"
          note={checks.length === MAX_ROWS ? `newest ${MAX_ROWS}` : undefined}
        >
          <ListingTable
            listing={CHECKS}
            rows={checks.map((one) => ({ ...one, message: one.message && mask(one.message) }))}
            empty="Not checked yet. Press Check now to check it."
          />
        </Section>
        <TableSection
          title="Transitions"
          flows
          rows={transitions}
          empty="Nothing has changed since the first verdict."
          columns={[
            { name: 'When', cell: ({ happenedAt }) => <Moment at={happenedAt} /> },
            ...TRANSITION_COLUMNS,
          ]}
        />
      </>,
    );
  });

  /** Queues an audit of one code. */
  async function check(c: DashboardContext, sellerId: string, code: string): Promise<Response> {
    const seller = config.sellers.find(({ name }) => name === sellerId);
    if (seller === undefined) {
      throw new Problem(
        'This seller is not configured for the dashboard',
        'Configure the seller, restart the dashboard and check the code again.',
        409,
      );
    }
    const target = `${sellerId}: ${maskCode(code)}`;
    await runAction(c, parts, { action: 'check code', target }, async () => {
      const signal = AbortSignal.timeout(ENTER_MS);
      const { auditId } = await enterLists(db, seller, [listOfCodes([code])], {}, { signal });
      await queues.addAudit(sellerId, auditId);
    });
    const known = await readCodeState(db, sellerId, code);
    if (known === null) throw noCode();
    return c.redirect(`/codes/${known.codeId}?notice=${await queueNotice(db)}`, 303);
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

  async function codeWith(
    text: string,
  ): Promise<{ codeId: bigint; sellerId: string; code: string }> {
    const found = await mirror.purchaseCode.findUnique({
      where: { codeId: parseId(text) },
      select: { codeId: true, sellerId: true, code: true, mergedInto: true },
    });
    if (found === null) throw noCode();
    return found.mergedInto === null ? found : codeWith(String(found.mergedInto));
  }

  /** The progress bar of a running check of this code; null without one. */
  async function barOf(codeId: bigint): Promise<LiveBar | null> {
    const running = await readRunning(db);
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

/** The list's own columns of a line: `email: a@b.example · order: 12`. */
function ownColumns(columns: unknown): string {
  if (typeof columns !== 'object' || columns === null) return '';
  return Object.entries(columns)
    .filter(([, value]) => typeof value === 'string' && value !== '')
    .map(([name, value]) => `${name}: ${String(value)}`)
    .join(' · ');
}

function onlyOne<T>(values: readonly T[]): T | null {
  const [value] = values;
  return values.length === 1 && value !== undefined ? value : null;
}

function noCode(): Problem {
  return new Problem('Code not found', 'Look it up on the Codes page.', 404);
}

function shownCode(c: DashboardContext, code: string): string {
  return isOperator(c) ? code : maskCode(code);
}

/** Replaces the code in a text by its mask, whatever its letter case. */
function maskIn(text: string, code: string, mask: string): string {
  const pattern = code.replaceAll(/[$()*+./?[\\\]^{|}]/g, '\\$&');
  return text.replaceAll(new RegExp(pattern, 'gi'), () => mask);
}

function messageFact(
  { httpStatus, message }: Pick<StoredCheck, 'httpStatus' | 'message'>,
  mask: (text: string) => string,
): Fact | null {
  if (message === null || message === '') return null;
  const status = httpStatus === null ? '' : `${httpStatus}: `;
  return ['Marketplace message', <Untrusted text={mask(`${status}${message}`)} />];
}

/** Checks known codes again, and says whether a schedule does. */
const CheckAgain: FC<{ token: string; sellers: readonly SellerConfig[] }> = ({
  token,
  sellers,
}) => {
  const idle = sellers.filter(({ auditCron }) => auditCron === null).map(({ name }) => name);
  return sellers.length === 0 ? null : (
    <>
      <form class="filter" method="post" action="/codes/recheck">
        <Token value={token} />
        <label>
          Check again what is older than
          <input name="older" value="30d" size={6} maxlength={20} required />
        </label>
        {sellers.length < 2 ? null : <SellerSelect of={sellers.map(({ name }) => name)} />}
        <button>Check again</button>
      </form>
      {idle.length === 0 ? null : (
        <p class="muted">
          No schedule checks the known codes of {idle.join(', ')} again: AUDIT_CRON is off.
        </p>
      )}
    </>
  );
};

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
    {sellers.length < 2 ? null : <SellerSelect of={sellers} />}
    <button class="main">Look up</button>
  </form>
);
