import type { Child, FC } from 'hono/jsx';
import { auditResult, describeReading, factsOf, isWorkbookList } from '../../codes/audit-result.js';
import { readAuditList, cancelAudit, resumeAudit, getAudit } from '../../codes/audits-store.js';
import { AUDITS } from '../../codes/audits-listing.js';
import {
  type CheckRow,
  countGroups,
  type Group,
  GROUPS,
  NEEDY,
  readCheckRow,
  readCheckRows,
} from '../../codes/check-rows-store.js';
import { readCodeChecks, readCodeState } from '../../codes/codes-store.js';
import { countRepeated } from '../../codes/enter-list.js';
import { unprovenRemedy, whyUnproven } from '../../codes/evidence.js';
import { customerOf, type Customer } from '../../codes/lists/buyer.js';
import { countUnproven } from '../../codes/results-store.js';
import type { AuditProgress, UnprovenCount } from '../../codes/types.js';
import { dayText, proofOf, replyText, verdictSentence } from '../../codes/words.js';
import { readRunning } from '../../catalogue/overview-store.js';
import type { Config } from '../../config/index.js';
import { maskCode, maskLikelyCodes } from '../../domain/secret.js';
import { count, duration, plural } from '../../domain/text.js';
import { looksLikeCode, readCell } from '../../marketplace/code.js';
import { listLiveProcesses } from '../../service/processes-store.js';
import { CopyButton, customerFacts, Reply, Steps, When } from '../answer.js';
import {
  type Dashboard,
  type DashboardContext,
  type DashboardParts,
  isOperator,
  listName,
  Problem,
  runAction,
} from '../context.js';
import { checkRoom, csvDialectOf, Downloads, sendFile } from '../downloads.js';
import { capital } from '../format.js';
import { Icon } from '../icons.js';
import { message, page } from '../layout.js';
import { addListing } from '../listing.js';
import type { LiveBar } from '../live.js';
import {
  ActionButton,
  Bar,
  Facts,
  Lines,
  SellerLink,
  Sentence,
  Token,
  Untrusted,
} from '../parts.js';
import { oneOf, parseId, parseNumber } from '../query.js';
import { ListForm } from './new-audit-views.js';

const PAGE_SIZE = 25;
const TABS = ['needs', 'valid', 'all'] as const;
type Tab = (typeof TABS)[number];

/** The name of each group, its colour, and what all its rows share. */
const WORDS: Readonly<Record<Group, readonly [label: string, tone: string, meaning: string]>> = {
  no_longer_valid: [
    'No longer valid',
    'gone',
    'Valid before. Refunded, reversed, or the account is closed.',
  ],
  invalid: ['Invalid', 'bad', 'Denied twice, some time apart, while your key worked.'],
  unproven: ['Unproven', 'warn', 'No clear answer yet. Nothing to tell the customer.'],
  not_a_code: ['Not a code', 'quiet', 'The cell holds no code. Ask the customer for it.'],
  waiting: ['Waiting', 'open', 'Not checked yet.'],
  valid: ['Valid', 'good', 'The marketplace answered with the purchase.'],
};

/** Names of checks that did not come as a file. */
const SOURCES: Readonly<Record<string, string>> = {
  arguments: 'Codes typed in',
  recheck: 'Known codes, checked again',
  stdin: 'List from a program',
  'pasted list': 'Pasted list',
};

/** What the URL of a check chooses. */
interface View {
  readonly auditId: bigint;
  readonly tab: Tab;
  readonly search: string | null;
  /** From 1. */
  readonly pageNo: number;
  readonly row: { readonly codeId: bigint } | { readonly entry: bigint } | null;
}

