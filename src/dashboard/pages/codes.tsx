import type { FC } from 'hono/jsx';
import { PURCHASE_COLUMNS, type ShownPurchase } from '../../codes/codes-listing.js';
import { stateWord } from '../../listing/listing.js';
import { describeVerdict, unprovenOnPage } from '../../codes/evidence.js';
import { customerOf, type Customer } from '../../codes/lists/buyer.js';
import { replyText, storyOf, verdictSentence } from '../../codes/words.js';
import { factsOf } from '../listing.js';
import { supportAt } from '../../codes/known-code.js';
import { isInvalid } from '../../codes/rules.js';
import { formsOf } from '../../marketplace/code.js';
import { maskCode } from '../../domain/secret.js';
import { type Answer, answerFromChecks } from '../../codes/result.js';
import type { SellerConfig } from '../../config/index.js';
import { parseDuration } from '../../domain/moment.js';
import { beginRecheck, enterLists, listOfCodes } from '../../codes/enter-list.js';
import {
  CopyButton,
  customerFacts,
  LifeBar,
  lifeOf,
  Reply,
  Steps,
  Verdict,
  VERDICT_CLASS,
} from '../answer.js';
import {
  type Dashboard,
  type DashboardContext,
  type DashboardParts,
  isOperator,
  Problem,
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
  type Fact,
  Facts,
  ItemLink,
  Moment,
  Section,
  SellerLink,
  SellerSelect,
  TableSection,
  Token,
  Untrusted,
  When,
} from '../parts.js';
import { readCodeState, readCodeChecks } from '../../codes/codes-store.js';
import { readRunning } from '../../catalogue/overview-store.js';
import { parseCode, parseId } from '../query.js';

