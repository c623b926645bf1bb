import type { FC } from 'hono/jsx';
import { auditResult } from '../../codes/audit-result.js';
import { readAuditList, cancelAudit, resumeAudit, getAudit } from '../../codes/audits-store.js';
import { AUDITS } from '../../codes/audits-resource.js';
import {
  countGroups,
  type Group,
  GROUPS,
  NEEDY,
  readCheckRow,
  readCheckRows,
} from '../../codes/check-rows-store.js';
import { readCodeState } from '../../codes/codes-store.js';
import { countRepeated } from '../../codes/enter-list.js';
import { describeReading, isWorkbookList } from '../../codes/layout.js';
import { countUnproven } from '../../codes/results-store.js';
import type { AuditProgress } from '../../codes/types.js';
import { readRunning } from '../../catalogue/overview-store.js';
import type { Config } from '../../config/index.js';
import { maskLikelyCodes } from '../../domain/secret.js';
import { count, duration, plural } from '../../domain/text.js';
import { looksLikeCode, readCell } from '../../marketplace/code.js';
import { listLiveProcesses } from '../../service/processes-store.js';
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
import { message, page } from '../layout.js';
import { addListing } from '../listing.js';
import type { LiveBar } from '../live.js';
import { ActionButton, Bar, Facts, Lines, SellerLink, Token, Untrusted, When } from '../parts.js';
import { oneOf, parseId, parseNumber } from '../query.js';
import { ListForm } from './new-audit-views.js';
import {
  GroupOf,
  hrefOf,
  proofPanel,
  Row,
  TABS,
  type Tab,
  type View,
  WORDS,
} from './check-rows.js';

const PAGE_SIZE = 25;

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
        title: listName(c, audit.source),
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
          <div class={proof === null ? undefined : 'with-proof'}>
            <div class="rows-of">
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
                  codes={search === null ? codesIn(audit, group) : null}
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
        const { codeId } = known;
        const line = row.entry === null ? { codeId } : { entry: BigInt(row.entry) };
        const view: View = { auditId, tab: 'all', search: null, pageNo: 1, row: line };
        return c.redirect(hrefOf(view), 303);
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

  app.post('/audits/:id/:action{cancel|resume}', async (c) => {
    const { auditId, sellerId, state } = await auditIn(c.req.param('id'));
    const isCancel = c.req.param('action') === 'cancel';
    const action = isCancel ? 'cancel check' : 'resume check';
    await runAction(c, parts, { action, target: targetOf(auditId, sellerId) }, async () => {
      if (state === 'finished' || (isCancel && (await cancelAudit(db, auditId)) === 'finished')) {
        const remedy = isCancel
          ? 'Download its result.'
          : 'To check its codes again, start a new check.';
        throw new Problem(`Check ${auditId} has already finished`, remedy, 409);
      }
      if (isCancel) return;
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
      'The page Check codes lists all checks. A list whose check was not started belongs to the login that read it, and is deleted after an hour.',
      404,
    );
  }
}

function targetOf(auditId: bigint, sellerId: string): string {
  return `check ${auditId} of ${sellerId}`;
}

function sumOf(counts: Readonly<Record<Group, number>>, groups: readonly Group[]): number {
  return groups.reduce((sum, group) => sum + counts[group], 0);
}

/** The codes of a group, as the list of checks counts them; null: its lines hold none. */
function codesIn(of: AuditProgress, group: Group): number | null {
  const { noLongerValid, invalid, unproven, pending, valid } = of;
  const all = { no_longer_valid: noLongerValid, invalid, unproven, waiting: pending, valid };
  return group === 'not_a_code' ? null : all[group];
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
          No worker is running, so nothing is checked yet. Somebody must start the service on the
          server.
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
  const left =
    waiting === 0
      ? ''
      : isRunning
        ? ` ${count(total - waiting)} of ${count(total)} have a verdict.`
        : ` ${plural(waiting, 'code')} not checked.`;
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
  <form method="post" action={`/audits/${auditId}/find`}>
    <Token value={token} />
    <input type="hidden" name="show" value={tab} />
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
  addListing(app, parts, AUDITS, parts.db, {
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