/** `/audits/ID`: which customers need somebody, and why. */
export function addCheck(app: Dashboard, parts: DashboardParts): void {
  const { db, queues, live, config } = parts;

  app.get('/audits/:id', async (c) => {
    const audit = await auditIn(c.req.param('id'));
    const { auditId, state, pending, unproven } = audit;
    const isRunning = state === 'running';
    // Viewers see no customers, so they can't search for any.
    const search = isOperator(c)
      ? (c.req.query('search') ?? '').trim().slice(0, 200) || null
      : null;
    const [running, list, counts, reasons, workers] = await Promise.all([
      isRunning ? readRunning(db) : null,
      readAuditList(db, auditId),
      countGroups(db, auditId, search),
      unproven > 0 || (!isRunning && pending > 0) ? countUnproven(db, auditId) : [],
      isRunning && audit.asked === null ? listLiveProcesses(db, 'worker') : null,
    ]);
    const view = viewOf(c, auditId, search, sumOf(counts, NEEDY));
    const shown = groupsOf(view.tab);
    const total = sumOf(counts, shown);
    const hasList = list?.prunedAt === null;
    const bar = running && live.barsOf(running).find(({ id }) => id === `audit ${auditId}`);
    const offset = (view.pageNo - 1) * PAGE_SIZE;
    const [rows, chosen] = hasList
      ? await Promise.all([
          readCheckRows(db, auditId, { groups: shown, search }, { offset, limit: PAGE_SIZE }),
          view.row === null ? null : readCheckRow(db, auditId, view.row),
        ])
      : [[], null];
    const proof = chosen === null ? null : await proofPanel(c, parts, audit, chosen, view);
    const noun = (list?.columns.length ?? 0) > 1 ? 'customer' : 'code';
    return page(
      c,
      {
        title: titleOf(c, audit.source),
        lead: <Lead of={audit} hasSeller={config.sellers.length > 1} />,
        // The page itself says whether the check waits or works.
        hasNotice: c.req.query('notice') === 'key-untried',
        actions: (
          <>
            <StateButtons c={c} of={audit} />
            {hasList && isOperator(c) ? (
              <Downloads
                of={`result of check ${auditId}`}
                path={`/audits/${auditId}/result`}
                as={
                  isWorkbookList(list.layout)
                    ? ['xlsx', 'csv', 'csv-comma']
                    : ['csv', 'csv-comma', 'xlsx']
                }
              />
            ) : null}
          </>
        ),
      },
      <>
        {bar === undefined || bar === null ? null : (
          <Progress of={bar} audit={audit} config={config} hasWorker={workers?.length !== 0} />
        )}
        {audit.problem === null || (bar !== null && bar !== undefined) ? null : (
          <p class={`notice ${state === 'failed' ? 'bad' : 'warn'}`}>
            <Untrusted text={audit.problem} isWhole />
          </p>
        )}
        {hasList ? (
          <div class={proof === null ? 'result' : 'result with-proof'}>
            <div class="list">
              {search === null ? (
                <Summary counts={counts} noun={noun} isRunning={isRunning} />
              ) : null}
              <div class="tab-line">
                <Tabs view={view} counts={counts} />
                {isOperator(c) ? <Search view={view} token={c.get('token')} /> : null}
              </div>
              {total === 0 ? (
                <p class="muted">
                  {search === null ? nothingIn(view.tab, isRunning) : 'Nothing matches.'}
                </p>
              ) : null}
              {GROUPS.map((group) => (
                <GroupOf
                  group={group}
                  total={counts[group]}
                  reasons={group === 'unproven' ? reasons : []}
                  rows={rows.filter((row) => row.group === group)}
                  row={(row) => <Row row={row} view={view} c={c} config={config} />}
                />
              ))}
              <PageLine view={view} total={total} />
            </div>
            {proof}
          </div>
        ) : (
          <p class="muted">
            The list was deleted: KEEP_AUDITS_DAYS limits how long lists are kept.
          </p>
        )}
        <About of={audit} reading={isOperator(c) ? describeReading(list?.layout ?? null) : []} />
      </>,
    );
  });

  // A search may be a code, which no URL may hold.
  app.post('/audits/:id/find', async (c) => {
    const { auditId, sellerId } = await auditIn(c.req.param('id'));
    const { search = '', show = 'all' } = await c.req.parseBody();
    const text = typeof search === 'string' ? search.trim().slice(0, 200) : '';
    const tab = oneOf(TABS, show) ?? 'all';
    const read = readCell(text);
    if ('code' in read && looksLikeCode(read.code)) {
      const known = await readCodeState(db, sellerId, read.code);
      const row = known && (await readCheckRow(db, auditId, { codeId: known.codeId }));
      if (known !== null && row !== null) {
        return c.redirect(`/audits/${auditId}?show=all&code=${known.codeId}`, 303);
      }
      if (maskLikelyCodes(text) !== text) {
        throw new Problem(
          'This list does not hold that code',
          'Look it up on the Codes page.',
          404,
        );
      }
    }
    return c.redirect(hrefOf({ auditId, tab, search: text || null, pageNo: 1, row: null }), 303);
  });

  app.post('/audits/:id/cancel', async (c) => {
    const { auditId, sellerId } = await auditIn(c.req.param('id'));
    const action = { action: 'cancel check', target: targetOf(auditId, sellerId) };
    await runAction(c, parts, action, async () => {
      if ((await cancelAudit(db, auditId)) !== 'finished') return;
      throw new Problem(`Check ${auditId} has already finished`, 'Download its result.', 409);
    });
    return c.redirect(`/audits/${auditId}`, 303);
  });

  app.post('/audits/:id/resume', async (c) => {
    const { auditId, sellerId, state } = await auditIn(c.req.param('id'));
    const action = { action: 'resume check', target: targetOf(auditId, sellerId) };
    await runAction(c, parts, action, async () => {
      if (state === 'finished') {
        const remedy = 'To check its codes again, start a new check.';
        throw new Problem(`Check ${auditId} has already finished`, remedy, 409);
      }
      if (state !== 'running') await resumeAudit(db, auditId);
      await queues.addAudit(sellerId, auditId, { promote: true });
    });
    return c.redirect(`/audits/${auditId}`, 303);
  });

  app.get('/audits/:id/:file{result\\.(?:csv|xlsx)}', async (c) => {
    if (!isOperator(c)) {
      return message(c, 403, 'Viewers can’t download codes', 'Ask an operator for the result.');
    }
    const { auditId, sellerId, lines } = await auditIn(c.req.param('id'));
    const action = { action: 'download result', target: targetOf(auditId, sellerId) };
    const format = c.req.param('file') === 'result.xlsx' ? 'xlsx' : 'csv';
    const { name, pieces } = await runAction(c, parts, action, async () => {
      await checkRoom(format, () => lines);
      const found = await auditResult(db, [{ auditId, sellerId }], format, csvDialectOf(c) ?? null);
      if (found !== null) return found;
      throw new Problem(
        `The list of check ${auditId} was deleted`,
        'KEEP_AUDITS_DAYS limits how long lists are kept. Verdicts are never deleted.',
        409,
      );
    });
    return sendFile(c, name, format, async (write) => {
      for await (const piece of pieces) await write(piece);
    });
  });

  /** @throws {Problem} (404) when the audit does not exist */
  async function auditIn(text: string): Promise<AuditProgress> {
    const audit = await getAudit(db, parseId(text));
    if (audit !== null) return audit;
    throw new Problem(
      'Check not found',
      'The page Check codes lists all checks. A list whose check was not started is deleted after an hour.',
      404,
    );
  }
}