/** Checks and transitions on the page of a code. */
const MAX_ROWS = 50;
/** Lines of lists on the page of a code. */
const MAX_LISTS = 5;
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
  return isTime ? <Moment at={new Date(value)} /> : <Untrusted text={value && stateWord(value)} />;
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
    return c.redirect(`/audits/${auditId}`, 303);
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
    const now = new Date();
    const shown = shownCode(c, code);
    // Marketplace messages may repeat the code, also in the form in which it was found.
    const mask = (text: string): string =>
      shown === code ? text : formsOf(code).reduce((rest, form) => maskIn(rest, form, shown), text);
    const isChecked = checks.length > 0;
    const facts = isChecked ? answer : { ...answer, verdict: 'pending' as const };
    const said = verdictSentence(facts, now.getTime());
    const found = checks.filter((one) => one.verdict === 'valid');
    const lastFoundAt = found[0]?.checkedAt ?? null;
    const [line] = lines;
    const customer = line === undefined ? null : customerIn(line);
    const reply = isOperator(c) && isChecked ? replyOf(answer, customer, lastFoundAt) : null;
    const isGone = verdict === 'no_longer_valid';
    const lostAt = isGone ? (state.verdictSince ?? checkedAt) : null;
    const life = lifeOf(purchase, { lostAt, now, foundTimes: found.length, lastFoundAt });
    const why = (
      <Section title={isGone ? 'Why' : 'Proof'}>
        {isGone ? (
          <p>
            Refunded, reversed, or the buyer’s account is closed. The marketplace does not say
            which.
          </p>
        ) : null}
        <p class="muted">
          <Untrusted text={`${capital(describeVerdict(answer))}.`} isWhole />
          {verdict === 'unproven' && isChecked
            ? ` What to do: ${unprovenOnPage(answer.reason)}.`
            : null}
        </p>
        <Steps of={storyOf(checks)} />
        {messageOf(answer, mask)}
      </Section>
    );
    const letter =
      reply === null ? null : (
        <Section title="Reply">
          <Reply text={reply} />
        </Section>
      );
    return page(
      c,
      {
        title: mask(`${said.head} ${said.rest}`.trim()),
        heading: (
          <Verdict of={{ ...said, rest: mask(said.rest) }} tone={VERDICT_CLASS[facts.verdict]} />
        ),
        hasNotice: false,
        lead: (
          <>
            <span class="code">{shown}</span> ·{' '}
            {checkedAt === null ? (
              'not checked yet'
            ) : lostAt === null ? (
              <>
                checked <When at={checkedAt} />
              </>
            ) : (
              <>
                denied since <When at={lostAt} />
              </>
            )}
            {config.sellers.length > 1 ? (
              <>
                {' '}
                · <SellerLink name={sellerId} />
              </>
            ) : null}
          </>
        ),
        actions: (
          <>
            {isOperator(c) && isConfigured(sellerId) && bar === null ? (
              <ActionButton action={`/codes/${codeId}/check`} token={c.get('token')}>
                Check now
              </ActionButton>
            ) : null}
            {reply === null ? null : <CopyButton text={reply} done="Reply copied" isMain />}
          </>
        ),
      },
      <>
        {bar === null ? null : <Bar {...bar} label="Check of this code" />}
        {life === null ? null : <LifeBar of={life} />}
        <div class="answer">
          <div>
            {isGone ? why : letter}
            {isGone ? letter : why}
          </div>
          <Section
            title="Purchase"
            note={
              isGone && lastFoundAt !== null ? (
                <>
                  as last seen, <When at={lastFoundAt} form="day" />
                </>
              ) : undefined
            }
          >
            {purchase === null ? (
              <p class="muted">The marketplace never returned a purchase for this code.</p>
            ) : (
              <Facts
                of={knownFacts({
                  ...purchase,
                  sellerId,
                  support: isInvalid(verdict) ? null : supportAt(purchase, now.getTime()),
                })}
              />
            )}
            {isOperator(c) ? <InLists lines={lines} customer={customer} /> : null}
          </Section>
        </div>
        <TableSection
          title="Changes"
          flows
          rows={transitions}
          columns={[
            { name: 'When', cell: ({ happenedAt }) => <When at={happenedAt} /> },
            ...TRANSITION_COLUMNS,
          ]}
        />
      </>,
    );
  });

  /** The reply to the customer who has the code. */
  function replyOf(answer: Answer, customer: Customer | null, lastValidAt: Date | null): string {
    const { verdict, code, purchase } = answer;
    const facts = { firstName: customer?.firstName ?? null, code, purchase, lastValidAt };
    return replyText(config.replies[verdict], facts, Date.now());
  }

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
    return c.redirect(`/codes/${known.codeId}`, 303);
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

/** What is known of a purchase, by name. */
function knownFacts(purchase: ShownPurchase): Fact[] {
  return factsOf(
    PURCHASE_COLUMNS.filter(({ value }) => value(purchase) !== null),
    purchase,
  );
}

interface ListedLine {
  readonly auditId: bigint;
  readonly list: string;
  readonly line: number;
  readonly code: string;
  readonly columns: unknown;
}

/** The customer of a line, by the list's own columns. */
function customerIn({ columns, code }: ListedLine): Customer {
  const cells = Object.entries(columns ?? {}).map(
    ([name, value]) => [name, String(value)] as const,
  );
  return customerOf(
    cells.map(([name]) => name),
    cells.map(([, text]) => text),
    code,
  );
}

/** Who has the code, and where it stands in lists. */
const InLists: FC<{ lines: readonly ListedLine[]; customer: Customer | null }> = ({
  lines,
  customer,
}) => (
  <Facts
    of={[
      ...customerFacts(customer),
      lines.length === 0
        ? null
        : [
            'In your lists',
            lines.slice(0, MAX_LISTS).map(({ auditId, list, line }) => (
              <div>
                <a href={`/audits/${auditId}`}>
                  <Untrusted text={list} />
                </a>
                , line {line}
              </div>
            )),
          ],
    ]}
  />
);

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

function messageOf({ httpStatus, message }: Answer, mask: (text: string) => string) {
  if (message === null || message === '') return null;
  return (
    <p class="muted">
      The marketplace said: “
      <Untrusted text={mask(message)} />”{httpStatus === null ? '' : ` (HTTP ${httpStatus})`}
    </p>
  );
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