function targetOf(auditId: bigint, sellerId: string): string {
  return `check ${auditId} of ${sellerId}`;
}

function titleOf(c: DashboardContext, source: string): string {
  return SOURCES[source] ?? listName(c, source);
}

function sumOf(counts: Readonly<Record<Group, number>>, groups: readonly Group[]): number {
  return groups.reduce((sum, group) => sum + counts[group], 0);
}

function groupsOf(tab: Tab): readonly Group[] {
  return tab === 'all' ? GROUPS : tab === 'valid' ? ['valid'] : NEEDY;
}

function viewOf(c: DashboardContext, auditId: bigint, search: string | null, needy: number): View {
  const codeId = parseNumber(c.req.query('code'));
  const entry = parseNumber(c.req.query('line'));
  return {
    auditId,
    search,
    tab: oneOf(TABS, c.req.query('show')) ?? (needy > 0 ? 'needs' : 'all'),
    pageNo: Math.max(1, Number(parseNumber(c.req.query('page'))?.toString().slice(0, 6) ?? 1)),
    row: codeId !== null ? { codeId } : entry !== null ? { entry } : null,
  };
}

/** The URL of a view. */
function hrefOf({ auditId, tab, search, pageNo, row }: View): string {
  const query = new URLSearchParams({ show: tab });
  if (search !== null) query.set('search', search);
  if (pageNo > 1) query.set('page', String(pageNo));
  if (row !== null) {
    const [name, id] = 'codeId' in row ? ['code', row.codeId] : ['line', row.entry];
    query.set(name, String(id));
  }
  return `/audits/${auditId}?${query.toString()}`;
}

const Lead: FC<{ of: AuditProgress; hasSeller: boolean }> = ({ of, hasSeller }) => {
  const { state, createdAt, finishedAt, codes, sellerId } = of;
  const seller = hasSeller ? (
    <>
      {' '}
      · <SellerLink name={sellerId} />
    </>
  ) : null;
  if (state !== 'finished' || finishedAt === null) {
    const word = state === 'running' ? 'Started' : `${capital(state)}, started`;
    return (
      <>
        {word} <When at={createdAt} /> · {plural(codes, 'code')}
        {seller}
      </>
    );
  }
  return (
    <>
      Checked <When at={finishedAt} /> · {plural(codes, 'code')} in{' '}
      {duration(finishedAt.getTime() - createdAt.getTime())}
      {seller}
    </>
  );
};

const StateButtons: FC<{ c: DashboardContext; of: AuditProgress }> = ({ c, of }) => {
  const { auditId, state } = of;
  if (!isOperator(c)) return null;
  const token = c.get('token');
  return (
    <>
      {state === 'running' || state === 'failed' ? (
        <ActionButton action={`/audits/${auditId}/cancel`} token={token}>
          Cancel
        </ActionButton>
      ) : null}
      {state === 'cancelled' || state === 'failed' ? (
        <ActionButton action={`/audits/${auditId}/resume`} token={token} isMain>
          Resume
        </ActionButton>
      ) : null}
    </>
  );
};

/** The progress of a running check, and who learns of its end. */
const Progress: FC<{
  of: LiveBar;
  audit: AuditProgress;
  config: Config;
  hasWorker: boolean;
}> = ({ of, audit, config, hasWorker }) => {
  const told = whoIsTold(config);
  return (
    <div class="progress">
      <Bar {...of} label={`Check ${audit.auditId}`} />
      {hasWorker ? null : (
        <p class="notice warn">
          No worker is running, so nothing is checked yet. Start <code>seller-mirror run</code>.
        </p>
      )}
      {told === null ? null : <p class="muted">{told}</p>}
    </div>
  );
};

/** Where the end of a check is told; null: nowhere. */
function whoIsTold({ alertWebhook, alertMail, alertsOff }: Config): string | null {
  if (alertsOff.includes('audit.finished')) return null;
  if (alertWebhook !== null) {
    const isChat = ['slack', 'discord', 'telegram'].includes(alertWebhook.format);
    return `Your ${isChat ? 'chat' : alertWebhook.format === 'ntfy' ? 'phone' : 'webhook'} is told when it is done.`;
  }
  return alertMail === null ? null : 'A mail tells you when it is done.';
}

/** `72 customers need somebody. The codes of 387 others are valid.`, and a bar of the verdicts. */
const Summary: FC<{
  counts: Readonly<Record<Group, number>>;
  noun: string;
  isRunning: boolean;
}> = ({ counts, noun, isRunning }) => {
  const needy = sumOf(counts, NEEDY);
  const { valid, waiting } = counts;
  const total = sumOf(counts, GROUPS);
  const needs =
    needy === 0
      ? `Nobody needs you${isRunning ? ' so far' : ''}.`
      : `${plural(needy, noun)} ${needy === 1 ? 'needs' : 'need'} somebody.`;
  const [code, other, are] = valid === 1 ? ['code', ' other', 'is'] : ['codes', ' others', 'are'];
  const whose = noun === 'customer' ? `The ${code} of ${count(valid)}` : count(valid);
  const others = valid === 0 ? '' : `${whose}${needy === 0 ? '' : other} ${are} valid.`;
  const left = waiting === 0 || isRunning ? '' : ` ${plural(waiting, 'code')} not checked.`;
  let x = 0;
  return (
    <div class="summary">
      <p class="sentence">
        <b>{needs}</b> {others}
        {left}
      </p>
      {total === 0 ? null : (
        <svg class="verdicts" width="100%" height="8" role="img" aria-label={verdictsText(counts)}>
          {(['valid', ...NEEDY, 'waiting'] as const).map((group) => {
            const width = (100 * counts[group]) / total;
            const from = x;
            x += width;
            return width === 0 ? null : (
              <rect
                class={WORDS[group][1]}
                x={`${from.toFixed(2)}%`}
                width={`${Math.max(0.2, width - 0.15).toFixed(2)}%`}
                height="8"
                rx="2"
              >
                <title>{`${WORDS[group][0]}: ${count(counts[group])}`}</title>
              </rect>
            );
          })}
        </svg>
      )}
    </div>
  );
};

function verdictsText(counts: Readonly<Record<Group, number>>): string {
  return GROUPS.filter((group) => counts[group] > 0)
    .map((group) => `${count(counts[group])} ${WORDS[group][0].toLowerCase()}`)
    .join(', ');
}

const Tabs: FC<{ view: View; counts: Readonly<Record<Group, number>> }> = ({ view, counts }) => {
  const labels = { needs: 'Needs somebody', valid: 'Valid', all: 'All' };
  return (
    <nav class="tabs" aria-label="Rows">
      {TABS.map((tab) => (
        <a
          href={hrefOf({ ...view, tab, pageNo: 1, row: null })}
          aria-current={tab === view.tab ? 'page' : undefined}
        >
          {labels[tab]} <span class="muted">{count(sumOf(counts, groupsOf(tab)))}</span>
        </a>
      ))}
    </nav>
  );
};

const Search: FC<{ view: View; token: string }> = ({ view: { auditId, tab, search }, token }) => (
  <form class="search" method="post" action={`/audits/${auditId}/find`}>
    <Token value={token} />
    <input type="hidden" name="show" value={tab} />
    <Icon name="search" />
    <input
      type="search"
      name="search"
      aria-label="Search"
      placeholder="Name, e-mail, code"
      value={search ?? ''}
      maxlength={200}
      autocomplete="off"
    />
    <button class="unseen">Search</button>
  </form>
);

function nothingIn(tab: Tab, isRunning: boolean): string {
  if (tab === 'needs') return isRunning ? 'Nobody so far.' : 'Nobody needs you.';
  return tab === 'valid' ? 'No code is valid.' : 'The list holds no code.';
}

/** The rows of one group, under a head that says once what they share. */
const GroupOf: FC<{
  group: Group;
  total: number;
  rows: readonly CheckRow[];
  reasons: readonly UnprovenCount[];
  row: (row: CheckRow) => Child;
}> = ({ group, total, rows, reasons, row }) => {
  if (rows.length === 0) return null;
  const id = `group-${group}`;
  return (
    <section class="group" aria-labelledby={id}>
      <div class="group-head">
        <h2 id={id} class={`state ${WORDS[group][1]}`}>
          {WORDS[group][0]} {count(total)}
        </h2>
        <p class="muted">{WORDS[group][2]}</p>
      </div>
      {reasons.length === 0 ? null : (
        <ul class="lines muted">
          {reasons.map(({ reason, codes }) => (
            <li>
              {plural(codes, 'code')}: <Untrusted text={whyUnproven(reason)} />.{' '}
              <Sentence text={`${capital(unprovenRemedy(reason))}.`} />
            </li>
          ))}
        </ul>
      )}
      <ol class="rows">{rows.map(row)}</ol>
    </section>
  );
};

/** The row of the list, the customer, and what one may see of the code. */
function told(row: CheckRow, c: DashboardContext) {
  const customers = isOperator(c)
    ? row.lines.map((cells) => customerOf(row.names, cells, row.cell ?? row.code))
    : [];
  const code = row.code === null ? null : isOperator(c) ? row.code : maskCode(row.code);
  return { customer: customers[0] ?? null, customers, code };
}

/** `3f9a41c7…b2e0`: enough to tell codes apart. */
function shortCode(code: string): string {
  return code.length <= 16 ? code : `${code.slice(0, 8)}…${code.slice(-4)}`;
}

const Row: FC<{ row: CheckRow; view: View; c: DashboardContext; config: Config }> = ({
  row,
  view,
  c,
  config,
}) => {
  const { codeId, entry, line, listed } = row;
  const { customer, customers, code } = told(row, c);
  const of = codeId !== null ? { codeId } : { entry: BigInt(entry ?? 0) };
  const isOpen =
    view.row !== null &&
    ('codeId' in view.row ? view.row.codeId === codeId : view.row.entry === BigInt(entry ?? -1));
  const [who, second] = whoText(customer, code === null ? null : shortCode(code));
  const others = customers.length > 1 ? ` and ${count(listed - 1)} more` : '';
  const place = `line ${line}${listed > 1 ? ` and ${listed - 1} more` : ''}`;
  const isShown = code !== null && row.group !== 'not_a_code' && who !== shortCode(code);
  const shownCode = isShown ? shortCode(code) : null;
  return (
    <li class={isOpen ? 'row open' : 'row'}>
      <a class="who" href={hrefOf({ ...view, row: of })} aria-current={isOpen ? 'true' : undefined}>
        <b>
          <Untrusted text={`${who}${others}`} none={place} isCut />
        </b>
        {second === null ? null : (
          <small>
            <Untrusted text={second} isCut />
          </small>
        )}
      </a>
      <span class="what">
        <Untrusted text={specialOf(row, isOperator(c))} none="" isCut />
        <small>
          {shownCode === null ? null : (
            <>
              <span class="code">
                <Untrusted text={shownCode} />
              </span>{' '}
              ·{' '}
            </>
          )}
          {place}
        </small>
      </span>
      {isOperator(c) ? <RowAction row={row} customer={customer} c={c} config={config} /> : null}
    </li>
  );
};

/** The two lines that say who has the code; without any customer, the code. */
function whoText(customer: Customer | null, code: string | null): readonly [string, string | null] {
  const more = customer?.more.map(({ text }) => text) ?? [];
  const lines = [customer?.name, customer?.email, ...more].filter(
    (text) => typeof text === 'string',
  );
  return [lines[0] ?? code ?? '', lines[1] ?? null];
}

/** What is special about a row, beyond what its group shares. @param isWhole whether its text may be shown */
function specialOf(row: CheckRow, isWhole: boolean): string | null {
  const { purchase, group, rejected, cell, code, reason } = row;
  const item = purchase?.item?.name ?? null;
  switch (group) {
    case 'valid':
      return verdictSentence(factsOf(row), Date.now()).rest;
    case 'no_longer_valid': {
      const month = purchase?.purchasedAt ?? null;
      const bought = month === null ? '' : dayText(month).replace(/^\d+ /, '');
      return [item, bought].filter(Boolean).join(', ');
    }
    case 'unproven':
      return capital(whyUnproven(reason ?? ''));
    case 'not_a_code':
      if (rejected !== null) return `${capital(rejected)}.`;
      return isWhole ? `The cell says “${cell ?? code}”` : 'The cell does not look like a code';
    case 'invalid':
    case 'waiting':
      return null;
  }
}

/** The one thing to do about a row. */
const RowAction: FC<{
  row: CheckRow;
  customer: Customer | null;
  c: DashboardContext;
  config: Config;
}> = ({ row, customer, c, config }) => {
  if (row.group === 'waiting') return null;
  if (row.group === 'unproven' && row.codeId !== null) {
    return (
      <ActionButton action={`/codes/${row.codeId}/check`} token={c.get('token')}>
        Check now
      </ActionButton>
    );
  }
  const reply = replyTo(row, customer, config);
  const about = customer?.name ?? customer?.email ?? `line ${row.line}`;
  return reply === null ? null : <CopyButton text={reply} done="Reply copied" about={about} />;
};

/** The reply to a customer; null while there is nothing to tell. */
function replyTo(row: CheckRow, customer: Customer | null, { replies }: Config): string | null {
  const { group, code, purchase, lastValidAt } = row;
  if (group === 'waiting') return null;
  const facts = { firstName: customer?.firstName ?? null, code, purchase, lastValidAt };
  return replyText(replies[group], facts, Date.now());
}

const PageLine: FC<{ view: View; total: number }> = ({ view, total }) => {
  const { pageNo } = view;
  if (total <= PAGE_SIZE) return null;
  const from = (pageNo - 1) * PAGE_SIZE;
  const until = Math.min(total, from + PAGE_SIZE);
  const link = (to: number, rel: string, label: string) => (
    <a class="button" rel={rel} href={hrefOf({ ...view, pageNo: to, row: null })}>
      {label}
    </a>
  );
  return (
    <nav class="pages" aria-label="Pages">
      <span class="muted">
        {count(from + 1)} to {count(until)} of {count(total)}
      </span>
      {pageNo > 1 ? link(pageNo - 1, 'prev', 'Previous') : null}
      {until < total ? link(pageNo + 1, 'next', 'Next') : null}
    </nav>
  );
};

/** The proof of one row, beside the list; on narrow screens in its place. */
async function proofPanel(
  c: DashboardContext,
  { db, config }: DashboardParts,
  { auditId }: AuditProgress,
  row: CheckRow,
  view: View,
) {
  const { customer, code } = told(row, c);
  const { group, codeId, line } = row;
  const mask = (text: string): string => (isOperator(c) ? text : maskLikelyCodes(text));
  const checks = codeId === null ? [] : await readCodeChecks(db, codeId, MAX_CHECKS);
  const facts = factsOf(row);
  const back = hrefOf({ ...view, row: null });
  const reply = isOperator(c) ? replyTo(row, customer, config) : null;
  return (
    <aside class="proof-panel" id="proof" aria-label="Proof">
      <div class="panel-head">
        <a class="back" href={back}>
          <Icon name="back" /> All rows
        </a>
        <span class={`state ${WORDS[group][1]}`}>{WORDS[group][0]}</span>
        <a class="close" href={back} aria-label="Close the proof">
          <Icon name="close" />
        </a>
      </div>
      <p class="sentence">
        {group === 'not_a_code' ? (
          <Untrusted text={specialOf(row, isOperator(c))} isWhole />
        ) : (
          <Untrusted
            text={verdictSentence(facts, Date.now()).rest}
            none={WORDS[group][2]}
            isWhole
          />
        )}
      </p>
      <Facts
        of={[
          ...customerFacts(customer),
          code === null || codeId === null
            ? null
            : [
                'Code',
                <a class="code" href={`/codes/${codeId}`}>
                  <Untrusted text={code} isWhole />
                </a>,
              ],
          ['In the list', `line ${line}`],
        ]}
      />
      <Steps of={proofOf(checks, auditId, mask)} form="second" />
      {reply === null ? null : (
        <>
          <Reply text={reply} />
          <div class="actions">
            <CopyButton text={reply} done="Reply copied" isMain />
            {codeId === null ? null : (
              <ActionButton action={`/codes/${codeId}/check`} token={c.get('token')}>
                Check now
              </ActionButton>
            )}
          </div>
        </>
      )}
    </aside>
  );
}

const MAX_CHECKS = 50;

/** What few people ask about a list. */
const About: FC<{ of: AuditProgress; reading: readonly string[] }> = ({ of, reading }) => (
  <details>
    <summary>About this list</summary>
    <Facts
      of={[
        ['Check', String(of.auditId)],
        ['Lines', count(of.lines)],
        ['Codes', count(of.codes)],
        countRepeated(of) === 0 ? null : ['Repeated', count(countRepeated(of))],
        of.rejected === 0 ? null : ['Lines without a code', count(of.rejected)],
        of.reused === 0 ? null : ['Checked recently', count(of.reused)],
        ['Calls', count(of.apiCalls)],
        ['Started', <When at={of.createdAt} />],
        of.finishedAt === null ? null : ['Finished', <When at={of.finishedAt} />],
        of.result === null || reading.length === 0
          ? null
          : ['Result file', <Untrusted text={of.result.path} />],
      ]}
    />
    {reading.length === 0 ? null : <Lines of={reading} />}
  </details>
);

/** `/audits`: a form for a new check, and past checks. */
export function addAudits(app: Dashboard, parts: DashboardParts): void {
  const sellers = parts.config.sellers.map(({ name }) => name);
  addListing(app, parts, AUDITS, {
    title: 'Check codes',
    above: (c) =>
      isOperator(c) && sellers.length > 0 ? (
        <>
          <ListForm token={c.get('token')} sellers={sellers} />
          <h2>Past checks</h2>
        </>
      ) : null,
  });
}
